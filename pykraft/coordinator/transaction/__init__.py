"""The transaction coordinator: a state machine over ``__transaction_state``. `shard` says how it works."""
