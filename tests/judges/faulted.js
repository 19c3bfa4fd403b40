// Writes COUNT records with an idempotent producer, reads them in a group, and prints their values as JSON. After the
// first record it says so, and waits for a line:
// node faulted.js SERVERS TOPIC COUNT
const { Kafka, logLevel } = require("kafkajs");

const [, , servers, topic, count] = process.argv;

async function main() {
  const retry = { initialRetryTime: 50, maxRetryTime: 1000, retries: 40 };
  const kafka = new Kafka({ brokers: servers.split(","), logLevel: logLevel.NOTHING, requestTimeout: 3000, retry });
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, retry });
  await producer.connect();
  for (let number = 0; number < Number(count); number += 1) {
    await producer.send({ topic, acks: -1, messages: [{ value: `${number}` }] });
    if (number === 0) {
      console.log("one record is written");
      await new Promise((resolve) => process.stdin.once("data", resolve));
    }
  }
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: `group-of-${topic}`, sessionTimeout: 10_000, retry });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const found = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error));
    consumer.run({
      eachMessage: async ({ message }) => {
        found.push(message.value.toString());
        if (found.length >= Number(count)) resolve();
      },
    });
  });
  await consumer.disconnect();
  console.log(JSON.stringify(found));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
