"""``configs --entity-type users``: users' SCRAM credentials, as kafka-configs.sh shows and changes them.

::

    configs --alter --entity-type users --entity-name alice --add-config 'SCRAM-SHA-256=[iterations=8192,password=x]'
    configs --alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-256
    configs --describe --entity-type users [--entity-name alice]

``iterations`` may be left out (4096). The password is salted here, and never sent.

Follows kafka.admin.ConfigCommand.
"""

import re
from collections.abc import Iterable, Mapping

from pykraft.admin import Admin
from pykraft.client.administration.scram import (
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pykraft.commands.common import CommandError, say
from pykraft.security.scram import MAX_ITERATIONS, MIN_ITERATIONS

_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
_DEFAULT_ITERATIONS = "-1"
_FORM = "[iterations=8192,password=PASSWORD]"


def is_scram(name: str) -> bool:
    """Whether a setting of a user is a SCRAM credential."""
    return ScramMechanism.named(name) is not None


def alterations(
    user: str, added: Mapping[str, str], deleted: Iterable[str]
) -> list[UserScramCredentialUpsertion | UserScramCredentialDeletion]:
    """What these settings of a user ask for. CommandError, without the password, if one cannot be read."""
    others = [name for name in (*added, *deleted) if not is_scram(name)]
    if others:
        raise CommandError(f"{others[0]} cannot be changed together with a SCRAM credential: change it by itself")
    if not user:
        raise CommandError("a SCRAM credential is one user's: name the user, for there is none for all")
    return [
        *(UserScramCredentialDeletion(user, name) for name in deleted),
        *(_upsertion(user, name, value) for name, value in added.items()),
    ]


def _upsertion(user: str, mechanism: str, value: str) -> UserScramCredentialUpsertion:
    found = _CREDENTIAL.fullmatch(value)
    if found is None:
        raise CommandError(f"the credential {mechanism} cannot be read: it must be {mechanism}={_FORM}")
    said, password = found.groups()
    iterations = MIN_ITERATIONS if said in (None, _DEFAULT_ITERATIONS) else int(said or 0)
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise CommandError(
            f"{mechanism} has {iterations} iterations, but must have {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    if not password:
        raise CommandError(f"{mechanism} has an empty password, but must have one")
    return UserScramCredentialUpsertion(user, mechanism, password, iterations)


def alter(
    admin: Admin, user: str, changes: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
) -> None:
    """Make these changes, and say so."""
    admin.alter_user_scram_credentials(changes)
    say(f"Completed updating config for user {user}.")


def describe(admin: Admin, user: str | None) -> None:
    """A line for each user that has credentials, or for this one."""
    found = admin.describe_user_scram_credentials([] if user is None else [user])
    for name, credentials in sorted(found.items()):
        text = ", ".join(f"{each.mechanism.mechanism_name}=iterations={each.iterations}" for each in credentials)
        say(f"SCRAM credential configs for user-principal '{name}' are {text}")
