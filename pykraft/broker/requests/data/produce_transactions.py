"""The transactional batches of a produce: who may write them, and what the transaction's coordinator knows of them.

Transactional batches need WRITE on the request's transactional id, and are all of one producer id and epoch. Before any
batch of the request is appended, the transaction coordinator is asked about the partitions whose transaction is not
open yet (see `broker.coordination.transaction_verification`); the handler pauses until the answer is there.

Follows kafka.server.{KafkaApis.handleProduceRequest,ReplicaManager.handleProduceAppend}.
"""

from collections.abc import Sequence

from pykraft.broker.coordination.transaction_verification import (
    NOTHING_TO_VERIFY,
    Transaction,
    TransactionSupport,
    TransactionVerification,
    Verified,
)
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.data.produce_refusals import ProducedBatch
from pykraft.common.acl import AclOperation, AclResourceType
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.records.batch import RecordBatch
from pykraft.storage.verification_state import NO_CHECK, AppendCheck
from pykraft.transport.server_channel import RequestContext


class ProduceTransactions:
    """Verifies the transactional batches of produces."""

    def __init__(self, authorizer: Authorizer, verification: TransactionVerification) -> None:
        self._authorizer = authorizer
        self._verification = verification

    def verify(
        self, request: ProduceRequest, context: RequestContext, transactional: Sequence[ProducedBatch]
    ) -> Promise[Verified]:
        """Ask the transaction coordinator about these, as far as they are not refused. KafkaError if the whole request
        is."""
        transactional_id = request.transactional_id
        if transactional_id is None or not self._authorizer.allows(
            context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        wanted: list[tuple[ProducedBatch, RecordBatch]] = [
            (each, each.batch)
            for each in transactional
            if each.error is None and each.batch is not None and each.batch.has_producer_id
        ]
        producers = {(batch.producer_id, batch.producer_epoch) for _, batch in wanted}
        if not producers:
            return NOTHING_TO_VERIFY
        if len(producers) > 1:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
            )
        support = TransactionSupport.of_produce(context.api_version)
        transaction = Transaction(transactional_id, *producers.pop(), support)  # any order: it is one
        sequences = {each.topic_partition: batch.base_sequence for each, batch in wanted}
        return self._verification.verify(transaction, sequences, retries=True)

    def check(self, produced: ProducedBatch, verified: Verified) -> AppendCheck:
        """What the append of this batch has to prove. If the coordinator has refused its partition, so is the batch."""
        if produced.error is None:
            refusal = verified.refusal(produced.topic_partition)
            if refusal is not None:
                produced.refuse(refusal)
        if produced.batch is None or not produced.batch.is_transactional:
            return NO_CHECK
        verification = verified.verifications.get(produced.topic_partition)
        return AppendCheck(verification, needs_verification=self._verification.is_required)
