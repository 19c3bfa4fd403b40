"""Certificates for tests: an authority, a stranger that no client trusts, and what both have signed."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from pykraft.runtime.authority import CertificateAuthority

HOSTS = ("localhost", "127.0.0.1")


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pykraft-certificates-")


@cache
def authority(name: str = "trusted") -> CertificateAuthority:
    return CertificateAuthority(Path(_folder().name) / name, name)


def truststore(by: str = "trusted") -> dict[str, str]:
    """The settings of a side that trusts this authority."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority(by).certificate)}


@cache
def _keystore(subject: str, by: str, hosts: tuple[str, ...]) -> Path:
    return authority(by).issue(subject.replace("/", "_") + "-".join(hosts), subject, hosts)


def keystore(subject: str = "/CN=broker", by: str = "trusted", hosts: tuple[str, ...] = HOSTS) -> dict[str, str]:
    """The settings of a side that shows a certificate for this subject and these hosts."""
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(_keystore(subject, by, hosts))}


def side(
    subject: str = "/CN=broker", by: str = "trusted", trusts: str = "trusted", host: str = "", **more: str
) -> dict[str, str]:
    """The settings of a side that shows a certificate and trusts an authority."""
    own = keystore(subject, by, (host,) if host else HOSTS)
    return {**own, **truststore(trusts), **{name.replace("_", "."): value for name, value in more.items()}}
