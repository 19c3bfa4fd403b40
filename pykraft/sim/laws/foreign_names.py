"""How the names begin that strangers give (`sim.foreign.words`).

The laws must tell the strangers' names from those of other clients: whatever a stranger does to its own topics, groups
and producers breaks no promise, and whatever a stranger without rights has named must not be there.
"""

OWN = "foreign"
"""Those of strangers with all rights: what they ask for is done."""
OWN_WITHOUT_RIGHTS = "powerless"
"""Those of strangers without any: what they ask for is refused."""


def is_foreign(name: str) -> bool:
    """Whether a topic, a group or a producer is the strangers' own. They write to the coordinators' topics themselves,
    so the coordinator of such a group learns some of it only when it loads."""
    return name.startswith(OWN)
