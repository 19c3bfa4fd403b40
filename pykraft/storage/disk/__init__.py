"""The disk below the logs: the FileSystem port, open files, and the small files beside the logs."""
