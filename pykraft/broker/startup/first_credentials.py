"""The SCRAM credentials that a cluster begins with: ``storage format --add-scram``.

::

    SCRAM-SHA-256=[name=alice,password=secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt="c2FsdA==",saltedpassword="..."]

They are records of ``bootstrap.checkpoint``, so that brokers which log in to each other by SCRAM can do so from the
start. A salt and a salted password are in base 64. No error quotes a password.

Follows org.apache.kafka.metadata.storage.ScramParser.
"""

import base64
import binascii
from collections.abc import Iterable
from random import Random

from pykraft.common.errors import ConfigError
from pykraft.protocol.messages.records import UserScramCredentialRecord
from pykraft.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    keys_of,
    salted_password,
    secure_text,
)

_KNOWN = ("name", "salt", "iterations", "password", "saltedpassword")


def parse_add_scram(texts: Iterable[str], random: Random) -> list[UserScramCredentialRecord]:
    """The records that these texts ask for; ConfigError says what is wrong with one."""
    return [_record(text.strip(), random) for text in texts]


def _record(text: str, random: Random) -> UserScramCredentialRecord:
    mechanism, said = _parts(text)
    salt = _octets(said, "salt") if "salt" in said else secure_text(random).encode()
    iterations = _iterations(said.get("iterations", str(MIN_ITERATIONS)))
    if "password" in said:
        salted = salted_password(mechanism, said["password"].encode(), salt, iterations)
    elif "saltedpassword" not in said:
        raise ConfigError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif "salt" not in said:
        raise ConfigError("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _octets(said, "saltedpassword")
    stored_key, server_key = keys_of(mechanism, salted)
    return UserScramCredentialRecord(
        name=said["name"],
        mechanism=int(mechanism),
        salt=salt,
        stored_key=stored_key,
        server_key=server_key,
        iterations=iterations,
    )


def _parts(text: str) -> tuple[ScramMechanism, dict[str, str]]:
    """The mechanism, and what the brackets say."""
    name, equals, value = text.partition("=")
    mechanism = ScramMechanism.named(name)
    if not equals or mechanism is None:
        known = ", ".join(each.mechanism_name for each in ScramMechanism)
        raise ConfigError(f"--add-scram names the mechanism {name!r}, but must name one of {known}")
    if not (value.startswith("[") and value.endswith("]")):
        raise ConfigError(f"--add-scram must have {name}=[name=USER,password=PASSWORD]: the brackets are missing")
    said = {}
    for part in value[1:-1].split(","):
        key, equals, quoted = part.partition("=")
        if not equals or key not in _KNOWN:
            raise ConfigError(f"--add-scram may say {', '.join(_KNOWN)} of a credential, each with =VALUE, and no more")
        is_quoted = len(quoted) >= 2 and quoted[0] == quoted[-1] == '"'
        said[key] = quoted[1:-1] if is_quoted else quoted
    if "name" not in said:
        raise ConfigError("You must supply 'name' to add-scram")
    return mechanism, said


def _iterations(text: str) -> int:
    try:
        iterations = int(text)
    except ValueError:
        raise ConfigError(f"--add-scram has iterations={text}, but must have a number") from None
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ConfigError(
            f"--add-scram has iterations={iterations}, but must have {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    return iterations


def _octets(said: dict[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(said[key], validate=True)
    except binascii.Error:
        raise ConfigError(f"--add-scram has a {key} that is not in base 64") from None
