/* What a release of Apache Kafka says of itself: its settings, errors and APIs, a line for each. */

import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

public class ReleaseTables {
    /* The class, and the names that its table of settings has had. */
    private static final String[][] SETTINGS = {
        {"broker", "org.apache.kafka.server.config.AbstractKafkaConfig", "CONFIG_DEF"},
        {"topic", "org.apache.kafka.storage.internals.log.LogConfig", "CONFIG"},
        {"group", "org.apache.kafka.coordinator.group.GroupConfig", "CONFIG", "CONFIG_DEF"},
        {"producer", "org.apache.kafka.clients.producer.ProducerConfig", "CONFIG"},
        {"consumer", "org.apache.kafka.clients.consumer.ConsumerConfig", "CONFIG"},
        {"admin", "org.apache.kafka.clients.admin.AdminClientConfig", "CONFIG"},
    };

    public static void main(String[] arguments) throws Exception {
        for (String[] of : SETTINGS) {
            var keys = new TreeMap<>(table(of).configKeys());
            keys.forEach((name, key) -> {
                var value = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? "(required)" : key.defaultValue;
                var allowed = String.valueOf(key.validator).replaceAll("(@|/0x|0x)[0-9a-f]+", "");
                var internal = key.internalConfig ? " internal" : "";
                System.out.println("setting " + of[0] + " " + name + " " + key.type + " " + value + " " + allowed + internal);
            });
        }
        for (Errors error : Errors.values())
            System.out.println("error " + error.code() + " " + error.name() + ": " + error.message());
        for (ApiKeys api : ApiKeys.values())
            System.out.println(
                "api " + api.id + " " + api.name + " " + api.oldestVersion() + " to " + api.latestVersion(false)
                    + " (unstable: " + api.latestVersion(true) + ") " + api.messageType.listeners());
    }

    private static ConfigDef table(String[] of) throws Exception {
        var type = Class.forName(of[1]);
        for (int i = 2; i < of.length; i++) {
            try {
                var field = type.getDeclaredField(of[i]);
                field.setAccessible(true);
                return (ConfigDef) field.get(null);
            } catch (NoSuchFieldException missing) {
                // another release has another name for it
            }
        }
        throw new IllegalStateException(of[1] + " has its settings elsewhere");
    }
}
