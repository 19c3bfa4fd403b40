"""Notebook 21: what its eavesdropper reads and guesses, and what its matrix asks of a running broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykraft import Admin, Cluster, Producer
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.common.acl import AclOperation, AclResourceType, PatternType
from pykraft.common.errors import KafkaError
from pykraft.course.lessons.access import matrix as lessons_matrix
from pykraft.course.lessons.access.eve_lever import draw_overheard, overheard, shown
from pykraft.course.lessons.access.guarded_node import GuardedNode
from pykraft.course.lessons.access.lockout import MetadataWatch, controller_settings, open_by_default, refused, tried
from pykraft.course.lessons.access.matrix import AccessMatrix, rule
from pykraft.course.lessons.access.overheard import Overheard, explained
from pykraft.course.lessons.access.wiretap import Piece
from pykraft.protocol.messages.sasl import SaslAuthenticateRequest
from tests.harness.waiting import wait_until
from tests.notebooks.sections import NOTEBOOK

PASSWORD = "open sesame"


@pytest.fixture(scope="module")
def copies() -> Iterator[dict[str, Overheard]]:
    """What is overheard of one record, over each kind of connection; and after it each login in the clear, replayed."""
    node = GuardedNode("alice", PASSWORD)
    found = {}
    try:
        for name, settings in (
            ("PLAIN", node.login("PLAIN")),
            ("SCRAM", node.login("SCRAM-SHA-256")),
            ("TLSv1.2", node.sealed("TLSv1.2")),
            ("TLSv1.3", node.sealed()),
        ):
            with node.overheard() as found[name], Producer(**settings) as alice:
                alice.send("flights", value=b"gate B7").result(10)
        replays = {name: found[name].replayed(node.ports["CLEAR"]) for name in ("PLAIN", "SCRAM")}
        assert replays == {"PLAIN": "NONE", "SCRAM": "SASL_AUTHENTICATION_FAILED"}
        yield found
    finally:
        node.close()


def test_the_fields_of_a_plain_login_cover_it_and_name_the_password(copies: dict[str, Overheard]) -> None:
    frame, fields = explained(copies["PLAIN"].requests(SaslAuthenticateRequest)[0])
    assert [each.start for each in fields] == [0, *(each.end for each in fields[:-1])]
    assert fields[-1].end == len(frame)
    (password,) = (each for each in fields if each.name == "password")
    assert frame[password.start : password.end] == PASSWORD.encode()


def test_only_the_right_word_makes_the_proof_of_a_scram_login(copies: dict[str, Overheard]) -> None:
    assert copies["SCRAM"].password_of(["sesame", PASSWORD, "never tried"])[0] == PASSWORD
    assert copies["SCRAM"].password_of(["sesame", PASSWORD.upper()])[0] is None


def test_certificates_are_readable_in_tls_1_2_alone(copies: dict[str, Overheard]) -> None:
    shown = {name: copies[name].names("alice", "node-1", "localhost") for name in ("TLSv1.2", "TLSv1.3")}
    assert shown == {"TLSv1.2": ["alice", "node-1", "localhost"], "TLSv1.3": ["localhost"]}
    assert b"gate B7" in copies["PLAIN"] and b"gate B7" not in copies["TLSv1.2"]


def test_a_record_of_tls_has_the_size_that_its_header_says() -> None:
    sent = b"\x17\x03\x03\x00\x02ab" + b"\x16\x03\x03\x00\x01c"
    pieces = [
        Piece(1, False, 0.0, sent[:9]),
        Piece(2, False, 0.0, b"\x17\x03\x03\x00\x01d"),
        Piece(1, False, 0.0, sent[9:]),
    ]
    copy = Overheard([], pieces)
    assert [(each.kind, each.size_bytes) for each in copy.records] == [
        ("application data", 2),
        ("handshake", 1),
        ("application data", 1),
    ]
    assert copy.sizes == [2, 1]


@pytest.mark.parametrize(
    ("password", "record", "words"),
    [
        ("abc", "gate B7", "password: type 4 to 30 letters, digits or spaces"),
        (PASSWORD, "gäte B7", "record: type 4 to 30 letters"),
        (PASSWORD, "flight", "'flight' is in alice, flights, localhost or the other text: type another one"),
    ],
)
def test_texts_that_eve_would_find_by_chance_are_refused_in_a_sentence(password: str, record: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        draw_overheard("SSL", "PLAIN", password, record)


def test_the_encrypted_messages_of_the_first_picture_are_those_that_their_captions_say() -> None:
    """TLS 1.3 adds 22 bytes to each: five of the header, the kind, and sixteen that prove the rest."""
    sizes = []
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        copy = overheard(protocol, "PLAIN", PASSWORD, "gate B7")
        sizes.append([len(message.data) for _, message in shown(copy, protocol, "PLAIN")][-2:])
    assert sizes[1] == [size + 22 for size in sizes[0]]


def test_a_rule_is_read_from_words() -> None:
    found = rule("deny * READ TOPIC fl... from 10.0.0.1")
    assert found.principal == "User:*" and found.host == "10.0.0.1" and found.operation is AclOperation.READ
    assert (found.resource_type, found.resource_name, found.pattern_type) == (
        AclResourceType.TOPIC,
        "fl",
        PatternType.PREFIXED,
    )


def test_the_matrix_turns_with_a_rule_and_back_and_clients_see_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(1, security="SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER}) as cluster:
        cluster.create_topic("flights")
        matrix = AccessMatrix(cluster, ["alice"])
        before = matrix.cells
        matrix.add("allow alice ALL TOPIC fl...", "deny alice READ TOPIC flights")
        cells = matrix.cells
        assert cells["fetch from flights", "alice"] == "denied" and cells["produce to flights", "alice"] == "yes"
        assert matrix.asked_for_real() == {
            ("produce to flights", "alice"): "yes",
            ("fetch from flights", "alice"): "no",
            ("describe flights", "alice"): "yes",
        }
        assert "changed" not in matrix.figure("first").text
        assert not matrix.toggle("deny alice READ TOPIC flights")
        assert "changed: fetch from flights by alice" in matrix.figure("second").text
        with cluster.record_frames(of_nodes=True) as frames:
            assert set(tried(cluster, rule("allow alice ALL TOPIC fl...")).values()) == {"done"}
        assert refused(frames.exchanges) == {}
        assert matrix.cells == before
        monkeypatch.setattr(lessons_matrix, "is_headless", lambda: False)
        monkeypatch.setattr(lessons_matrix, "is_notebook", lambda: True)
        panel: Any = matrix.levers("Click", [("allow alice WRITE TOPIC flights", "caption")])
        button, picture = panel.children
        for is_pressed in (True, False):
            button.value = is_pressed
            assert ("allow alice WRITE TOPIC flights: added" in picture.value) is is_pressed
            assert (matrix.cells["produce to flights", "alice"] == "yes") is is_pressed


@pytest.mark.long
def test_one_rule_that_allows_locks_out_the_brokers_and_rules_at_the_controller_let_them_back_in() -> None:
    harmless = rule("allow alice DESCRIBE CLUSTER kafka-cluster")
    with Cluster(2, controllers=1, security="SSL", properties=open_by_default()) as cluster:
        watch = MetadataWatch(cluster)
        assert watch.has_caught_up()
        with cluster.record_frames(of_nodes=True) as frames, cluster.admin() as admin:
            admin.create_acls([harmless])
            wait_until(lambda: watch.behind() > 1, "the brokers stand still")
        assert {"BrokerHeartbeat, at node 101", "Fetch, at node 101"} <= refused(frames.exchanges).keys()
        with Admin(**controller_settings(cluster)) as admin:
            admin.create_acls([rule(f"allow node-{n} CLUSTER_ACTION CLUSTER kafka-cluster") for n in (1, 2)])
        assert watch.has_caught_up()


@pytest.mark.long
def test_without_a_super_user_the_controllers_file_and_a_restart_are_the_way_back_in() -> None:
    harmless = rule("allow alice DESCRIBE CLUSTER kafka-cluster")
    properties = {**open_by_default(), "super.users": "User:node-101"}
    with Cluster(2, controllers=1, security="SSL", properties=properties) as cluster:
        with cluster.admin() as admin:
            admin.create_acls([harmless])
        refused_too = Admin(**controller_settings(cluster), default_api_timeout_ms=1500)
        with refused_too as admin, pytest.raises(KafkaError):
            admin.delete_acls([harmless])
        cluster.kill(101)
        cluster._extra["super.users"] = "User:node-101;User:admin"
        cluster.restart(101)
        with Admin(**controller_settings(cluster)) as admin:
            admin.delete_acls([harmless])
        watch = MetadataWatch(cluster)
        assert watch.has_caught_up()


def test_the_committed_notebook_shows_the_password_in_plains_login_and_nowhere_else() -> None:
    (path,) = NOTEBOOK.parent.glob("21_*.ipynb")
    shown = [json.dumps(cell.get("outputs", [])) for cell in json.loads(path.read_text())["cells"]]
    with_it = [number for number, text in enumerate(shown) if PASSWORD in text]
    assert len(with_it) == 3, "the first picture, the picture of the login, and the word that was guessed"
    assert not [text for text in shown if "PRIVATE KEY" in text]
