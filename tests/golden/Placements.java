// Where Apache Kafka's own placer puts replicas, for clusters that are read line by line:
//
//     RACKS PARTITIONS REPLICATION_FACTOR SEED        a,a,b!,- 8 2 17
//
// RACKS has one entry for each broker 0, 1, 2, ...: its rack, "-" for none, "!" behind it if the broker is fenced.
// Each line comes back with " =" and the replicas of each partition. placements.txt was written so, with the jars of
// Apache Kafka 4.2.1 on the class path: java -cp 'libs/*' Placements.java < lines > placements.txt

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Scanner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

public class Placements {
    /** Random numbers that another language can draw, too. To choose one of one draws nothing. */
    static class Shared extends Random {
        long state;

        Shared(long seed) {
            super(0);
            state = seed;
        }

        @Override
        public int nextInt(int bound) {
            if (bound == 1)
                return 0;
            state = (state * 1103515245L + 12345L) & 0x7fffffffL;
            return (int) ((state >> 8) % bound);
        }
    }

    public static void main(String[] arguments) {
        for (Scanner lines = new Scanner(System.in); lines.hasNextLine(); ) {
            String line = lines.nextLine();
            String[] words = line.split(" ");
            List<UsableBroker> brokers = new ArrayList<>();
            for (String text : words[0].split(",")) {
                String rack = text.replace("!", "");
                brokers.add(new UsableBroker(
                    brokers.size(), rack.equals("-") ? Optional.empty() : Optional.of(rack), text.endsWith("!")));
            }
            var placer = new StripedReplicaPlacer(new Shared(Long.parseLong(words[3])));
            var placed = placer.place(
                new PlacementSpec(0, Integer.parseInt(words[1]), Short.parseShort(words[2])),
                new ClusterDescriber() {
                    @Override
                    public Iterator<UsableBroker> usableBrokers() {
                        return brokers.iterator();
                    }

                    @Override
                    public Uuid defaultDir(int broker) {
                        return Uuid.METADATA_TOPIC_ID;
                    }
                });
            System.out.print(line + " =");
            for (var partition : placed.assignments()) {
                System.out.print(" " + String.join("-", partition.replicas().stream().map(String::valueOf).toList()));
            }
            System.out.println();
        }
    }
}
