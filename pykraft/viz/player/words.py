"""What a player shows, in words: for screen readers, terminals, and a notebook that no reader sits in front of."""

from typing import Any


def in_words(data: dict[str, Any]) -> str:
    """The title, what happened when, and what came of it."""
    film = data["film"]
    end = "" if data["title"].endswith("?") else "."
    lines = [f"{data['title']}{end} {data['about']}"]
    lines += [f"Moment {number}, {ms:,.0f} ms: {text}." for number, (ms, text) in enumerate(data["moments"], 1)]
    lines += [f"{ms:,.0f} ms: {text}." for ms, _, text, _ in film["marks"]]
    return "\n".join([*lines, outcome_in_words(film), f"As one line of text: {data['link']}"])


def outcome_in_words(film: dict[str, Any]) -> str:
    """How it is at the end of a film: how many acknowledged records survive, or what else its scene tells of."""
    if film["figures"]:
        return " · ".join(filter(None, film["figures"][-1][1:]))
    _, acknowledged, surviving = film["losses"][-1] if film["losses"] else (0, 0, 0)
    gone = acknowledged - surviving
    what = f"{gone} acknowledged record{' is' if gone == 1 else 's are'} gone" if gone else "none is lost"
    return f"acknowledged {acknowledged} · surviving {surviving} · {what}"
