"""KRaft: one replicated log of metadata, led by the controller that a majority voted for (KIP-595)."""
