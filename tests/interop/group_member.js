// kafkajs as a member of a group, or as one that commits and reads offsets; see group_member.py.
const fs = require("fs");
const readline = require("readline");
const { Kafka, logLevel, PartitionAssigners } = require("kafkajs");

const [, , , servers, groupId, topic] = process.argv;
const say = (line) => process.stdout.write(`${line}\n`);
const [authority, username, password] = (process.env.GROUP_LOGIN ?? "").split(" ");
const login = authority && {
  ssl: { ca: [fs.readFileSync(authority, "utf-8")] },
  sasl: { mechanism: "scram-sha-512", username, password },
};
const kafka = new Kafka({ brokers: servers.split(","), logLevel: logLevel.NOTHING, retry: { retries: 20 }, ...login });

async function consume() {
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: Number(process.env.GROUP_SESSION_MS ?? 2000),
    heartbeatInterval: 200,
    rebalanceTimeout: 10_000,
    metadataMaxAge: 1000,
    maxWaitTimeInMs: 200,
    retry: { retries: 20 },
    partitionAssigners: [PartitionAssigners.roundRobin],
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const owned = Object.entries(payload.memberAssignment)
      .flatMap(([name, partitions]) => partitions.map((partition) => `${name}-${partition}`));
    say(`assigned ${owned.sort().join(" ")}`);
  });
  consumer.on(consumer.events.REBALANCING, () => say("assigned"));
  await consumer.connect();
  await consumer.subscribe({ topic: topic.startsWith("^") ? new RegExp(topic) : topic, fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 100,
    eachMessage: async ({ topic: from, partition, message }) => say(`${from}-${partition} ${message.offset}`),
  });
}

async function answer() {
  const admin = kafka.admin();
  await admin.connect();
  const producer = kafka.producer();
  await producer.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [what, group, of, partition, offset] = line.split(" ");
    if (what === "commit") {
      await admin.setOffsets({ groupId: group, topic: of, partitions: [{ partition: Number(partition), offset }] });
      say("done");
    } else if (what === "write") {
      const messages = [{ partition: Number(partition), value: offset }];
      const [{ baseOffset }] = await producer.send({ topic: of, messages });
      say(baseOffset);
    } else {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [of] });
      const found = partitions.find((one) => one.partition === Number(partition));
      say(found.offset === "-1" ? "none" : `${found.offset} ${found.metadata ?? ""}`);
    }
  }
  await producer.disconnect();
  await admin.disconnect();
}

(groupId ? consume() : answer()).catch((error) => {
  console.error(error);
  process.exit(1);
});
