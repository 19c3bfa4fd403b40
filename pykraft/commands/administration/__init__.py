"""The verbs about topics, settings, replicas and the quorum."""
