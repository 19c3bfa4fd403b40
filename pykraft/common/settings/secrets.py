"""Which settings have a password or a private key for a value, by their names alone.

A name may have a listener in front, ``listener.name.NAME.ssl.keystore.key``, or a mechanism as well. What no part of
pykraft knows counts as a secret if it is called like one. Follows org.apache.kafka.common.config.types.Password, which
Kafka's own definitions give to the same names.
"""

from pykraft.common.settings.config import SECRET
from pykraft.common.settings.tls_config import STORE_KEYS

_ENDS = tuple(name for name, key in STORE_KEYS.items() if key.kind == SECRET)
_WORDS = ("password", "secret", "jaas.config")


def is_secret(name: str) -> bool:
    """Whether the value of this setting must be shown nowhere."""
    return name.endswith(_ENDS + _WORDS)
