// franz-go as a member of a group, or as one that commits and reads offsets; see group_member.py.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const heartbeat = 200 * time.Millisecond
const patience = 5 * time.Second // it tries a login that is refused again and again

var speaking sync.Mutex

func say(words ...string) {
	speaking.Lock()
	defer speaking.Unlock()
	fmt.Println(strings.Join(words, " "))
}

// owned is what the member has; each change of it is a line.
type owned map[string]bool

func (o owned) change(partitions map[string][]int32, has bool) {
	for topic, numbers := range partitions {
		for _, number := range numbers {
			name := fmt.Sprintf("%s-%d", topic, number)
			if has {
				o[name] = true
			} else {
				delete(o, name)
			}
		}
	}
	names := []string{"assigned"}
	for name := range o {
		names = append(names, name)
	}
	sort.Strings(names[1:])
	say(names...)
}

func session() time.Duration {
	if text := os.Getenv("GROUP_SESSION_MS"); text != "" {
		if milliseconds, err := strconv.Atoi(text); err == nil {
			return time.Duration(milliseconds) * time.Millisecond
		}
	}
	return 2 * time.Second
}

// reached is how the brokers are reached: as they are, or over TLS with a login, which GROUP_LOGIN has.
func reached(servers []string) ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(servers...)}
	words := strings.Fields(os.Getenv("GROUP_LOGIN"))
	if len(words) == 0 {
		return options, nil
	}
	authority, err := os.ReadFile(words[0])
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	login := scram.Auth{User: words[1], Pass: words[2]}
	return append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}), kgo.SASL(login.AsSha512Mechanism())), nil
}

func consume(servers []string, protocol, group, topic string) error {
	ctx := context.Background()
	has := owned{}
	gained := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { has.change(partitions, true) }
	gone := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { has.change(partitions, false) }
	options, err := reached(servers)
	if err != nil {
		return err
	}
	options = append(options,
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(100*time.Millisecond),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.OnPartitionsAssigned(gained),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	)
	if strings.HasPrefix(topic, "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	if protocol == "classic" {
		options = append(options, kgo.Balancers(kgo.RangeBalancer()),
			kgo.SessionTimeout(session()), kgo.HeartbeatInterval(heartbeat))
	} else {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for {
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
			say(fmt.Sprintf("%s-%d", record.Topic, record.Partition), strconv.FormatInt(record.Offset, 10))
		})
	}
}

func answer(servers []string) error {
	ctx := context.Background()
	options, err := reached(servers)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	admin := kadm.NewClient(client)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Split(lines.Text(), " ")
		group, topic := words[1], words[2]
		number, err := strconv.Atoi(words[3])
		if err != nil {
			return err
		}
		if words[0] == "commit" {
			at, err := strconv.ParseInt(words[4], 10, 64)
			if err != nil {
				return err
			}
			offsets := kadm.Offsets{}
			offsets.Add(kadm.Offset{Topic: topic, Partition: int32(number), At: at, LeaderEpoch: -1, Metadata: words[5]})
			if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
				return err
			}
			say("done")
		} else if words[0] == "write" {
			record := &kgo.Record{Topic: topic, Partition: int32(number), Value: []byte(words[4])}
			writing, done := context.WithTimeout(ctx, patience)
			err := client.ProduceSync(writing, record).FirstErr()
			done()
			if err != nil {
				return err
			}
			say(strconv.FormatInt(record.Offset, 10))
		} else {
			offsets, err := admin.FetchOffsets(ctx, group)
			if err != nil {
				return err
			}
			found, ok := offsets.Lookup(topic, int32(number))
			if !ok {
				say("none")
			} else {
				say(strconv.FormatInt(found.At, 10), found.Metadata)
			}
		}
	}
	return nil
}

func main() {
	servers := strings.Split(os.Args[2], ",")
	protocol := "classic"
	if os.Args[1] == "franz-go-848" {
		protocol = "consumer"
	}
	var err error
	if len(os.Args) == 3 {
		err = answer(servers)
	} else {
		err = consume(servers, protocol, os.Args[3], os.Args[4])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
