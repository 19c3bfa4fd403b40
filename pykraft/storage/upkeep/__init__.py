"""What is done to whole logs: they are opened after a crash, cleaned, shortened and deleted."""
