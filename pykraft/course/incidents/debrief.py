"""The debrief after an incident: what happened, which command showed it, and what each repair costs, in numbers.

The numbers of a reader's own shift are counted in it. Those of the other ways (the cure, two wrong cures, and doing
nothing) are the same in every run, so they are in ``measured.json``; a test plays all of them again, and compares.

::

    .venv/bin/python -c "from pykraft.course.incidents.debrief import write; write()"      writes the file
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykraft.course.incidents.incident import HANDED_ON, LOST, OPEN, SOLVED, Incident, Script, Shift
from pykraft.surroundings import Shown, is_headless

MEASURED = Path(__file__).with_name("measured.json")
SEED = 7
NOTHING_S = 180
"""For so long doing nothing is looked at."""
_WRONG_S = 240
_WORDS = {OPEN: "open", SOLVED: "solved", HANDED_ON: "handed on"}


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _in_words(shown: Incident, state: str) -> str:
    return shown.LOSS if state == LOST else _WORDS[state]


def ways(made: type[Incident]) -> Iterator[tuple[str, Script, float]]:
    """What can be done: a name, the lines, and for how long it is looked at."""
    yield "the cure", made.CURE, 1_800
    yield "doing nothing", (), NOTHING_S
    for wrong in made.WRONG:
        yield wrong.name, wrong.script, _WRONG_S


def play(made: type[Incident], script: Script, seconds: float, seed: int = SEED) -> Shift:
    """A shift in which these lines are typed, and then time passes: so long, or until it is over."""
    shift = Shift.begin(made, seed)
    shift.play(script)
    shift.advance(round(seconds * 1000 - shift.incident.seconds * 1000))
    return shift


def measured_of(shift: Shift) -> dict[str, Any]:
    """What a shift has cost."""
    shown = shift.incident
    return {
        "state": shown.state,
        "seconds": round(shown.history[-1][0] if shift.is_over else shown.seconds),
        "counters": {each.label: each.value for each in shown.counters()},
    }


def measure(made: type[Incident]) -> dict[str, dict[str, Any]]:
    """Play all ways; takes seconds."""
    return {name: measured_of(play(made, script, seconds)) for name, script, seconds in ways(made)}


def read_measured(number: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))[str(number)]
    return found


def debrief(shift: Shift) -> Shown:
    """The whole debrief of a shift that is over. One that is open says only how long it has been."""
    shown = shift.incident
    if not shift.is_over:
        text = f"The incident has been open for {clock(shown.seconds)}. The debrief comes when it is over."
        return Shown(text, markdown=text)
    head = (
        f"Incident {shown.NUMBER}, {shown.TITLE}: {_in_words(shown, shown.state)} after {clock(shown.history[-1][0])}"
    )
    table = _table(shift)
    parts = [*shown.STORY, "**Which command showed it**", "\n".join(_commands(shown))]
    parts += ["**What each repair costs**", "\n".join(table)]
    parts += [f"- *{wrong.name}*: {wrong.about}" for wrong in shown.WRONG]
    body = "\n\n".join(parts)
    link = f"This shift, to be replayed: `incident({shift.link!r})`"
    if is_headless():
        told = f"<details><summary>{head}. Spoiler: open it after your own shift.</summary>\n\n{body}\n\n</details>"
        return Shown(head, markdown=told)
    return Shown(f"{head}\n\n{body}\n\n{link}", markdown=f"### {head}\n\n{body}\n\n{link}")


def _commands(shown: Incident) -> Iterator[str]:
    for command, what in shown.SHOWN_BY:
        yield f"- `{command}`: {what}"


def _table(shift: Shift) -> list[str]:
    """One row for each way, with this shift as the first."""
    labels = [each.label for each in shift.incident.counters()]
    rows = {} if is_headless() else {"**your shift**": measured_of(shift)}
    rows |= read_measured(shift.incident.NUMBER)
    lines = [f"| way | it ends | after | {' | '.join(labels)} |", f"|---|---|---:|{'---:|' * len(labels)}"]
    for name, row in rows.items():
        values = " | ".join(f"{row['counters'][label]:,}" for label in labels)
        lines.append(f"| {name} | {_in_words(shift.incident, row['state'])} | {clock(row['seconds'])} | {values} |")
    return lines


def write() -> None:
    """Write what all ways of all incidents cost."""
    from pykraft.course.incidents.catalogue import INCIDENTS

    found = {str(number): measure(made) for number, made in INCIDENTS.items()}
    MEASURED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
