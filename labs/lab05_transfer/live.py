"""Lab 05 in a live cluster: the large answers of a broker leave through your transfer.

A broker holds some flights. Its sockets have small buffers, so an answer of several hundred kilobytes leaves in many
turns. Between them the broker serves other connections, and your `Transfer` remembers how far it came. librdkafka reads
the flights and checks every batch. It runs in a process of its own: a wrong transfer may send bytes that crash it.

pykraft's brokers do not speak TLS yet. So your transfer also sends the log's file over a TLS connection beside the
cluster, as you would copy it to another place.
"""

import json
import socket
import ssl
import zlib
from contextlib import ExitStack
from itertools import islice

from pykraft import Cluster, NewTopic, Producer
from pykraft.course.labs.plug import Outcome, at_least, plugged
from pykraft.course.lessons.zero_copy.certificate import reading_side, sending_side
from pykraft.course.lessons.zero_copy.programs import Program, ProgramFailed
from pykraft.datasets import flights
from pykraft.surroundings import pick
from pykraft.viz import bars

TOPIC = "flights"
SMALL_BUFFERS = {"socket.send.buffer.bytes": "16384"}
FLUSH = "pykraft.network.selector.Stream.flush"
TURNS_SHOWN = 10
TURNS_AT_MOST = 100_000
READER = """
import json, sys, zlib
from confluent_kafka import Consumer, TopicPartition

servers, wanted = sys.argv[1], int(sys.argv[2])
settings = {"bootstrap.servers": servers, "group.id": "lab", "enable.auto.commit": False, "log_level": 0}
consumer = Consumer({**settings, "check.crcs": True, "socket.receive.buffer.bytes": 32_768})
consumer.assign([TopicPartition("flights", 0, 0)])
found, refused, empty = [], 0, 0
while len(found) < wanted and empty < 3 and refused < 20:
    messages = consumer.consume(min(1_000, wanted - len(found)), timeout=1)
    found += [zlib.crc32(message.value()) for message in messages if not message.error()]
    refused += sum(message.error() is not None for message in messages)
    empty = 0 if messages else empty + 1
print(json.dumps([found, refused]), flush=True)
consumer.close()
"""
"""Prints checksums of the records that it gets, in order, and how often it refused a batch."""


class Answer:
    """One large answer: your transfer of it, and how many bytes went at each turn."""

    def __init__(self, work, stream, region):
        self.descriptor = region._file.descriptor  # held, so that its number stays this file's
        start = region._position + stream._sent_of_first
        self.size = len(region) - stream._sent_of_first
        self.transfer = work.Transfer(self.descriptor.number, start, self.size)
        self.turns = []

    @property
    def is_sent(self):
        return sum(self.turns) >= self.size


def run(work):
    """Answer with the transfers of `work`; the outcome agrees if every flight arrives, and nothing else."""
    events = list(islice(flights(), pick(small=4_000, full=30_000)))
    answers = []
    with Cluster(nodes=1, properties=SMALL_BUFFERS) as cluster:
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs={"retention.ms": "-1"})])
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5) as producer:
            for event in events:
                producer.send(TOPIC, event.value, event.key, timestamp_ms=event.timestamp_ms)
        with plugged({FLUSH: flush_with(work, answers)}) as plugs:
            found, refused = read(cluster, len(events))
        (node,) = cluster.node_ids
        segment = cluster.partition_directory(node, TOPIC, 0) / f"{0:020d}.log"
        came, problem = over_tls(work, segment)
        same = came == segment.read_bytes()
        segment_bytes = segment.stat().st_size
    plugs[FLUSH].calls = sum(len(answer.turns) for answer in answers)  # and not those without a large answer
    right = sum(zlib.crc32(event.value) == crc for event, crc in zip(events, found, strict=False))
    turns = [turn for answer in answers for turn in answer.turns]
    waits = len(turns) - sum(answer.is_sent for answer in answers)
    lines = [
        f"Large answers: {len(answers)}, with {sum(answer.size for answer in answers):,} bytes in all. They left in "
        f"{len(turns)} turns, and {waits} of these ended because the socket was full.",
        f"{right:,} of {len(events):,} flights arrived at their place.",
        "librdkafka gave up." if refused is None else f"librdkafka refused what came {times(refused)}.",
        f"Over TLS the log's file {'arrived as it is' if same else 'did not arrive'}{problem}.",
    ]
    facts = {"answers": len(answers), "turns": turns, "right": right, "refused": refused, "tls": same}
    compared = {
        "flights at their place": (right, len(events)),
        "flights that arrived": (len(found), len(events)),
        "batches that librdkafka refused": ("all, it gave up" if refused is None else refused, 0),
        "bytes of the file over TLS as they are": (len(came) if same else 0, segment_bytes),
        "large answers": (len(answers), at_least(1)),
    }
    return Outcome(compared, tuple(lines), tuple(plugs.values()), picture(answers), facts)


def flush_with(work, answers):
    """A `Stream.flush` that sends large pieces of files by your code, and everything else as before."""
    under_way = {}

    def flush(stream):
        while stream.has_output:
            region = stream._out[0]
            if not stream._sends_file(region):
                try:
                    stream._advance(stream.sock.sendmsg(stream._gathered()))  # what comes before a large piece
                except BlockingIOError:
                    return
                continue
            if region not in under_way:
                under_way[region] = Answer(work, stream, region)
                answers.append(under_way[region])
            answer = under_way[region]
            answer.turns.append(0)
            try:
                answer.turns[-1] = answer.transfer.transfer_to(stream.sock)
            except Exception:
                stream._out.clear()  # how much left is unknown: this connection has to end
                stream.sock.shutdown(socket.SHUT_RDWR)
                raise
            stream._advance(answer.turns[-1])
            if answer.transfer.remaining:
                return  # until the socket is ready again
            del under_way[region]

    return flush


def picture(answers):
    """How the answer with the most turns left."""
    if not answers:
        return None
    answer = max(answers, key=lambda each: len(each.turns))
    shown = answer.turns[:TURNS_SHOWN]
    return bars(
        {f"turn {number}": count / 1000 for number, count in enumerate(shown, 1)},
        unit="KB",
        title=f"An answer of {answer.size / 1000:,.0f} KB left in {len(answer.turns)} turns",
        note=f"What the socket took at the first {len(shown)}: now more, now less, as the reader makes room.",
    )


def read(cluster, wanted):
    """What the reader has printed; nothing, and None, if it has ended before."""
    reader = Program(READER, cluster.bootstrap_servers, wanted)
    try:
        found, refused = json.loads(reader.hear())
    except ProgramFailed:
        found, refused = [], None
    finally:
        reader.close()
    return found, refused


def over_tls(work, path):
    """What arrives of a file that your transfer sends over a TLS connection, and what went wrong, in words."""
    came = b""
    with ExitStack() as stack, path.open("rb") as file:
        out, end = (stack.enter_context(side) for side in tls_connection())
        try:
            transfer = work.Transfer(file.fileno(), 0, path.stat().st_size)
            for _ in range(TURNS_AT_MOST):
                transfer.transfer_to(out)
                came += arrived(end)
                if not transfer.remaining:
                    return came + arrived(end), ""
        except Exception as error:
            return came, f": {type(error).__name__}: {error}"
    return came, f": after {TURNS_AT_MOST:,} turns some of it had still not left"


def tls_connection():
    """The two ends of a connection on this machine; neither waits."""
    out, end = socket.socketpair()
    sides = [
        sending_side().wrap_socket(out, server_side=True, do_handshake_on_connect=False),
        reading_side().wrap_socket(end, do_handshake_on_connect=False),
    ]
    waiting = list(sides)
    for side in sides:
        side.setblocking(False)
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue  # it is the other side's turn
    return sides


def arrived(end):
    """All that can be read without waiting."""
    found = b""
    try:
        while more := end.recv(65_536):
            found += more
    except ssl.SSLWantReadError:
        pass
    return found


def times(count):
    return "once" if count == 1 else f"{count:,} times"
