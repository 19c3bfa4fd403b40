"""How a node authenticates: SCRAM's users are those of its image, and an unknown user takes the same steps as a known
one. Steps are counted, because seconds depend on the machine: a wrong user would show by a call more or less.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest

from pykraft.broker.requests.authentication import ScramUsers, authentications
from pykraft.broker.settings.config import read_node_config
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.protocol.messages.records import UserScramCredentialRecord
from pykraft.security.mechanism import PLAIN, Salting, SaslAuthenticationError
from pykraft.security.scram import ScramClient, ScramMechanism, compute, new_credential
from tests.unit.broker.settings.test_sasl_config import NODE

SHA_256, SHA_512 = ScramMechanism


def image(*users: str, iterations: int = 4096, seed: int = 1) -> MetadataImage:
    """One in which these users have the password "secret"."""
    found = {}
    for user in users:
        credential = new_credential(SHA_256, b"secret", iterations, Random(f"{user} {seed}"))
        record = UserScramCredentialRecord(name=user, mechanism=1, **credential._asdict())
        found[user, 1] = record
    return MetadataImage(**{**vars(EMPTY_IMAGE), "scram_credentials": found})


class Steps:
    """Counts the calls of functions, Python's and C's."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, frame: FrameType, event: str, what: Any) -> None:
        if event in ("call", "c_call"):
            self.counts[frame.f_code.co_qualname if event == "call" else what.__qualname__] += 1

    def of(self, action: Callable[[], Any]) -> Counter[str]:
        self.counts = Counter()
        sys.setprofile(self.note)
        try:
            action()
        except SaslAuthenticationError:
            pass
        finally:
            sys.setprofile(None)
        return self.counts


def steps(mechanism: str, user: str, password: str) -> list[Counter[str]]:
    """The server's steps for each token of a login that fails."""
    how = authentications(read_node_config(NODE), lambda: KNOWN, "cluster", Random(7))["CLIENTS"]
    server, counted = how.begin(mechanism), Steps()
    server_of_before = how.begin(mechanism)
    if mechanism == PLAIN:
        return [counted.of(lambda: server.evaluate(f"\0{user}\0{password}".encode()))]
    client = ScramClient(SHA_256, user, password, Random(3))
    server_of_before.evaluate(client.first())  # the first question after a change takes a look at all
    first = counted.of(lambda: client.__dict__.update(asked=server.evaluate(client.first())))
    work = client.evaluate(client.__dict__["asked"])
    assert isinstance(work, Salting)
    final = client.go_on(compute(work))
    return [first, counted.of(lambda: server.evaluate(final))]


KNOWN = image("alice")


@pytest.mark.parametrize("mechanism", [PLAIN, "SCRAM-SHA-256"])
def test_an_unknown_user_takes_the_same_steps_as_a_wrong_password(mechanism: str) -> None:
    assert steps(mechanism, "alice", "wrong") == steps(mechanism, "mallo", "wrong")


def test_a_change_holds_at_once_and_another_mechanism_is_another_credential() -> None:
    images = [EMPTY_IMAGE]
    users = ScramUsers(lambda: images[-1], "cluster")
    assert users.credential(SHA_256, "alice")[1] is False
    images.append(image("alice"))
    credential, is_known = users.credential(SHA_256, "alice")
    assert is_known
    assert credential.stored_key == images[-1].scram_credentials["alice", 1].stored_key
    assert users.credential(SHA_512, "alice")[1] is False
    images.append(image("alice", seed=2))
    assert users.credential(SHA_256, "alice")[0] != credential
    images.append(EMPTY_IMAGE)
    assert users.credential(SHA_256, "alice")[1] is False


def test_an_unknown_user_has_the_same_salt_on_every_node_and_the_iterations_of_the_others() -> None:
    nodes = [ScramUsers(lambda: image("alice", iterations=8192), "cluster") for _ in range(2)]
    found = [users.credential(SHA_256, "mallory")[0] for users in nodes]
    assert found[0] == found[1]
    assert found[0].iterations == 8192
    assert found[0] != nodes[0].credential(SHA_256, "mallorz")[0]
    other = ScramUsers(lambda: image("alice", seed=2), "cluster")
    assert other.credential(SHA_256, "mallory")[0].salt != found[0].salt, "the secret is the cluster's own"
