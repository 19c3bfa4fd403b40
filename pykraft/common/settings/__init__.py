"""Settings: typed keys and layers, and the keys that more than one part of pykraft reads."""
