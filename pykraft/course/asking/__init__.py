"""Questions to the reader: guesses with buttons and on pictures, and what a page hides until they are made."""
