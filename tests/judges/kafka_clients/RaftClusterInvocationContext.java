// Takes the place of the class of this name in Kafka's test runtime: its tests get a cluster that runs in another
// process. That process is started for each test by the command in the environment variable CLUSTER_COMMAND (one word a
// line) and is asked through its standard input; see tests/harness/outside_cluster.py. It ends with its input.
//
// What the tests ask of a cluster from outside is served. A test that takes a broker or a controller as an object of its
// own JVM is aborted, and so is one whose cluster cannot be had; the report says why.
package org.apache.kafka.common.test.junit;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.AbstractMap;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private static final long PATIENCE_MS = 60_000;

    private final String name;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " [" + index + "]";
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        var cluster = new OutsideCluster(config, isCombined);
        BeforeEachCallback start = context -> {
            if (config.isAutoStart()) cluster.start();
        };
        // As in Kafka's own runtime it ends before the methods that come after each test; or with the test, if that failed
        // before it began.
        AfterTestExecutionCallback stop = context -> cluster.stop();
        AfterEachCallback stopAtLast = context -> cluster.stop();
        return List.of(start, stop, stopAtLast, new ClusterInstanceParameterResolver(cluster));
    }

    private static void waitUntil(Callable<Boolean> condition, String what) throws InterruptedException {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (System.currentTimeMillis() < deadline) {
            try {
                if (condition.call()) return;
            } catch (Exception notYet) {
                // Asked again until the deadline.
            }
            Thread.sleep(50);
        }
        throw new AssertionError(what);
    }

    private static class OutsideCluster implements ClusterInstance {
        private final ClusterConfig config;
        private final boolean isCombined;
        private Process process;
        private PrintWriter toCluster;
        private BufferedReader fromCluster;
        private String bootstrapServers;
        private String bootstrapControllers;
        private boolean isStopped;
        private final Set<Integer> down = new HashSet<>();

        OutsideCluster(ClusterConfig config, boolean isCombined) {
            this.config = config;
            this.isCombined = isCombined;
        }

        @Override
        public void start() {
            if (started()) return;
            var protocols = List.of(config.brokerSecurityProtocol(), config.controllerSecurityProtocol());
            if (!List.of(SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT).containsAll(protocols)) {
                throw new TestAbortedException("it needs " + protocols);
            }
            try {
                process = new ProcessBuilder(System.getenv("CLUSTER_COMMAND").split("\n"))
                    .redirectError(ProcessBuilder.Redirect.INHERIT).start();
            } catch (IOException error) {
                throw new RuntimeException(error);
            }
            toCluster = new PrintWriter(process.outputWriter(), true);
            fromCluster = process.inputReader();
            toCluster.println("brokers " + config.numBrokers());
            toCluster.println("controllers " + config.numControllers());
            toCluster.println(isCombined ? "combined" : "isolated");
            toCluster.println("protocols " + protocols.get(0) + " " + protocols.get(1));
            toCluster.println("disks " + config.numDisksPerBroker());
            toCluster.println("feature metadata.version " + config.metadataVersion().featureLevel());
            config.features().forEach((feature, level) ->
                toCluster.println("feature " + feature.featureName() + " " + level));
            var properties = new TreeMap<>(config.serverProperties());
            properties.putIfAbsent("group.initial.rebalance.delay.ms", "0"); // as Kafka's own runtime has it
            properties.forEach((key, value) -> toCluster.println("set " + key + "=" + value));
            config.perServerOverrideProperties().forEach((id, own) ->
                own.forEach((key, value) -> toCluster.println("set-of " + id + " " + key + "=" + value)));
            String answer = ask("");
            if (answer.startsWith("cannot ")) throw new TestAbortedException(answer.substring("cannot ".length()));
            String[] addresses = answer.split(" ");
            bootstrapServers = addresses[0];
            bootstrapControllers = addresses[1];
        }

        private String ask(String question) {
            toCluster.println(question);
            try {
                String answer = fromCluster.readLine();
                if (answer == null) throw new RuntimeException("the cluster's process has ended");
                return answer;
            } catch (IOException error) {
                throw new RuntimeException(error);
            }
        }

        @Override
        public void stop() {
            if (!started() || isStopped) return;
            isStopped = true;
            toCluster.close();
            try {
                int status = process.waitFor();
                if (status != 0) throw new AssertionError("the cluster ended with status " + status);
            } catch (InterruptedException error) {
                process.destroyForcibly();
                throw new RuntimeException(error);
            }
        }

        @Override
        public boolean started() {
            return process != null;
        }

        @Override
        public boolean stopped() {
            return isStopped;
        }

        @Override
        public void shutdownBroker(int id) {
            ask("stop " + id);
            down.add(id);
        }

        @Override
        public void startBroker(int id) {
            ask("start " + id);
            down.remove(id);
        }

        @Override
        public Type type() {
            return isCombined ? Type.CO_KRAFT : Type.KRAFT;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return new BrokersElsewhere(brokerIds());
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            boolean isClassic = config.features().getOrDefault(Feature.GROUP_VERSION, (short) 1) == 0;
            return isClassic ? Set.of(GroupProtocol.CLASSIC) : Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
        }

        @Override
        public Map<Integer, KafkaBroker> aliveBrokers() {
            return down.equals(brokerIds()) ? Map.of() : brokers();
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            throw new TestAbortedException("it needs a controller's object");
        }

        @Override
        public Set<Integer> brokerIds() {
            return IntStream.range(0, config.numBrokers()).boxed().collect(Collectors.toSet());
        }

        @Override
        public Set<Integer> controllerIds() {
            int first = isCombined ? 0 : 3000;
            return IntStream.range(first, first + config.numControllers()).boxed().collect(Collectors.toSet());
        }

        @Override
        public ListenerName clientListener() {
            return new ListenerName("PLAINTEXT");
        }

        @Override
        public ListenerName controllerListenerName() {
            return new ListenerName("CONTROLLER");
        }

        @Override
        public String bootstrapServers() {
            return bootstrapServers;
        }

        @Override
        public String bootstrapControllers() {
            return bootstrapControllers;
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return Arrays.stream(bootstrapServers.split(","))
                .map(address -> Integer.parseInt(address.substring(address.lastIndexOf(':') + 1))).toList();
        }

        @Override
        public String clusterId() {
            try (Admin admin = admin()) {
                return admin.describeCluster().clusterId().get();
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public void waitForReadyBrokers() throws InterruptedException {
            try (Admin admin = admin()) {
                waitUntil(() -> admin.describeCluster().nodes().get().size() == config.numBrokers(), "all are ready");
            }
        }

        @Override
        public void waitTopicCreation(String topic, int count) throws InterruptedException {
            try (Admin admin = admin()) {
                waitUntil(() -> {
                    var partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
                    return partitions.size() == count && partitions.stream().allMatch(one -> one.leader() != null);
                }, topic + " has " + count + " partitions with leaders");
            }
            ensureConsistentMetadata();
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            try (Admin admin = admin()) {
                waitUntil(() -> !admin.listTopics().names().get().contains(topic), topic + " is deleted");
            }
            ensureConsistentMetadata();
        }

        @Override
        public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) {
            ask("settle");
        }

        @Override
        public void ensureConsistentMetadata() {
            ask("settle");
        }

        @Override
        public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
            throw new TestAbortedException("it needs a broker's object");
        }
    }

    /** Brokers of another process: a test may count them and name them, but is aborted when it takes one. */
    private static final class BrokersElsewhere extends AbstractMap<Integer, KafkaBroker> {
        private final Set<Integer> ids;

        BrokersElsewhere(Set<Integer> ids) {
            this.ids = ids;
        }

        @Override
        public int size() {
            return ids.size();
        }

        @Override
        public Set<Integer> keySet() {
            return ids;
        }

        @Override
        public Set<Entry<Integer, KafkaBroker>> entrySet() {
            throw new TestAbortedException("it needs a broker's object");
        }
    }
}
