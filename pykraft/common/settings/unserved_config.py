"""Those settings of Kafka's nodes that pykraft does not serve: what becomes of each.

A file that was written for Kafka starts a node here. Each setting of Kafka is served (`broker.settings.config`), or is
in one of the two tables below:

* *Without effect*: the node warns once, and goes on. The table says by group why nothing follows from the setting, and
  SKIPPED.md what its user loses.
* *Refused*: the node does not start where a value other than the default is set, because ignoring it would be
  dangerous: records, rights or secrets depend on it.

A row is name, type, default, the values allowed (``1..``, ``0..10``, ``a|b``), and words: `live`, Kafka changes it
while brokers run; `live-of-one`, for one broker at a time; `internal`, clients do not see it. A default ``-`` is null.

Names and defaults are those of org.apache.kafka.server.config.AbstractKafkaConfig of Kafka 4.4, with what it has
dropped since 4.2; which of them are live says org.apache.kafka.server.config.DynamicBrokerConfig.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pykraft.common.settings.config import Key, as_text, boolean, decimal, integer, names, secret, string

_CLASSES = {
    name: f"org.apache.kafka.{package}.{name}"
    for name, package in {
        "DefaultJwtRetriever": "common.security.oauthbearer",
        "DefaultJwtValidator": "common.security.oauthbearer",
        "DefaultKafkaPrincipalBuilder": "common.security.authenticator",
        "DefaultShareGroupDLQManager": "server.share.dlq",
        "DefaultStatePersister": "server.share.persister",
        "JmxReporter": "common.metrics",
        "TopicBasedRemoteLogMetadataManager": "server.log.remote.metadata.storage",
    }.items()
}
"""Java's classes, by the names that they have in the tables."""

_WITHOUT_EFFECT: dict[str, str] = {
    "one thread does a node's work, so numbers of threads change nothing": """
        background.threads int 10 1.. live
        group.coordinator.background.threads int 2 1..
        group.coordinator.threads int 4 1..
        log.cleaner.threads int 1 0.. live
        num.recovery.threads.per.data.dir int 2 1.. live
        num.replica.alter.log.dirs.threads int -
        num.replica.fetchers int 1 1.. live
    """,
    "memory is taken as it is needed, and the system chooses the sizes of buffers": """
        group.coordinator.cached.buffer.max.bytes int 1048588 524288.. live
        log.cleaner.io.buffer.size int 524288 0.. live
        offsets.load.buffer.size int 5242880 1..
        replica.socket.receive.buffer.bytes int 65536
        transaction.state.log.load.buffer.size int 5242880 1..
    """,
    "the requests that wait are limited by their number, queued.max.requests, and not by their bytes": """
        queued.max.request.bytes long -1
    """,
    "a connection to another node is tried for as long as the request that needs it": """
        socket.connection.setup.timeout.max.ms long 30000
        socket.connection.setup.timeout.ms long 10000
    """,
    "a request leaves its purgatory when it is answered": """
        delete.records.purgatory.purge.interval.requests int 1
        fetch.purgatory.purge.interval.requests int 1000
        producer.purgatory.purge.interval.requests int 1000
    """,
    "checkpoints are written with those of replica.high.watermark.checkpoint.interval.ms": """
        log.flush.offset.checkpoint.interval.ms int 60000 0..
        log.flush.start.offset.checkpoint.interval.ms int 60000 0..
    """,
    "limits of replication count over eleven samples of one second": """
        alter.log.dirs.replication.quota.window.num int 11 1..
        alter.log.dirs.replication.quota.window.size.seconds int 1 1..
        replication.quota.window.num int 11 1..
        replication.quota.window.size.seconds int 1 1..
    """,
    "a broker whose directory fails says so at once, and goes on without an answer": """
        log.dir.failure.timeout.ms long 30000 1..
    """,
    "a broker always hands over what it leads before it stops": """
        controlled.shutdown.enable boolean true
    """,
    "a node tries to start until it is stopped": """
        initial.broker.registration.timeout.ms int 60000
        server.max.startup.time.ms long 9223372036854775807 0.. internal
    """,
    "a fetch of the metadata log brings up to 8 MiB": """
        controller.quorum.fetch.max.bytes int 1048576 1..
        controller.quorum.fetch.snapshot.max.bytes int 1048576 1..
    """,
    "the controller does not time its events, and deletes old snapshots at once": """
        controller.performance.always.log.threshold.ms long 2000 0.. internal
        controller.performance.sample.period.ms long 60000 100.. internal
        internal.metadata.delete.delay.millis long 60000 internal
    """,
    "metrics are read at pykraft.metrics.listener, and go to no reporter": """
        kafka.metrics.polling.interval.secs int 10 1..
        kafka.metrics.reporters list ""
        metric.reporters list JmxReporter live
        metrics.num.samples int 2 1..
        metrics.recording.level string INFO
        metrics.sample.window.ms long 30000 1..
    """,
    "clients' metrics are not collected": """
        telemetry.max.bytes int 1048576 1..
    """,
    "the internal topics are written without compression": """
        offsets.topic.compression.codec int 0
    """,
    "consumer groups of both protocols are served, whatever the list says, and groups of other kinds are not": """
        group.coordinator.rebalance.protocols list classic,consumer,streams consumer|classic|share|streams
    """,
    "a group's assignment is computed as soon as it changes": """
        group.consumer.assignment.interval.ms int 1000 0.. live
        group.consumer.assignor.offload.enable boolean true live internal
        group.consumer.max.assignment.interval.ms int 15000 0..
        group.consumer.min.assignment.interval.ms int 0 0..
    """,
    "two-phase commit is not built, and a producer that asks for it is refused": """
        transaction.two.phase.commit.enable boolean false
    """,
    "there are no unstable versions of requests and features": """
        unstable.api.versions.enable boolean false internal
        unstable.feature.versions.enable boolean false internal
    """,
    "there are no share groups": """
        errors.deadletterqueue.auto.create.topics.enable boolean false live
        errors.deadletterqueue.topic.name.prefix string dlq. live
        group.share.assignment.interval.ms int 1000 0.. live
        group.share.assignor.offload.enable boolean true live internal
        group.share.assignors list simple
        group.share.delivery.count.limit int 5 2..10
        group.share.dlq.manager.class.name string DefaultShareGroupDLQManager internal
        group.share.enable boolean false internal
        group.share.heartbeat.interval.ms int 5000 1..
        group.share.initialize.retry.interval.ms int 30000 1.. internal
        group.share.max.assignment.interval.ms int 15000 0..
        group.share.max.delivery.count.limit int 10 5..25
        group.share.max.heartbeat.interval.ms int 15000 1..
        group.share.max.partition.max.record.locks int 4000 2000..10000
        group.share.max.record.lock.duration.ms int 60000 30000..3600000
        group.share.max.session.timeout.ms int 60000 1..
        group.share.max.share.sessions int 2000 1..
        group.share.max.size int 200 1..1000
        group.share.min.assignment.interval.ms int 0 0..
        group.share.min.delivery.count.limit int 2 2..5
        group.share.min.heartbeat.interval.ms int 5000 1..
        group.share.min.partition.max.record.locks int 100 100..2000
        group.share.min.record.lock.duration.ms int 15000 1000..30000
        group.share.min.session.timeout.ms int 45000 1..
        group.share.partition.max.record.locks int 2000 100..10000
        group.share.persister.class.name string DefaultStatePersister internal
        group.share.record.lock.duration.ms int 30000 1000..3600000
        group.share.session.timeout.ms int 45000 1..
        share.coordinator.append.linger.ms int -1 -1..
        share.coordinator.cached.buffer.max.bytes int 1048588 524288.. live
        share.coordinator.cold.partition.snapshot.interval.ms int 300000 1.. internal
        share.coordinator.load.buffer.size int 5242880 1..
        share.coordinator.snapshot.update.records.per.snapshot int 500 0..500
        share.coordinator.state.topic.compression.codec int 0
        share.coordinator.state.topic.min.isr short 2 1..
        share.coordinator.state.topic.num.partitions int 50 1..
        share.coordinator.state.topic.prune.interval.ms int 300000 1.. internal
        share.coordinator.state.topic.replication.factor short 3 1..
        share.coordinator.state.topic.segment.bytes int 104857600 1..
        share.coordinator.threads int 1 1..
        share.coordinator.write.timeout.ms int 5000 1..
        share.fetch.purgatory.purge.interval.requests int 1000
    """,
    "there are no streams groups": """
        group.streams.acceptable.recovery.lag long 10000 0.. internal
        group.streams.assignment.interval.ms int 1000 0.. live
        group.streams.assignor.offload.enable boolean true live internal
        group.streams.assignors list sticky
        group.streams.heartbeat.interval.ms int 5000 1..
        group.streams.initial.rebalance.delay.ms int 3000 0..
        group.streams.max.assignment.interval.ms int 15000 0..
        group.streams.max.heartbeat.interval.ms int 15000 1..
        group.streams.max.session.timeout.ms int 60000 1..
        group.streams.max.size int 2147483647 1..
        group.streams.max.standby.replicas int 2 0..
        group.streams.max.warmup.replicas int 20 0.. internal
        group.streams.min.assignment.interval.ms int 0 0..
        group.streams.min.heartbeat.interval.ms int 5000 1..
        group.streams.min.session.timeout.ms int 45000 1..
        group.streams.min.task.offset.interval.ms int 15000 1.. internal
        group.streams.num.standby.replicas int 0 0..
        group.streams.num.warmup.replicas int 2 0.. internal
        group.streams.rack.aware.assignment.tags list ""
        group.streams.session.timeout.ms int 45000 1..
        group.streams.task.offset.interval.ms int 60000 1.. internal
        group.streams.topology.description.plugin.class class -
    """,
    "there is no tiered storage: brokers keep all of a log on their own disks": """
        follower.fetch.last.tiered.offset.enable boolean false live
        remote.fetch.max.wait.ms int 500 1.. live
        remote.list.offsets.request.timeout.ms long 30000 1.. live
        remote.log.index.file.cache.total.size.bytes long 1073741824 1.. live
        remote.log.index.file.cache.ttl.ms long 900000 -1.. internal
        remote.log.manager.copier.thread.pool.size int 10 1.. live
        remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 1.. live
        remote.log.manager.copy.quota.window.num int 11 1..
        remote.log.manager.copy.quota.window.size.seconds int 1 1..
        remote.log.manager.expiration.thread.pool.size int 10 1.. live
        remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 1.. live
        remote.log.manager.fetch.quota.window.num int 11 1..
        remote.log.manager.fetch.quota.window.size.seconds int 1 1..
        remote.log.manager.follower.thread.pool.size int 2 1.. live
        remote.log.manager.task.interval.ms long 30000 1..
        remote.log.manager.task.retry.backoff.max.ms long 30000 1.. internal
        remote.log.manager.task.retry.backoff.ms long 500 1.. internal
        remote.log.manager.task.retry.jitter double 0.2 0..0.5 internal
        remote.log.manager.thread.pool.size int 2 1..
        remote.log.metadata.custom.metadata.max.bytes int 128 0..
        remote.log.metadata.manager.class.name string TopicBasedRemoteLogMetadataManager
        remote.log.metadata.manager.class.path string -
        remote.log.metadata.manager.impl.prefix string rlmm.config.
        remote.log.metadata.manager.listener.name string -
        remote.log.reader.max.pending.tasks int 100 1..
        remote.log.reader.threads int 10 1.. live
        remote.log.storage.manager.class.name string -
        remote.log.storage.manager.class.path string -
        remote.log.storage.manager.impl.prefix string rsm.config.
    """,
    "there are no delegation tokens, and a login with one fails": """
        delegation.token.expiry.check.interval.ms long 3600000 1..
        delegation.token.expiry.time.ms long 86400000 1..
        delegation.token.max.lifetime.ms long 604800000 1..
        delegation.token.secret.key password -
    """,
    "clients and nodes log in with PLAIN and SCRAM, and a listener with another mechanism is refused": """
        sasl.kerberos.kinit.cmd string /usr/bin/kinit live-of-one
        sasl.kerberos.min.time.before.relogin long 60000 live-of-one
        sasl.kerberos.principal.to.local.rules list DEFAULT live-of-one
        sasl.kerberos.service.name string - live-of-one
        sasl.kerberos.ticket.renew.jitter double 0.05 live-of-one
        sasl.kerberos.ticket.renew.window.factor double 0.8 live-of-one
        sasl.login.connect.timeout.ms int -
        sasl.login.read.timeout.ms int -
        sasl.login.refresh.buffer.seconds short 300 live-of-one
        sasl.login.refresh.min.period.seconds short 60 live-of-one
        sasl.login.refresh.window.factor double 0.8 live-of-one
        sasl.login.refresh.window.jitter double 0.05 live-of-one
        sasl.login.retry.backoff.max.ms long 10000
        sasl.login.retry.backoff.ms long 100
        sasl.oauthbearer.allow.unverified.audience boolean false
        sasl.oauthbearer.allow.unverified.issuer boolean false
        sasl.oauthbearer.assertion.algorithm string RS256 ES256|RS256
        sasl.oauthbearer.assertion.claim.aud string -
        sasl.oauthbearer.assertion.claim.exp.seconds int 300 0..86400
        sasl.oauthbearer.assertion.claim.iss string -
        sasl.oauthbearer.assertion.claim.jti.include boolean false
        sasl.oauthbearer.assertion.claim.nbf.seconds int 60 0..3600
        sasl.oauthbearer.assertion.claim.sub string -
        sasl.oauthbearer.assertion.file string -
        sasl.oauthbearer.assertion.private.key.file string -
        sasl.oauthbearer.assertion.private.key.passphrase password -
        sasl.oauthbearer.assertion.template.file string -
        sasl.oauthbearer.client.credentials.client.id string -
        sasl.oauthbearer.client.credentials.client.secret password -
        sasl.oauthbearer.clock.skew.seconds int 30
        sasl.oauthbearer.expected.audience list ""
        sasl.oauthbearer.expected.issuer string -
        sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
        sasl.oauthbearer.jwks.endpoint.url string -
        sasl.oauthbearer.jwt.retriever.class class DefaultJwtRetriever
        sasl.oauthbearer.jwt.validator.class class DefaultJwtValidator
        sasl.oauthbearer.scope string -
        sasl.oauthbearer.scope.claim.name string scope
        sasl.oauthbearer.sub.claim.name string sub
        sasl.oauthbearer.token.endpoint.url string -
    """,
    "a JAAS text is read under the name of its mechanism alone, as in Kafka: plain.sasl.jaas.config": """
        sasl.jaas.config password - live-of-one
    """,
    "TLS is OpenSSL's, and has no parts of Java's to choose from": """
        ssl.keymanager.algorithm string SunX509 live-of-one
        ssl.secure.random.implementation string - live-of-one
        ssl.trustmanager.algorithm string PKIX live-of-one
    """,
    "a certificate that takes another's place while a broker runs may have other names": """
        ssl.allow.dn.changes boolean false
        ssl.allow.san.changes boolean false
    """,
}
"""Rows by the reason why they have no effect."""

_REFUSED: dict[str, str] = {
    "alter.config.policy.class.name class -": ("without that class changes of settings would be taken that it refuses"),
    "client.quota.callback.class class -": "without that class clients would have other quotas",
    'config.providers list "" live': (
        "the placeholders ${...} of other settings would be taken for their values, for passwords too"
    ),
    "create.topic.policy.class.name class -": "without that class topics would be created that it refuses",
    "principal.builder.class class DefaultKafkaPrincipalBuilder live-of-one": (
        "without that class clients would have other names, and with them other rights"
    ),
    "remote.log.storage.system.enable boolean false": (
        "there is no tiered storage, and disks would fill with what ought to leave them"
    ),
    "sasl.client.callback.handler.class class -": "without that class a node would log in with other credentials",
    "sasl.login.callback.handler.class class -": "without that class a node would log in with other credentials",
    "sasl.login.class class -": "without that class a node would log in with other credentials",
    "sasl.server.callback.handler.class class -": "without that class clients would be let in by other passwords",
    "security.providers string -": "OpenSSL would encrypt where those classes should",
    "ssl.engine.factory.class class - live-of-one": "OpenSSL would decide whom to trust where that class should",
    "ssl.provider string - live-of-one": "OpenSSL would encrypt where that provider should",
}
"""Rows with what would follow if they were ignored."""

_RANGE = re.compile(r"(-?[\d.]+)\.\.(-?[\d.]*)")
_OF_LISTENER = re.compile(r"listener\.name\.[^.]+\.(.+)")


class Row(NamedTuple):
    """One setting of the tables."""

    key: Key[Any]
    reason: str
    """Why nothing follows from it, or what would if it were ignored."""
    words: frozenset[str]


def _row(text: str, reason: str, is_refused: bool = False) -> Row:
    name, kind, default, *rest = text.split()
    words = frozenset(rest) & {"live", "live-of-one", "internal"}
    allowed = next((word for word in rest if word not in words), "")
    default = "" if default == '""' else _CLASSES.get(default, default)
    key = _key(name, kind, default, allowed, f"{'refused' if is_refused else 'without effect'} here: {reason}")
    return Row(_refusing(key, reason) if is_refused else key, reason, words)


def _key(name: str, kind: str, default: str, allowed: str, meaning: str) -> Key[Any]:
    is_null = default == "-"
    key: Any
    span = _RANGE.fullmatch(allowed)
    smallest, largest = span.groups() if span else ("", "")
    match kind:
        case "boolean":
            key = boolean(name, default == "true", meaning)
        case "int" | "short" | "long":
            least, most = int(smallest) if smallest else None, int(largest) if largest else None
            key = integer(name, 0 if is_null else int(default), meaning, least, most, kind=kind)
        case "double":
            key = decimal(name, float(default), meaning, float(smallest or 0), float(largest or "inf"))
        case "list":
            key = names(
                name, [word for word in default.split(",") if word], meaning, allowed.split("|") if allowed else ()
            )
        case "password":
            return secret(name, meaning)
        case _:
            key = replace(string(name, default, meaning, allowed.split("|") if allowed else ()), kind=kind)
    return replace(key, default=None) if is_null else key


def _refusing(key: Key[Any], consequence: str) -> Key[Any]:
    """A key with no other value than its default."""

    def parse(text: str) -> Any:
        value = key.parse(text)
        if value != key.default and value not in ("", ()):
            raise ValueError(text)
        return key.default

    kept = f" or {as_text(key.default)}" if key.default not in (None, "", ()) else ""
    return replace(key, parse=parse, allowed=f"left out{kept}: {consequence}")


def _rows(tables: Mapping[str, str]) -> dict[str, Row]:
    found = [_row(line, reason) for reason, table in tables.items() for line in table.strip().splitlines()]
    return {row.key.name: row for row in found}


WITHOUT_EFFECT = _rows(_WITHOUT_EFFECT)
"""By name."""
REFUSED = {row.key.name: row for row in (_row(text, reason, is_refused=True) for text, reason in _REFUSED.items())}
"""By name."""
UNSERVED = WITHOUT_EFFECT | REFUSED
LIVE = frozenset(name for name, row in UNSERVED.items() if row.words & {"live", "live-of-one"})
LIVE_OF_ONE_BROKER = frozenset(name for name, row in UNSERVED.items() if "live-of-one" in row.words)
INTERNAL = frozenset(name for name, row in UNSERVED.items() if "internal" in row.words)


def listeners_setting(name: str) -> str:
    """What ``listener.name.NAME.plain.sasl.jaas.config`` sets, for a listener and a mechanism: sasl.jaas.config. Other
    names are what they are."""
    of_listener = _OF_LISTENER.fullmatch(name)
    rest = of_listener[1] if of_listener else name
    mechanism, _, own = rest.partition(".")
    return own if mechanism and own.startswith("sasl.") else rest


def has_no_effect(name: str, value: str) -> bool:
    """Whether a file or an administrator sets this to something that Kafka would heed and pykraft does not."""
    row = WITHOUT_EFFECT.get(name)
    return row is not None and row.key.read(value) not in (row.key.default, "", ())


def check_refused(properties: Mapping[str, str]) -> None:
    """ConfigError if one of these must not be ignored, be it for a single listener or mechanism."""
    for name, value in properties.items():
        row = REFUSED.get(listeners_setting(name))
        if row is not None:
            row.key.read(value, name)
