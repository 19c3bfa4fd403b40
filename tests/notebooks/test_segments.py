"""What notebook 02 says of an index without a claim: it saves read calls, and hardly any bytes."""

from __future__ import annotations

from pykraft import Cluster, NewTopic
from pykraft.course import Lesson
from pykraft.course.lessons.segments_and_indexes.segments import Partition, write_ticks


def test_in_the_middle_of_a_segment_a_scan_makes_ten_times_the_calls_and_reads_hardly_more_bytes() -> None:
    with Cluster(nodes=1) as cluster:
        Lesson.fresh_topic(cluster, NewTopic("ticks", 1, 1, topic_configs={"segment.bytes": str(4 << 20)}))
        ticks = Partition(cluster, "ticks")
        write_ticks(ticks, 150_000)
        cluster.stop(1)  # the newest index entries are in the node's memory; an orderly stop writes them
        cluster.restart(1)
        scan, lookup = (ticks.cost(73_000, with_index=is_indexed) for is_indexed in (False, True))
    assert lookup.calls <= 3 and scan.calls > 10 * lookup.calls
    assert scan.bytes < 1.5 * lookup.bytes
