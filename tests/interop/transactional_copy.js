// kafkajs as a copier between topics, exactly once; see transactional_copies.py.
const { Kafka, logLevel } = require("kafkajs");

const [, , servers, id, source, target, count] = process.argv;
const kafka = new Kafka({ brokers: servers.split(","), logLevel: logLevel.NOTHING, retry: { retries: 20 } });

async function producer() {
  const made = kafka.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1 });
  await made.connect();
  return made;
}

async function main() {
  const first = await producer();
  const left = await first.transaction();
  await left.send({ topic: target, messages: [{ value: "zombie", partition: 0 }] });
  const second = await producer();
  const consumer = kafka.consumer({ groupId: id, maxWaitTimeInMs: 200, retry: { retries: 20 } });
  await consumer.connect();
  await consumer.subscribe({ topic: source, fromBeginning: true });
  let copied = 0;
  let aborted = false;
  await new Promise((resolve, reject) => {
    consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset }) => {
        try {
          const some = batch.messages.slice(0, 10);
          const transaction = await second.transaction();
          const messages = some.map(({ value }) => ({ value, partition: batch.partition }));
          await transaction.send({ topic: target, messages });
          const last = some[some.length - 1].offset;
          const offset = String(Number(last) + 1);
          const topics = [{ topic: source, partitions: [{ partition: batch.partition, offset }] }];
          await transaction.sendOffsets({ consumerGroupId: id, topics });
          if (copied && !aborted) {
            aborted = true;
            await transaction.abort(); // the batch is read again: no offset of it is resolved
            consumer.seek({ topic: source, partition: batch.partition, offset: some[0].offset });
            return;
          }
          await transaction.commit();
          copied += some.length;
          resolveOffset(last);
          consumer.seek({ topic: source, partition: batch.partition, offset });
          if (copied >= Number(count)) resolve();
        } catch (error) {
          reject(error);
        }
      },
    }).catch(reject);
  });
  await consumer.disconnect();
  const complaint = await left.commit().then(() => "none", (error) => error.type ?? error.name);
  process.stdout.write(`${complaint}\n`);
  await second.disconnect();
  await first.disconnect();
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
