"""A cluster of pykraft that another process asks for, starts and stops brokers of, and ends: through standard input.

    python -m tests.harness.outside_cluster

It reads the number of brokers and their properties, a line each, up to an empty line. It answers when the cluster
serves: the brokers' addresses and the controllers'. Each further line is a question, and is answered when that is done:

    3                               how many
    offsets.topic.num.partitions=1  a property of each node

                                    -> 127.0.0.1:20001,127.0.0.1:20002 127.0.0.1:20004,127.0.0.1:20005
    stop 2                          -> done     a node stops in order
    start 2                         -> done     and serves again
    settle                          -> done     each living node has applied all that the controllers have committed

It ends with its input, with status 0 if all nodes were well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from pykraft import Cluster
from pykraft.cluster_view import ClusterView
from pykraft.common.config import parse_properties
from pykraft.server.config import NODE_CONFIG


def settle(cluster: Cluster) -> None:
    """Wait until each living node has what is committed now. The controllers' own records are in the same log."""
    committed = max(node.quorum.high_watermark for node in cluster.describe().nodes.values())

    def has_settled(view: ClusterView) -> bool:
        return all(node.quorum.high_watermark >= committed for node in view.nodes.values() if node.is_alive)

    cluster.wait_until(has_settled, what="all nodes have the controllers' records")


def serve(lines: Iterable[str], answer: Callable[[str], object]) -> None:
    """Start what the first lines describe, and do what the others say until they end."""
    questions = iter(line.rstrip("\n") for line in lines)
    count = int(next(questions))
    given = parse_properties("\n".join(iter(lambda: next(questions), "")))
    # A later Kafka's tests may give settings that came after 4.2. A node ignores them, a `Cluster` would refuse them.
    unknown = NODE_CONFIG.unknown(given)
    properties = {name: value for name, value in given.items() if name not in unknown}
    # Kafka's own times: its tests are made for them.
    with Cluster(count, timeouts="kafka", properties=properties) as cluster:
        controllers = [
            listener.removeprefix("CONTROLLER://")
            for node_id in cluster.controller_ids
            for listener in cluster.properties(node_id)["listeners"].split(",")
            if listener.startswith("CONTROLLER")
        ]
        answer(f"{cluster.bootstrap_servers} {','.join(controllers)}")
        for question in questions:
            what, *node_ids = question.split()
            {
                "stop": lambda ids: [cluster.stop(node_id) for node_id in ids],
                "start": lambda ids: [cluster.restart(node_id) for node_id in ids],
                "settle": lambda _: settle(cluster),
            }[what]([int(node_id) for node_id in node_ids])
            answer("done")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.stdin, say)
