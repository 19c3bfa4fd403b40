"""CreateTopics and DeleteTopics: every way in which they are refused, and what is made when they are not."""

from __future__ import annotations

from pykraft.common.errors import ErrorCode
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import create, delete, new_topic, versions

NOBODY = Uuid(bytes(15) + b"\xee")
ALL = (1, 2, 3)


def test_each_version_makes_and_deletes(talk: Dialogue) -> None:
    for version in versions(CreateTopicsRequest):
        name = f"topics-{version}"
        talk.to().ask(create(new_topic(name, assignments=[(0, [1, 2]), (1, [3, 1])])), version)
        talk.to().ask(delete(name), min(version, DeleteTopicsRequest.versions[1]))
    talk.to().ask(create(new_topic("topics-1", 1, 1)), 4)
    talk.to().ask(delete("topics-1"), 1)


def test_numbers_may_be_left_to_the_cluster(talk: Dialogue) -> None:
    for says, partitions, factor in (("both", -1, -1), ("partitions", -1, 3), ("replicas", 4, -1), ("none", 4, 3)):
        name = f"topics-default-{says}"
        talk.to().ask(create(new_topic(name, partitions, factor)), 7)
        talk.to().ask(delete(name), 6)


def test_names_that_are_not_allowed(talk: Dialogue) -> None:
    for says, name in {
        "nothing": "",
        "a dot": ".",
        "two dots": "..",
        "three dots": "...",
        "249 letters": "a" * 249,
        "250 letters": "a" * 250,
        "a slash": "a/b",
        "a space": "a b",
        "a letter of another alphabet": "größe",
        "a zero": "a\0b",
        "a colon": "a:b",
        "the metadata topic's": "__cluster_metadata",
    }.items():
        talk.to().ask(create(new_topic(name, 1, 1), validate_only=True), 7, says)


def test_names_that_collide(talk: Dialogue) -> None:
    talk.to().ask(create(new_topic("topics.a_b", 1, 1)), 7)
    for name in ("topics.a_b", "topics_a.b", "topics_a_b", "topics.a.b", "topics-a-b"):
        talk.to().ask(create(new_topic(name, 1, 1), validate_only=True), 7, name)
    talk.to().ask(
        create(new_topic("topics.c_d", 1, 1), new_topic("topics_c_d", 1, 1), validate_only=True), 7, "at once"
    )
    talk.to().ask(delete("topics.a_b"), 6)


def test_numbers_that_are_not_allowed(talk: Dialogue) -> None:
    for says, partitions, factor in (
        ("no partition", 0, 1),
        ("-2 partitions", -2, 1),
        ("no replica", 1, 0),
        ("-2 replicas", 1, -2),
        ("four replicas", 1, 4),
        ("32767 replicas", 1, 32767),
        ("10000 partitions", 10_000, 1),
        ("10001 partitions", 10_001, 1),
    ):
        talk.to().ask(create(new_topic("topics-numbers", partitions, factor), validate_only=True), 7, says)


def test_assignments_that_are_not_allowed(talk: Dialogue) -> None:
    for says, assignments in {
        "no replica": [(0, [])],
        "one replica twice": [(0, [1, 1])],
        "a broker that is not there": [(0, [1, 9])],
        "broker -1": [(0, [-1])],
        "not from 0 on": [(1, [1])],
        "with a gap": [(0, [1]), (2, [2])],
        "partition -1": [(-1, [1]), (0, [1])],
        "one partition twice": [(0, [1]), (0, [2])],
        "different numbers of replicas": [(0, [1, 2]), (1, [3])],
        "out of order": [(1, [1]), (0, [2])],
    }.items():
        talk.to().ask(create(new_topic("topics-assigned", assignments=assignments), validate_only=True), 7, says)
    for partitions, factor in ((1, -1), (-1, 1), (1, 1)):
        topic = new_topic("topics-assigned", partitions, factor, assignments=[(0, [1])])
        talk.to().ask(create(topic, validate_only=True), 7, f"and {partitions}, {factor}")


def test_settings(talk: Dialogue) -> None:
    for says, configs in {
        "one that is not there": [("no.such.setting", "1")],
        "without a name": [("", "1")],
        "null": [("retention.ms", None)],
        "no number": [("retention.ms", "soon")],
        "empty": [("retention.ms", "")],
        "too small": [("min.insync.replicas", "0")],
        "no policy": [("cleanup.policy", "burn")],
        "two policies": [("cleanup.policy", "compact,delete")],
        "a codec": [("compression.type", "brotli")],
        "a segment that is too small": [("segment.bytes", "10")],
        "one of a broker": [("log.dirs", "/tmp")],
        "twice": [("retention.ms", "1"), ("retention.ms", "2")],
        "a good and a bad one": [("retention.ms", "1"), ("no.such.setting", "1")],
        "good ones": [("retention.ms", "1000"), ("cleanup.policy", "compact"), ("max.message.bytes", "100")],
        "blanks around": [("retention.ms", " 1000 ")],
        "capitals": [("cleanup.policy", "Compact")],
    }.items():
        talk.to().ask(create(new_topic("topics-settings", 1, 1, configs=configs), validate_only=True), 7, says)


def test_the_settings_of_a_new_topic_are_told(talk: Dialogue) -> None:
    configs = [("retention.ms", "1000"), ("cleanup.policy", "compact,delete"), ("preallocate", "true")]
    for version in (5, 7):
        answer = talk.to().ask(create(new_topic("topics-told", 1, 1, configs=configs), validate_only=True), version)
        for config in sorted(answer.topics[0].configs, key=lambda config: config.name):
            flags = f"source {config.config_source} {config.read_only} {config.is_sensitive}"
            talk.write(f"  {config.name}={config.value} {flags}")


def test_validation_makes_nothing(talk: Dialogue) -> None:
    for _ in range(2):
        talk.to().ask(create(new_topic("topics-validated", 2, 3), validate_only=True), 7)


def test_each_topic_is_judged_alone(talk: Dialogue) -> None:
    talk.to().ask(create(new_topic("topics-x", 1, 1), new_topic("a/b", 1, 1), new_topic("topics-y", 1, 9)), 7)
    talk.to().ask(create(new_topic("topics-x", 1, 1), new_topic("topics-z", 1, 1)), 7)
    talk.to().ask(delete("topics-x", "topics-y", "topics-z"), 6)


def test_a_topic_is_named_once(talk: Dialogue) -> None:
    twice = [new_topic("topics-twice", 1, 1), new_topic("topics-twice", 2, 1)]
    talk.to().ask(create(*twice, new_topic("topics-once", 1, 1)), 7)
    talk.to().ask(create(*twice, new_topic("topics-twice", 3, 1)), 7, "three times")
    talk.to().ask(delete("topics-once", "topics-once"), 6)
    talk.to().ask(delete("topics-once", "topics-once"), 5, "by names")
    talk.to().ask(delete("topics-once"), 6)


def test_a_request_may_be_empty(talk: Dialogue) -> None:
    talk.to().ask(create(), 7)
    for version in versions(DeleteTopicsRequest):
        talk.to().ask(delete(), version)


def test_what_is_deleted_must_exist(talk: Dialogue) -> None:
    for version in versions(DeleteTopicsRequest):
        talk.to().ask(delete("topics-nowhere"), version)
    for says, topic in {
        "an id": NOBODY,
        "the id zero": ZERO_UUID,
        "a name and an id": ("topics-nowhere", NOBODY),
        "no name at all": "",
        "a name that is not allowed": "a/b",
    }.items():
        talk.to().ask(delete(topic), 6, says)


def test_a_topic_is_deleted_by_name_or_id(talk: Dialogue) -> None:
    first = talk.topic("topics-first")
    second = talk.topic("topics-second")
    talk.topic("topics-third")
    talk.to().ask(delete(("topics-first", first)), 6, "by both")
    talk.to().ask(delete(first, "topics-second", second), 6, "one by its id, one by its name and by its id")
    talk.to().ask(delete(first, "topics-third", NOBODY), 6, "one that is gone, one that is not")
    talk.to().ask(delete("topics-first", "topics-second", "topics-third"), 6, "all")


def test_a_topic_made_again_is_another(talk: Dialogue) -> None:
    first = talk.topic("topics-again")
    talk.to().ask(delete("topics-again"), 6)
    talk.to().ask(create(new_topic("topics-again", assignments=[(0, [1])])), 7)
    talk.to().ask(delete(first), 6, "the first one's id")
    talk.to().ask(delete("topics-again"), 6)


def test_topics_are_made_together_in_one_batch_or_not_at_all(talk: Dialogue) -> None:
    """A batch of metadata has at most 8 MiB, and what a request asks for becomes true together."""
    numbers = ("flush.messages", "flush.ms", "retention.bytes", "retention.ms", "segment.ms", "segment.jitter.ms")
    padded = [(name, " " * 32_000 + "1") for name in numbers]
    for count in (45, 40):
        request = create(*(new_topic(f"topics-large-{n}", 1, 1, configs=padded) for n in range(count)))
        answer = talk.to().connection.ask(request, 4)
        errors = {ErrorCode.of(topic.error_code).name for topic in answer.topics}
        talk.write(f"> {count} topics of 192 kB", f"  {sorted(errors)}")
    talk.to().connection.ask(delete(*(f"topics-large-{n}" for n in range(40))), 5)
    talk.to().ask(create(new_topic("topics-small", 1, 1), validate_only=True), 7)
