"""The verb that reads the files of a log."""
