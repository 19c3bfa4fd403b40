"""The settings of TLS, under Kafka's names: what a side shows, whom it trusts, and which versions it speaks.

A *keystore* holds a side's private key and the certificates that vouch for it. A *truststore* holds the certificates of
the authorities that a side believes. Both are PEM text: in a file, or in the setting itself. Kafka's other formats, JKS
and PKCS12, are Java's; a store of them is refused with the command that converts it.

A text in a properties file has its line breaks as ``\\n``, or blanks in their place: `pem_blocks` mends it.

Follows org.apache.kafka.common.config.SslConfigs and org.apache.kafka.common.security.ssl.DefaultSslEngineFactory.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import Config, ConfigDef, Key, names, secret, string

VERSIONS = ("TLSv1.2", "TLSv1.3")
_STORE_TYPES = ("JKS", "PKCS12", "PEM")


SSL_PROTOCOL = string(
    "ssl.protocol", "TLSv1.3", "the newest version of TLS that is spoken, if it is enabled", [*VERSIONS, "TLS"]
)
SSL_ENABLED_PROTOCOLS = names("ssl.enabled.protocols", VERSIONS, "the versions of TLS that are spoken", VERSIONS)
SSL_CIPHER_SUITES = names("ssl.cipher.suites", [], "the cipher suites, under Java's names; by default OpenSSL's choice")
SSL_KEYSTORE_TYPE = string("ssl.keystore.type", "JKS", "how the keystore is written; only PEM is read", _STORE_TYPES)
SSL_KEYSTORE_LOCATION = string("ssl.keystore.location", "", "the file with the private key and its certificates")
SSL_KEYSTORE_PASSWORD = secret("ssl.keystore.password", "of a JKS or PKCS12 keystore; PEM has none")
SSL_KEYSTORE_KEY = secret("ssl.keystore.key", "the private key as PEM text")
SSL_KEYSTORE_CERTIFICATE_CHAIN = secret(
    "ssl.keystore.certificate.chain", "the certificate of that key and those that vouch for it, as PEM text"
)
SSL_KEY_PASSWORD = secret("ssl.key.password", "what the private key is encrypted with, if it is")
SSL_TRUSTSTORE_TYPE = string(
    "ssl.truststore.type", "JKS", "how the truststore is written; only PEM is read", _STORE_TYPES
)
SSL_TRUSTSTORE_LOCATION = string("ssl.truststore.location", "", "the file with the authorities that are trusted")
SSL_TRUSTSTORE_PASSWORD = secret("ssl.truststore.password", "of a JKS or PKCS12 truststore; PEM has none")
SSL_TRUSTSTORE_CERTIFICATES = secret("ssl.truststore.certificates", "the authorities that are trusted, as PEM text")
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = string(
    "ssl.endpoint.identification.algorithm",
    "https",
    "https: the host's name must be in its certificate; empty: it need not be",
    ["https", "HTTPS", ""],
)

TLS_KEYS: list[Key[Any]] = [
    SSL_PROTOCOL,
    SSL_ENABLED_PROTOCOLS,
    SSL_CIPHER_SUITES,
    SSL_KEYSTORE_TYPE,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_PASSWORD,
    SSL_KEYSTORE_KEY,
    SSL_KEYSTORE_CERTIFICATE_CHAIN,
    SSL_KEY_PASSWORD,
    SSL_TRUSTSTORE_TYPE,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_PASSWORD,
    SSL_TRUSTSTORE_CERTIFICATES,
    SSL_ENDPOINT_IDENTIFICATION_ALGORITHM,
]
TLS_CONFIG = ConfigDef(TLS_KEYS)
STORE_KEYS: dict[str, Key[Any]] = {
    key.name: key for key in TLS_KEYS if key.name.startswith(("ssl.keystore.", "ssl.truststore.", "ssl.key."))
}
"""What an administrator may change for one listener of a broker while it runs: then its stores are read again."""


def store_key(name: str) -> Key[Any] | None:
    """The key of ``listener.name.NAME.ssl.keystore.location`` and the like; None: the name is another one."""
    start, _, rest = name.rpartition(".ssl.")
    is_of_listener = start.startswith("listener.name.") and len(start) > len("listener.name.")
    return STORE_KEYS.get(f"ssl.{rest}") if is_of_listener else None


@dataclass(frozen=True)
class TlsSettings:
    """What one side of TLS shows, trusts and speaks. Files are not read yet."""

    versions: tuple[str, ...]
    """Of `VERSIONS`, the oldest first."""
    cipher_suites: tuple[str, ...]
    """Java's names; none: OpenSSL's choice."""
    keystore: str
    """The private key and its certificates as PEM text, if they are in the settings."""
    keystore_location: str
    key_password: str
    truststore: str
    truststore_location: str
    """With neither truststore the system's authorities are trusted."""
    checks_hostname: bool

    def __repr__(self) -> str:
        return f"TlsSettings({self.versions}, keystore in {self.keystore_location or 'the settings'})"  # no secrets

    @property
    def has_keystore(self) -> bool:
        return bool(self.keystore or self.keystore_location)


def tls_settings(values: Config, prefix: str = "") -> TlsSettings:
    """What the settings say of TLS. ConfigError is one sentence; `prefix` is that of a listener's own settings."""
    enabled = values[SSL_ENABLED_PROTOCOLS] or VERSIONS
    versions = tuple(each for each in VERSIONS if each in enabled)
    if values[SSL_PROTOCOL] == "TLSv1.2":
        versions = tuple(each for each in versions if each == "TLSv1.2")
    if not versions:
        raise ConfigError(
            f"{prefix}ssl.protocol is TLSv1.2, but ssl.enabled.protocols is {','.join(enabled)}: no version is left"
        )
    return TlsSettings(
        versions=versions,
        cipher_suites=values[SSL_CIPHER_SUITES],
        keystore=_inline_keystore(values, prefix),
        keystore_location=_location(values, prefix, SSL_KEYSTORE_LOCATION, SSL_KEYSTORE_TYPE, SSL_KEYSTORE_PASSWORD),
        key_password=values[SSL_KEY_PASSWORD],
        truststore=_inline_truststore(values, prefix),
        truststore_location=_location(
            values, prefix, SSL_TRUSTSTORE_LOCATION, SSL_TRUSTSTORE_TYPE, SSL_TRUSTSTORE_PASSWORD
        ),
        checks_hostname=bool(values[SSL_ENDPOINT_IDENTIFICATION_ALGORITHM]),
    )


def read_tls(properties: Mapping[str, str], prefix: str = "") -> TlsSettings:
    """What these properties say of TLS."""
    return tls_settings(TLS_CONFIG.resolve(properties), prefix)


def _inline_keystore(values: Config, prefix: str) -> str:
    key, chain = values[SSL_KEYSTORE_KEY], values[SSL_KEYSTORE_CERTIFICATE_CHAIN]
    if not key and not chain:
        return ""
    for name, other, is_missing in (
        (SSL_KEYSTORE_KEY.name, SSL_KEYSTORE_CERTIFICATE_CHAIN.name, not chain),
        (SSL_KEYSTORE_CERTIFICATE_CHAIN.name, SSL_KEYSTORE_KEY.name, not key),
    ):
        if is_missing:
            raise ConfigError(f"{prefix}{name} is set, but {other} is not: a key and its certificates belong together")
    _check_inline(values, prefix, SSL_KEYSTORE_KEY, SSL_KEYSTORE_LOCATION, SSL_KEYSTORE_TYPE)
    return _pem(key, "PRIVATE KEY", prefix + SSL_KEYSTORE_KEY.name) + _pem(
        chain, "CERTIFICATE", prefix + SSL_KEYSTORE_CERTIFICATE_CHAIN.name
    )


def _inline_truststore(values: Config, prefix: str) -> str:
    certificates = values[SSL_TRUSTSTORE_CERTIFICATES]
    if not certificates:
        return ""
    _check_inline(values, prefix, SSL_TRUSTSTORE_CERTIFICATES, SSL_TRUSTSTORE_LOCATION, SSL_TRUSTSTORE_TYPE)
    return _pem(certificates, "CERTIFICATE", prefix + SSL_TRUSTSTORE_CERTIFICATES.name)


def _check_inline(values: Config, prefix: str, inline: Key[str], location: Key[str], kind: Key[str]) -> None:
    if values[location]:
        raise ConfigError(f"{prefix}{inline.name} and {location.name} are both set, but must not be: leave one out")
    if values[kind] != "PEM":
        raise ConfigError(f"{prefix}{kind.name} is {values[kind]}, but must be PEM when {inline.name} is set")


def _location(values: Config, prefix: str, location: Key[str], kind: Key[str], password: Key[str]) -> str:
    path = values[location]
    if path and values[kind] != "PEM":
        what = "" if kind is SSL_KEYSTORE_TYPE else " -cacerts -nokeys"
        raise ConfigError(
            f"{prefix}{kind.name} is {values[kind]}, but must be PEM: `keytool -importkeystore -srckeystore {path} "
            f"-destkeystore store.p12 -deststoretype PKCS12` and `openssl pkcs12 -in store.p12{what} -out store.pem` "
            f"convert the store (for one in PKCS12 the second alone), then say {location.name}=store.pem"
        )
    if values[password] and values[kind] == "PEM":
        raise ConfigError(
            f"{prefix}{password.name} is set, but must not be for a store in PEM: only a private key has a password, "
            f"{SSL_KEY_PASSWORD.name}"
        )
    return path


_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def pem_blocks(text: str) -> list[tuple[str, str]]:
    """(label, text) of each block of a PEM text, with the line breaks that a properties file may have lost."""
    found = []
    for label, body in _BLOCK.findall(text):
        if ":" not in body:  # a header such as Proc-Type stands on lines of its own: it is left as it is
            body = "\n" + fill("".join(body.split()), 64) + "\n"
        found.append((label, f"-----BEGIN {label}-----{body}-----END {label}-----\n"))
    return found


def _pem(text: str, label: str, name: str) -> str:
    blocks = [block for found, block in pem_blocks(text) if found.endswith(label)]
    if not blocks:
        raise ConfigError(f"{name} is set, but must hold PEM text: -----BEGIN {label}----- and what follows")
    return "".join(blocks)
