"""Groups under the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""
