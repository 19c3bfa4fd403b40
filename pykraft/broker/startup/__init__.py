"""How a node comes to take part: its directories, its registration, and its way to the active controller."""
