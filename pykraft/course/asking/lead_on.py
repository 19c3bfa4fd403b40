"""Leads a reader who has guessed on: to the next cell, or at a click of theirs through all cells up to the answer.

A click on a button selects the cell of the button, so Shift+Enter would ask the same question again. A kernel cannot
move the reader's cursor; a piece of HTML can, since JupyterLab's cells are elements of the same page. `lead_on` is such
a piece: an image that cannot be loaded, whose handler presses the mouse on the prompt of the next cell. `run_to` is a
button whose handler then presses Shift+Enter until it has passed the cell with the answer.

Both were tried for the click on an option. It only leads to the next cell: what is between a question and its answer is
worth reading, and a cell that runs for half a minute should not start by itself. Where the page is no JupyterLab the
handlers find no cell and do nothing.

As long as a field in an output has the keyboard, JupyterLab leaves it all keys, so Shift+Enter did nothing after a
number was typed. `runs_on_shift_enter` is a piece of HTML beside such a field: the field reports its number, gives the
keyboard back to the notebook, and presses Shift+Enter there.
"""

from uuid import uuid4

_NEXT = """
const after = cell => {
  let next = cell && cell.nextElementSibling;
  while (next && !next.matches(".jp-Cell")) next = next.nextElementSibling;
  return next;
};
const next = after(this.closest(".jp-Cell"));
const prompt = next && next.querySelector(".jp-InputPrompt");
if (prompt) {
  for (const kind of ["mousedown", "mouseup"])
    prompt.dispatchEvent(new MouseEvent(kind, {bubbles: true, button: 0}));
  next.closest(".jp-Notebook").focus();
  next.scrollIntoView({block: "nearest"});
}
"""
_PRESSED = """
const pressed = {key: "Enter", code: "Enter", keyCode: 13, shiftKey: true, bubbles: true, cancelable: true};
"""
_RUN = """
let left = 0, cell = next;
while (cell && !cell.textContent.includes(this.dataset.until)) { left += 1; cell = after(cell); }
for (left = cell ? left + 1 : 0; left; left -= 1)
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", pressed));
"""
_LISTEN = """
const output = this.closest(".jp-OutputArea-output");
if (output && !output.dataset.listens) {
  output.dataset.listens = 1;
  output.addEventListener("keydown", event => {
    const field = event.target.closest("input, .widget-readout");
    if (!field || event.key !== "Enter" || !event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    field.blur();
    output.closest(".jp-Notebook").focus();
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", pressed));
  }, true);
}
"""


def _in_one_line(script: str) -> str:
    """As the value of an attribute in single quotes."""
    return " ".join(script.split())


def lead_on() -> str:
    """HTML that leads on when it is put on the page. It does so once, though the page may draw it again: when its cell
    gets a second view, or when the browser loads the page again."""
    key = f'"pykraft {uuid4()}"'
    once = f"if (!sessionStorage.getItem({key})) {{ sessionStorage.setItem({key}, 1); {_in_one_line(_NEXT)} }}"
    return f"<img src='data:,' alt='' hidden onerror='{once} this.remove()'>"


def run_to(name: str) -> str:
    """A button that runs all cells from the one below it up to the one that answers this question."""
    until = f'data-until="nb.answer(&quot;{name}&quot;"'
    return (
        f"<button type='button' {until} onclick='{_in_one_line(_NEXT + _PRESSED + _RUN)}'>Run up to the answer</button>"
    )


def runs_on_shift_enter() -> str:
    """HTML that makes Shift+Enter run the cell while a field of the same output has the keyboard."""
    return f"<img src='data:,' alt='' hidden onerror='{_in_one_line(_PRESSED + _LISTEN)} this.remove()'>"
