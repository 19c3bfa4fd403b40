"""KRaft: one replicated log of metadata, led by whoever a majority of the controllers voted for (KIP-595)."""
