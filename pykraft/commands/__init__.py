"""The verbs of the command line, one module each: what `pykraft.cli` does not load until it is asked for."""
