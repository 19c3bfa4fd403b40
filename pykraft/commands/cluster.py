"""``cluster``: the id of a cluster, the addresses of its brokers, and unregistering one, as kafka-cluster.sh does.

::

    cluster cluster-id --bootstrap-server HOST:PORT
    cluster unregister --bootstrap-server HOST:PORT --id N
    cluster list-endpoints --bootstrap-server HOST:PORT [--include-fenced-brokers]

A broker is *fenced* while the controller does not hear from it. Clients are not sent to it. A broker that will not come
back is listed as fenced until it is unregistered.

Follows org.apache.kafka.tools.ClusterTool.
"""

import argparse

from pykraft.admin import Admin
from pykraft.client.admin import ClusterDescription
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say

_COLUMNS = ("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
_WIDTH_WITHOUT_RACKS = 10
_NO_RACK = "null"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, dest="verb", metavar="VERB")
    add_client_arguments(verbs.add_parser("cluster-id", help="print the id of the cluster"))
    unregister = verbs.add_parser("unregister", help="forget a broker that will not come back")
    add_client_arguments(unregister)
    unregister.add_argument("--id", "-i", type=int, required=True, metavar="N", help="the id of the broker")
    endpoints = verbs.add_parser("list-endpoints", help="list the addresses of the brokers")
    add_client_arguments(endpoints)
    endpoints.add_argument("--include-fenced-brokers", action="store_true", help="also those that are fenced")


def run(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    is_list = options.verb == "list-endpoints"
    if options.verb == "unregister" and options.id < 0:
        raise CommandError(f"--id is {options.id}, but must be at least 0: the id of a broker")
    with Admin(**client_settings(options)) as admin, answers(admin):
        if options.verb == "unregister":
            admin.unregister_broker(options.id)
            say(f"Broker {options.id} is no longer registered.")
            return 0
        cluster = admin.describe_cluster(is_list and options.include_fenced_brokers)
    if is_list:
        _list_endpoints(cluster)
    else:
        say(f"Cluster ID: {cluster.cluster_id}")
    return 0


def _list_endpoints(cluster: ClusterDescription) -> None:
    hosts = max((len(broker.host) for broker in cluster.brokers), default=1)
    racks = max((len(broker.rack) for broker in cluster.brokers if broker.rack), default=_WIDTH_WITHOUT_RACKS)
    widths = (10, hosts, 10, racks, 10, 15)
    rows: list[tuple[object, ...]] = [_COLUMNS]
    for broker in sorted(cluster.brokers):
        state = "fenced" if broker.id in cluster.fenced else "unfenced"
        rows.append((broker.id, broker.host, broker.port, broker.rack or _NO_RACK, state, "broker"))
    for row in rows:
        say(" ".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)))
