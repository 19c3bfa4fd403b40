"""What must be true after every event of a simulated history, and who looks."""
