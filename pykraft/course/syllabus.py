"""The course as a table: which notebooks there are, which question each asks, and how it is tested.

The number is a notebook's name: its file in ``notebooks/`` begins with it, and the lab of the same number in ``labs/``
belongs to it. What a test may expect of a notebook is here as well, and not in the notebook:

* a *deterministic* one prints the same at every run, so all of its outputs are compared, but for cells that are tagged
  ``nbval-ignore-output`` because they show times;
* one of the *hardware* measures this machine, and its claims may rightly say DOES NOT HOLD;
* one with *spark* starts a JVM and may take longer and more memory.

The seed is what all chance in the course begins with. `Lesson.random` derives a generator from it.
"""

from dataclasses import dataclass

SEED = 2013
"""The year of the flights."""


@dataclass(frozen=True)
class Entry:
    """One notebook."""

    number: str
    title: str
    """Its question, the first heading of the notebook."""
    deterministic: bool = False
    hardware: bool = False
    spark: bool = False
    seconds: int | None = None
    """What it may take, where that is less than others of its kind."""
    megabytes: int | None = None
    """Memory that it may take, where that is more than others of its kind."""

    @property
    def limit_s(self) -> int:
        """Seconds it may take on two cores."""
        return self.seconds or (120 if self.spark else 60)

    @property
    def limit_megabytes(self) -> int:
        """Memory it may take, with all its child processes."""
        return self.megabytes or (1300 if self.spark else 800)


_ENTRIES = (
    Entry("00", "What happens to one record?", spark=True, seconds=60),
    Entry("01", "Why is appending enough?"),
    Entry("02", "How is offset 1,234,567 found?", deterministic=True),
    Entry("03", "What are the bytes of a batch?", deterministic=True),
    Entry("04", "What does the disk really do?", hardware=True),
    Entry("05", "What does sendfile save?", hardware=True),
    Entry("06", "What does a request look like?", deterministic=True),
    Entry("07", "How does one request get through the broker?"),
    Entry("08", "Which partition?", deterministic=True),
    Entry("09", "How much throughput for how much latency?"),
    Entry("10", "What did acks=all really buy?"),
    Entry("11", "When is a record committed?", deterministic=True),
    Entry("12", "Who is right after the crash?", deterministic=True),
    Entry("13", "How is a controller elected?", deterministic=True),
    Entry("14", "How does the cluster know itself?", deterministic=True),
    Entry("15", "How far does it scale?"),
    Entry("16", "What changed when ZooKeeper went?"),
    Entry("17", "Who reads which partition?"),
    Entry("18", "Where do duplicates come from?", deterministic=True),
    Entry("19", "What does a transaction promise?", deterministic=True),
    Entry("20", "What may be forgotten?"),
    Entry("21", "Who may do what?"),
    Entry("22", "How much may one client take?"),
    Entry("23", "How does a topic become a table?", spark=True),
    Entry("24", "How does a stream become a table?", spark=True),
    Entry("25", "Which line is wrong?"),
    Entry("26", "Which claim do you want to measure?"),
)

SYLLABUS = {entry.number: entry for entry in _ENTRIES}


def entry(number: str) -> Entry:
    """The entry of a notebook; ValueError names those that there are."""
    if number not in SYLLABUS:
        raise ValueError(f"there is no notebook {number!r}: there are {min(SYLLABUS)} to {max(SYLLABUS)}")
    return SYLLABUS[number]
