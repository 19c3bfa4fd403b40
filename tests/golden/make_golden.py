"""What filled `kafka-4.2.0-rc1-data`: run once against a fresh single node of Apache Kafka, given as host:port."""

import sys
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

START_MS = int(time.time() * 1000) - 100_000
SMALL = {"index.interval.bytes": "64"}


def main(bootstrap: str) -> None:
    servers = {"bootstrap.servers": bootstrap}
    admin = AdminClient(servers)
    golden = NewTopic("golden", 1, 1, config={**SMALL, "segment.bytes": "1048576", "segment.index.bytes": "1024"})
    wait_for(admin.create_topics([golden, NewTopic("golden-txn", 1, 1, config=SMALL)]))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(servers, codec)
    run_transactions(servers)
    for protocol in ("classic", "consumer"):
        consume(servers, protocol)
    topic = (ResourceType.TOPIC, "golden", ResourcePatternType.LITERAL)
    wait_for(admin.create_acls([AclBinding(*topic, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)]))
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wait_for(admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", credential, b"alice-secret")]))


def wait_for(futures: dict) -> None:
    for future in futures.values():
        future.result(20)


def produce(servers: dict, codec: str) -> None:
    producer = Producer({**servers, "compression.type": codec, "linger.ms": 50, "enable.idempotence": True})
    for i in range(20):
        value = f"value {codec} {i} " * 10
        headers = [("h", b"x"), ("n", None)]
        producer.produce("golden", key=f"{codec}-{i}", value=value, timestamp=START_MS + i, headers=headers)
    producer.flush(20)


def run_transactions(servers: dict) -> None:
    producer = Producer({**servers, "transactional.id": "golden-tx", "compression.type": "none"})
    producer.init_transactions(20)
    for n, end in enumerate(("commit", "abort", "commit", "abort")):
        producer.begin_transaction()
        for i in range(3):
            timestamp = START_MS + n * 10 + i
            producer.produce("golden-txn", key=f"{n}-{i}", value=f"{end} {n} {i}", timestamp=timestamp)
        producer.flush(10)
        (producer.commit_transaction if end == "commit" else producer.abort_transaction)(20)


def consume(servers: dict, protocol: str) -> None:
    consumer = Consumer(
        {
            **servers,
            "group.id": "golden-" + protocol,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["golden-txn"])
    read, deadline = 0, time.monotonic() + 25
    while read < 6 and time.monotonic() < deadline:
        message = consumer.poll(1)
        read += message is not None and not message.error()
    consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])
