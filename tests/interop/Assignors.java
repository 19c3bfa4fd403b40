import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Reads cases from stdin, one JSON object a line, and prints what Kafka's assignors make of each, one line a case. */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answerTo(JSON.readTree(line), answer);
            } catch (Exception failure) {
                answer.put("failure", failure.toString());
            }
            System.out.println(answer);
        }
    }

    private static void answerTo(JsonNode asked, ObjectNode answer) {
        if (asked.has("topics")) {
            assignOnServer(asked, answer);
        } else if (asked.has("members")) {
            assign(asked, answer);
        } else {
            answer.put("user_data", base64(userData(asked)));
        }
    }

    private static AbstractPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    /** "assignment", and in "order" the member ids as Kafka's maps hold them. */
    private static void assign(JsonNode asked, ObjectNode answer) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            List<String> topics = new ArrayList<>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            ByteBuffer data = member.get("user_data").isNull()
                ? null : ByteBuffer.wrap(Base64.getDecoder().decode(member.get("user_data").asText()));
            Subscription subscription = new Subscription(
                topics, data, partitions(member.get("owned")), member.get("generation").asInt(), Optional.empty());
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance_id").textValue()));
            members.put(member.get("id").asText(), subscription);
        }
        members.keySet().forEach(answer.putArray("order")::add);
        Map<String, Integer> counts = new HashMap<>();
        asked.get("partitions").fields().forEachRemaining(e -> counts.put(e.getKey(), e.getValue().asInt()));
        Map<String, List<TopicPartition>> assigned = assignor(asked.get("assignor").asText()).assign(counts, members);
        ObjectNode assignment = answer.putObject("assignment");
        assigned.forEach((member, partitions) -> {
            var array = assignment.putArray(member);
            partitions.forEach(partition -> array.addArray().add(partition.topic()).add(partition.partition()));
        });
    }

    /** The target assignment: topics are numbered from 1, and members are in the order asked. */
    private static void assignOnServer(JsonNode asked, ObjectNode answer) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : asked.get("members")) {
            Set<Uuid> topics = new TreeSet<>();
            member.get("topics").forEach(number -> topics.add(topic(number.asInt())));
            subscriptions.add(topics);
            Map<Uuid, Set<Integer>> assigned = new LinkedHashMap<>();
            member.get("assigned").fields().forEachRemaining(entry -> {
                Uuid topic = topic(Integer.parseInt(entry.getKey()));
                entry.getValue().forEach(partition -> {
                    assigned.computeIfAbsent(topic, any -> new TreeSet<>()).add(partition.asInt());
                    owners.computeIfAbsent(topic, any -> new HashMap<>())
                        .put(partition.asInt(), member.get("id").asText());
                });
            });
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.ofNullable(member.get("instance_id").textValue()), topics,
                new org.apache.kafka.coordinator.group.modern.Assignment(assigned)));
        }
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override public int numPartitions(Uuid topic) {
                return asked.get("topics").get((int) topic.getLeastSignificantBits() - 1).asInt();
            }
            @Override public Set<String> racksForPartition(Uuid topic, int partition) {
                return Collections.emptySet();
            }
        };
        ConsumerGroupPartitionAssignor assignor = asked.get("assignor").asText().equals("range")
            ? new org.apache.kafka.coordinator.group.assignor.RangeAssignor() : new UniformAssignor();
        SubscriptionType type = subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment target = assignor.assign(new GroupSpecImpl(members, type, owners), describer);
        ObjectNode assignment = answer.putObject("assignment");
        members.keySet().forEach(assignment::putObject);
        target.members().forEach((member, assigned) -> assigned.partitions().forEach((topic, partitions) -> {
            var array = ((ObjectNode) assignment.get(member)).putArray("" + topic.getLeastSignificantBits());
            partitions.stream().sorted().forEach(array::add);
        }));
    }

    private static Uuid topic(int number) {
        return new Uuid(0, number);
    }

    private static ByteBuffer userData(JsonNode asked) {
        ConsumerPartitionAssignor assignor = assignor(asked.get("assignor").asText());
        if (asked.get("generation").asInt() >= 0) {
            assignor.onAssignment(
                new Assignment(partitions(asked.get("owned"))),
                new ConsumerGroupMetadata("group", asked.get("generation").asInt(), "member", Optional.empty()));
        }
        return assignor.subscriptionUserData(Collections.emptySet());
    }

    private static List<TopicPartition> partitions(JsonNode array) {
        List<TopicPartition> found = new ArrayList<>();
        array.forEach(pair -> found.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return found;
    }

    private static String base64(ByteBuffer buffer) {
        return buffer == null ? null : Base64.getEncoder().encodeToString(buffer.array());
    }
}
