"""The settings of Kafka's clients that change nothing here.

A file of settings is often written once, and given to all programs of a team: to Java's producers, and to
``kafka-topics --command-config`` as well. Kafka's clients warn of what they do not use, and go on. So do these. A name
that no client of Kafka has is a slip, and refused; those of kafka-python are known (`pykraft.client.habits`).

Names and defaults are those of org.apache.kafka.clients.{producer.ProducerConfig,consumer.ConsumerConfig,
admin.AdminClientConfig} of Kafka 4.4.
"""

import logging
from collections.abc import Iterable, Mapping

from pykraft.client.habits import WITHOUT_EFFECT_HERE
from pykraft.common.errors import ConfigError

_BY_REASON: dict[str, tuple[str, ...]] = {
    "functions take the place of classes": (
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
        "partitioner.class",
        "config.providers",
    ),
    "clients have no metrics": (
        "enable.metrics.push",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    ),
    "the operating system chooses the sizes of buffers": ("receive.buffer.bytes", "send.buffer.bytes"),
    "a connection is tried until request.timeout.ms, and stays as long as the broker lets it": (
        "connections.max.idle.ms",
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    ),
    "of a host's addresses the system chooses one": ("client.dns.lookup", "bootstrap.resolve.timeout.ms"),
    "clients always go back to their bootstrap servers": (
        "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.cluster.check.enable",
    ),
    "a topic that was used once is remembered": ("metadata.max.idle.ms",),
    "a record without a key goes to a partition that is drawn, one with a key where its hash says": (
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "partitioner.rack.aware",
    ),
    "producers and admin clients are in no rack": ("client.rack",),
    "codecs compress at their usual level": (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
    ),
    "memory is taken as it is needed": ("buffer.memory.allocation.strategy",),
    "there are no share groups": ("share.acknowledgement.mode", "share.acquire.mode"),
    "every call is tried again until its time is over": ("retries",),
    "it is for old brokers": ("internal.throw.on.fetch.stable.offset.unsupported",),
    "two-phase commit is not built": ("transaction.two.phase.commit.enable",),
    "clients log in with PLAIN and SCRAM": (
        "sasl.client.callback.handler.class",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.template.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
    ),
    "TLS is OpenSSL's": (
        "security.providers",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    ),
}
WITHOUT_EFFECT = {
    name: reason for table in (_BY_REASON, WITHOUT_EFFECT_HERE) for reason, listed in table.items() for name in listed
}
"""Why each of these has no effect."""
_MUST_BE = {"transaction.two.phase.commit.enable": "false"}
"""Without effect, a transaction would end otherwise than the application is sure it does."""
_OF_ANOTHER = "another kind of client has it"

_logger = logging.getLogger(__name__)
_warned: set[str] = set()


def without_effect(layer: Mapping[str, str], unknown: Iterable[str], of_others: set[str]) -> list[str]:
    """Warn, once for each name, of what has no effect; returns which of the `unknown` names no client of Kafka has.
    `of_others` are those that other clients here have. ConfigError: one of them must have an effect."""
    slips, idle = [], {}
    for name in unknown:
        reason = WITHOUT_EFFECT.get(name) or (_OF_ANOTHER if name in of_others else None)
        if reason is None:
            slips.append(name)
        elif layer[name] != (needed := _MUST_BE.get(name, layer[name])):
            raise ConfigError(f"{name} is {layer[name]}, but must be {needed}: {reason}")
        elif name not in _warned:
            idle[name] = reason
    if idle and not slips:
        _warned.update(idle)
        told = "; ".join(f"{name} ({reason})" for name, reason in idle.items())
        _logger.warning("without effect on this client: %s", told)
    return slips
