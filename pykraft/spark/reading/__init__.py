"""From topics to DataFrames: plans, ranges, fetches, and record batches as Arrow columns."""
