"""How the messages and events of a dialogue read: the fields that the protocol's rules are about, and no others.

Nothing here may differ between two runs: no time, no id that was drawn, no address. Offsets and epochs are such numbers
that Kafka's own documents write. Records are runs of offsets with their leader epoch: ``0-3@1 4@2``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.common.trace import TraceEvent
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, Uuid
from pykraft.protocol.messages.brokers import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from pykraft.protocol.messages.data import FetchRequest, FetchResponse
from pykraft.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoteRequest,
    VoteResponse,
)
from pykraft.records.batch import RecordBatch, batches

_KINDS = {BrokerRegistrationRequest: "Registration", BrokerHeartbeatRequest: "Heartbeat"}


def kind_of(request: Any) -> str:
    """The name by which a script calls such messages: Kafka's, but a fetch of the metadata log is a MetadataFetch, a
    vote that only asks is a PreVote, and a heartbeat of a broker that wants to stop is a ControlledShutdown."""
    if isinstance(request, VoteRequest) and request.topics[0].partitions[0].pre_vote:
        return "PreVote"
    if isinstance(request, FetchRequest) and _is_of_metadata(request):
        return "MetadataFetch"
    if isinstance(request, BrokerHeartbeatRequest) and request.want_shut_down:
        return "ControlledShutdown"
    return _KINDS.get(type(request), type(request).__name__.removesuffix("Request"))


def _is_of_metadata(request: FetchRequest) -> bool:
    return any(topic.topic_id == METADATA_TOPIC_ID or topic.topic == METADATA_TOPIC for topic in request.topics)


def runs(some: Iterable[RecordBatch]) -> str:
    """Batches as runs of offsets with their epoch; "nothing" if there are none."""
    found: list[list[int]] = []
    for batch in some:
        if found and found[-1][2] == batch.partition_leader_epoch and found[-1][1] + 1 == batch.base_offset:
            found[-1][1] = batch.last_offset
        else:
            found.append([batch.base_offset, batch.last_offset, batch.partition_leader_epoch])
    texts = [f"{first}@{epoch}" if first == last else f"{first}-{last}@{epoch}" for first, last, epoch in found]
    return " ".join(texts) or "nothing"


def listed(numbers: Iterable[object]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def leader(leader_id: int) -> str:
    return f"leader {leader_id}" if leader_id >= 0 else "no leader"


class Wording:
    """Turns messages and events into text; None for those that are not worth a line."""

    def __init__(self) -> None:
        self.topics: dict[Uuid, str] = {}

    # --- requests -----------------------------------------------------------------------------------------------------

    def request(self, request: Any) -> str | None:
        match request:
            case VoteRequest():
                asked = request.topics[0].partitions[0]
                place = f"log ends at {asked.last_offset}, last epoch {asked.last_offset_epoch}"
                return f"epoch {asked.replica_epoch}, {place}"
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                notice = request.topics[0].partitions[0]
                return f"epoch {notice.leader_epoch}, leader {notice.leader_id}"
            case UpdateRaftVoterRequest():
                levels = request.kraft_version_feature
                supported = f"{levels.min_supported_version} to {levels.max_supported_version}"
                return f"epoch {request.current_leader_epoch}, voter {request.voter_id}, kraft.version {supported}"
            case FetchRequest():
                return self._fetch(request)
            case AlterPartitionRequest():
                return "; ".join(
                    f"{self.topics[topic.topic_id]}-{asked.partition_index} {_proposal(asked)}"
                    for topic in request.topics
                    for asked in topic.partitions
                )
            case BrokerRegistrationRequest():
                return "a new process"
            case BrokerHeartbeatRequest() if request.want_shut_down:
                return f"broker epoch {request.broker_epoch}"
        return None

    def _fetch(self, request: FetchRequest) -> str:
        texts = []
        for topic in request.topics:
            for asked in topic.partitions:
                place = f"from {asked.fetch_offset}, last epoch {asked.last_fetched_epoch}"
                if topic.topic_id == METADATA_TOPIC_ID:
                    texts.append(f"{place}, epoch {asked.current_leader_epoch}")
                else:
                    name = f"{self.topics[topic.topic_id]}-{asked.partition}"
                    texts.append(f"{name} {place}, leader epoch {asked.current_leader_epoch}")
        state = request.replica_state
        epoch = -1 if state is None else state.replica_epoch
        return ("; ".join(texts) or "as before") + (f", broker epoch {epoch}" if epoch >= 0 else "")

    # --- responses ----------------------------------------------------------------------------------------------------

    def response(self, request: Any, response: Any) -> str | None:
        error = ErrorCode.of(getattr(response, "error_code", 0))
        if error is not ErrorCode.NONE:
            return error.name
        match response:
            case VoteResponse():
                answer = response.topics[0].partitions[0]
                return "granted" if answer.vote_granted else f"refused{_view(answer)}"
            case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
                error = ErrorCode.of(response.topics[0].partitions[0].error_code)
                return "accepted" if error is ErrorCode.NONE else error.name
            case UpdateRaftVoterResponse():
                return "accepted"
            case FetchResponse():
                answers = [answer for topic in response.responses for answer in topic.partitions]
                return "; ".join(_fetched(answer) for answer in answers) or "no news"
            case AlterPartitionResponse():
                return "; ".join(_altered(answer) for topic in response.topics for answer in topic.partitions)
            case BrokerRegistrationResponse():
                return f"broker epoch {response.broker_epoch}"
            case BrokerHeartbeatResponse() if isinstance(request, BrokerHeartbeatRequest) and request.want_shut_down:
                return "the broker may stop" if response.should_shut_down else "not yet"
        return None

    # --- events -------------------------------------------------------------------------------------------------------

    def event(self, event: TraceEvent) -> str | None:
        text = self._event(event.name, event.fields)
        return None if text is None else f"{event.node}  {text}"

    def _event(self, name: str, fields: dict[str, Any]) -> str | None:
        match name:
            case "role":
                voted = f", voted for {fields['voted']}" if fields["voted"] >= 0 else ""
                led_by = f", leader {fields['leader']}" if fields["role"] == "follower" else ""
                return f"is {fields['role']} in epoch {fields['epoch']}{led_by}{voted}"
            case "leadership":
                place = f", its log ends at {fields['end']}"
                return f"{fields['partition']}: {leader(fields['leader'])} in leader epoch {fields['epoch']}{place}"
            case "isr":
                return f"{fields['partition']}: ISR {listed(fields['isr'])}"
            case "high_watermark":
                return f"{fields['partition']}: high watermark {fields['offset']}"
            case "metadata_high_watermark":
                return f"high watermark {fields['offset']}"
            case "truncate":
                return f"{fields['partition']}: truncates its log from {fields['before']} to {fields['end']}"
            case "metadata_truncate":
                return f"truncates its log from {fields['before']} to {fields['end']}"
            case "kraft_version":
                return f"writes kraft.version {fields['level']} and voters {listed(fields['voters'])}"
            case "truncate_fully":
                return f"{fields['partition']}: begins its log again at {fields['end']}"
            case "replica_append_refused" | "metadata_fetch_refused":
                return f"refuses what it fetched: {fields['reason']}"
            case "controller":
                return f"is {'the active' if fields['active'] else 'no longer the active'} controller"
            case "broker_session_expired":
                return f"the session of broker {fields['broker']} expires"
            case "broker_change" if fields["fenced"]:
                return f"broker {fields['broker']} is {'fenced' if fields['fenced'] > 0 else 'unfenced'}"
        return None


def _proposal(asked: AlterPartitionRequest.Topic.Partition) -> str:
    isr = [
        f"{state.broker_id} (broker epoch {state.broker_epoch})" if state.broker_epoch >= 0 else state.broker_id
        for state in asked.new_isr_with_epochs
    ]
    return f"leader epoch {asked.leader_epoch}, partition epoch {asked.partition_epoch}, ISR {listed(isr)}"


def _view(answer: Any) -> str:
    error = ErrorCode.of(answer.error_code)
    reason = "" if error is ErrorCode.NONE else f" with {error.name}"
    return f"{reason}, epoch {answer.leader_epoch}, {leader(answer.leader_id)}"


def _fetched(answer: FetchResponse.Topic.Partition) -> str:
    error = ErrorCode.of(answer.error_code)
    if error is not ErrorCode.NONE:
        current = answer.current_leader
        if current is None or current.leader_epoch < 0:
            return error.name
        return f"{error.name}, epoch {current.leader_epoch}, {leader(current.leader_id)}"
    if answer.diverging_epoch is not None:
        end = answer.diverging_epoch
        return f"the logs diverge: here epoch {end.epoch} ends at {end.end_offset}"
    sent = runs(batches(memoryview(answer.records or b"")))
    mark = "unknown" if answer.high_watermark < 0 else answer.high_watermark
    return f"{sent}, high watermark {mark}"


def _altered(answer: AlterPartitionResponse.Topic.Partition) -> str:
    error = ErrorCode.of(answer.error_code)
    return f"partition epoch {answer.partition_epoch}, ISR {listed(answer.isr)}" if not error else error.name
