"""What a node does about an exception that no code expected: it counts it, writes it down, and goes on.

A handler, a timer's callback or a gauge that raises has a bug, or has met bytes that no release of Kafka writes. The
node must outlive it: its other partitions and clients have done nothing wrong. The place that catches the exception
gives it to the node's `FaultHandler`, and then does what leaves the rest intact: it answers UNKNOWN_SERVER_ERROR, or
closes the connection, or leaves out the value::

    try:
        callback(now)
    except Exception as error:
        faults.handle_fault("timer", error)

The journal gets an event `fault` for each. The first of its sort has the whole traceback; those that follow have one
line, so a client that repeats its request does not fill the disk. A *sort* is a kind, which the caller names, and the
class of the exception; at most `MOST_SORTS` are counted apart. The metric
``pykraft:type=FaultHandler,name=FaultCount,place=...`` counts.

These are no faults, and `handle_fault` raises them again: OSError, because a disk that fails stops the node without
another write (`broker.node.Node.disk_failure`), and what is no Exception (KeyboardInterrupt, the crash of a simulated
machine). A KafkaError that a handler raises is an answer: catch it before.

`FatalFault` is the other case: the node's own state cannot be trusted any more, and must not be answered from or
persist. It is no Exception, so it passes every place that survives faults, and ends the node.

A simulated node has a `StrictFaultHandler`: there a fault is never survived, so that it fails the run.

Follows org.apache.kafka.server.fault.{FaultHandler,LoggingFaultHandler,ProcessTerminatingFaultHandler}.
"""

import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from pykraft.common.metrics import OWN, Metrics
from pykraft.common.trace import Tracer

T = TypeVar("T")

MOST_SORTS = 200
"""After this many the journal gets no further traceback."""
RETRY_AFTER_FAULT_MS = 100
"""What has failed is tried again after this."""
_LONGEST_ERROR = 500
"""Characters of an exception's own words: they may quote what a client has sent."""
_LONGEST_TRACEBACK = 20_000
"""Characters of a traceback; its end says the most."""


class FatalFault(BaseException):
    """The node must stop: for example, its controller cannot apply a record of the metadata log."""


class FaultHandler:
    """Counts faults and writes them into the journal of one node."""

    def __init__(self, trace: Tracer, metrics: Metrics | None = None) -> None:
        self._trace = trace
        self._metrics = metrics
        self._counts: dict[tuple[str, type[BaseException]], int] = {}
        self.take_offline: Callable[[OSError], bool] = lambda error: False
        """Whether the error is of a log directory without which the node goes on; from now on it is offline."""

    @property
    def count(self) -> int:
        """How many faults there were."""
        return sum(self._counts.values())

    def handle_fault(self, kind: str, error: BaseException, **details: Any) -> None:
        """Take note of an exception that was caught. `kind` is the place, one of a fixed set of words; `details` are
        plain values that say which request, record or timer it was. Raises `error` again if it is no fault."""
        if isinstance(error, OSError) or not isinstance(error, Exception):
            if isinstance(error, OSError) and self.take_offline(error):
                return
            raise error
        sort: tuple[str, type[BaseException]] = kind, type(error)
        is_new = sort not in self._counts
        if is_new and len(self._counts) >= MOST_SORTS:
            sort, is_new = ("other", Exception), False
        self._counts[sort] = self._counts.get(sort, 0) + 1
        if self._metrics is not None:
            self._metrics.meter("FaultHandler", "FaultCount", OWN, place=kind).mark()
        said = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        where = {"traceback": "\n" + _traceback(error)} if is_new else {"at": _last_line(error)}
        self._trace("fault", kind=kind, **details, error=said, count=self._counts[sort], **where)

    def attempt(self, kind: str, action: Callable[..., T], *arguments: Any, otherwise: T) -> T:
        """What ``action(*arguments)`` returns, or `otherwise` if it raises: that is a fault."""
        try:
            return action(*arguments)
        except Exception as error:
            self.handle_fault(kind, error)
            return otherwise


class StrictFaultHandler(FaultHandler):
    """Takes note of a fault and raises it again, so that it ends the run: for simulators and tests."""

    def handle_fault(self, kind: str, error: BaseException, **details: Any) -> None:
        super().handle_fault(kind, error, **details)
        if not isinstance(error, OSError):
            raise error


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]


def _last_line(error: BaseException) -> str:
    """Where it was raised: "shard.py:120"."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}" if frames else "nowhere"
