"""The group coordinator: members, assignments and committed offsets of the groups in one partition."""
