"""Notebook 14 must turn red when an image is not the log's, a death costs other records, or a snapshot lacks some."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "14_metadata_log.ipynb"

NODES_THAT_KNOW_BETTER = """
from dataclasses import replace

from pykraft.metadata.loader import MetadataLoader

read = MetadataLoader.image.fget
MetadataLoader.image = property(lambda loader: replace(read(loader), next_producer_id=7))
"""

HEARTBEATS_ARE_WRITTEN_DOWN = """
from dataclasses import replace

from pykraft.controller.cluster_control import ClusterControl
from pykraft.protocol.messages.records import ConfigRecord

answer = ClusterControl.heartbeat

def heartbeat(self, image, request, now):
    result = answer(self, image, request, now)
    result.records.append((ConfigRecord(resource_type=2, resource_name="flights", name="heard", value=str(now)), 0))
    return result

ClusterControl.heartbeat = heartbeat
"""

A_DEATH_FORGETS_A_PARTITION = """
from pykraft.controller.partitions.replication_control import ReplicationControl

plan = ReplicationControl.plan_broker_gone
ReplicationControl.plan_broker_gone = lambda control, image, broker_id: list(plan(control, image, broker_id))[1:]
"""

SNAPSHOTS_WITHOUT_SETTINGS = """
from dataclasses import replace

from pykraft.metadata.image import MetadataImage

whole = MetadataImage.to_records
MetadataImage.to_records = lambda image: whole(replace(image, configs={}))
"""

STARTS_FROM_THE_BEGINNING = """
from pykraft.metadata.snapshot_generator import SnapshotGenerator

SnapshotGenerator._write = lambda generator, batch: None
"""


@pytest.mark.parametrize(
    ("plant", "heading", "claim"),
    [
        (NODES_THAT_KNOW_BETTER, "2. ", "Our replay of the log is the image that each of the four nodes has"),
        pytest.param(HEARTBEATS_ARE_WRITTEN_DOWN, "3. ", "Thirty heartbeats write nothing", marks=pytest.mark.long),
        pytest.param(A_DEATH_FORGETS_A_PARTITION, "4. ", "A dead broker costs one record", marks=pytest.mark.long),
        pytest.param(SNAPSHOTS_WITHOUT_SETTINGS, "Where", "The snapshot makes the image", marks=pytest.mark.long),
        pytest.param(STARTS_FROM_THE_BEGINNING, "Where", "A start replays a snapshot", marks=pytest.mark.long),
    ],
    ids=["another image", "heartbeats", "a partition is forgotten", "no settings", "from the beginning"],
)
def test_a_broken_metadata_log_turns_the_notebook_red(plant: str, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(heading, path=PATH, before=plant)
