"""Elections that an administrator asks for, and those that the controller holds from time to time.

A leader that stopped and came back finds another replica leading, and follows it. After a few restarts one broker may
lead everything. A *preferred* election gives the leadership back to the first replica of the assignment, if it is in
sync. An *unclean* election gives a partition without a leader any live replica, at the price of acknowledged records.

An administrator asks for either with ElectLeaders (KIP-460); each partition has an answer of its own. The controller
holds some without being asked:

* Every ``leader.imbalance.check.interval.seconds`` it gives leaderships back to first replicas that are in sync, unless
  ``auto.leader.rebalance.enable`` is false. Each such partition counts: Kafka 4 has no percentage per broker any more.
* Every ``unclean.leader.election.interval.ms`` it looks at the partitions without a leader whose topics allow an
  unclean election by now. A setting that changes acts no earlier.

Follows org.apache.kafka.controller.ReplicationControlManager (electLeaders, maybeBalancePartitionLeaders,
maybeElectUncleanLeaders).
"""

from collections.abc import Iterable, Iterator

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.controller import config as keys
from pykraft.controller.partitions.brokers_to_isrs import Found
from pykraft.controller.partitions.partition_change import Election
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.periodic import PeriodicTask
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST, Result, VersionedRecord
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.elections import ElectionType, ElectLeadersRequest, ElectLeadersResponse

MAX_ELECTIONS = 1000
"""A periodic task plans at most this many elections at a time."""

TopicAnswer = ElectLeadersResponse.ReplicaElectionResult
Answer = TopicAnswer.PartitionResult

_ELECTIONS = {ElectionType.PREFERRED: Election.PREFERRED, ElectionType.UNCLEAN: Election.UNCLEAN}
_UNAVAILABLE = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class LeaderElections:
    """Plans the elections of partition leaders; `replication` plans each change of a partition."""

    def __init__(self, replication: ReplicationControl) -> None:
        self._replication = replication

    # --- ElectLeaders -------------------------------------------------------------------------------------------------

    def elect_leaders(self, image: MetadataImage, request: ElectLeadersRequest) -> Steps[Result[ElectLeadersResponse]]:
        """An answer for each partition that is named. Null means all partitions; then those that have the right leader
        are not answered."""
        if request.topic_partitions is not None and not request.topic_partitions:
            return Result([], ElectLeadersResponse(replica_election_results=[]))
        if request.election_type not in set(ElectionType):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{request.election_type} is no type of election: 0 is preferred, 1 is unclean",
            )
        kind = ElectionType(request.election_type)
        planned: dict[tuple[str, int], list[VersionedRecord]] = {}
        results = []
        for name, numbers in _wanted(image, request):
            answers = []
            for number in numbers:
                answer = Answer(partition_id=number)
                try:
                    planned[name, number] = self._elect(image, name, number, kind)
                except KafkaError as error:
                    answer.error_code, answer.error_message = error.code, error.detail
                if request.topic_partitions is not None or answer.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    answers.append(answer)
                yield
            results.append(TopicAnswer(topic=name, partition_result=answers))
        records = [record for some in planned.values() for record in some]
        if len(records) > MAX_RECORDS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{len(records)} elections at once; {MAX_RECORDS_PER_REQUEST} are allowed"
            )
        return Result(records, ElectLeadersResponse(replica_election_results=results))

    def _elect(self, image: MetadataImage, name: str, number: int, kind: ElectionType) -> list[VersionedRecord]:
        """The record of one election. KafkaError if it cannot be, or need not be."""
        topic = image.topic_named(name)
        partition = None if topic is None else topic.partitions.get(number)
        if topic is None or partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {number} of topic {name}")
        is_done = partition.has_preferred_leader if kind is ElectionType.PREFERRED else partition.has_leader
        if is_done:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{name}-{number} is led by broker {partition.leader}")
        records = self._replication.plan(
            image, topic.topic_id, number, may_lead=image.is_active, election=_ELECTIONS[kind]
        )
        if not records:
            raise KafkaError(
                _UNAVAILABLE[kind],
                f"the preferred leader of {name}-{number}, broker {partition.replicas[0]}, is not in sync or not alive"
                if kind is ElectionType.PREFERRED
                else f"no broker that holds {name}-{number} is alive",
            )
        return records

    # --- periodic elections -------------------------------------------------------------------------------------------

    def periodic_tasks(self, config: Config) -> list[PeriodicTask]:
        """The periodic elections that the settings ask for."""
        tasks = [PeriodicTask(config[keys.UNCLEAN_LEADER_ELECTION_INTERVAL_MS], self.plan_unclean, MAX_ELECTIONS)]
        if config[keys.AUTO_LEADER_REBALANCE_ENABLE]:
            interval_ms = config[keys.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS] * 1000
            tasks.insert(0, PeriodicTask(interval_ms, self.plan_preferred, MAX_ELECTIONS))
        return tasks

    def plan_preferred(self, image: MetadataImage) -> Steps[list[VersionedRecord]]:
        """Preferred elections, where the first replica is in sync and does not lead."""
        return self._plan_for(image, Election.PREFERRED, self._replication.index.imbalanced(image))

    def plan_unclean(self, image: MetadataImage) -> Steps[list[VersionedRecord]]:
        """Unclean elections, where a partition has no leader and its topic allows it by now."""
        without = (
            found
            for found in self._replication.index.without_leader(image)
            if self._replication.allows_unclean_election(image, image.topics[found[0]].name)
        )
        return self._plan_for(image, Election.UNCLEAN, without)

    def _plan_for(self, image: MetadataImage, election: Election, due: Iterable[Found]) -> Steps[list[VersionedRecord]]:
        """Elections of the partitions for which one is due, at most `MAX_ELECTIONS` or a few more."""
        records: list[VersionedRecord] = []
        for topic_id, number, _ in due:
            records += self._replication.plan(image, topic_id, number, may_lead=image.is_active, election=election)
            if len(records) >= MAX_ELECTIONS:
                break
            yield
        return records


def _wanted(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    """The topics and partitions that the request means."""
    if request.topic_partitions is not None:
        for topic in request.topic_partitions:
            yield topic.topic, list(topic.partitions)
        return
    for name, topic_id in sorted(image.topic_ids.items()):
        yield name, sorted(image.topics[topic_id].partitions)
