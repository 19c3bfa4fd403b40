"""The APIs of a group's offsets on a broker's listener.

OffsetCommit 2 to 10, OffsetFetch 1 to 10, OffsetDelete 0. Only the coordinator of the group answers, as in `groups`.
Behaviour to know:

* READ on the group lets a client commit, DESCRIBE fetch, DELETE delete. Offsets need READ on their topic as well, to
  look at them DESCRIBE. A topic that does not exist, or not for this client, is refused alone. Of all offsets of a
  group the client sees those of topics that it may DESCRIBE.
* A request about many offsets is handled in pieces (`pieces`). Each piece of a commit asks again whether the member may
  commit; a fetch looks at each piece as it finds it, and an error of one piece is the group's.

Follows kafka.server.KafkaApis and org.apache.kafka.coordinator.group.GroupCoordinatorService.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from pykraft.broker.coordination.coordinators import GroupCoordinator
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.coordinators.groups import check_not_empty, weighed, written
from pykraft.broker.requests.coordinators.pieces import AT_ONCE, Merged, Part, Piece, cut, in_pieces
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.turns.slices import ItemByItem, Weights
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise, Steps, finish, gather
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.result import CoordinatorResult
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pykraft.protocol.schema import Response
from pykraft.transport.server_channel import RequestContext

_FIRST_COMMIT_BY_ID = 10
_FIRST_FETCH_OF_SEVERAL = 8
_FIRST_FETCH_BY_ID = 10
_FIRST_FETCH_WITH_ERROR = 2


class Judged(NamedTuple):
    """A part of a commit, after it was asked which offsets may be committed."""

    part: Part
    asked: Any
    """The topic with the partitions that the coordinator is asked about; None if there are none."""
    refusal: ErrorCode
    """Of the others."""

    def codes(self, answered: Iterator[Any]) -> list[int]:
        """What to answer about each partition; `answered` are the topics of the coordinator's answer."""
        found: dict[int, int] = {}
        if self.asked is not None:
            found = {each.partition_index: each.error_code for each in next(answered).partitions}
        return [found.get(each.partition_index, self.refusal) for each in self.part.partitions]


class Committed(NamedTuple):
    """A piece of a commit, and the coordinator's answer."""

    piece: Sequence[Judged]
    answered: Sequence[Any]


def judge(part: Part, name: str, error: ErrorCode | None, image: MetadataImage) -> Judged:
    """Which offsets of this part may be committed; `error` refuses them all."""
    if error is not None:
        return Judged(part, None, error)
    topic = image.topic_named(name)
    numbers = {} if topic is None else topic.partitions
    there = [each for each in part.partitions if each.partition_index in numbers]
    is_whole = len(there) == len(part.topic.partitions) and part.topic.name == name
    asked = part.topic if is_whole else part.topic.replace(name=name, partitions=there)
    return Judged(part, asked if there else None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def merge_commits(topic_type: Any, respond: Callable[[list[Any]], Response], found: Sequence[Committed]) -> Handled:
    """The answer to a commit, from those to its pieces. `respond` makes it of its topics."""
    merged = Merged()

    def merge(committed: Committed, _: int) -> None:
        answered = iter(committed.answered)
        for judged in committed.piece:
            part, codes = judged.part, judged.codes(answered)
            fields = {"topic_id": part.topic.topic_id} if "topic_id" in topic_type.__annotations__ else {}
            answers = [
                topic_type.Partition(partition_index=each.partition_index, error_code=code)
                for each, code in zip(part.partitions, codes, strict=True)
            ]
            merged.add(part.number, topic_type(name=part.topic.name, partitions=answers, **fields))

    if len(found) == 1:
        merge(found[0], 0)
        return respond(merged.topics)
    return ItemByItem(found, merge, lambda *_: respond(merged.topics), is_large=True)


class GroupOffsetApis:
    """Commits, fetches and deletes offsets of groups."""

    def __init__(
        self, coordinator: GroupCoordinator, image: Callable[[], MetadataImage], authorizer: Authorizer
    ) -> None:
        self._coordinator = coordinator
        self._image = image
        self._authorizer = authorizer

    # --- OffsetCommit -------------------------------------------------------------------------------------------------

    def offset_commit(self, request: OffsetCommitRequest, context: RequestContext, now: int) -> Handled:
        self._check(context, AclOperation.READ, request.group_id)

        def merge(found: Sequence[Committed]) -> Handled:
            topic_type = OffsetCommitResponse.Topic
            return merge_commits(topic_type, lambda topics: OffsetCommitResponse(topics=topics), found)

        def commit(pieces: list[Piece], now: int) -> Handled:
            if len(pieces) == 1:
                return self._commit(request, context, pieces[0], now).map(lambda committed: merge([committed]))
            return ItemByItem(
                pieces,
                partial(self._commit, request, context),
                lambda answers, _: gather(answers).map(merge),
                is_write=True,
            )

        return cut(request.topics, lambda topic: topic.partitions, commit, now)

    def _commit(
        self, request: OffsetCommitRequest, context: RequestContext, piece: Piece, now: int
    ) -> Promise[Committed]:
        """Commit one piece."""
        by_id, version = context.api_version >= _FIRST_COMMIT_BY_ID, context.api_version
        names = [self._name(part.topic, by_id) for part in piece]
        known = {name for name in names if name is not None}
        allowed = self._authorizer.allowed(context, AclOperation.READ, AclResourceType.TOPIC, known)
        judged = [
            judge(part, name or "", self._why_not(name, allowed), self._image())
            for part, name in zip(piece, names, strict=True)
        ]
        kept = [each.asked for each in judged if each.asked is not None]
        if not kept:
            return Promise.of(Committed(judged, ()))
        asked = request.replace(topics=kept)
        answer = self._coordinator.write(request.group_id, lambda shard: shard.commit(asked, version), now)
        return answer.map(lambda found: Committed(judged, written(asked, found).topics))

    def _name(self, topic: Any, by_id: bool) -> str | None:
        if not by_id:
            name: str = topic.name
            return name
        found = self._image().topics.get(topic.topic_id)
        return None if found is None else found.name

    def _why_not(self, name: str | None, allowed: Collection[str]) -> ErrorCode | None:
        """Why an offset in this topic is not committed; None if it is."""
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if name not in allowed:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None if self._image().topic_named(name) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    # --- OffsetFetch --------------------------------------------------------------------------------------------------

    def offset_fetch(self, request: OffsetFetchRequest, context: RequestContext, now: int) -> Handled:
        version = context.api_version
        groups: Sequence[Any] = request.groups
        if version < _FIRST_FETCH_OF_SEVERAL:
            groups = [_Asked(request.group_id, request.topics)]

        def respond(answers: list[OffsetFetchResponse.Group]) -> Handled:
            if version < _FIRST_FETCH_OF_SEVERAL:
                return _of_one(request, answers[0], version)
            return OffsetFetchResponse(groups=answers)

        fetch = _Fetch(self, request.require_stable, context)
        return ItemByItem(groups, fetch.begin, lambda found, _: fetch.finish(found, respond))

    def fetch(
        self, asked: OffsetFetchRequest.Group, require_stable: bool, context: RequestContext, now: int, is_all: bool
    ) -> Promise[OffsetFetchResponse.Group]:
        """The offsets of these topics; `is_all`: these are all topics of the group. If the request does not say which,
        and there are many, what comes is a list of topics to be asked about."""
        group_type = OffsetFetchResponse.Group
        if not self._may(context, AclOperation.DESCRIBE, asked.group_id):
            return Promise.of(group_type(group_id=asked.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        by_id = context.api_version >= _FIRST_FETCH_BY_ID
        named = asked
        if by_id and asked.topics is not None and not is_all:
            topics = [topic.replace(name=self._name(topic, by_id) or "") for topic in asked.topics]
            named = asked.replace(topics=topics)

        def answered(group: Any) -> Any:
            if isinstance(group, KafkaError):
                return group_type(group_id=asked.group_id, error_code=group.code)
            return group if isinstance(group, list) else self._visible(group, is_all, by_id, context)

        def look(shard: GroupShard) -> Any:
            return shard.fetch(named, require_stable, most=AT_ONCE)

        if require_stable:  # the newest offsets, once they are committed
            newest = self._coordinator.write(asked.group_id, lambda shard: CoordinatorResult(look(shard)), now)
            return newest.map(answered)
        return self._coordinator.read(asked.group_id, lambda committed, _: look(committed), now).map(answered)

    def _visible(
        self, group: OffsetFetchResponse.Group, is_all: bool, by_id: bool, context: RequestContext
    ) -> OffsetFetchResponse.Group:
        """What of a group's offsets this client may see."""
        image = self._image()
        names = {topic.name for topic in group.topics if topic.name}
        allowed = self._authorizer.allowed(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, names)
        topics = []
        for topic in group.topics:
            error = None
            if by_id and is_all:
                found = image.topic_named(topic.name)
                topic.topic_id = ZERO_UUID if found is None else found.topic_id
            if by_id and (topic.topic_id == ZERO_UUID or not topic.name):
                error = ErrorCode.UNKNOWN_TOPIC_ID
            elif topic.name not in allowed:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if error is not None and is_all:
                continue
            if error is not None:
                partition_type = OffsetFetchResponse.Group.Topic.Partition
                topic.partitions = [
                    partition_type(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ]
            topics.append(topic)
        return group.replace(topics=topics)

    # --- OffsetDelete -------------------------------------------------------------------------------------------------

    def offset_delete(self, request: OffsetDeleteRequest, context: RequestContext, now: int) -> Handled:
        """In pieces, too. An error of one piece is that of the request."""
        self._check(context, AclOperation.DELETE, request.group_id)
        check_not_empty(request.group_id)

        def delete(pieces: list[Piece], now: int) -> Handled:
            return ItemByItem(
                pieces or [[]],
                partial(self._delete, request, context),
                lambda answers, _: gather(answers).map(_of_deleted),
                is_write=True,
            )

        return cut(request.topics, lambda topic: topic.partitions, delete, now)

    def _delete(
        self, request: OffsetDeleteRequest, context: RequestContext, piece: Piece, now: int
    ) -> Promise[OffsetDeleteResponse]:
        """Delete one piece."""
        names = {part.topic.name for part in piece}
        allowed = self._authorizer.allowed(context, AclOperation.READ, AclResourceType.TOPIC, names)
        topic_type = OffsetDeleteResponse.Topic
        refused: dict[str, list[OffsetDeleteResponse.Topic.Partition]] = {}
        kept = []
        for part in piece:
            name = part.topic.name
            error = self._why_not(name, allowed)
            known = self._image().topic_named(name)
            numbers = {} if known is None or error is not None else known.partitions
            there = [each for each in part.partitions if each.partition_index in numbers]
            if there:
                kept.append(part.topic.replace(partitions=there))
            code = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused[name] = [
                topic_type.Partition(partition_index=each.partition_index, error_code=code)
                for each in part.partitions
                if each.partition_index not in numbers
            ]
        asked = request.replace(topics=kept)

        def merged(found: Any) -> OffsetDeleteResponse:
            response: OffsetDeleteResponse = written(asked, found)
            if response.error_code:
                return response
            answered = {topic.name: topic.partitions for topic in response.topics}
            return OffsetDeleteResponse(
                topics=[
                    topic_type(name=name, partitions=[*refusals, *answered.get(name, ())])
                    for name, refusals in refused.items()
                ]
            )

        answer = self._coordinator.write(request.group_id, lambda shard: shard.delete_offsets(asked), now)
        return answer.map(merged)

    # --- how all of them ask ------------------------------------------------------------------------------------------

    def _may(self, context: RequestContext, operation: AclOperation, group_id: str) -> bool:
        return self._authorizer.allows(context, operation, AclResourceType.GROUP, group_id)

    def _check(self, context: RequestContext, operation: AclOperation, group_id: str) -> None:
        if not self._may(context, operation, group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _of_deleted(answers: Sequence[OffsetDeleteResponse]) -> Handled:
    """The answer to an OffsetDelete, from those to its pieces."""
    if len(answers) == 1:
        return answers[0]
    refused = next((answer for answer in answers if answer.error_code), None)
    if refused is not None:
        return refused
    merged = Merged()

    def add(answer: OffsetDeleteResponse, now: int) -> None:
        for topic in answer.topics:
            merged.add(topic.name, topic)

    return ItemByItem(answers, add, lambda *_: OffsetDeleteResponse(topics=merged.topics), is_large=True)


class _Asked(NamedTuple):
    """What versions up to 7 ask, in the form of a group of the later ones."""

    group_id: str
    topics: Sequence[Any] | None
    member_id: str | None = None
    member_epoch: int = -1


class _Many(NamedTuple):
    """A group whose offsets are asked for in pieces."""

    asked: Any
    pieces: list[Piece]
    is_all: bool


class _Pieced:
    """The answer about a group, put together from those of its pieces."""

    def __init__(self, many: _Many) -> None:
        self._is_all = many.is_all
        self._merged = Merged()
        self.answer = OffsetFetchResponse.Group(group_id=many.asked.group_id)
        self.size = 0
        """About how many bytes it has."""

    def add(self, piece: Piece, answer: OffsetFetchResponse.Group) -> None:
        """This is the answer about a piece. The first error is the group's."""
        if self.answer.error_code:
            return
        if answer.error_code:
            self.answer = answer
            return
        self.size += Weights()(answer)
        if self._is_all:  # topics that the client may not see are left out, and offsets that went away meanwhile
            for topic in answer.topics:
                topic.partitions = [each for each in topic.partitions if each.error_code or each.committed_offset >= 0]
                if topic.partitions:
                    self._merged.add(topic.name, topic)
        else:
            for part, topic in zip(piece, answer.topics, strict=True):
                self._merged.add(part.number, topic)

    def finish(self) -> OffsetFetchResponse.Group:
        if not self.answer.error_code:
            self.answer.topics = self._merged.topics
        return self.answer


class _Fetch:
    """One OffsetFetch. First it asks about the groups with few offsets, and which offsets the others have; then about
    the others, in pieces."""

    def __init__(self, apis: GroupOffsetApis, require_stable: bool, context: RequestContext) -> None:
        self._apis = apis
        self._require_stable = require_stable
        self._context = context
        self._fetched: dict[tuple[str, str | None, int], Promise[Any]] = {}

    def begin(self, group: Any, now: int) -> Any:
        """A promise of the answer about a group, or of a `_Many`. A group that is named again gets the same answer
        again, if all its offsets are asked for."""
        if group.topics is not None:
            return self._begin(group, now)
        reader = group.group_id, group.member_id, group.member_epoch
        if reader not in self._fetched:
            found = self._ask(group, None, now, is_all=True)
            self._fetched[reader] = found.map(lambda answer: _all_of(group, answer))
        return self._fetched[reader]

    def _begin(self, group: Any, now: int) -> Promise[Any] | Steps[Promise[Any]]:
        steps = in_pieces(group.topics, lambda topic: topic.partition_indexes)
        if len(group.topics) > AT_ONCE:
            return self._cut(group, steps)
        pieces = finish(steps)
        if len(pieces) > 1:
            return Promise.of(_Many(group, pieces, is_all=False))
        return self._ask(group, pieces[0] if pieces else [], now, is_all=False)

    @staticmethod
    def _cut(group: Any, steps: Steps[list[Piece]]) -> Steps[Promise[Any]]:
        pieces = yield from steps
        return Promise.of(_Many(group, pieces, is_all=False))

    def finish(self, begun: Sequence[Promise[Any]], respond: Callable[[list[Any]], Handled]) -> Promise[ItemByItem]:
        """The response, once all is answered."""

        def go_on(found: list[Any]) -> Any:
            many = {id(each): each for each in found if isinstance(each, _Many)}
            if not many:
                return weighed(found, respond)
            items = [(each, piece) for each in many.values() for piece in each.pieces]
            return ItemByItem(
                items,
                self._piece,
                lambda answers, _: gather(answers).map(partial(_put_together, found, items, respond)),
            )

        return gather(begun).map(go_on)

    def _piece(self, item: tuple[_Many, Piece], now: int) -> Promise[OffsetFetchResponse.Group]:
        (asked, _, is_all), piece = item
        return self._ask(asked, piece, now, is_all)

    def _ask(self, group: Any, piece: Piece | None, now: int, is_all: bool) -> Promise[Any]:
        """Ask about one piece, or about all that the group has."""
        topics = None
        if piece is not None:
            topics = [
                OffsetFetchRequest.Group.Topic(
                    name=part.topic.name,
                    topic_id=getattr(part.topic, "topic_id", ZERO_UUID),
                    partition_indexes=part.partitions,
                )
                for part in piece
            ]
        asked = OffsetFetchRequest.Group(
            group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
        )
        return self._apis.fetch(asked, self._require_stable, self._context, now, is_all)


def _put_together(
    found: Sequence[Any],
    items: Sequence[tuple[_Many, Piece]],
    respond: Callable[[list[Any]], Handled],
    answers: Sequence[OffsetFetchResponse.Group],
) -> ItemByItem:
    """The response, if some groups were asked about in pieces. A group that is named again is encoded again, and
    weighs again."""
    pieced = {id(each): _Pieced(each) for each in found if isinstance(each, _Many)}
    weigh = Weights()

    def add(number: int, now: int) -> None:
        many, piece = items[number]
        pieced[id(many)].add(piece, answers[number])

    def weighed_groups(_: list[None], now: int) -> ItemByItem:
        return ItemByItem(
            found,
            lambda each, _: pieced[id(each)] if isinstance(each, _Many) else each,
            lambda groups, _: respond([each.finish() if isinstance(each, _Pieced) else each for each in groups]),
            is_large=True,
            weigh=lambda each: each.size if isinstance(each, _Pieced) else weigh(each),
        )

    return ItemByItem(range(len(items)), add, weighed_groups)


def _all_of(group: Any, found: Any) -> Any:
    """The answer about all offsets of a group; if there are many, what to ask about them."""
    if not isinstance(found, list):
        return found
    return _Many(group, finish(in_pieces(found, lambda topic: topic.partition_indexes)), is_all=True)


def _of_one(request: OffsetFetchRequest, group: OffsetFetchResponse.Group, version: int) -> Handled:
    """The answer about one group, as versions up to 7 have it."""
    if group.error_code and version < _FIRST_FETCH_WITH_ERROR:
        return request.refusal(KafkaError(ErrorCode.of(group.error_code)))
    topic_type = OffsetFetchResponse.Topic

    def converted(topic: OffsetFetchResponse.Group.Topic, now: int) -> Steps[OffsetFetchResponse.Topic]:
        answers = []
        for partition in topic.partitions:
            yield
            answers.append(
                topic_type.Partition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
            )
        return topic_type(name=topic.name, partitions=answers)

    return ItemByItem(
        group.topics,
        converted,
        lambda topics, _: OffsetFetchResponse(error_code=group.error_code, topics=topics),
        is_large=any(len(topic.partitions) > AT_ONCE for topic in group.topics),
    )


HANDLERS: Handlers = {
    OffsetCommitRequest: GroupOffsetApis.offset_commit,
    OffsetFetchRequest: GroupOffsetApis.offset_fetch,
    OffsetDeleteRequest: GroupOffsetApis.offset_delete,
}
