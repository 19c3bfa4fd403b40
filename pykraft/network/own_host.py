"""The name by which others find this machine.

It is what Java's ``InetAddress.getLocalHost().getCanonicalHostName()`` says.
"""

import socket
from contextlib import suppress

from pykraft.common.errors import ConfigError


def canonical_host() -> str:
    """The name of the first address of this machine's host name, if that name leads back to the address; else the
    address. ConfigError: the host name has no address."""
    name = socket.gethostname()
    try:
        address = _addresses(name)[0]
    except (OSError, UnicodeError):
        raise ConfigError(
            f"this machine is called {name}, and no address is known for that: advertised.listeners must say which"
            " host clients connect to"
        ) from None
    with suppress(OSError, UnicodeError):
        found, _ = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)
        if address in _addresses(found):
            return found
    return address


def _addresses(name: str) -> list[str]:
    """IPv4 first, as Java prefers it."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in sorted(found, key=lambda each: each[0] != socket.AF_INET)]
