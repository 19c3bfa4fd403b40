"""Copiers between topics, exactly once, of unmodified libraries; each prints how the zombie's commit was refused.

    complaint = copy("kafkajs", servers, "copier", "source", "target", 60)

A first producer leaves a transaction open with the record "zombie". A second one of the same transactional id copies
all records, up to ten in a transaction together with the group's offsets; it aborts the second transaction, and reads
it again from what is committed. At last the zombie tries to commit. The group has the transactional id as its name.

The programs beside this one are transactional_copy.js and TransactionalCopy.java. kafka-python, aiokafka and kafkajs
add partitions and offsets to a transaction by requests of their own, as of transaction.version 0.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

from tests.harness.apache_kafka import VERSION, java_command
from tests.harness.tree import ROOT
from tests.interop.members import HERE, kafkajs

LIMIT_S = 120
LIBRARIES = ("kafka-python", "aiokafka", "kafkajs", "java")
SIZE = 10
"""How many records a transaction has at most."""


def command(library: str) -> list[str]:
    if library == "kafkajs":
        return ["env", f"NODE_PATH={kafkajs()}", "node", str(HERE / "transactional_copy.js")]
    if library == "java":
        return java_command(VERSION, str(HERE / "TransactionalCopy.java"))
    return [sys.executable, "-m", "tests.interop.transactional_copies", library]


def copy(library: str, servers: str, name: str, source: str, target: str, count: int) -> str:
    """Copy `count` records in a process of the library. The error that the zombie's commit got, or "none"."""
    done = subprocess.run(
        [*command(library), servers, name, source, target, str(count)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout.split()[-1]


def kafka_python(servers: str, name: str, source: str, target: str, count: int) -> str:
    from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
    from kafka.errors import KafkaError

    def producer() -> Any:
        made = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
        made.init_transactions()
        return made

    zombie = producer()
    zombie.begin_transaction()
    zombie.send(target, b"zombie", partition=0).get(LIMIT_S)
    copier = producer()
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=servers,
        group_id=name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=SIZE,
    )
    copied, aborted = 0, False
    while copied < count:
        found = consumer.poll(500)
        if not found:
            continue
        copier.begin_transaction()
        for place, records in found.items():
            for record in records:
                copier.send(target, record.value, partition=place.partition)
        offsets = {place: OffsetAndMetadata(records[-1].offset + 1, "", -1) for place, records in found.items()}
        copier.send_offsets_to_transaction(offsets, consumer.group_metadata())
        if copied and not aborted:
            aborted = True
            copier.flush()
            copier.abort_transaction()
            for place in consumer.assignment():
                consumer.seek(place, consumer.committed(place) or 0)
        else:
            copier.commit_transaction()
            copied += sum(map(len, found.values()))
    consumer.close()
    copier.close()
    try:
        zombie.commit_transaction()
    except KafkaError as error:
        return type(error).__name__
    return "none"


def aio_kafka(servers: str, name: str, source: str, target: str, count: int) -> str:
    return asyncio.run(_aio_kafka(servers, name, source, target, count))


async def _aio_kafka(servers: str, name: str, source: str, target: str, count: int) -> str:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.errors import KafkaError

    async def producer() -> Any:
        made = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name)
        await made.start()
        return made

    zombie = await producer()
    await zombie.begin_transaction()
    await zombie.send_and_wait(target, b"zombie", partition=0)
    copier = await producer()
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=servers,
        group_id=name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    copied, aborted = 0, False
    while copied < count:
        found = await consumer.getmany(timeout_ms=500, max_records=SIZE)
        if not found:
            continue
        await copier.begin_transaction()
        for place, records in found.items():
            for record in records:
                await copier.send(target, record.value, partition=place.partition)
        offsets = {place: records[-1].offset + 1 for place, records in found.items()}
        await copier.send_offsets_to_transaction(offsets, name)
        if copied and not aborted:
            aborted = True
            await copier.flush()
            await copier.abort_transaction()
            for place in consumer.assignment():
                consumer.seek(place, await consumer.committed(place) or 0)
        else:
            await copier.commit_transaction()
            copied += sum(map(len, found.values()))
    await consumer.stop()
    await copier.stop()
    try:
        await zombie.commit_transaction()
    except KafkaError as error:
        return type(error).__name__
    finally:
        await zombie.stop()
    return "none"


if __name__ == "__main__":
    library, *arguments, number = sys.argv[1:]
    run = {"kafka-python": kafka_python, "aiokafka": aio_kafka}[library]
    sys.stdout.write(run(*arguments, int(number)) + "\n")
