"""The law of images at the end of a history: what each node has is what the metadata log alone gives."""

from collections.abc import Collection, Mapping

from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.raft.log.state_machine import CommitReader
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.hosts import SimulatedNode


def check_images(
    nodes: Mapping[int, SimulatedNode], levels: Mapping[str, int], changing: Collection[str] | None
) -> MetadataImage:
    """Nodes at the same offset have the same image, at the levels of the cluster; returns the newest. `changing` are
    the features whose levels have changed meanwhile; None: any of them may have."""
    images: dict[int, MetadataImage] = {}
    for node_id, machine in nodes.items():
        assert machine.node is not None
        features = machine.node.loader.image.features
        if changing is not None:
            wanted = {name: level for name, level in levels.items() if level}
            wanted |= {name: features[name] for name in changing}
            require(features == wanted, f"node {node_id} runs at {features}; the cluster was formatted at {wanted}")
        fresh, log = MetadataLoader(), machine.node.raft.replica.log
        CommitReader(log, fresh).deliver(log.high_watermark)
        for image in (fresh.image, machine.node.loader.image):
            known = images.setdefault(image.provenance.offset, image)
            require(known == image, f"node {node_id} has another image at offset {image.provenance.offset}")
    return images[max(images)]
