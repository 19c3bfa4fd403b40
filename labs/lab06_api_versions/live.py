"""Lab 06 in a live cluster: your codec talks to a broker.

For each version of ApiVersions a plain socket carries your request to a broker, and your code reads what comes back;
then it asks for version 99. The broker records the frames, so the picture shows your bytes as its decoder sees them.
What the broker serves is known beside it, from its own table.
"""

from pykraft import Cluster
from pykraft.course.labs.plug import Outcome
from pykraft.course.rigs.by_hand import Wire
from pykraft.protocol.api import ListenerKind, advertised
from pykraft.viz import explore

VERSIONS = (0, 1, 2, 3, 4, 99)
UNSUPPORTED_VERSION = 35
OURS = {0: (3, 9), 1: (4, 12), 3: (0, 9), 4: (0, 7), 18: (0, 4)}
"""What an older client could speak. API 4 is gone since Kafka 4.0."""


def run(work):
    """Ask a broker in each version; it agrees if all that was read is what the broker serves."""
    served = {key: (low, high) for key, low, high in advertised(ListenerKind.BROKER)}
    with Cluster(nodes=1) as cluster, cluster.record_frames() as recorded:
        said = {version: ask(work, cluster, version) for version in VERSIONS}
    wanted = {version: (version, 0, served) for version in VERSIONS}
    wanted[99] = (99, UNSUPPORTED_VERSION, {18: served[18]})
    right = [version for version in VERSIONS if said[version] == wanted[version]]
    ranges = said[4][2] if isinstance(said[4], tuple) else {}
    agreed = work.agreed_versions(OURS, ranges)
    lines = (
        f"The broker answered, and your code read the answer, in {len(right)} of {len(VERSIONS)} versions.",
        *(f"Version {version}: {told(said[version])}." for version in VERSIONS if version not in right),
        f"A client of some years ago would speak {dict(sorted(agreed.items()))} with this broker.",
    )
    frame = next((each.request for each in reversed(recorded.exchanges) if each.version != 99), None)
    figure = None if frame is None else explore(frame, title="Your request, as the broker reads it")
    compared = {
        "versions that your code read as they are": (len(right), len(VERSIONS)),
        "versions that an older client would speak": (dict(sorted(agreed.items())), {0: 9, 1: 12, 3: 9, 18: 4}),
    }
    return Outcome(compared, lines, (), figure, {"right": right, "agreed": agreed})


def ask(work, cluster, version):
    """What your code reads of the broker's answer; a sentence if there is none, or if your code raises."""
    wire = Wire(cluster)
    try:
        # Versions after 4 look like version 4: we do not know their fields.
        request = work.api_versions_request(version, version, "learner", "lab-06", "1.0")
        response = wire.ask(request)
        return work.read_api_versions(response, version) if response else "the broker closed the connection"
    except Exception as error:  # the learner's, whatever it is
        return f"{type(error).__name__}: {error}"
    finally:
        wire.close()


def told(said):
    if isinstance(said, str):
        return said
    correlation_id, error, ranges = said
    return f"your code read correlation id {correlation_id}, error {error} and {len(ranges)} APIs"
