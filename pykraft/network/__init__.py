"""The only code with sockets: it moves bytes between them and the channels, and decides nothing."""
