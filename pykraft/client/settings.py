"""The settings of clients as keywords: for editors, and for type checkers such as mypy and pyright.

Text is taken for a number too, as properties files have it, and None leaves the default. The names with dots instead
of underscores are Kafka's. `python -m pykraft.course.authoring.typed_settings` makes this module from the table that
clients check their settings by (`pykraft.client.config`).
"""

from collections.abc import Sequence
from typing import Literal, NewType, TypedDict

ByDuration = NewType("ByDuration", str)
"""How far back to begin, such as ``ByDuration("by_duration:PT1H")`` for an hour."""


class ClientSettings(TypedDict, total=False):
    """Of every client."""

    bootstrap_servers: str | Sequence[str] | None
    """Where to begin: host:port, ..."""

    security_protocol: str | None
    """How bytes travel (SSL is TLS), and whether the client logs in (SASL) (default PLAINTEXT)."""

    sasl_mechanism: str | None
    """What the client logs in with: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 (default GSSAPI)."""

    sasl_jaas_config: str | None
    """The client's name and password: MODULE required username="..." password="...";."""

    sasl_username: str | None
    """The client's name, in place of sasl.jaas.config."""

    sasl_password: str | None
    """The client's password, in place of sasl.jaas.config."""

    ssl_protocol: str | None
    """The newest version of TLS that is spoken, if it is enabled (default TLSv1.3)."""

    ssl_enabled_protocols: str | Sequence[str] | None
    """The versions of TLS that are spoken (default TLSv1.2,TLSv1.3)."""

    ssl_cipher_suites: str | Sequence[str] | None
    """The cipher suites, under Java's names; by default OpenSSL's choice."""

    ssl_keystore_type: str | None
    """How the keystore is written; only PEM is read (default JKS)."""

    ssl_keystore_location: str | None
    """The file with the private key and its certificates."""

    ssl_keystore_password: str | None
    """Of a JKS or PKCS12 keystore; PEM has none."""

    ssl_keystore_key: str | None
    """The private key as PEM text."""

    ssl_keystore_certificate_chain: str | None
    """The certificate of that key and those that vouch for it, as PEM text."""

    ssl_key_password: str | None
    """What the private key is encrypted with, if it is."""

    ssl_truststore_type: str | None
    """How the truststore is written; only PEM is read (default JKS)."""

    ssl_truststore_location: str | None
    """The file with the authorities that are trusted."""

    ssl_truststore_password: str | None
    """Of a JKS or PKCS12 truststore; PEM has none."""

    ssl_truststore_certificates: str | None
    """The authorities that are trusted, as PEM text."""

    ssl_endpoint_identification_algorithm: str | None
    """Https: the host's name must be in its certificate; empty: it need not be (default https)."""

    client_id: str | None
    """What the brokers' journals call this client."""

    request_timeout_ms: int | str | None
    """A request waits this long for its answer (default 30000)."""

    retry_backoff_ms: int | str | None
    """Pause before a request is sent again (default 100)."""

    retry_backoff_max_ms: int | str | None
    """The longest such pause (default 1000)."""

    reconnect_backoff_ms: int | str | None
    """Pause before a connection that failed is tried again (default 50)."""

    reconnect_backoff_max_ms: int | str | None
    """The longest such pause (default 1000)."""

    metadata_max_age_ms: int | str | None
    """Metadata are asked for again after this long (default 300000)."""

    default_api_timeout_ms: int | str | None
    """A call waits this long in all (default 60000)."""


class AdminSettings(ClientSettings, total=False):
    """Of `Admin`."""

    bootstrap_controllers: str | Sequence[str] | None
    """Controllers to ask instead of brokers: host:port, ... (KIP-919)."""


class ProducerSettings(ClientSettings, total=False):
    """Of `Producer`."""

    acks: Literal["0", "1", "-1", "all", 0, 1, -1] | None
    """Which replicas must write a batch first: none, the leader, all in-sync replicas (default all)."""

    batch_size: int | str | None
    """A batch is sent when it has this many bytes (default 16384)."""

    linger_ms: int | str | None
    """A batch that is not full waits this long for more records (default 5)."""

    buffer_memory: int | str | None
    """Bytes of records that may wait to be sent (default 33554432)."""

    max_request_size: int | str | None
    """No request has more bytes than this (default 1048576)."""

    max_block_ms: int | str | None
    """Send() waits this long for metadata or memory (default 60000)."""

    delivery_timeout_ms: int | str | None
    """A record that is not acknowledged after this long has failed (default 120000)."""

    max_in_flight_requests_per_connection: int | str | None
    """Produce requests under way to one broker (default 5)."""

    enable_idempotence: bool | str | None
    """Number the batches, so that a retry is no duplicate (default true)."""

    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    """The codec of the batches (default none)."""

    retries: int | str | None
    """How often a batch is sent again, within delivery.timeout.ms (default 2147483647)."""

    transactional_id: str | None
    """Makes this producer a transactional one; a newer producer with the same id fences it."""

    transaction_timeout_ms: int | str | None
    """The coordinator aborts a transaction that is open for longer (default 60000)."""


class ConsumerSettings(ClientSettings, total=False):
    """Of `Consumer`."""

    fetch_min_bytes: int | str | None
    """A fetch waits for this many bytes (default 1)."""

    fetch_max_wait_ms: int | str | None
    """A fetch waits at most this long (default 500)."""

    fetch_max_bytes: int | str | None
    """How much a fetch brings (default 52428800)."""

    max_partition_fetch_bytes: int | str | None
    """How much of one partition a fetch brings (default 1048576)."""

    max_poll_records: int | str | None
    """How many records one poll() returns (default 500)."""

    auto_offset_reset: Literal["earliest", "latest", "none"] | ByDuration | None
    """Where to begin without a position (default latest)."""

    isolation_level: Literal["read_uncommitted", "read_committed"] | None
    """Whether records of open and aborted transactions are read (default read_uncommitted)."""

    check_crcs: bool | str | None
    """Whether the checksum of every batch is looked at (default true)."""

    allow_auto_create_topics: bool | str | None
    """Whether brokers may create a topic asked about (default true)."""

    exclude_internal_topics: bool | str | None
    """Whether a pattern skips Kafka's own topics (default true)."""

    client_rack: str | None
    """Where this client is: brokers may send it to replicas there, and the group's leader learns it."""

    group_id: str | None
    """The group that this consumer joins and commits offsets for."""

    group_instance_id: str | None
    """Makes this consumer a static member under this name."""

    group_protocol: Literal["classic", "consumer"] | None
    """Which protocol the group speaks (default classic)."""

    group_remote_assignor: str | None
    """Which of the coordinator's assignors a consumer group uses; empty: the group's default."""

    session_timeout_ms: int | str | None
    """Without a heartbeat for this long, a member is removed (default 45000)."""

    heartbeat_interval_ms: int | str | None
    """Pause between two heartbeats (default 3000)."""

    max_poll_interval_ms: int | str | None
    """A member whose user does not call poll() for this long leaves (default 300000)."""

    enable_auto_commit: bool | str | None
    """Whether poll() and close() commit what earlier polls returned (default true)."""

    auto_commit_interval_ms: int | str | None
    """Pause between two such commits (default 5000)."""

    partition_assignment_strategy: str | Sequence[str] | None
    """The assignors this member offers, the preferred one first (default range,cooperative-sticky)."""
