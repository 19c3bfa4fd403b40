"""A learner's file in the browser: kept in its storage, and behind a button that downloads it.

A machine on Binder is gone an hour after the last click, and the file with it. So there each saved task also goes into
the storage of the browser (`kept`), and a lab that begins offers what is in it (`found_again`). The page does that by
itself, with a few lines of JavaScript in an output. It can give the text back as a file; the learner moves that file
into the lab's folder, since a page cannot write there. The storage belongs to a host, and Binder has several: the
button is the safer of the two.
"""

import base64
import json
import os

_ON_BINDER = "BINDER_LAUNCH_HOST"
"""A variable that Binder sets."""
_EARLIER = "-earlier"
"""What follows the name of a file that an earlier machine has kept."""
_BUTTON = (
    "display:inline-block;padding:2px 10px;border:1px solid currentColor;border-radius:4px;text-decoration:none;"
    "color:inherit"
)


def is_on_binder() -> bool:
    return bool(os.environ.get(_ON_BINDER))


def storage_key(number: str) -> str:
    """Under which name the browser keeps the file of a lab."""
    return f"pykraft-lab{number}"


def download_button(name: str, text: str) -> str:
    """A link that looks like a button; it holds the whole file, and needs no server."""
    data = base64.b64encode(text.encode()).decode()
    return f'<a style="{_BUTTON}" download="{name}" href="data:text/plain;base64,{data}">Download {name}</a>'


def kept(number: str, text: str, *, is_first: bool) -> str:
    """A piece of a page that puts the file into the browser's storage. The machine's first one moves what an earlier
    machine has left there aside: the learner may not have restored it yet."""
    key = _literal(storage_key(number))
    aside = f"""<script>
(function () {{
  const text = localStorage.getItem({key});
  if (text !== null) localStorage.setItem({key} + "{_EARLIER}", text);
}})();
</script>"""
    return f"{aside if is_first else ''}<script>localStorage.setItem({key}, {_literal(text)});</script>"


def found_again(number: str, name: str) -> str:
    """A piece of a page that offers the files in the browser's storage, the newest first, if there are any."""
    return f"""<div id="{storage_key(number)}"></div><script>
(function () {{
  const key = {_literal(storage_key(number))};
  const place = document.getElementById(key);
  const texts = ["", "{_EARLIER}"].map(which => localStorage.getItem(key + which)).filter(text => text !== null);
  if (texts.length === 0 || place === null) return;
  const links = texts.map((text, number) => {{
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], {{type: "text/plain"}}));
    link.download = {_literal(name)};
    link.textContent = number === 0 ? "Download it" : "download the one before it";
    return link;
  }});
  place.append("Your browser has kept the file of an earlier visit. ", links[0], ...links.slice(1).flatMap(
    link => [" or ", link]), ", and drag it into this lab's folder, in the place of the new one.");
}})();
</script>"""


def _literal(text: str) -> str:
    """Text as JavaScript has it, also inside a page: it must not end the script."""
    return json.dumps(text).replace("</", "<\\/")
