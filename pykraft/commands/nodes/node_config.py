"""Reading a node's properties file for the verbs that need one: a wrong value ends the verb with one sentence, a value
without effect is a warning."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pykraft.broker.settings.config import NodeConfig, advice, read_node_config
from pykraft.commands.common import read_text, tell
from pykraft.common.settings.config import parse_properties
from pykraft.network.own_host import canonical_host


def read_config(file: Path, overrides: Mapping[str, str] = MappingProxyType({})) -> NodeConfig:
    """The node that this file describes, with other values where `overrides` has some; ConfigError or CommandError says
    what is wrong."""
    config = read_node_config({**parse_properties(read_text(file)), **overrides}, canonical_host)
    for key in config.unknown:
        tell(f"pykraft: {file} sets {key}, which pykraft does not know and ignores: {advice(key)}")
    if config.without_effect:
        listed = ", ".join(config.without_effect)
        tell(f"pykraft: {file} sets what changes nothing in pykraft (SKIPPED.md says why): {listed}")
    return config
