import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.MetadataVersion;

/** Reads a partition and what happens to it, one JSON object a line; writes the change that Kafka's controller plans. */
public class PartitionChanges {
    private static final Uuid DIRECTORY = new Uuid(7, 7);

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            System.out.println(change(new ObjectMapper().readTree(line)));
        }
    }

    private static String change(JsonNode node) {
        var alive = new HashSet<>(list(node.get("alive")));
        var builder = new PartitionChangeBuilder(partition(node), new Uuid(1, 1), 0, alive::contains,
            MetadataVersion.latestProduction(), node.get("min_isr").asInt());
        builder.setElection(PartitionChangeBuilder.Election.valueOf(node.get("election").asText()));
        builder.setEligibleLeaderReplicasEnabled(node.get("keeps_elr").asBoolean());
        builder.setDefaultDirProvider(broker -> DIRECTORY);
        builder.setUncleanShutdownReplicas(list(node.get("lost")));
        if (!node.get("new_isr").isNull()) {
            builder.setTargetIsr(list(node.get("new_isr")));
        }
        var planned = builder.build();
        if (planned.isEmpty()) {
            return "nothing";
        }
        var record = (PartitionChangeRecord) planned.get().message();
        return String.join("; ", "ISR " + record.isr(), "leader " + record.leader(),
            "ELR " + record.eligibleLeaderReplicas(), "last known " + record.lastKnownElr(),
            "recovery " + record.leaderRecoveryState(), "replicas " + record.replicas());
    }

    private static PartitionRegistration partition(JsonNode node) {
        var replicas = array(node.get("replicas"));
        var directories = new Uuid[replicas.length];
        Arrays.fill(directories, DIRECTORY);
        return new PartitionRegistration.Builder().setReplicas(replicas).setDirectories(directories)
            .setIsr(array(node.get("isr"))).setElr(array(node.get("elr"))).setLastKnownElr(array(node.get("last_known")))
            .setLeader(node.get("leader").asInt())
            .setLeaderRecoveryState(LeaderRecoveryState.of((byte) node.get("recovery").asInt()))
            .setLeaderEpoch(1).setPartitionEpoch(1).setAddingReplicas(array(node.get("adding")))
            .setRemovingReplicas(array(node.get("removing"))).build();
    }

    private static List<Integer> list(JsonNode node) {
        var found = new ArrayList<Integer>();
        node.forEach(each -> found.add(each.asInt()));
        return found;
    }

    private static int[] array(JsonNode node) {
        return list(node).stream().mapToInt(each -> each).toArray();
    }
}
