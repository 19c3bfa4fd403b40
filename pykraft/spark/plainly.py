"""Letting the errors that are meant for the user leave a worker without its traceback.

What a user did wrong, or what the cluster answers, is one sentence; the frames of the worker between would only hide
it. Spark leaves a traceback out if the worker says so, and the worker ends with the exception. A mistake of this
package keeps its traceback.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pykraft.common.errors import ConfigError, KafkaError

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plainly() -> Iterator[None]:
    """Hide the traceback of a ConfigError or a KafkaError."""
    try:
        yield
    except (ConfigError, KafkaError):
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
