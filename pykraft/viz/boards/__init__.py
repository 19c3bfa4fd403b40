"""The board: a cluster at one moment, as a picture and in words, and with buttons."""
