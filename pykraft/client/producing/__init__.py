"""A producer without a thread: records become batches, batches become requests, and each is acknowledged once."""
