"""The only code with threads and real clocks: it drives the cores."""
