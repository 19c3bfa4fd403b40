"""pykraft/SKIPPED.md is complete: what Kafka has is either served here or named there, and never both."""

from __future__ import annotations

import pathlib
import pkgutil
import re
from collections import Counter

import kio.schema

import pykraft.broker.settings.config as nodes
import pykraft.common.settings.topic_config as topics
import pykraft.controller.config as controllers
import pykraft.raft.config as quorum
from pykraft.common.settings.config import Key
from pykraft.protocol.api import ListenerKind, advertised, apis
from tests.harness.tree import ROOT

TEXT = (ROOT / "pykraft" / "SKIPPED.md").read_text()
NAMED = set(re.findall(r"`([^`]+)`", TEXT))
SINCE_4_4 = {"UnregisterController"}
"""The other implementation was made from the message files of Kafka 4.3."""
# One that is served in part is named there.
BOTH = {"InitProducerId"}


def known_to_kafka() -> set[str]:
    """The APIs of another implementation of the protocol, made from Kafka's own message files."""
    folders = [
        pathlib.Path(path) / module.name for path in kio.schema.__path__ for module in pkgutil.iter_modules([path])
    ]
    with_requests = [folder.name for folder in folders if list(folder.glob("v*/request.py"))]
    return {"".join(part.capitalize() for part in name.split("_")) for name in with_requests}


def served_here() -> set[str]:
    return {apis[key].name for kind in ListenerKind for key, _, _ in advertised(kind)}


def test_the_other_implementation_knows_what_is_served_here() -> None:
    assert served_here() - SINCE_4_4 <= known_to_kafka()


def test_each_api_of_kafka_is_served_or_named() -> None:
    missing = known_to_kafka() - served_here() - NAMED
    assert not missing, f"neither advertised nor named in SKIPPED.md: {sorted(missing)}"


def test_no_api_is_both_served_and_named() -> None:
    assert served_here() & NAMED == BOTH


def test_each_setting_that_has_no_effect_is_named() -> None:
    words = {path: Counter(re.findall(r"\w+", path.read_text())) for path in (ROOT / "pykraft").rglob("*.py")}
    idle = []
    for module in (topics, controllers, quorum, nodes):
        assert module.__file__ is not None
        home = pathlib.Path(module.__file__)
        for name, key in vars(module).items():
            if isinstance(key, Key):
                elsewhere = sum(count[name] for path, count in words.items() if path != home)
                # At home are its definition, and its place in the list.
                if not elsewhere and words[home][name] <= 2 and key.name not in NAMED:
                    idle.append(key.name)
    assert not idle, f"taken, of no effect, and not named in SKIPPED.md: {idle}"
