"""``cluster``: the id of a cluster, the addresses of its nodes, and unregistering one, as kafka-cluster.sh does.

::

    cluster cluster-id --bootstrap-server HOST:PORT
    cluster unregister --bootstrap-server HOST:PORT --id N
    cluster unregister-controller --bootstrap-server HOST:PORT --id N
    cluster list-endpoints --bootstrap-server HOST:PORT [--include-fenced-brokers]
    cluster list-endpoints --bootstrap-controller HOST:PORT

A broker is *fenced* while the controller does not hear from it. Clients are not sent to it. A broker that will not come
back is listed as fenced until it is unregistered. A controller that will not come back can be unregistered from
``metadata.version`` 33 on (KIP-1312), so that it keeps no feature down; the set of voters does not change.

With ``--bootstrap-controller`` the controllers are listed, not the brokers.

Follows org.apache.kafka.tools.ClusterTool.
"""

import argparse

from pykraft.admin import Admin
from pykraft.client.administration.admin import ClusterDescription
from pykraft.commands.as_json import add_json, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say

_COLUMNS = ("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
_STATE = _COLUMNS.index("STATE")
"""Of brokers only."""
_UNREGISTERED = {"unregister": "Broker", "unregister-controller": "Controller"}
_SHORT = ("-C",)
_WIDTH_WITHOUT_RACKS = 10
_NO_RACK = "null"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, dest="verb", metavar="VERB")
    add_client_arguments(verbs.add_parser("cluster-id", help="print the id of the cluster"), also_controllers=_SHORT)
    unregister = verbs.add_parser("unregister", help="forget a broker that will not come back")
    add_client_arguments(unregister, also_controllers=_SHORT)
    unregister.add_argument("--id", "-i", type=int, required=True, metavar="N", help="the id of the broker")
    controller = verbs.add_parser("unregister-controller", help="forget a controller that will not come back")
    add_client_arguments(controller, also_controllers=_SHORT)
    controller.add_argument("--id", "-i", type=int, required=True, metavar="N", help="the id of the controller")
    endpoints = verbs.add_parser("list-endpoints", help="list the addresses of the brokers, or of the controllers")
    add_client_arguments(endpoints, also_controllers=_SHORT)
    add_json(endpoints)
    endpoints.add_argument("--include-fenced-brokers", action="store_true", help="also those that are fenced")


def run(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    is_list = options.verb == "list-endpoints"
    if options.verb in _UNREGISTERED and options.id < 0:
        node = _UNREGISTERED[options.verb].lower()
        raise CommandError(f"--id is {options.id}, but must be at least 0: the id of a {node}")
    of_controllers = options.bootstrap_controller is not None
    if of_controllers and is_list and options.include_fenced_brokers:
        raise CommandError("--include-fenced-brokers is for --bootstrap-server: controllers are not fenced")
    with Admin(**client_settings(options)) as admin, answers(admin):
        if options.verb in _UNREGISTERED:
            is_broker = options.verb == "unregister"
            (admin.unregister_broker if is_broker else admin.unregister_controller)(options.id)
            say(f"{_UNREGISTERED[options.verb]} {options.id} is no longer registered.")
            return 0
        cluster = admin.describe_cluster(is_list and options.include_fenced_brokers)
    if is_list and options.json:
        say_json(**cluster._asdict())
    elif is_list:
        _list_endpoints(cluster, of_controllers)
    else:
        say(f"Cluster ID: {cluster.cluster_id}")
    return 0


def _list_endpoints(cluster: ClusterDescription, of_controllers: bool) -> None:
    hosts = max((len(broker.host) for broker in cluster.brokers), default=1)
    racks = max((len(broker.rack) for broker in cluster.brokers if broker.rack), default=_WIDTH_WITHOUT_RACKS)
    widths = (10, hosts, 10, racks, 10, 15)
    rows: list[tuple[object, ...]] = [_COLUMNS]
    for broker in sorted(cluster.brokers):
        state = "fenced" if broker.id in cluster.fenced else "unfenced"
        kind = "controller" if of_controllers else "broker"
        rows.append((broker.id, broker.host, broker.port, broker.rack or _NO_RACK, state, kind))
    shown = [at for at in range(len(_COLUMNS)) if at != _STATE or not of_controllers]
    for row in rows:
        say(" ".join(f"{row[at]!s:<{widths[at]}}" for at in shown))
