"""Pictures of what clients do: batches, keys, deliveries, fetches, and one record's way."""
