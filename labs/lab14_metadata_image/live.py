"""Lab 14 in a live cluster: its nodes write your snapshots and start from them.

Three brokers and a controller write a snapshot after every few records, and your `snapshot_of` says what is in it.
Topics come and go, a setting changes, broker 3 dies. Then your `replay_log` makes an image of the log, and each node
must have it. At last broker 3 starts again: from your snapshot, and from the log after it. Your `start` does the same
with the controller's files.
"""

from pykraft import Cluster
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.course.lessons.metadata_log.metadata_log import (
    change_a_setting,
    death_of,
    image_of,
    images,
    metadata_log,
    newest_snapshot,
    side_by_side,
    wait_for_snapshot,
)
from pykraft.course.lessons.metadata_log.plain_metadata import (
    KINDS,
    differences,
    full_records,
    plain_image,
    plain_record,
    rows,
)
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, NOWHERE, MetadataImage
from pykraft.viz import image_map

OFTEN = {"metadata.log.max.record.bytes.between.snapshots": 600}
PLACE = "pykraft.metadata.image.MetadataImage.to_records"
CHANGES = 20
SHOWN = 24


def run(work):
    """Let nodes write snapshots of `work`, and start from them; it agrees if all images are the same."""
    own = MetadataImage.to_records
    place = {PLACE: lambda image: written(work, own, image)}
    with plugged(place) as plugs, Cluster(nodes=3, controllers=1, properties=OFTEN) as cluster:
        live(cluster)
        known = images(cluster)
        log = metadata_log(cluster)
        mine = replayed(work, log)
        apart = {node: differences(mine, plain_image(image)) for node, image in known.items()}
        end, _ = newest_snapshot(cluster, 3)
        cluster.restart(3)
        lost = differences(restarted(cluster), plain_image(image_of(cluster, 101)))
        files = started(work, cluster)
    agreeing = sum(not found for found in apart.values())
    lines = [
        f"Your image of {len(log)} records is that of {agreeing} of {len(apart)} nodes; it has {rows(mine)} rows.",
        f"Broker 3 started from your snapshot up to offset {end}: {told(lost)}.",
        f"Your start from the controller's files: {told(files)}.",
    ]
    lines += [f"Node {node}: your image differs in {found[0]}." for node, found in apart.items() if found][:1]
    title = f"Your image of {len(log)} records has {rows(mine)} rows"
    figure = image_map(*side_by_side(log[-SHOWN:], known[101]), title=title, note=f"The last {SHOWN} records")
    compared = {
        "nodes that have your image": (agreeing, len(apart)),
        "rows that differ after the restart": (len(lost), 0),
        "rows that differ after your start": (len(files), 0),
    }
    facts = {"agreeing": agreeing, "lost": len(lost), "end": end}
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def told(apart):
    if not apart:
        return "it knows all that the controller knows"
    return f"{len(apart)} {'row differs' if len(apart) == 1 else 'rows differ'}, first {apart[0]}"


def live(cluster):
    """What happens in the cluster: topics, a setting, a death, and the setting again."""
    cluster.create_topic("flights", partitions=3, configs={"retention.ms": "1000", "segment.bytes": "1048576"})
    cluster.create_topic("gone", partitions=2, configs={"retention.ms": "1000"})
    with cluster.admin() as admin:
        admin.delete_topics(["gone"])
    change_a_setting(cluster, "flights", times=CHANGES)
    wait_for_snapshot(cluster, 3)
    death_of(cluster, 3)
    change_a_setting(cluster, "flights", times=CHANGES // 2)


def written(work, own, image):
    """The records of a snapshot: yours for what the lab knows, pykraft's for everything else. ValueError if a broker,
    topic or partition is missing: the next record about it would end every node that starts from that file."""
    wanted = plain_image(image)
    mine = list(full_records(work.snapshot_of(plain_image(image)), image))
    found = [*mine, *((record, version) for record, version in own(image) if not isinstance(record, KINDS))]
    delta = MetadataDelta(EMPTY_IMAGE)
    for record, _ in found:
        delta.replay(record)
    read = plain_image(delta.apply(NOWHERE))
    for part in ("brokers", "topics", "partitions"):
        if missing := wanted[part].keys() - read[part].keys():
            raise ValueError(f"your snapshot lacks {part} {min(map(str, missing))}")
    return found


def replayed(work, log):
    """Your image of the controller's log."""
    image = work.new_image()
    work.replay_log(image, records(work, log), log[-1].offset + 1)
    return image


def records(work, entries):
    return [(entry.offset, work.Record(*plain_record(entry.record))) for entry in entries]


def restarted(cluster):
    """What broker 3 knows once it has read as far as the controller had when it started."""
    end = metadata_log(cluster)[-1].offset
    cluster.wait_until(lambda view: view.nodes[3].metadata_offset > end)
    return plain_image(image_of(cluster, 3))


def started(work, cluster):
    """In what your image of node 101's files differs from the one that the node has."""
    end, entries = newest_snapshot(cluster, 101)
    snapshot = work.Snapshot(end, True, [record for _, record in records(work, entries)])
    log = metadata_log(cluster, 101)
    mine = work.start([snapshot], records(work, log), log[-1].offset + 1)
    return differences(mine, plain_image(image_of(cluster, 101)))
