"""The settings of a broker that may be changed while it runs.

Most of them are the defaults of its topics (`common.topic_config`). The others are here. An administrator sets them for
all brokers or for one of them; the strongest place that has a value holds::

    the broker's own dynamic setting     ConfigRecord of broker 1
    the dynamic setting of all brokers   ConfigRecord of broker ""
    the broker's properties file

Follows org.apache.kafka.server.config.DynamicProducerStateManagerConfig, and the list of names in
kafka.server.DynamicBrokerConfig.
"""

from pykraft.common.config import ConfigDef, boolean, integer
from pykraft.common.topic_config import DYNAMIC_TOPIC_DEFAULTS

PRODUCER_ID_EXPIRATION_MS = integer(
    "producer.id.expiration.ms", 86_400_000, "a log forgets a producer that is silent so long", at_least=1
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = boolean(
    "transaction.partition.verification.enable",
    True,
    "whether a leader asks the transaction coordinator before it appends to a transaction for the first time",
)
LIVE_BROKER_CONFIG = ConfigDef([PRODUCER_ID_EXPIRATION_MS, TRANSACTION_PARTITION_VERIFICATION_ENABLE])
DYNAMIC_BROKER_CONFIGS = DYNAMIC_TOPIC_DEFAULTS | LIVE_BROKER_CONFIG.keys.keys()
"""The names of all of them."""
