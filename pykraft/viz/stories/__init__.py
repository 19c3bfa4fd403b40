"""A simulated history as pictures: a player with buttons, a film strip, a page that needs no kernel."""
