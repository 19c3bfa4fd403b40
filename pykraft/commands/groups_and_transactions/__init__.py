"""The verbs about consumer groups and transactions."""
