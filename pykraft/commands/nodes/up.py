"""``up``: a whole cluster in one command, for trying something against a broker.

The nodes are threads of this one process, on 127.0.0.1. When all of them are ready a line says where; SIGINT (Ctrl-C)
or SIGTERM ends them. Without ``--data`` nothing is left behind.

They wait for less than Kafka's defaults tell (a dead broker is fenced in a second, a group is not held back for those
who might join); ``--timeouts kafka`` gives Kafka's own times. ``--override`` gives every node a setting, as with
kafka-server-start.sh. ``--secure`` gives all listeners TLS: clients need the certificate whose files it names. With
``--secure SASL_SSL`` they log in with a password over TLS, and the same files have it.

Only this machine reaches the nodes, unless ``--host 0.0.0.0`` lets others in; ``--advertise NAME`` is where they are
sent then. ``--topic`` makes topics that are not there yet. ``--faults FILE`` is what the command ``fault`` writes.
``--json`` says all this in one line for a program.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args

from pykraft.broker.node import Node
from pykraft.cluster import Cluster, ClusterError
from pykraft.commands.common import CommandError, add_network, pairs, say
from pykraft.commands.nodes.fault import FaultFile
from pykraft.common.errors import KafkaError
from pykraft.runtime.ports import HOST
from pykraft.runtime.secure_files import ADMIN, MECHANISM, ClusterSecurity
from pykraft.storage.upkeep.log_manager import DirectoryInUseError
from pykraft.timeouts import PROFILES

_CHECK_S = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=1, help="this many, each broker and controller (default: 1)")
    parser.add_argument("--port", type=int, default=9092, help="of the first broker; the next ones follow (9092)")
    parser.add_argument("--host", default=HOST, help=f"where the brokers listen; 0.0.0.0: on every address ({HOST})")
    parser.add_argument(
        "--advertise", metavar="NAME", help="where they send clients (the host, or this machine's name)"
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        type=_topic,
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="a topic to make, if it is not there yet; may be repeated",
    )
    parser.add_argument("--faults", type=Path, metavar="FILE", help="take faults from here, which 'fault FILE' writes")
    parser.add_argument("--json", action="store_true", help="say that it is ready, and where, as a line of JSON")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the data here, and go on with what is there")
    parser.add_argument("--timeouts", choices=sorted(PROFILES), default="lesson", help="how long nodes wait (lesson)")
    add_network(parser)
    parser.add_argument(
        "--secure",
        nargs="?",
        choices=get_args(ClusterSecurity),
        const="SSL",
        help="TLS on all listeners, with certificates that are made now (SSL, the default), or with passwords besides"
        " (SASL_SSL); says where the clients' settings are",
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of the nodes; may be repeated"
    )


class _Topic(NamedTuple):
    name: str
    partitions: int = 1
    replicas: int | None = None


def _topic(text: str) -> _Topic:
    name, *numbers = text.split(":")
    if not name or len(numbers) > 2 or not all(number.isdigit() and int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS")
    return _Topic(name, *map(int, numbers))


def run(options: argparse.Namespace) -> int:
    """Run the cluster until a signal stops it, or a node dies."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: also a start that is cut short clears up
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # the terminal is closed; nohup has it ignored
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    settings = pairs("--override", options.override)
    try:
        with Cluster(
            options.nodes,
            port=options.port,
            timeouts=options.timeouts,
            directory=options.data,
            properties=settings,
            network=options.network,
            security=options.secure,
            host=options.host,
            advertise=options.advertise,
            internal_topics=True,
        ) as cluster:
            _make_topics(cluster, options.topic)
            faults = []
            if options.faults is not None:
                calls = {node_id: partial(_call, cluster, node_id) for node_id in cluster.node_ids}
                faults = [FaultFile(options.faults, node_id, call) for node_id, call in calls.items()]
            for line in _ready(cluster, options.json):
                say(line)
            sys.stdout.flush()
            with suppress(KeyboardInterrupt):
                while not cluster.failures():
                    for each in faults:
                        each.look()
                    time.sleep(_CHECK_S)
    except (ValueError, ClusterError, DirectoryInUseError, KafkaError) as error:
        raise CommandError(str(error)) from None
    return 0


def _call(cluster: Cluster, node_id: int, function: Callable[[Node], None]) -> None:
    cluster.call(node_id, function)


def _make_topics(cluster: Cluster, topics: Sequence[_Topic]) -> None:
    if not topics:
        return
    with cluster.admin() as admin:
        known = set(admin.list_topics())
    for topic in topics:
        if topic.name not in known:
            cluster.create_topic(topic.name, topic.partitions, topic.replicas)


def _ready(cluster: Cluster, as_json: bool) -> list[str]:
    """What is said when all is ready: where, and what clients need."""
    files = cluster.secure_files
    java, librdkafka = (None, None) if files is None else files.write_client_files(ADMIN)
    if as_json:
        found = {"bootstrap_servers": cluster.bootstrap_servers}
        if files is not None:
            found |= {"java": str(java), "librdkafka": str(librdkafka)}
        return [json.dumps(found)]
    lines = [f"ready at {cluster.bootstrap_servers}; Ctrl-C ends it"]
    if files is not None:
        how = f" (login by {MECHANISM})" if files.passwords is not None else ""
        secure = f"settings of the client User:{ADMIN}{how}, for Java and pykraft's commands: {java}"
        lines = [secure, f"and for librdkafka: {librdkafka}", *lines]
    return lines
