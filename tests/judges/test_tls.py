"""TLS, judged from outside: `openssl s_client`, librdkafka, Java's tools, and a broker of Apache Kafka beside ours."""

from __future__ import annotations

import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from pykraft import Admin, Cluster, NewTopic
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.client.administration.acls import AclBindingFilter
from pykraft.common.settings.config import parse_properties
from tests.harness import apache_kafka
from tests.harness.apache_kafka import java_command
from tests.harness.certificates import keystore
from tests.harness.java_broker import JavaBroker, files_of_both, shared
from tests.harness.rules import rule
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

LIMIT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With rules of access, so that each client must be whom its certificate names."""
    with Cluster(1, security="SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER}) as running:
        running.create_topic("flights")
        yield running


# --- openssl ----------------------------------------------------------------------------------------------------------


def s_client(cluster: Cluster, *options: str, words: str = "", certificate: str = "") -> str:
    """What `openssl s_client` says of the first broker. Without another certificate it shows that of admin."""
    own = cluster.client_settings()
    shown = certificate or own["ssl.keystore.location"]
    checks = ("-CAfile", own["ssl.truststore.location"], "-verify_return_error", "-verify_hostname", "localhost")
    done = subprocess.run(
        [
            *("openssl", "s_client", "-connect", cluster.bootstrap_servers, *checks),
            *("-cert", shown, "-key", shown, *options),
        ],
        input=words,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-tls1_3"], r"New, TLSv1\.3, Cipher is TLS_[A-Z0-9_]+[\s\S]*Verify return code: 0 \(ok\)"),
        (["-tls1_2"], r"New, TLSv1\.2, Cipher is ECDHE-ECDSA-[A-Z0-9-]+[\s\S]*Verify return code: 0 \(ok\)"),
        (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], r"Cipher is ECDHE-ECDSA-AES128-GCM-SHA256"),
        (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], r"alert protocol version|no protocols available"),
        (["-tls1_2", "-cipher", "AES128-SHA"], r"alert handshake failure|handshake failure"),
        (["-tls1_2", "-cipher", "ECDHE-ECDSA-NULL-SHA:@SECLEVEL=0"], r"handshake failure"),
        (["-tls1_2"], r"Secure Renegotiation IS (?:NOT )?supported"),
        (["-tls1_2"], r"Compression: NONE"),
    ],
)
def test_openssl_agrees_on_versions_and_cipher_suites(cluster: Cluster, options: list[str], said: str) -> None:
    assert re.search(said, s_client(cluster, *options))


def test_openssl_may_not_renegotiate(cluster: Cluster) -> None:
    told = s_client(cluster, "-tls1_2", words="R\n")
    assert "RENEGOTIATING" in told and re.search("no renegotiation|alert", told)


def test_openssl_is_refused_with_a_strangers_certificate_and_without_any(cluster: Cluster) -> None:
    stranger = keystore("/CN=admin", "stranger")["ssl.keystore.location"]
    assert re.search("alert unknown ca", s_client(cluster, "-tls1_2", certificate=stranger))
    own = cluster.client_settings()["ssl.truststore.location"]
    command = ["openssl", "s_client", "-tls1_2", "-connect", cluster.bootstrap_servers, "-CAfile", own]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "handshake failure" in done.stdout + done.stderr


# --- librdkafka -------------------------------------------------------------------------------------------------------


def _of_librdkafka(cluster: Cluster, name: str) -> dict[str, Any]:
    assert cluster.secure_files is not None
    _, file = cluster.secure_files.write_client_files(name)
    return {"bootstrap.servers": cluster.bootstrap_servers, **parse_properties(file.read_text())}


def allow(cluster: Cluster, *texts: str) -> None:
    with cluster.admin() as admin:
        admin.create_acls(list(map(rule, texts)))
        wait_until(lambda: len(admin.describe_acls(AclBindingFilter())) >= len(texts), "the rules are known")


def test_librdkafka_writes_and_reads_with_a_certificate(cluster: Cluster) -> None:
    allow(cluster, "allow rd ALL TOPIC flights", "allow rd ALL GROUP g-rd")
    producer = confluent_kafka.Producer(_of_librdkafka(cluster, "rd"))
    told: list[Any] = []
    for number in range(100):
        producer.produce("flights", b"%d" % number * 1000, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(LIMIT_S) == 0 and told == [None] * 100
    reading = {"group.id": "g-rd", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(_of_librdkafka(cluster, "rd") | reading)
    consumer.subscribe(["flights"])
    got: list[Any] = []

    def has_all() -> bool:
        got.extend(consumer.consume(100, 0.2))
        return len(got) >= 100

    wait_until(has_all, "all came back", LIMIT_S)
    assert [message.value() for message in got[:100]] == [b"%d" % number * 1000 for number in range(100)]
    consumer.close()


def test_librdkafka_is_refused_without_a_certificate(cluster: Cluster) -> None:
    own = _of_librdkafka(cluster, "rd")
    del own["ssl.certificate.location"], own["ssl.key.location"]
    errors: list[Any] = []
    producer = confluent_kafka.Producer(own | {"error_cb": errors.append})
    wait_until(lambda: bool(producer.poll(0.1) or errors), "it hears why", LIMIT_S)
    assert any("certificate required" in str(error).lower() or "ssl" in str(error).lower() for error in errors)


# --- Java -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


def tool(cluster: Cluster, name: str, main: str, *arguments: str, words: str = "") -> str:
    """What one of Kafka's tools prints, whose client is `name`."""
    assert cluster.secure_files is not None
    file, _ = cluster.secure_files.write_client_files(name)
    done = subprocess.run(
        java_command(
            apache_kafka.VERSION,
            f"org.apache.kafka.tools.{main}",
            *("--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(file), *arguments),
        ),
        check=False,
        input=words,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.usefixtures("java")
def test_java_writes_and_reads_with_a_certificate(cluster: Cluster) -> None:
    cluster.create_topic("java")
    allow(cluster, "allow duke ALL TOPIC java", "allow duke ALL GROUP g-duke")
    words = "".join(f"value {number}\n" for number in range(100))
    tool(cluster, "duke", "ConsoleProducer", "--topic", "java", words=words)
    where = ("--topic", "java", "--group", "g-duke", "--from-beginning", "--max-messages", "100")
    assert tool(cluster, "duke", "consumer.ConsoleConsumer", *where) == words


@pytest.mark.usefixtures("java")
def test_a_broker_of_apache_kafka_replicates_from_ours_and_ours_from_it_over_tls(tmp_path: pathlib.Path) -> None:
    files = files_of_both(tmp_path, "SSL")
    with (
        Cluster(1, security="SSL", timeouts="kafka", properties=shared(files), directory=tmp_path) as cluster,
        JavaBroker(cluster, files),
        Admin(**cluster.client_settings()) as admin,
    ):
        admin.create_topics([NewTopic("both", replica_assignments={0: [1, 2], 1: [2, 1]})])

        def leaders() -> set[tuple[int, int, frozenset[int]]]:
            parts = admin.describe_topics(["both"])["both"].partitions
            return {(each.partition, each.leader, frozenset(each.isr)) for each in parts}

        both = frozenset({1, 2})
        wait_until(lambda: leaders() == {(0, 1, both), (1, 2, both)}, "each leads one", LIMIT_S)
        producer = confluent_kafka.Producer(_of_librdkafka(cluster, "admin") | {"acks": "all"})
        told: list[Any] = []
        for number in range(50):
            producer.produce("both", b"%d" % number, partition=number % 2, on_delivery=lambda e, _: told.append(e))
        assert producer.flush(LIMIT_S) == 0 and told == [None] * 50
        consumer = confluent_kafka.Consumer(_of_librdkafka(cluster, "admin") | {"group.id": "g"})
        parts = [confluent_kafka.TopicPartition("both", number) for number in (0, 1)]
        assert [consumer.get_watermark_offsets(part, timeout=LIMIT_S) for part in parts] == [(0, 25), (0, 25)]
        consumer.close()
        assert leaders() == {(0, 1, both), (1, 2, both)}
