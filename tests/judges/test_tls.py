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
from tests.harness import apache_kafka
from tests.harness.certificates import keystore
from tests.harness.java_broker import JavaBroker, files_of_both, shared
from tests.harness.secure_clients import (
    LIMIT_S,
    allow,
    end_offsets,
    leaders,
    of_librdkafka,
    read_with_librdkafka,
    tool,
    write_with_librdkafka,
)
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

BOTH = frozenset({1, 2})


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
    return of_librdkafka(cluster.secure_files, cluster.bootstrap_servers, name)


def test_librdkafka_writes_and_reads_with_a_certificate(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        allow(admin, "allow rd ALL TOPIC flights", "allow rd ALL GROUP g-rd")
    values, settings = [b"%d" % number * 1000 for number in range(100)], _of_librdkafka(cluster, "rd")
    write_with_librdkafka(settings, "flights", values)
    assert read_with_librdkafka(settings, "flights", "g-rd", 100) == values


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


@pytest.mark.usefixtures("java")
def test_java_writes_and_reads_with_a_certificate(cluster: Cluster) -> None:
    cluster.create_topic("java")
    with cluster.admin() as admin:
        allow(admin, "allow duke ALL TOPIC java", "allow duke ALL GROUP g-duke")
    words = "".join(f"value {number}\n" for number in range(100))
    tool(cluster, "duke", "org.apache.kafka.tools.ConsoleProducer", "--topic", "java", words=words)
    where = ("--topic", "java", "--group", "g-duke", "--from-beginning", "--max-messages", "100")
    assert tool(cluster, "duke", "org.apache.kafka.tools.consumer.ConsoleConsumer", *where) == words


@pytest.mark.usefixtures("java")
def test_a_broker_of_apache_kafka_replicates_from_ours_and_ours_from_it_over_tls(tmp_path: pathlib.Path) -> None:
    files = files_of_both(tmp_path, "SSL")
    with (
        Cluster(1, security="SSL", timeouts="kafka", properties=shared(files), directory=tmp_path) as cluster,
        JavaBroker(cluster, files),
        Admin(**cluster.client_settings()) as admin,
    ):
        admin.create_topics([NewTopic("both", replica_assignments={0: [1, 2], 1: [2, 1]})])

        led = {(0, 1, BOTH), (1, 2, BOTH)}
        wait_until(lambda: leaders(admin, "both") == led, "each leads one", LIMIT_S)
        settings = _of_librdkafka(cluster, "admin")
        write_with_librdkafka(settings, "both", [b"%d" % number for number in range(50)], 2)
        assert end_offsets(settings, "both", 2) == [25, 25]
        assert leaders(admin, "both") == led
