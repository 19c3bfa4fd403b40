// Kafka's Java client as a copier between topics, exactly once; see transactional_copies.py.
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class TransactionalCopy {
    private static KafkaProducer<String, String> producer(String servers, String id) {
        var settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", id);
        var made = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], id = arguments[1], source = arguments[2], target = arguments[3];
        int count = Integer.parseInt(arguments[4]);
        var zombie = producer(servers, id);
        zombie.beginTransaction();
        zombie.send(new ProducerRecord<>(target, 0, null, "zombie")).get();
        var settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", id);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", "10");
        int copied = 0;
        boolean aborted = false;
        try (var copier = producer(servers, id);
                var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(source));
            while (copied < count) {
                var records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) continue;
                copier.beginTransaction();
                var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
                for (var record : records) {
                    copier.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                    var place = new TopicPartition(source, record.partition());
                    offsets.put(place, new OffsetAndMetadata(record.offset() + 1));
                }
                copier.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (copied > 0 && !aborted) {
                    aborted = true;
                    copier.flush();
                    copier.abortTransaction();
                    consumer.committed(consumer.assignment()).forEach((place, offset) ->
                        consumer.seek(place, offset == null ? 0 : offset.offset()));
                } else {
                    copier.commitTransaction();
                    copied += records.count();
                }
            }
        }
        String complaint = "none";
        try {
            zombie.commitTransaction();
        } catch (RuntimeException error) {
            complaint = error.getClass().getSimpleName();
        }
        System.out.println(complaint);
        zombie.close(Duration.ZERO);
    }
}
