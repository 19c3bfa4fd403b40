"""How many records the shards and the views of a coordinator replay in one turn of the node's loop, all together.

A broker that becomes the leader of fifty partitions loads fifty shards, and a record takes ten microseconds. What is
counted here is counted for all of them: the shards are loaded one after the other, and others wait for none. A
committed view replays each record a second time, and that counts, too. A turn begins when the coordinator's poll has
ended: reads that come between two polls, and the second poll, share it.

This is ours: in Kafka's CoordinatorRuntime each load is an event of its own, on the threads of the coordinator.
"""

RECORDS_PER_TURN = 2_000


class ReplayTurn:
    """The records that may be replayed before others have their turn."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = RECORDS_PER_TURN

    def begin(self) -> None:
        """A turn begins."""
        self._left = RECORDS_PER_TURN

    def replayed(self, count: int) -> None:
        """This many records were replayed."""
        self._left -= count

    @property
    def is_over(self) -> bool:
        return self._left <= 0
