// Kafka's Java client as a member of a group, or as one that commits and reads offsets; see group_member.py.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class GroupMember {
    public static void main(String[] arguments) throws Exception {
        var servers = arguments[1];
        var protocol = arguments[0].equals("java-848") ? "consumer" : "classic";
        if (arguments.length == 2) {
            answer(servers, protocol);
        } else {
            consume(servers, protocol, arguments[2], arguments[3]);
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String servers, String protocol, String group) {
        var settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("auto.commit.interval.ms", "100");
        settings.put("metadata.max.age.ms", "1000");
        // When it reaches no broker it would forget all topics (KIP-899), and as the group's leader ask for a rebalance.
        settings.put("metadata.recovery.strategy", "none");
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", System.getenv().getOrDefault("GROUP_SESSION_MS", "2000"));
            settings.put("heartbeat.interval.ms", "200");
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void consume(String servers, String protocol, String group, String topic) {
        var owned = new TreeSet<String>();
        var listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                partitions.forEach(partition -> owned.add(partition.toString()));
                say("assigned " + String.join(" ", owned));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                partitions.forEach(partition -> owned.remove(partition.toString()));
                say("assigned " + String.join(" ", owned));
            }
        };
        try (var consumer = consumer(servers, protocol, group)) {
            if (topic.startsWith("^") && protocol.equals("consumer")) {
                consumer.subscribe(new SubscriptionPattern(topic), listener); // the coordinator matches it
            } else if (topic.startsWith("^")) {
                consumer.subscribe(Pattern.compile(topic), listener);
            } else {
                consumer.subscribe(List.of(topic), listener);
            }
            while (true) {
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    say(record.topic() + "-" + record.partition() + " " + record.offset());
                }
            }
        }
    }

    private static void answer(String servers, String protocol) throws Exception {
        var questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = questions.readLine()) != null; ) {
            var words = line.split(" ");
            var partition = new TopicPartition(words[2], Integer.parseInt(words[3]));
            try (var consumer = consumer(servers, protocol, words[1])) {
                if (words[0].equals("commit")) {
                    var offset = new OffsetAndMetadata(Long.parseLong(words[4]), words[5]);
                    consumer.commitSync(Map.of(partition, offset));
                    say("done");
                } else {
                    var found = consumer.committed(Set.of(partition)).get(partition);
                    say(found == null ? "none" : found.offset() + " " + found.metadata());
                }
            }
        }
    }
}
