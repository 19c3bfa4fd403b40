"""``broker-api-versions``: which APIs each broker serves, in which versions, as kafka-broker-api-versions.sh tells.

*usable* is the highest version that this client speaks, too. An API that this client could ask for and the broker does
not serve is UNSUPPORTED; one that this client does not know is UNKNOWN.

Follows org.apache.kafka.tools.BrokerApiVersionsCommand and org.apache.kafka.clients.NodeApiVersions.
"""

import argparse
from collections.abc import Mapping

from pykraft.admin import Admin
from pykraft.client.administration.admin import ApiVersions
from pykraft.commands.as_json import add_json, say_json
from pykraft.commands.common import add_client_arguments, answers, client_settings, say
from pykraft.common.errors import KafkaError
from pykraft.common.types import Node
from pykraft.protocol.api import apis
from pykraft.protocol.listeners import ListenerKind


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Ask all brokers."""
    with Admin(**client_settings(options)) as admin, answers(admin):
        brokers = sorted(admin.describe_cluster().brokers)
        found = admin.describe_api_versions([broker.id for broker in brokers])
    if options.json:
        say_json(brokers=[broker._asdict() | {"apis": _in_json(found[broker.id])} for broker in brokers])
        return 0
    for broker in brokers:
        say(f"{_named(broker)} -> {_described(found[broker.id])}")
    return 0


def _named(broker: Node) -> str:
    return f"{broker.host}:{broker.port} (id: {broker.id} rack: {broker.rack or 'null'} isFenced: false)"


def _described(answer: ApiVersions | KafkaError) -> str:
    if isinstance(answer, KafkaError):
        return f"ERROR: {answer}"
    return "(\n\t" + ",\n\t".join(_rows(answer.versions)) + "\n)"


def _in_json(answer: ApiVersions | KafkaError) -> object:
    if isinstance(answer, KafkaError):
        return answer
    return [
        {"key": key, "name": apis[key].name if key in apis else None, "lowest": lowest, "highest": highest}
        for key, (lowest, highest) in sorted(answer.versions.items())
    ]


def _rows(versions: Mapping[int, tuple[int, int]]) -> list[str]:
    ours = {key for key, api in apis.items() if ListenerKind.BROKER in api.listeners}
    return [_row(key, versions.get(key)) for key in sorted(versions.keys() | ours)]


def _row(key: int, served: tuple[int, int] | None) -> str:
    name = apis[key].name if key in apis else "UNKNOWN"
    if served is None:
        return f"{name}({key}): UNSUPPORTED"
    lowest, highest = served
    text = f"{name}({key}): {lowest}" + (f" to {highest}" if highest > lowest else "")
    if key not in apis:
        return text
    our_lowest, our_highest = apis[key].request.versions
    if our_highest < lowest:
        return f"{text} [unusable: node too new]"
    if highest < our_lowest:
        return f"{text} [unusable: node too old]"
    return f"{text} [usable: {min(highest, our_highest)}]"
