"""The rows of the transition tables that histories do not take, and why: the committed list of `coverage`.

They are rows that the tables allow and that no code of the nodes or clients makes: Kafka's tables have them, too.
"""

from pykraft.sim.search.coverage import Row

_GROUP = "a group that is gone is described as Dead; its object is dropped, and never moved there"
_TRANSACTION = "a transactional id expires by a tombstone; its object is dropped, and never moved there"
_LEAVING = "a member is LEAVING within one call, and no heartbeat is under way then: no answer comes"
_OUTSIDE = "a member that has not joined sends no heartbeat, and has nothing to prepare before it leaves"
_LEFT = "what has fenced it while it prepares to leave makes it leave at once"

UNTAKEN: dict[Row, str] = {
    ("classic group", "COMPLETING_REBALANCE to DEAD"): _GROUP,
    ("classic group", "DEAD to DEAD"): _GROUP,
    ("classic group", "EMPTY to DEAD"): _GROUP,
    ("classic group", "PREPARING_REBALANCE to DEAD"): _GROUP,
    ("classic group", "STABLE to DEAD"): _GROUP,
    ("consumer group member", "LEAVING to FATAL"): _LEAVING,
    ("consumer group member", "LEAVING to FENCED"): _LEAVING,
    ("consumer group member", "PREPARE_LEAVING to FENCED"): _LEFT,
    ("consumer group member", "UNSUBSCRIBED to FATAL"): _OUTSIDE,
    ("consumer group member", "UNSUBSCRIBED to PREPARE_LEAVING"): _OUTSIDE,
    ("transaction", "COMPLETE_ABORT to DEAD"): _TRANSACTION,
    ("transaction", "COMPLETE_COMMIT to DEAD"): _TRANSACTION,
    ("transaction", "EMPTY to DEAD"): _TRANSACTION,
}
