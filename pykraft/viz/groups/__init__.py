"""Pictures of consumer groups: members, ownership, lag."""
