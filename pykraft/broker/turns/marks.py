"""What wakes the rooms of a node: the table of marks (`common.rooms` has the theory).

The rooms are in the order in which a turn visits them. Each has a line on what it waits for besides its own deadlines:
a mark is set where that happens, under the name that it has here. What a room reads and no mark names, only its own
poll changes, or nothing after the start.

Not in a room, and looked at in each turn, because it is one question however many rooms there are: the node's timers,
and whether the disk of the partitions has failed.
"""

from collections.abc import Mapping

MARKS: Mapping[str, Mapping[str, str]] = {
    "metrics": {},
    "raft": {
        "answer": "a voter or the leader has answered, or has not",
        "vote": "a candidate has asked: the role may be another one, or the election timeout begins again",
        "begin": "a leader has announced itself",
        "end": "a leader has resigned: the election comes sooner",
        "fetch": "a replica has fetched: more may be committed, and the quorum is there",
        "snapshot": "a replica copies a snapshot: it is there",
        "update": "a voter has told what it is",
        "change": "a voter comes or goes, and its record may be committed at once; or the time limit of that begins",
        "hang-up": "a replica whose fetch was held back is gone, and the timeout of its fetch with it",
        "level": "the level of kraft.version may be raised",
        "append": "the controller has proposed records: they are written when they have lingered",
        "shutdown": "the node stops: a leader resigns",
    },
    "controller": {
        "request": "a change may be left to make, or a broker's session is longer",
        "role": "this node may not write any more, though the listeners have not been told",
        "metadata": "more is committed: the level of a feature may be one that this node does not have; and what a new "
        "leader commits first makes it the controller",
    },
    "controller-registration": {
        "no answer": "it has to be sent again",
        "answer": "it was accepted or refused",
        "leader": "another node may be the active controller",
        "metadata": "the image may lack this process's registration",
    },
    "opening": {
        "epoch": "the broker is registered",
        "metadata": "the image may have come to the registration",
    },
    "lifecycle": {
        "registration answer": "the broker has an epoch, or has to ask again",
        "heartbeat answer": "the next heartbeat may be due sooner",
        "metadata": "the broker may have caught up with its registration",
        "shutdown": "the node stops: ask the controller to move the leaderships",
        "failed directory": "a log directory has failed: the controller hears of it at once",
    },
    "replicas": {
        "log to make": "a partition has come that has no log here",
        "followed": "a partition has another leader or none, or a leader another address",
        "answer": "a leader has answered a fetch, or has not",
        "log start": "a leader has said where its log begins",
        "failed directory": "a log directory has failed: its replicas are taken out",
    },
    "groups": {
        "metadata": "the partitions that are led here may be others",
        "log made": "a partition of the internal topic may be led here by now",
        "batch": "a batch of decisions has to be written, now or when it has lingered",
        "news": "something that a response waits for may be committed",
        "load": "a shard has to be loaded again",
        "catch up": "a read waits until the committed view has read the log",
    },
    "verification": {
        "question": "a transaction's coordinator has to be asked",
        "answer": "it has answered, or has not: it may be asked the next questions",
    },
    "moves": {
        "move": "a replica is to be in another log directory: from now on its log is copied in each turn",
    },
    "directories": {
        "partition": "the metadata have a replica of this broker in another directory, or do not any more",
        "answer": "the controller has answered: what is still wrong is reported again",
    },
    "transactions": {
        "metadata": "the partitions that are led here may be others, or the leaders to which markers go",
        "log made": "a partition of the internal topic may be led here by now",
        "news": "something that a response waits for may be committed",
        "load": "a shard has to be loaded again",
        "markers": "a transaction has been decided: its markers have to be sent",
        "answer": "a leader has written markers, or has not",
    },
    "channel": {
        "request": "the controller has to be asked",
        "no answer": "it has to be asked again",
        "leader": "another node may be the active controller",
    },
    "waiting": {
        "open": "the broker is open: serve the requests that have waited for that",
        "rules": "a request may have to wait for the rules of access: look for them now and then",
    },
    "slices": {"paused": "a request has been interrupted: go on with it"},
    "shutdown": {},
}
"""By room, and by mark why it is set. The four channels of a broker are one row. A node that stops keeps the room
"shutdown" awake; a fetcher that is throttled keeps "replicas" awake."""
