"""What others call this machine, as Java says it: a name that leads back to the address, else the address."""

from __future__ import annotations

import socket

import pytest

from pykraft.common.errors import ConfigError
from pykraft.network.own_host import canonical_host

ADDRESSES = {"laptop": ["::1", "10.0.0.7"], "laptop.example.org": ["10.0.0.7"], "liar.example.org": ["10.0.0.9"]}


@pytest.mark.parametrize(
    ("name_of_address", "found"),
    [("laptop.example.org", "laptop.example.org"), ("liar.example.org", "10.0.0.7"), ("gone", "10.0.0.7")],
)
def test_the_name_counts_if_it_leads_back(monkeypatch: pytest.MonkeyPatch, name_of_address: str, found: str) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "getnameinfo", lambda place, flags: (name_of_address, str(place[1])))
    assert canonical_host() == found


def test_a_machine_without_an_address_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere")
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ConfigError, match=r"this machine is called nowhere.*advertised.listeners must say"):
        canonical_host()


def look_up(name: str, port: object, type: int) -> list[tuple[object, ...]]:  # noqa: A002 (the name is Python's)
    if name not in ADDRESSES:
        raise socket.gaierror(name)
    families = {True: socket.AF_INET6, False: socket.AF_INET}
    return [(families[":" in each], type, 6, "", (each, 0)) for each in ADDRESSES[name]]
