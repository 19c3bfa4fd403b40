"""The source and the sink on clusters whose listeners have TLS, with certificates and with passwords: the options are
those of Kafka's clients after ``kafka.``, as Spark's own source takes them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pykraft import Admin, Cluster, Consumer, Producer
from pykraft.runtime.secure_files import SecureFiles
from tests.harness import apache_kafka
from tests.harness.java_broker import secured_kafka

pytestmark = pytest.mark.limit(180)

COUNT = 60
Settings = Mapping[str, Any]


def fill(settings: Settings) -> None:
    with Admin(**settings) as admin:
        for topic in ("source", "batch", "stream"):
            admin.create_topic(topic, 2, 1)
    with Producer(**settings) as producer:
        for number in range(COUNT):
            producer.send("source", value=b"%d" % number, partition=number % 2)


@pytest.fixture(scope="module", params=["SASL_SSL", pytest.param("SSL", marks=pytest.mark.long)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(1, security=request.param) as running:
        fill(running.client_settings())
        yield running


def options(settings: Settings) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in settings.items()}


def values(settings: Settings, topic: str) -> list[int]:
    """What a consumer of ours reads in the topic."""
    reading: dict[str, Any] = {**settings, "auto.offset.reset": "earliest"}
    with Consumer(topic, consumer_timeout_ms=20_000, **reading) as consumer:
        return sorted(int(next(consumer).value) for _ in range(COUNT))


def copy(spark: SparkSession, settings: Settings) -> None:
    rows = spark.read.format("pykraft").options(**options(settings), subscribe="source").load()
    rows.select("value").write.format("pykraft").mode("append").options(**options(settings), topic="batch").save()


def stream(spark: SparkSession, settings: Settings, checkpoint: pathlib.Path) -> None:
    said = {"subscribe": "source", "startingOffsets": "earliest"}
    rows = spark.readStream.format("pykraft").options(**options(settings), **said).load().select("value")
    writer = rows.writeStream.format("pykraft").options(**options(settings), topic="stream", exactlyOnce="true")
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def test_a_batch_is_read_and_written(spark: SparkSession, cluster: Cluster) -> None:
    copy(spark, cluster.client_settings("spark"))
    assert values(cluster.client_settings(), "batch") == [*range(COUNT)]


def test_a_stream_is_read_and_written_exactly_once(
    spark: SparkSession, cluster: Cluster, tmp_path: pathlib.Path
) -> None:
    stream(spark, cluster.client_settings("spark"), tmp_path)
    assert values(cluster.client_settings(), "stream") == [*range(COUNT)]
    saved = "".join(file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file())
    found = None if cluster.secure_files is None else cluster.secure_files.passwords
    assert "batchWatermarkMs" in saved
    assert not [secret for secret in (found or {}).values() if secret in saved]


def test_a_login_that_is_refused_and_one_that_is_missing_are_one_sentence(
    spark: SparkSession, cluster: Cluster
) -> None:
    own = options(cluster.client_settings("spark"))
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


@pytest.mark.long
def test_apache_kafka_lets_both_in(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    files = SecureFiles(tmp_path / "security", [1], "SASL_SSL")
    with secured_kafka(files) as kafka:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, **files.client_settings("admin")}
        fill(settings)
        copy(spark, settings)
        stream(spark, settings, tmp_path / "checkpoint")
        assert values(settings, "batch") == values(settings, "stream") == [*range(COUNT)]
