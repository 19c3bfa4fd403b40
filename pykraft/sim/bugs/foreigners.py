"""Bugs that only a stranger comes upon: versions, values and records that no client of ours sends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.requests.dispatch import Dispatcher, Handlers
from pykraft.broker.requests.standard_authorizer import StandardAuthorizer
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.types import ZERO_UUID, TopicPartition, Uuid
from pykraft.coordinator import runtime
from pykraft.coordinator.replay import Change, Skipped, UnreplayableRecordError, changes
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.coordinators import RecordTypes, UnknownRecordTypeError
from pykraft.protocol.messages.logs import DescribeLogDirsRequest
from pykraft.protocol.messages.offsets import OffsetFetchRequest
from pykraft.protocol.messages.sasl import AlterUserScramCredentialsRequest
from pykraft.records.batch import RecordBatch
from pykraft.sim.bugs.planting import bug, put
from pykraft.transport.server_channel import RequestContext
from pykraft.transport.server_connection import Answer


@bug
def an_old_version_whose_branch_raises() -> None:
    """OffsetFetch up to version 7 has one group, and the handler looks for it in the list of the newer versions."""
    serve = Dispatcher.serve

    def serving(self: Dispatcher, kind: ListenerKind, apis: object, handlers: Handlers) -> None:
        fetch = handlers.get(OffsetFetchRequest)

        def offset_fetch(apis: object, request: OffsetFetchRequest, context: RequestContext, now: int) -> Any:
            assert fetch is not None
            return fetch(apis, request, context, now) if context.api_version >= 8 else request.groups[0]

        serve(self, kind, apis, {**handlers, **({OffsetFetchRequest: offset_fetch} if fetch else {})})

    put(Dispatcher, "serve", serving)


@bug
def an_answer_in_another_version() -> None:
    """DescribeLogDirs is answered in the newest version, whatever was asked."""
    encode = Answer.encode

    def newest(self: Answer, context: RequestContext) -> Any:
        is_meant = context.api_key == DescribeLogDirsRequest.api
        return encode(self, context._replace(api_version=DescribeLogDirsRequest.versions[1]) if is_meant else context)

    put(Answer, "encode", newest)


@bug
def a_record_type_that_stops_a_load() -> None:
    """A coordinator that loads takes a record of a type that it does not know for one that cannot be read."""

    def strictly(types: RecordTypes, batch: RecordBatch, skipped: Skipped | None = None) -> Iterator[Change]:
        def refuse(offset: int, record_type: int) -> None:
            raise UnreplayableRecordError(offset, record_type, UnknownRecordTypeError(record_type))

        return changes(types, batch, refuse)

    put(runtime, "changes", strictly)


@bug
def a_check_forgotten_in_one_api() -> None:
    """AlterUserScramCredentials asks for no right."""
    allows = StandardAuthorizer.allows

    def forgetful(
        self: StandardAuthorizer,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> bool:
        is_forgotten = context.api_key == AlterUserScramCredentialsRequest.api
        return is_forgotten or allows(self, context, operation, resource_type, name)

    put(StandardAuthorizer, "allows", forgetful)


@bug
def a_negative_partition_taken_for_an_index() -> None:
    """A topic's partitions are looked up as in a list: -1 is the last one."""
    partition = ReplicaManager.partition

    def from_the_end(self: ReplicaManager, place: TopicPartition, topic_id: Uuid = ZERO_UUID) -> Any:
        held = sorted(each.partition for each in self.partitions if each.topic == place.topic)
        if place.partition < 0 and len(held) >= -place.partition:
            place = TopicPartition(place.topic, held[place.partition])
        return partition(self, place, topic_id)

    put(ReplicaManager, "partition", from_the_end)
