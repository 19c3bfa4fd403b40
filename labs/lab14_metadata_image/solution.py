"""Lab 14: what do the records of the metadata log say together?"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

NO_CHANGE = -2
"""In the field `leader` of a PartitionChange: the leader stays."""


class Record(NamedTuple):
    """A record of the metadata log: its kind, and its fields by their names."""

    kind: str
    fields: dict[str, Any]


class Snapshot(NamedTuple):
    """A snapshot file: the state of all records before offset `end`, as records. A crash may have left
    half of it."""

    end: int
    is_complete: bool
    records: Sequence[Record]


def new_image() -> dict[str, dict]:
    """An image without anything in it."""
    return {"levels": {}, "brokers": {}, "topics": {}, "partitions": {}, "configs": {}}


# --- task 14.1: one record ---
def replay(image: dict[str, dict], record: Record) -> None:
    """Change the image as the record says."""
    kind, fields = record
    levels, brokers, topics, partitions, configs = image.values()
    if kind == "FeatureLevel":
        put(levels, fields["name"], fields["level"] or None)
    elif kind == "RegisterBroker":
        brokers[fields["id"]] = {"epoch": fields["epoch"], "fenced": fields["fenced"]}
    elif kind == "BrokerRegistrationChange" and fields["fenced"] != 0:
        brokers[fields["id"]]["fenced"] = fields["fenced"] == 1
    elif kind == "UnregisterBroker":
        del brokers[fields["id"]]
    elif kind == "Topic":
        topics[fields["topic_id"]] = fields["name"]
    elif kind == "RemoveTopic":
        configs.pop(("topic", topics.pop(fields["topic_id"])), None)
        for key in [key for key in partitions if key[0] == fields["topic_id"]]:
            del partitions[key]
    elif kind == "Partition":
        row = {name: value for name, value in fields.items() if name not in ("topic_id", "partition")}
        partitions[fields["topic_id"], fields["partition"]] = row
    elif kind == "PartitionChange":
        change(partitions[fields["topic_id"], fields["partition"]], fields)
    elif kind == "Config":
        settings = dict(configs.get(fields["resource"], {}))
        put(settings, fields["name"], fields["value"])
        put(configs, fields["resource"], settings or None)


def put(mapping: dict, key: Any, value: Any) -> None:
    """Set a value; None removes it."""
    mapping[key] = value
    if value is None:
        del mapping[key]


def change(row: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """A partition's next state."""
    row |= {name: fields[name] for name in ("replicas", "isr") if fields[name] is not None}
    if fields["leader"] != NO_CHANGE:
        row["leader"] = fields["leader"]
        row["leader_epoch"] += 1
    row["partition_epoch"] += 1


# --- end of task 14.1 ---


# --- task 14.2: what counts in a log ---
def replay_log(image: dict[str, dict], log: Iterable[tuple[int, Record]], high_watermark: int) -> None:
    """Replay what counts in the log, which are offsets with their records. ValueError if a transaction
    begins while one is open, or ends while none is."""
    waiting = None
    for offset, record in log:
        if offset >= high_watermark:
            break
        if record.kind == "BeginTransaction":
            if waiting is not None:
                raise ValueError(f"offset {offset}: a transaction begins, and one is open already")
            waiting = []
        elif record.kind in ("EndTransaction", "AbortTransaction"):
            if waiting is None:
                raise ValueError(f"offset {offset}: {record.kind}, and no transaction is open")
            for each in waiting if record.kind == "EndTransaction" else ():
                replay(image, each)
            waiting = None
        elif waiting is not None:
            waiting.append(record)
        else:
            replay(image, record)


# --- end of task 14.2 ---


# --- task 14.3: a snapshot ---
def snapshot_of(image: Mapping[str, Mapping]) -> list[Record]:
    """The records that make this image from nothing, one for each row. They share no list or dictionary
    with it."""
    levels, brokers, topics, partitions, configs = image.values()
    records = [Record("FeatureLevel", {"name": name, "level": level}) for name, level in levels.items()]
    records += [Record("RegisterBroker", {"id": number, **row}) for number, row in brokers.items()]
    records += [Record("Topic", {"topic_id": topic_id, "name": name}) for topic_id, name in topics.items()]
    for (topic_id, number), row in partitions.items():
        records.append(Record("Partition", {"topic_id": topic_id, "partition": number, **deepcopy(row)}))
    for resource, settings in configs.items():
        for name, value in settings.items():
            records.append(Record("Config", {"resource": resource, "name": name, "value": value}))
    return records


# --- end of task 14.3 ---


# --- task 14.4: a start ---
def start(snapshots: Iterable[Snapshot], log: Sequence[tuple[int, Record]], high_watermark: int) -> dict[str, dict]:
    """The image of a node that starts with these files. ValueError if they do not reach each other."""
    complete = [snapshot for snapshot in snapshots if snapshot.is_complete]
    newest = max(complete, key=lambda snapshot: snapshot.end, default=Snapshot(0, True, []))
    if log and log[0][0] > newest.end:
        raise ValueError("the log begins after the end of the newest snapshot")
    image = new_image()
    for record in newest.records:
        replay(image, record)
    replay_log(image, [entry for entry in log if entry[0] >= newest.end], high_watermark)
    return image


# --- end of task 14.4 ---
