"""Stories for notebooks 11, 13, 14, 18 and 19: the scenes that their player shows, for cells that look at one step.

The settings of a producer whose batches have one record each are here as well.
"""

from pykraft.story.scenes import scene
from pykraft.story.story import Story

ONE_RECORD_A_BATCH = {
    "batch.size": 1,
    "linger.ms": 0,
    "compression.type": "none",
    "max.in.flight.requests.per.connection": 1,
    "request.timeout.ms": 800,
    "delivery.timeout.ms": 4_000,
    "retry.backoff.ms": 100,
    "metadata.max.age.ms": 1_000,
}


def before_the_failure(name: str) -> Story:
    """The story of a scene, at the last step before something befalls it."""
    of = scene(name)
    story = of.begin(Story).run_until(of.failure_ms)
    story.at(story.step_at(of.failure_ms) - 1)
    return story
