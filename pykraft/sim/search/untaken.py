"""The rows of the transition tables that histories do not take, and why: the committed list of `coverage`.

Some are rows that the tables allow and that no code of the nodes or clients makes: Kafka's tables have them, too
(`UNTAKEN`). To others no history has come yet (`RARE`).
"""

from pykraft.sim.search.coverage import Row

_GROUP = "a group that is gone is described as Dead; its object is dropped, and never moved there"
_TRANSACTION = "a transactional id expires by a tombstone; its object is dropped, and never moved there"
_LEAVING = "a member is LEAVING within one call, and no heartbeat is under way then: no answer comes"
_OUTSIDE = "a member that has not joined sends no heartbeat, and has nothing to prepare before it leaves"
_LEFT = "what has fenced it while it prepares to leave makes it leave at once"

_COUNTED = "each assignment that differs from the last one is counted as a new one, so it never equals what is owned"
_JOINS = "no heartbeat that joins is fenced: the coordinator makes a member that it does not know, or replaces it"
_IN_DOUBT = "a position in doubt is compared with one leader at a time; the next leader is asked after the answer"

UNTAKEN: dict[Row, str] = {
    ("classic group", "COMPLETING_REBALANCE to DEAD"): _GROUP,
    ("classic group", "DEAD to DEAD"): _GROUP,
    ("classic group", "EMPTY to DEAD"): _GROUP,
    ("classic group", "PREPARING_REBALANCE to DEAD"): _GROUP,
    ("classic group", "STABLE to DEAD"): _GROUP,
    ("consumer group member", "JOINING to FENCED"): _JOINS,
    ("consumer group member", "JOINING to STABLE"): _COUNTED,
    ("consumer group member", "LEAVING to FATAL"): _LEAVING,
    ("consumer group member", "LEAVING to FENCED"): _LEAVING,
    ("consumer group member", "PREPARE_LEAVING to FENCED"): _LEFT,
    ("consumer group member", "RECONCILING to STABLE"): _COUNTED,
    ("consumer group member", "UNSUBSCRIBED to FATAL"): _OUTSIDE,
    ("consumer group member", "UNSUBSCRIBED to PREPARE_LEAVING"): _OUTSIDE,
    ("partition of a consumer", "AWAITING_VALIDATION to AWAITING_VALIDATION"): _IN_DOUBT,
    ("transaction", "COMPLETE_ABORT to DEAD"): _TRANSACTION,
    ("transaction", "COMPLETE_COMMIT to DEAD"): _TRANSACTION,
    ("transaction", "EMPTY to DEAD"): _TRANSACTION,
}

RARE: dict[Row, str] = {
    ("ISR", "SHRINKING to COMMITTED, as before"): "the controller refuses a smaller ISR for a member that it takes for "
    "another process; what tells it so also makes the leader's request out of date, unless a fetch comes very late",
    ("consumer group member", "ACKNOWLEDGING to FATAL"): "a heartbeat that was sent before the user took over its "
    "assignment must be answered after it, and a right must have been taken away just then",
}
"""Rows that neither 32 histories of the mixture nor 23 group storms took, and what would lead there."""
