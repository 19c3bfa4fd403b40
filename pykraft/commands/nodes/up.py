"""``up``: a whole cluster in one command, for trying something against a broker.

The nodes are threads of this one process, on 127.0.0.1. When all of them are ready a line says where; SIGINT (Ctrl-C)
or SIGTERM ends them. Without ``--data`` nothing is left behind.

They wait for less than Kafka's defaults tell (a dead broker is fenced in a second, a group is not held back for those
who might join); ``--timeouts kafka`` gives Kafka's own times. ``--override`` gives every node a setting, as with
kafka-server-start.sh. ``--secure`` gives all listeners TLS: clients need the certificate whose files it names. With
``--secure SASL_SSL`` they log in with a password over TLS, and the same files have it.
"""

import argparse
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import get_args

from pykraft.cluster import Cluster, ClusterError
from pykraft.commands.common import CommandError, add_network, pairs, say
from pykraft.runtime.secure_files import ADMIN, MECHANISM, ClusterSecurity
from pykraft.storage.upkeep.log_manager import DirectoryInUseError
from pykraft.timeouts import PROFILES

_CHECK_S = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=1, help="this many, each broker and controller (default: 1)")
    parser.add_argument("--port", type=int, default=9092, help="of the first broker; the next ones follow (9092)")
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


def run(options: argparse.Namespace) -> int:
    """Run the cluster until a signal stops it, or a node dies."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: also a start that is cut short clears up
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
        ) as cluster:
            if cluster.secure_files is not None:
                java, librdkafka = cluster.secure_files.write_client_files(ADMIN)
                how = f" (login by {MECHANISM})" if cluster.secure_files.passwords is not None else ""
                say(f"settings of the client User:{ADMIN}{how}, for Java and pykraft's commands: {java}")
                say(f"and for librdkafka: {librdkafka}")
            say(f"ready at {cluster.bootstrap_servers}; Ctrl-C ends it")
            sys.stdout.flush()
            with suppress(KeyboardInterrupt):
                while not cluster.failures():
                    time.sleep(_CHECK_S)
    except (ValueError, ClusterError, DirectoryInUseError) as error:
        raise CommandError(str(error)) from None
    return 0
