"""The rows of the transition tables that histories do not take, and why: the committed list of `coverage`.

They are rows that the nodes' tables allow and that no code of the nodes makes: Kafka's tables have them, too.
"""

from pykraft.sim.search.coverage import Row

_GROUP = "a group that is gone is described as Dead; its object is dropped, and never moved there"
_TRANSACTION = "a transactional id expires by a tombstone; its object is dropped, and never moved there"

UNTAKEN: dict[Row, str] = {
    ("classic group", "COMPLETING_REBALANCE to DEAD"): _GROUP,
    ("classic group", "DEAD to DEAD"): _GROUP,
    ("classic group", "EMPTY to DEAD"): _GROUP,
    ("classic group", "PREPARING_REBALANCE to DEAD"): _GROUP,
    ("classic group", "STABLE to DEAD"): _GROUP,
    ("transaction", "COMPLETE_ABORT to DEAD"): _TRANSACTION,
    ("transaction", "COMPLETE_COMMIT to DEAD"): _TRANSACTION,
    ("transaction", "EMPTY to DEAD"): _TRANSACTION,
}
