"""The verbs of the command line by subject, and the module of each: it is loaded when its verb is asked for."""

SUBJECTS = {
    "nodes": {
        "up": "run a whole cluster in this process, for trying something against it",
        "server": "run the node that a properties file describes",
        "storage": "make a node's directories",
        "metrics": "print the metrics of a node",
        "fault": "do something to the requests of clients, at nodes that run as processes",
    },
    "records": {
        "produce": "send lines of standard input as records",
        "consume": "print records as lines",
        "get-offsets": "print the offsets of partitions",
        "delete-records": "delete the records before given offsets",
        "producer-perf-test": "measure how fast records can be sent",
        "consumer-perf-test": "measure how fast records can be read",
        "e2e-latency": "measure how long a record takes from a producer to a consumer",
        "verifiable-producer": "send numbers, and say as JSON which were acknowledged",
        "verifiable-consumer": "read as a member of a group, and say as JSON what came",
    },
    "administration": {
        "topics": "list, describe, create, alter and delete topics",
        "configs": "show and change settings of topics and brokers",
        "acls": "list, add and remove rules: who may do what",
        "reassign-partitions": "move partitions to other brokers",
        "leader-election": "elect the preferred leaders of partitions, or any that are alive",
        "features": "show and change the levels of features",
        "metadata-quorum": "describe the quorum of controllers",
        "cluster": "print the id of a cluster and the addresses of its brokers",
        "broker-api-versions": "print which APIs each broker serves, in which versions",
        "log-dirs": "print the replicas in the brokers' log directories",
    },
    "groups_and_transactions": {
        "groups": "list the groups of all types",
        "consumer-groups": "list, describe, reset and delete consumer groups and their offsets",
        "transactions": "list and describe transactions and producers, find and abort those that hang",
    },
    "log_files": {
        "dump-log": "print what the files of a log hold",
    },
    "learning": {
        "demo": "run a notebook in the terminal",
        "simulate": "run simulated histories, and check the laws after every event",
        "course": "build its notebooks, show your progress, grade labs",
    },
    "": {
        "completion": "print what a shell needs to complete these words",
    },
}
"""What each verb does."""
COMMANDS = {verb: meaning for verbs in SUBJECTS.values() for verb, meaning in verbs.items()}


def module_of(verb: str) -> str:
    """The module of a verb: that of ``consumer-groups`` is
    `pykraft.commands.groups_and_transactions.consumer_groups`."""
    subject = next(subject for subject, verbs in SUBJECTS.items() if verb in verbs)
    return ".".join(filter(None, ("pykraft.commands", subject, verb.replace("-", "_"))))
