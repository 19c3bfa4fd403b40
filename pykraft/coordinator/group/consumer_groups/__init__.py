"""Groups under the newer protocol (KIP-848): one heartbeat, and an assignor in the coordinator."""
