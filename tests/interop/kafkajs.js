// What the test asks of kafkajs, told as lines of JSON: node kafkajs.js SERVERS TOPIC COUNT
const { CompressionTypes, Kafka, logLevel } = require("kafkajs");

const [, , servers, topic, count] = process.argv;
const tell = (name, value) => console.log(JSON.stringify({ [name]: value }));

async function main() {
  const kafka = new Kafka({ brokers: servers.split(","), logLevel: logLevel.NOTHING });
  const admin = kafka.admin();
  await admin.connect();
  const entries = [{ name: "min.insync.replicas", value: "2" }];
  tell("created", await admin.createTopics({
    topics: [{ topic, numPartitions: 3, replicationFactor: 3, configEntries: entries }],
    waitForLeaders: true,
  }));
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const [number, compression] of [CompressionTypes.None, CompressionTypes.GZIP].entries()) {
    const messages = Array.from({ length: Number(count) }, (_, place) => ({
      key: `${place % 7}`,
      value: `${number}:${place}`,
      headers: { codec: `${compression}` },
    }));
    await producer.send({ topic, acks: -1, compression, messages });
  }
  tell("offsets", await admin.fetchTopicOffsets(topic));
  tell("cluster", await admin.describeCluster());
  const resources = [{ type: 2, name: topic, configNames: ["min.insync.replicas"] }];
  tell("settings", (await admin.describeConfigs({ resources, includeSynonyms: false })).resources[0].configEntries);
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "1" }] });
  tell("left", await admin.fetchTopicOffsets(topic));
  const gone = `${topic}-gone`;
  await admin.createTopics({ topics: [{ topic: gone, numPartitions: 1 }], waitForLeaders: true });
  await admin.deleteTopics({ topics: [gone] });
  const deadline = Date.now() + 10_000;
  let topics = await admin.listTopics();
  while (topics.includes(gone) && Date.now() < deadline) {
    topics = await admin.listTopics(); // the broker that is asked may hear of it a moment later, as in Kafka
  }
  tell("topics", topics);
  await producer.disconnect();
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
