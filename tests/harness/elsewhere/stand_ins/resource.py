"""The limit of open files, as WebAssembly does not have it."""

RLIMIT_NOFILE = 7
RLIM_INFINITY = -1


def getrlimit(kind):
    """The soft and the hard limit."""
    return 1024, 1024
