"""From DataFrames to topics: rows become batches, and a stream's batches transactions."""
