"""Moved to common.topic_config."""

from pykraft.common.topic_config import *  # noqa: F403
