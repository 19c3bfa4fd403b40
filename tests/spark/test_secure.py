"""The source and the sink on clusters whose listeners have TLS, with certificates and with passwords: the options are
those of Kafka's clients after ``kafka.``, as Spark's own source takes them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pykraft import Cluster, Consumer, Producer

pytestmark = pytest.mark.limit(180)

COUNT = 60


@pytest.fixture(scope="module", params=["SASL_SSL", pytest.param("SSL", marks=pytest.mark.long)])
def secure(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(1, security=request.param) as cluster:
        cluster.create_topic("source", partitions=2)
        with Producer(**cluster.client_settings("spark")) as producer:
            for number in range(COUNT):
                producer.send("source", value=b"%d" % number, partition=number % 2)
        yield cluster


def options(cluster: Cluster) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in cluster.client_settings("spark").items()}


def passwords(cluster: Cluster) -> list[str]:
    found = None if cluster.secure_files is None else cluster.secure_files.passwords
    return [] if found is None else [*found.values()]


def values(cluster: Cluster, topic: str) -> list[int]:
    """What a consumer of ours reads in the topic."""
    settings: dict[str, Any] = {**cluster.client_settings(), "auto.offset.reset": "earliest"}
    with Consumer(topic, consumer_timeout_ms=20_000, **settings) as consumer:
        return sorted(int(next(consumer).value) for _ in range(COUNT))


def test_a_batch_is_read_and_written(spark: SparkSession, secure: Cluster) -> None:
    secure.create_topic("batch")
    rows = spark.read.format("pykraft").options(**options(secure), subscribe="source").load()
    rows.select("value").write.format("pykraft").mode("append").options(**options(secure), topic="batch").save()
    assert values(secure, "batch") == [*range(COUNT)]


def test_a_stream_is_read_and_written_exactly_once(
    spark: SparkSession, secure: Cluster, tmp_path: pathlib.Path
) -> None:
    secure.create_topic("stream")
    said = {"subscribe": "source", "startingOffsets": "earliest"}
    rows = spark.readStream.format("pykraft").options(**options(secure), **said).load().select("value")
    writer = rows.writeStream.format("pykraft").options(**options(secure), topic="stream", exactlyOnce="true")
    writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    assert values(secure, "stream") == [*range(COUNT)]
    saved = "".join(file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file())
    assert "batchWatermarkMs" in saved
    assert not [secret for secret in passwords(secure) if secret in saved]


def test_a_login_that_is_refused_and_one_that_is_missing_are_one_sentence(spark: SparkSession, secure: Cluster) -> None:
    own = options(secure)
    if "kafka.sasl.jaas.config" in own:
        login = own["kafka.sasl.jaas.config"]
        password = login.rpartition('password="')[2].rstrip('";')
        wrong = {**own, "kafka.sasl.jaas.config": login.replace(password, "guessed")}
        sentence = "Authentication failed"
        del own["kafka.sasl.jaas.config"]
        missing = "kafka.security.protocol is SASL_SSL, but sasl.jaas.config is not set"
    else:
        wrong = {name: value for name, value in own.items() if "truststore" not in name}
        sentence = "self-signed certificate in certificate chain"
        own["kafka.ssl.keystore.location"] = "/nowhere.pem"
        missing = "the keystore in /nowhere.pem cannot be read"
    for said, expected in ((wrong, sentence), (own, missing)):
        with pytest.raises(AnalysisException) as refused:
            spark.read.format("pykraft").options(**said, subscribe="source").load().count()
        words = str(refused.value)
        assert expected in words and "Traceback" not in words and "guessed" not in words
        assert len(words.strip().split("\n")) == 2, "Spark adds a line with its own state"
