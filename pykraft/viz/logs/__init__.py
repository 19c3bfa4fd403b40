"""Pictures of logs and files: segments, lookups, pages, compaction, and the image that a metadata log makes."""
