"""Fairness: how long a small tenant's produces take beside eight noisy ones, and when it is alone.

Each noisy tenant has a quota, and sends produces of 20 kB without a pause, whatever the broker says of throttling: what
holds it back is that its connection is muted. The small tenant sends one record every ten milliseconds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time

from pykraft import Cluster
from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity
from pykraft.protocol.header import decode_response, encode_request
from pykraft.protocol.messages.data import ProduceResponse
from tests.bench.rows import Row, progress
from tests.harness import asking
from tests.harness.connection import Connection
from tests.harness.tree import ROOT

NOISY = 8
RATE = 200_000
"""Bytes a second of each noisy tenant."""
ROUNDS, SAMPLES = 3, 400
SMALL = "small"
VERSION = 9


def frame(number: int, size: int, client_id: str) -> bytes:
    """A produce of one record of this size."""
    request = asking.produce("t", asking.batch(1, size=size))
    return b"".join(encode_request(request, VERSION, number, client_id))


def p99_ms(address: str) -> float:
    """Of the small tenant's produces."""
    times = []
    with Connection(address) as connection:
        for number in range(SAMPLES):
            began = time.perf_counter()
            connection.send_bytes(frame(number, 100, SMALL))
            connection.receive_frame()
            times.append((time.perf_counter() - began) * 1000)
            time.sleep(0.01)
    return sorted(times)[int(0.99 * SAMPLES)]


def be_noisy(address: str) -> None:
    """All noisy tenants: produce for ever, as fast as the answers come. Says when each of them has been throttled."""
    throttled = threading.Barrier(NOISY + 1)

    def produce(client_id: str) -> None:
        sent, is_waiting = frame(1, 20_000, client_id), True
        with Connection(address) as connection:
            while True:
                connection.send_bytes(sent)
                answer = decode_response(ProduceResponse, VERSION, memoryview(connection.receive_frame()))[1]
                if answer.throttle_time_ms and is_waiting:
                    is_waiting = False
                    throttled.wait()

    for number in range(NOISY):
        threading.Thread(target=produce, args=(f"noisy-{number}",), daemon=True).start()
    throttled.wait()
    sys.stdout.write("throttled\n")
    sys.stdout.flush()
    time.sleep(3600)


def measure() -> list[Row]:
    with Cluster(1, properties={"quota.window.num": "3"}) as cluster:
        with cluster.admin() as admin:
            admin.create_topic("t", 1, 1)
            limits = {ClientQuotaEntity(client_id=DEFAULT): RATE, ClientQuotaEntity(client_id=SMALL): 1 << 40}
            admin.alter_client_quotas({entity: {"producer_byte_rate": rate} for entity, rate in limits.items()})
        address = cluster.bootstrap_servers
        p99_ms(address)
        alone, beside_others = [], []
        for _ in range(ROUNDS):
            alone.append(p99_ms(address))
            command = [sys.executable, "-m", "tests.bench.fairness", address]
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as noisy:
                assert noisy.stdout is not None
                noisy.stdout.readline()
                beside_others.append(p99_ms(address))
                noisy.kill()
            progress(
                f"a small tenant: p99 {alone[-1]:.1f} ms alone, {beside_others[-1]:.1f} ms beside {NOISY} noisy ones"
            )
    ours, theirs = statistics.median(beside_others), statistics.median(alone)
    return [
        Row(
            f"Produce of 100 B beside {NOISY} tenants at their quotas, p99",
            "ms",
            ours,
            "alone",
            theirs,
            f"median of {ROUNDS}",
            "ratio < 2",
            ours < 2 * theirs,
            tuple(beside_others),
            tuple(alone),
        )
    ]


if __name__ == "__main__":
    be_noisy(*sys.argv[1:])
