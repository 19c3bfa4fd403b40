"""The words that the two sides of a lab's checks share: the process that starts pytest, and the plugin within it.

Environment variables of a run, its defaults, the three outcomes of a check, and how one is ended. They stand apart so
that a notebook's kernel, which only starts checks, need not load pytest.
"""

IMPL, SEED, REPORT, LIMIT, TRACE, MEMORY, KEYED = (
    "PYKRAFT_LAB_" + name for name in ("IMPL", "SEED", "REPORT", "LIMIT_S", "TRACE", "MEMORY_BYTES", "KEYED")
)
CANARY = "canary"
"""The task of the check that must fail (`canary`)."""
DEFAULT_SEED = 1
LIMIT_S = 5.0
PASSED, FAILED, NOT_YET = "passed", "failed", "not yet"


class TooLong(BaseException):
    """A check did not end. Not an Exception: the code under test may not catch it and go on."""
