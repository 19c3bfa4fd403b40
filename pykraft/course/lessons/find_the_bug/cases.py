"""The ten bugs of notebook 25 as cases: a name, where the search begins, and three hints.

READING ON SPOILS THE GAME: the hints are here, the last one of each case almost names the line. The lines themselves
are in `pykraft.sim.bugs.wrong_lines`.

A case begins its search at `first`, a few seeds before one that finds the bug, and ends each history after `most_steps`
events. `less` is what can be left out of the recorded history: a headless run takes it instead of shrinking. When the
simulator's dice change, other seeds find the bug; a search goes on until it has one.
"""

from dataclasses import dataclass

from pykraft.story.scenes import METADATA, REPLICAS

EASY, MIDDLE, HARD = "easy", "medium", "hard"


@dataclass(frozen=True)
class Case:
    """One bug to be found."""

    number: int
    title: str
    difficulty: str
    first: int
    """The seed at which the search begins."""
    most_steps: int
    """Of each history, in events."""
    hints: tuple[str, str, str]
    less: str = ""
    """What the recorded history can do without, in words of `Omissions`."""
    lanes: str = REPLICAS
    """What the player's lanes are."""

    @property
    def bug(self) -> str:
        return f"wrong_line_{self.number}"


_CASES = (
    Case(
        1,
        "Committed too early",
        EASY,
        65,
        2_500,
        (
            "The law names the high watermark. One function of a leader moves it.",
            "It takes the smallest log end among the replicas that it must wait for. Does it?",
            "Read the comparison in the loop of `advance_high_watermark` aloud.",
        ),
        less="no-clock_skew_ms no-straggler no-consumer-0 no-consumer-1 no-producer-0 until-34",
    ),
    Case(
        2,
        "A promise without a copy",
        EASY,
        65,
        2_500,
        (
            "A producer with acks=all heard of success. What does the leader look at before it answers?",
            "A record is on enough replicas when it is below an offset of the leader. There are two such offsets.",
            "`replicated_up_to` is asked for each batch that waits for its acknowledgement.",
        ),
    ),
    Case(
        3,
        "Gone, and still counted",
        EASY,
        60,
        4_500,
        (
            "A broker's session is over. Its partitions must hear of it, also those that it does not lead.",
            "The controller asks of each partition whether the broker matters to it. Two things make it matter.",
            "Read the condition in `plan_broker_gone` aloud: is it *and*, or is it *or*?",
        ),
    ),
    Case(
        4,
        "Two members, one partition",
        MIDDLE,
        57,
        2_500,
        (
            "A partition was given to a new owner. Had the old one given it up?",
            "A heartbeat says what its member owns, or nothing at all. What does nothing mean?",
            "`_still_owns` is one line.",
        ),
    ),
    Case(
        5,
        "Half a transfer",
        MIDDLE,
        104,
        12_000,
        (
            "A reader of committed data reads up to the last stable offset. Who moves it?",
            "A transaction is over when its marker is written. It is safe when its marker is replicated.",
            "`first_unstable_offset` must look at two kinds of transactions.",
        ),
    ),
    Case(
        6,
        "Two votes in one epoch",
        MIDDLE,
        63,
        3_000,
        (
            "A voter votes once in an epoch. What reminds it?",
            "Granting a vote is a change of the voter's state, and that state is written to its disk.",
            "Compare the two branches of `give_vote`.",
        ),
        lanes=METADATA,
    ),
    Case(
        7,
        "The follower that cut too much",
        HARD,
        2,
        4_500,
        (
            "A follower truncates what its leader does not have. Here it truncates more.",
            "Notebook 12 has the rule that Kafka had before 0.11 (KIP-101).",
            "Where do both logs agree? Look at the last lines of `_truncate`.",
        ),
    ),
    Case(
        8,
        "The leader that lacked a record",
        HARD,
        39,
        9_000,
        (
            "A candidate won that lacks a committed record. Its voters compare its log with theirs.",
            "Two numbers say how good a log is, and both count.",
            "`is_up_to_date` compares one of them.",
        ),
        lanes=METADATA,
    ),
    Case(
        9,
        "Eligible after a power failure",
        HARD,
        404,
        6_500,
        (
            "The controller keeps a list of replicas that have all that is committed, though they are not in sync.",
            "A broker that came back without a clean shutdown may have lost what was not on its disk (KIP-966).",
            "Who is taken out of the candidates in `ElrRules.next_elr`?",
        ),
    ),
    Case(
        10,
        "Where two logs part",
        HARD,
        3,
        8_000,
        (
            "A leader refuses a follower's fetch, and does not say where their two logs part.",
            "Logs part in two ways: the leader does not know the follower's last epoch (KIP-279), or knows it to end "
            "earlier (KIP-101).",
            "`diverging_end` has to answer in both cases.",
        ),
    ),
)

CASES = {case.number: case for case in _CASES}
"""By number, in rising difficulty."""

SHOWN = Case(
    0,
    "Two of three, or one of three",
    EASY,
    65,
    1_500,
    (
        "The metadata log is committed when a majority of the voters has it. Who counts?",
        "The active controller sorts the log ends of its voters. Which place in that list has a majority?",
        "For three voters, count the place in `_update_high_watermark` on your fingers.",
    ),
    lanes=METADATA,
)
"""The case that the notebook solves itself; it has no points on the board."""
