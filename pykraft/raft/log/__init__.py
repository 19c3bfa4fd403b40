"""The metadata log as Raft keeps it: batches, snapshots, and what they mean to the quorum itself."""
