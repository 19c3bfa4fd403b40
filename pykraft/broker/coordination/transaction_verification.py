"""Asking a transaction's coordinator whether a partition is part of the transaction (KIP-890).

The leader of a partition asks before it appends the first batch of a transaction, and the group coordinator before it
writes the first offsets. What is asked depends on the client, whose request's version tells it:

* Produce up to version 11, TxnOffsetCommit up to 4: the client has added the partition itself. The request to the
  coordinator is `verify_only`, and ``transaction.partition.verification.enable=false`` leaves it out.
* From Produce 12 and TxnOffsetCommit 5 on (transaction.version 2) the client leaves that to the leader: the request
  adds the partition. While the last transaction is still being completed the coordinator answers
  CONCURRENT_TRANSACTIONS; then the leader asks again, every ``add.partitions.to.txn.retry.backoff.ms`` for
  ``add.partitions.to.txn.retry.backoff.max.ms``, for a client that had to send its records again would lose more time.

`TransactionVerification` starts verifications in the partitions' logs (see `storage.verification_state`) and gives the
answer for all partitions of a request at once. `AddPartitionsToTxnManager` sends the questions: at most one request is
under way to each node, and all that comes up meanwhile goes into the next one, with one transaction for each
transactional id. Of two questions about the same id the one with the lower epoch is fenced; with equal epochs the
earlier one gets NETWORK_EXCEPTION, because its client has given up on it and sent its request again. So the memory that
questions take is bounded by the number of requests that wait.

Follows org.apache.kafka.server.transaction.AddPartitionsToTxnManager and kafka.server.ReplicaManager.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.settings import config as keys
from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.metrics import Metrics
from pykraft.common.rooms import Room
from pykraft.common.settings.config import Config
from pykraft.common.timer import Timer
from pykraft.common.types import Node, TopicPartition, by_topic
from pykraft.coordinator.runtime import partition_for
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from pykraft.storage.verification_state import Verification

_CHANNEL = "add-partitions-to-txn"
_RETRIED = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Errors = Mapping[TopicPartition, ErrorCode]
"""The partitions that must not be appended to; empty if all may."""


class TransactionSupport(Enum):
    """What a client knows of KIP-890."""

    DEFAULT_ERROR = "it does not know TRANSACTION_ABORTABLE"
    GENERIC_ERROR_SUPPORTED = "it knows TRANSACTION_ABORTABLE"
    ADD_PARTITION = "it leaves adding partitions to their leaders"

    @property
    def bumps_epoch(self) -> bool:
        """Whether the producer's epoch rises with each transaction."""
        return self is TransactionSupport.ADD_PARTITION

    @classmethod
    def of_produce(cls, version: int) -> "TransactionSupport":
        """That of a client which sends this version of Produce."""
        return cls._of(version, knows_abortable=11, adds=12)

    @classmethod
    def of_offset_commit(cls, version: int) -> "TransactionSupport":
        """That of a client which sends this version of TxnOffsetCommit."""
        return cls._of(version, knows_abortable=4, adds=5)

    @classmethod
    def _of(cls, version: int, knows_abortable: int, adds: int) -> "TransactionSupport":
        if version >= adds:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version >= knows_abortable else cls.DEFAULT_ERROR


class Transaction(NamedTuple):
    """Whose transaction it is."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    support: TransactionSupport


class _Question(NamedTuple):
    transaction: Transaction
    places: Sequence[TopicPartition]
    promise: Promise[Errors]

    def refuse(self, error: ErrorCode) -> Errors:
        """All partitions get the error."""
        errors = dict.fromkeys(self.places, error)
        self.promise.keep(errors)
        return errors


@dataclass
class _Destination:
    """What a node is to be asked, and whether it is being asked something."""

    node: Node
    is_in_flight: bool = False
    questions: dict[str, _Question] = field(default_factory=dict)
    """By transactional id."""


class AddPartitionsToTxnManager:
    """The questions of this broker to the transaction coordinators, its own among them."""

    def __init__(
        self, image: Callable[[], MetadataImage], inter_broker_listener: str, timeout_ms: int, metrics: Metrics
    ) -> None:
        self._image = image
        self._listener = inter_broker_listener
        self._timeout_ms = timeout_ms
        self.room = Room("verification")
        self._destinations: dict[Node, _Destination] = {}
        self._failures = metrics.meter("AddPartitionsToTxnManager", "VerificationFailureRate")

    def ask(self, transaction: Transaction, places: Sequence[TopicPartition]) -> Promise[Errors]:
        """Verify or add these partitions; a promise of those that are refused, with the client's errors."""
        promise: Promise[Errors] = Promise()
        question = _Question(transaction, places, promise)
        node = self._coordinator(transaction.transactional_id)
        if node is None:
            self._refuse(question, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return promise
        questions = self._destinations.setdefault(node, _Destination(node)).questions
        before = questions.get(transaction.transactional_id)
        if before is not None:
            epoch, earlier = transaction.producer_epoch, before.transaction.producer_epoch
            if earlier > epoch:
                self._refuse(question, ErrorCode.INVALID_PRODUCER_EPOCH)
                return promise
            del questions[transaction.transactional_id]
            self._refuse(before, ErrorCode.INVALID_PRODUCER_EPOCH if earlier < epoch else ErrorCode.NETWORK_EXCEPTION)
        questions[transaction.transactional_id] = question
        self.room.mark("question")
        return promise

    def _coordinator(self, transactional_id: str) -> Node | None:
        image = self._image()
        topic = image.topic_named(TRANSACTION_TOPIC)
        if topic is None or not topic.partitions:
            return None
        registration = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
        broker = None if registration is None else image.brokers.get(registration.leader)
        if registration is None or broker is None or broker.fenced or self._listener not in broker.endpoints:
            return None
        endpoint = broker.endpoints[self._listener]
        return Node(registration.leader, endpoint.host, endpoint.port)

    def poll(self, now: int) -> Poll:
        """Ask each node that is not being asked."""
        requests = []
        for node, destination in list(self._destinations.items()):
            if destination.questions and not destination.is_in_flight:
                requests.append(self._request(destination))
            elif not destination.is_in_flight:
                del self._destinations[node]
        return Poll(FOREVER, requests)

    def _request(self, destination: _Destination) -> Outbound:
        asked, destination.questions = destination.questions, {}
        destination.is_in_flight = True

        def on_response(response: AddPartitionsToTxnResponse | Failure, now: int) -> None:
            destination.is_in_flight = False
            self.room.mark("answer")
            self._on_response(asked, response)

        request = AddPartitionsToTxnRequest(transactions=[_asked(question) for question in asked.values()])
        return Outbound(_CHANNEL, destination.node, request, on_response, self._timeout_ms)

    def _on_response(self, asked: dict[str, _Question], response: AddPartitionsToTxnResponse | Failure) -> None:
        if response is Failure.UNSUPPORTED_VERSION:  # the coordinator cannot verify: go on without
            for question in asked.values():
                question.promise.keep({})
            return
        error = ErrorCode.NETWORK_EXCEPTION
        if not isinstance(response, Failure):
            error = ErrorCode.of(response.error_code)
            if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # that is not the client's fault
                error = ErrorCode.INVALID_TXN_STATE
            if error is ErrorCode.NONE:
                self._take_results(asked, response)
                error = ErrorCode.UNKNOWN_SERVER_ERROR  # for transactions that the response leaves out
        for question in asked.values():
            self._refuse(question, error)

    def _take_results(self, asked: dict[str, _Question], response: AddPartitionsToTxnResponse) -> None:
        """Answer the questions that the response has a result for."""
        for result in response.results_by_transaction:
            question = asked.pop(result.transactional_id, None)
            if question is None:
                continue
            errors = {
                TopicPartition(topic.name, partition.partition_index): _client_error(
                    ErrorCode.of(partition.partition_error_code), question.transaction.support
                )
                for topic in result.topic_results
                for partition in topic.results_by_partition
                if partition.partition_error_code
            }
            self._failures.mark(len(errors))
            question.promise.keep(errors)

    def _refuse(self, question: _Question, error: ErrorCode) -> None:
        self._failures.mark(len(question.refuse(error)))


def _asked(question: _Question) -> AddPartitionsToTxnRequest.Transaction:
    topics = by_topic(question.places)
    transaction_type = AddPartitionsToTxnRequest.Transaction
    transaction = question.transaction
    return transaction_type(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        verify_only=not transaction.support.bumps_epoch,
        topics=[transaction_type.Topic(name=name, partitions=numbers) for name, numbers in topics.items()],
    )


def _client_error(error: ErrorCode, support: TransactionSupport) -> ErrorCode:
    """The coordinator's error in the words that the client knows."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and support is TransactionSupport.DEFAULT_ERROR:
        return ErrorCode.INVALID_TXN_STATE
    return error


class Verified(NamedTuple):
    """What came of a request's verifications."""

    errors: Errors
    verifications: Mapping[TopicPartition, Verification]
    """What an append to each partition must present. A partition whose transaction is open needs none."""
    bumps_epoch: bool = False

    def refusal(self, place: TopicPartition) -> KafkaError | None:
        """Why a producer must not append to the partition, in the words of Produce. Older producers do not retry the
        coordinator's errors; NOT_ENOUGH_REPLICAS they retry, and do not look for another leader."""
        error = self.errors.get(place)
        if error is None:
            return None
        if error is ErrorCode.INVALID_TXN_STATE:
            return KafkaError(error, "Partition was not added to the transaction")
        if error in _RETRIED or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not self.bumps_epoch):
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}",
            )
        return KafkaError(error)


NOTHING_TO_VERIFY = Promise.of(Verified({}, {}))


class TransactionVerification:
    """Verifies the transactional batches of a request before they are appended."""

    def __init__(
        self,
        config: Config,
        replicas: ReplicaManager,
        manager: AddPartitionsToTxnManager,
        timer: Timer,
        now: Callable[[], int],
        is_enabled: Callable[[], bool],
    ) -> None:
        """`is_enabled` says what ``transaction.partition.verification.enable`` is by now."""
        self._config = config
        self._is_enabled = is_enabled
        self._replicas = replicas
        self._manager = manager
        self._timer = timer
        self._now = now

    @property
    def is_required(self) -> bool:
        """Whether the log refuses a transactional batch without a verification."""
        return self._is_enabled()

    def verify(
        self, transaction: Transaction, sequences: Mapping[TopicPartition, int], *, retries: bool
    ) -> Promise[Verified]:
        """Verify or add the partitions; `sequences` has the base sequence of the batch for each. With `retries`
        CONCURRENT_TRANSACTIONS is tried again for a while, for clients that let leaders add partitions."""
        verified: Promise[Verified] = Promise()
        config = self._config
        patience_ms = min(config[keys.ADD_PARTITIONS_RETRY_BACKOFF_MAX_MS], config[keys.REQUEST_TIMEOUT_MS])
        give_up = self._now() + (patience_ms if retries and transaction.support.bumps_epoch else 0)

        def attempt(_: int) -> None:
            if verified.abandoned:
                return
            try:
                self._attempt(transaction, sequences).then(on_answer, verified.fail)
            except Exception as error:
                if verified.kept:
                    raise
                verified.fail(error)

        def on_answer(answer: Verified) -> None:
            now = self._now()
            if ErrorCode.CONCURRENT_TRANSACTIONS in answer.errors.values() and now < give_up:
                self._timer.at(now + config[keys.ADD_PARTITIONS_RETRY_BACKOFF_MS], attempt)
            else:
                verified.keep(answer)

        attempt(self._now())
        return verified

    def _attempt(self, transaction: Transaction, sequences: Mapping[TopicPartition, int]) -> Promise[Verified]:
        support = transaction.support
        if not support.bumps_epoch and not self._is_enabled():
            return NOTHING_TO_VERIFY
        errors: dict[TopicPartition, ErrorCode] = {}
        verifications: dict[TopicPartition, Verification] = {}
        for place, sequence in sequences.items():
            try:
                partition = self._replicas.partition(place)
                partition.check_leader()
                started = partition.log.start_verification(
                    transaction.producer_id, sequence, transaction.producer_epoch, support.bumps_epoch
                )
            except KafkaError as error:
                errors[place] = error.code
                continue
            if started is not None:
                verifications[place] = started
        if not verifications:
            return Promise.of(Verified(errors, {}, bumps_epoch=support.bumps_epoch))
        answer = self._manager.ask(transaction, list(verifications))
        return answer.map(lambda refused: Verified({**errors, **refused}, verifications, support.bumps_epoch))
