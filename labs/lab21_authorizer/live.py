"""Lab 21 in a live cluster: its broker asks your rules, and three clients with certificates see what comes of it.

The cluster has TLS and pykraft's authorizer. Its rules are those of notebook 21: alice may write, everyone may read
what begins with fl, bob is denied READ. A picture of the answers is drawn by pykraft's own rules first. Then your code
takes the authorizer's place, the picture is drawn again, and the clients send their requests.
"""

from pykraft import Cluster
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.course.lessons.access.matrix import AccessMatrix
from pykraft.metadata.acls import binding

ALLOWS = "pykraft.broker.requests.standard_authorizer.StandardAuthorizer.allows"
PRINCIPALS = ("alice", "bob", "admin")
RULES = (
    "allow alice WRITE TOPIC flights",
    "allow * READ TOPIC fl...",
    "deny bob READ TOPIC flights",
    "allow bob CREATE TOPIC flights-2...",
    "allow bob DESCRIBE CLUSTER kafka-cluster",
    "deny alice WRITE TOPIC flights from 10.0.0.1",
)


def run(work):
    """Ask your rules; they agree if every cell and every request is answered as by pykraft's own."""
    with Cluster(nodes=1, security="SSL", properties={"authorizer.class.name": STANDARD_AUTHORIZER}) as cluster:
        cluster.create_topic("flights")
        matrix = AccessMatrix(cluster, PRINCIPALS)
        matrix.add(*RULES)
        wanted = matrix.cells
        with plugged({ALLOWS: place(work)}) as plugs:
            cells = matrix.cells
            figure = matrix.figure(f"Your rules answer {len(cells)} questions in a live broker")
            real = matrix.asked_for_real()
    wrong = [key for key, said in cells.items() if (said == "yes") != (wanted[key] == "yes")]
    served = [key for key, said in real.items() if (said == "yes") != (wanted[key] == "yes")]
    lines = [f"{len(cells) - len(wrong)} of {len(cells)} cells and {len(real) - len(served)} of {len(real)} requests."]
    lines += [
        f"May {who} {what}? Your rules say {cells[what, who]}, pykraft's {wanted[what, who]}." for what, who in wrong
    ]
    compared = {"cells with another answer": (len(wrong), 0), "requests with another answer": (len(served), 0)}
    facts = {"wrong": len(wrong), "served": len(served)}
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def place(work):
    """Your answer where pykraft's broker asks for one."""

    def allows(authorizer, context, operation, resource_type, name):
        rules = [rule_of(work, binding(record)) for record in authorizer._acls().values()]
        asked = work.Question(context.principal, context.client_address, operation.name, resource_type.name, name)
        return work.is_allowed(rules, asked, authorizer._super_users, False)

    return allows


def rule_of(work, each):
    """A rule of the cluster as your code has it."""
    return work.Rule(
        each.permission_type.name,
        each.principal,
        each.host,
        each.operation.name,
        each.resource_type.name,
        each.resource_name,
        each.pattern_type.name,
    )
