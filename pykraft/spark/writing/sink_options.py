"""What may be said to the sink: the options of Spark's own Kafka sink, and those of writing exactly once.

========================  ==============================================================================================
option                    meaning
========================  ==============================================================================================
kafka.bootstrap.servers   where to begin: ``host:port,host:port``; needed
kafka.*                   settings of a Kafka producer, where they have a meaning here
topic                     where all rows go; without it each row's column `topic` says so
exactlyOnce               ``true``: a stream writes each of its batches in one transaction (`exactly_once`)
stagingDirectory          where tasks leave what the driver will write; driver and executors must share it
acceptDuplicates          ``true``: write a batch although it is not certain that it was not written before
========================  ==============================================================================================

Without ``stagingDirectory`` it is a folder in the checkpoint, where that is a local path, and else one for temporary
files. Only batches of which a task has more than 256 KiB need it.

A stream also passes ``checkpointLocation`` and ``queryName``, which are Spark's. Every other option is refused in one
sentence. So is a setting ``kafka.*`` that pykraft's producer does not have. Spark's own sink ignores unknown options.

The defaults are those of Kafka's producer: idempotent, with ``acks=all``. Only ``batch.size`` is larger, 128 KiB: a
task appends as fast as it can, so a batch fills before a record waits for long.

Follows org.apache.spark.sql.kafka010.KafkaSourceProvider.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from pykraft.client.config import ENABLE_IDEMPOTENCE, bootstrap_endpoints, producer_config
from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import Config, ConfigDef, boolean, string

TOPIC = string("topic", "", "where all rows go")
EXACTLY_ONCE = boolean("exactlyOnce", False, "whether a stream writes each batch in one transaction")
STAGING_DIRECTORY = string("stagingDirectory", "", "where tasks leave what the driver will write")
ACCEPT_DUPLICATES = boolean("acceptDuplicates", False, "whether a batch may be written that may have been before")

_DEFINITION = ConfigDef([TOPIC, EXACTLY_ONCE, STAGING_DIRECTORY, ACCEPT_DUPLICATES])
_CHECKPOINT = "checkpointlocation"
_OF_SPARK = frozenset({_CHECKPOINT, "queryname"})
_FOLDER = "pykraft-sink"
_KAFKA = "kafka."
_DEFAULTS = {"batch.size": 128 << 10, "client.id": "pykraft-spark"}
_REFUSED = {
    "key.serializer": "the column key is text or bytes, and goes as it is",
    "value.serializer": "the column value is text or bytes, and goes as it is",
    "partitioner.class": "a key's hash chooses the partition, or the column partition does",
    "interceptor.classes": "there are no interceptors",
    "transactional.id": "a task that is tried again would fence itself",
}


@dataclass(frozen=True)
class WriteOptions:
    """The options of one query that writes, read and checked. It travels to the executors."""

    producer: Config
    """The settings that began with ``kafka.``, without that."""
    topic: str
    """Where all rows go; empty if the column `topic` says it."""
    exactly_once: bool
    staging_directory: str
    """An absolute path."""
    accept_duplicates: bool


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """What the options say; ConfigError, with one sentence, if they do not make sense. Names may be in any case."""
    names = {name.lower(): name for name in _DEFINITION.keys}
    said = {}
    for option, value in options.items():
        lower = option.lower()
        if lower in names:
            said[names[lower]] = value
        elif not lower.startswith(_KAFKA) and lower not in _OF_SPARK:
            known = ", ".join(_DEFINITION.keys)
            raise ConfigError(f"{option} is no option of this sink; it has kafka.bootstrap.servers, kafka.*, {known}")
    values = _DEFINITION.resolve(said)
    if TOPIC.name in said and not values[TOPIC]:
        raise ConfigError("topic is empty: name one, or leave the option out and give each row a column topic")
    producer = _producer_config(options)
    if values[EXACTLY_ONCE] and not producer[ENABLE_IDEMPOTENCE]:
        raise ConfigError(
            "exactlyOnce needs an idempotent producer: leave out kafka.enable.idempotence, kafka.acks and kafka.retries"
        )
    return WriteOptions(
        producer=producer,
        topic=values[TOPIC],
        exactly_once=values[EXACTLY_ONCE],
        staging_directory=_staging_directory(values[STAGING_DIRECTORY], options),
        accept_duplicates=values[ACCEPT_DUPLICATES],
    )


def _staging_directory(said: str, options: Mapping[str, str]) -> str:
    if said:
        found = _local_path(said)
        if found is None:
            raise ConfigError(f"stagingDirectory is {said!r}, but must be an absolute path: /shared/staging")
        return found
    checkpoint = next((_local_path(text) for name, text in options.items() if name.lower() == _CHECKPOINT), None)
    return str(PurePath(checkpoint or tempfile.gettempdir()) / _FOLDER)


def _local_path(text: str) -> str | None:
    """The path that this text or URI names; None if it is relative, or on no disk that Python sees."""
    parts = urlsplit(text)
    path = unquote(parts.path) if parts.scheme == "file" else text
    return path if path.startswith("/") else None


def _producer_config(options: Mapping[str, str]) -> Config:
    """The settings of the producer: all that begins with ``kafka.``."""
    settings: dict[str, object] = dict(_DEFAULTS)
    for option, value in options.items():
        if option.lower().startswith(_KAFKA):
            setting = option.lower().removeprefix(_KAFKA)
            if setting in _REFUSED:
                raise ConfigError(f"kafka.{setting} cannot be set: {_REFUSED[setting]}")
            settings[setting] = value
    try:
        producer = producer_config(settings)
        bootstrap_endpoints(producer)
    except ConfigError as error:
        raise ConfigError(f"kafka.{error}") from None
    return producer
