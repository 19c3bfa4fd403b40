"""The settings of quotas, under Kafka's names: how many samples are kept, and how long each is.

Follows org.apache.kafka.server.config.QuotaConfig.
"""

from typing import Any

from pykraft.common.quotas.rates import SAMPLE_MS, SAMPLES
from pykraft.common.settings.config import Config, Key, integer

_SECONDS = SAMPLE_MS // 1000
QUOTA_WINDOW_NUM = integer(
    "quota.window.num", SAMPLES, "samples of which the rate of bytes and requests is made", at_least=1
)
QUOTA_WINDOW_SIZE_SECONDS = integer(
    "quota.window.size.seconds", _SECONDS, "how long such a sample is, and the longest throttling by time", at_least=1
)
CONTROLLER_QUOTA_WINDOW_NUM = integer(
    "controller.quota.window.num", SAMPLES, "samples of tokens that a client's bucket of changes holds", at_least=1
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = integer(
    "controller.quota.window.size.seconds", _SECONDS, "how long such a sample is", at_least=1
)

QUOTA_KEYS: list[Key[Any]] = [
    QUOTA_WINDOW_NUM,
    QUOTA_WINDOW_SIZE_SECONDS,
    CONTROLLER_QUOTA_WINDOW_NUM,
    CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS,
]


def windows(config: Config) -> tuple[int, int]:
    """How many samples there are of bytes and requests, and the milliseconds of each."""
    return config[QUOTA_WINDOW_NUM], config[QUOTA_WINDOW_SIZE_SECONDS] * 1000


def controller_windows(config: Config) -> tuple[int, int]:
    """The same of changes to the cluster."""
    return config[CONTROLLER_QUOTA_WINDOW_NUM], config[CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS] * 1000
