"""A range of addresses in the host of a rule, such as ``10.1.0.0/16`` or ``2001:db8::/32`` (KIP-1276).

An address may lie anywhere in its range: ``10.1.2.3/16`` is the first of these, too. Follows
org.apache.kafka.server.authorizer.internals.CidrUtils, in what it takes and in what it says of what it does not.
"""

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network

_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_PREFIX = re.compile(r"\d{1,9}", re.ASCII)
_MOST_OF_IPV6 = 128


def parse_address_range(text: str) -> IPv4Network | IPv6Network:
    """The range. ValueError says in Kafka's words why there is none."""
    if ":" in text:
        return _ipv6(text)
    match = _IPV4.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    *octets, prefix = map(int, match.groups())
    for value, most in (*((octet, 255) for octet in octets), (prefix, 32)):
        if value > most:
            raise ValueError(f"Value [{value}] not in range [0,{most}]")
    return IPv4Network((bytes(octets), prefix), strict=False)


def _ipv6(text: str) -> IPv6Network:
    address, _, prefix = text.partition("/")
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    if int(prefix) > _MOST_OF_IPV6:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and {_MOST_OF_IPV6}")
    try:
        found = IPv6Address(address.partition("%")[0])
    except ValueError:
        raise ValueError(f"Could not parse [{address}]") from None
    if found.ipv4_mapped is not None:  # Java takes it for an address of IPv4
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    network = ip_network((found.packed, int(prefix)), strict=False)
    assert isinstance(network, IPv6Network)
    return network
