"""Lab 25 in whole clusters: your laws watch simulated histories after every event, and are scored.

Seven histories have one planted bug each, real code with one wrong rule; four are sound. A bug is killed when one of
your laws says what is wrong. The watcher's own laws are silent meanwhile. An alarm in a sound history is false, and
your score is 0.
"""

from pykraft.course.labs.plug import Outcome
from pykraft.course.lessons.find_the_bug.watched import watch
from pykraft.surroundings import pick
from pykraft.viz import bars

BUGS = {
    "wrong_line_1": 65,
    "a_high_watermark_one_replica_short": 64,
    "an_isr_grown_before_the_follower_caught_up": 25,
    "wrong_line_10": 5,
    "an_answer_matched_by_name_and_leader_epoch": 3210,
    "a_preferred_leader_elected_outside_the_isr": 407,
    "an_elr_member_kept_after_an_unclean_shutdown": 404,
}
"""Each with a seed in which the laws of the solution kill it."""
SOUND = (65, 62, 57, 2)
MOST_STEPS = 9_000


def run(work):
    """Watch all histories with the laws of `work`; they agree if every bug dies and no sound history does."""
    killed, lines = {}, []
    for bug, seed in BUGS.items():
        found = watch(work, seed, bug, MOST_STEPS)
        killed[bug] = found.step
        last = len(found.history) - 1
        is_judged = not found.words or work.judge(found.history) == last
        told = f"killed after event {found.step:,}: {found.words}" if found.words else "it lives"
        lines.append(f"{bug}, seed {seed}: {told}{'' if is_judged else '; your judge names another state'}.")
    steps = pick(small=1_500, full=4_000)
    alarms = [(seed, watch(work, seed, most_steps=steps)) for seed in SOUND]
    false = [f"Seed {seed} is sound, and you say: {found.words}." for seed, found in alarms if found.words]
    score = 0 if false else sum(step > 0 for step in killed.values())
    compared = {"planted bugs killed": (sum(step > 0 for step in killed.values()), len(BUGS))}
    compared["false alarms"] = (len(false), 0)
    title = f"Your laws killed {compared['planted bugs killed'][0]} of {len(BUGS)} bugs, with {len(false)} false alarms"
    figure = bars({name: float(step) for name, step in killed.items()}, unit="events until it died", title=title)
    lines = (f"Your score: {score} of {len(BUGS)}.", *lines, *false)
    return Outcome(compared, lines, (), figure, {"killed": killed, "false": false})
