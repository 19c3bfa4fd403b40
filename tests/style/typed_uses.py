"""Uses of clients and clusters, right and wrong: what mypy says of each line is compared with the comment at its
end."""

from __future__ import annotations

from typing import Any

from pykraft import Admin, Cluster, Consumer, Producer, TopicPartition
from pykraft.client.settings import ByDuration

# --- right ------------------------------------------------------------------------------------------------------------

FROM_A_FILE: dict[str, str] = {"bootstrap.servers": "localhost:9092", "request.timeout.ms": "1000"}
FROM_SOMEWHERE: dict[str, Any] = {}

producer = Producer(bootstrap_servers="localhost:9092", linger_ms=5, acks="all", enable_idempotence=True)
producer = Producer(bootstrap_servers=["localhost:9092", "localhost:9093"], acks=1, linger_ms="5", client_id=None)
producer = Producer(**FROM_SOMEWHERE)
named = Producer(bootstrap_servers="localhost:9092", key_serializer=str.encode)
named.send("flights", b"LH400", key="FRA")
offset: int = producer.send("flights", b"LH400").get(timeout=10).offset
partition: int = producer.send("flights", b"LH400").result().partition
consumer = Consumer("flights", bootstrap_servers="localhost:9092", group_id="g", enable_auto_commit=False)
consumer.assign([TopicPartition("flights", 0)])
consumer = Consumer("flights", **FROM_SOMEWHERE)
content: bytes | None = next(Consumer("flights", bootstrap_servers="localhost:9092")).value
since = Consumer("flights", bootstrap_servers="localhost:9092", auto_offset_reset=ByDuration("by_duration:PT1H"))
counts = Consumer("counts", bootstrap_servers="localhost:9092", value_deserializer=lambda data: len(data or b""))
count: int = next(counts).value
by_key = Producer(bootstrap_servers="localhost:9092", partitioner=lambda key, partitions, available: partitions[0])
admin = Admin(bootstrap_servers="localhost:9092", request_timeout_ms=1000)
admin = Admin(**FROM_A_FILE)
admin = Admin(bootstrap_controllers="localhost:9093")
cluster = Cluster(1, mode="processes", network="staged", timeouts="kafka", racks=["a"], features={"group.version": 1})

# --- wrong ------------------------------------------------------------------------------------------------------------

Producer(bootstrap_server="localhost:9092")  # wrong: call-arg
Producer(bootstrap_servers="localhost:9092", linger=5)  # wrong: call-arg
Producer(bootstrap_servers="localhost:9092", group_id="g")  # wrong: call-arg
Producer(bootstrap_servers="localhost:9092", linger_ms=[5])  # wrong: arg-type
Producer(bootstrap_servers="localhost:9092", batch_size=16_384.0)  # wrong: arg-type
Producer(bootstrap_servers=9092)  # wrong: arg-type
Consumer("flights", bootstrap_servers="localhost:9092", acks="all")  # wrong: call-arg
Consumer("flights", bootstrap_servers="localhost:9092", auto_ofset_reset="earliest")  # wrong: call-arg
Admin(bootstrap_servers="localhost:9092", request_timeout_ms=1.5)  # wrong: arg-type
Producer(bootstrap_controllers="localhost:9093")  # wrong: call-arg
Cluster(mode="process")  # wrong: arg-type
Cluster(network="stages")  # wrong: arg-type
Cluster(timeouts="Kafka")  # wrong: arg-type
Cluster(node=3)  # wrong: call-arg
Consumer("flights", bootstrap_servers="localhost:9092", auto_offset_reset="newest")  # wrong: arg-type
Producer(bootstrap_servers="localhost:9092", compression_type="lz5")  # wrong: arg-type
named.send("flights", b"LH400", key=b"FRA")  # wrong: arg-type
length = len(next(Consumer("flights", bootstrap_servers="localhost:9092")).value)  # wrong: arg-type
word: str = next(counts).value  # wrong: assignment
producer.sendd("flights", b"LH400")  # wrong: attr-defined
place = producer.send("flights", b"LH400").get().ofset  # wrong: attr-defined
text: str = producer.send("flights", b"LH400").get().offset  # wrong: assignment
