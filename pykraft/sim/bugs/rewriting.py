"""Replaces a function of the running code by one of another text: a planted line, or a reader's mend.

A `Rewrite` names a module, a function in it, and the function's new text. The text is compiled with the names of its
module and put where the function was (`planting.put`), so it holds for every cluster of the process. Nothing is written
to the disk. The lines keep the numbers that they have in the file, and a traceback names them::

    rewrite = Rewrite("pykraft.raft.leader_state", "LeaderState._update_high_watermark", text)
    rewrite.apply()

A text may be another person's, from a certificate for instance, and it runs with your rights. So `check` refuses
what a rule of Kafka does not need: an import, a name with two underscores, and every word that the module does not have
already. That is no sandbox, and it keeps out what opens files, starts programs and connects.
"""

import __future__

import ast
import inspect
import sys
import textwrap
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from pykraft.sim.bugs.planting import put

PACKAGE = "pykraft."
_HARMLESS = frozenset(
    {"abs", "all", "any", "bool", "dict", "enumerate", "float", "frozenset", "int", "isinstance", "len", "list", "max"}
    | {"min", "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"}
)
"""Built-in words that a mend may use in any module."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Refused(ValueError):  # noqa: N818 (it tells what is the case)
    """A text that is not put in place of a function; the words say why."""


class Rewrite(NamedTuple):
    """A function's new text."""

    module: str
    function: str
    """Its qualified name: ``Partition.advance_high_watermark``."""
    text: str

    def check(self) -> None:
        """Refused: it is not one function of that name, or has a word that is none of its module's."""
        node = _parsed(self.text)
        name = self.function.rpartition(".")[2]
        if node.name != name:
            raise Refused(f"the text defines {node.name}, and {name} is to be replaced")
        known = words_of(module_text(self.module)) | _HARMLESS | _bound(node)
        for word in sorted(words_of(self.text)):
            if word.startswith("__") or word not in known:
                raise Refused(f"the text has the word {word!r}, which {self.module} does not have")
        if any(isinstance(each, ast.Import | ast.ImportFrom) for each in ast.walk(node)):
            raise Refused("the text imports something: a rule of the module needs nothing new")

    def apply(self) -> None:
        """Put it in place of the function. Refused: the module or the function does not exist, or Python refuses it."""
        module = _module(self.module)
        owner: Any = module
        *path, name = self.function.split(".")
        for part in path:
            owner = getattr(owner, part)
        node = _parsed(self.text)
        first, _ = place_of(self.module, self.function)
        ast.increment_lineno(node, first - 1)
        flags = __future__.annotations.compiler_flag if "annotations" in vars(module) else 0
        code = compile(
            ast.Module([node], []), inspect.getsourcefile(module) or self.module, "exec", flags, dont_inherit=True
        )
        found: dict[str, Any] = {}
        exec(code, vars(module), found)
        made = found[name]
        for each in (made, getattr(made, "fget", None), getattr(made, "__func__", None)):
            if inspect.isfunction(each):
                each.__qualname__ = self.function
        put(owner, name, made)


def module_text(module: str) -> str:
    """The text of a module's file. Refused: there is none."""
    try:
        return inspect.getsource(_module(module))
    except OSError:
        raise Refused(f"the text of {module} is not on this machine") from None


def place_of(module: str, function: str) -> tuple[int, int]:
    """The first and the last line of a function in its file, decorators included. Refused: there is no such one."""
    places = functions_of(module)
    if function not in places:
        raise Refused(f"{module} has no function {function}")
    return places[function]


@cache
def functions_of(module: str) -> dict[str, tuple[int, int]]:
    """The functions and methods of a module by their qualified names, with their first and last lines."""
    found: dict[str, tuple[int, int]] = {}
    for node in ast.parse(module_text(module)).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in members:
            if isinstance(each, _Function):
                first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
                found[prefix + each.name] = first, each.end_lineno or each.lineno
    return found


def function_text(module: str, function: str) -> str:
    """The text of a function as its file has it, indentation included."""
    first, last = place_of(module, function)
    return "\n".join(module_text(module).splitlines()[first - 1 : last])


def words_of(text: str) -> set[str]:
    """All names and attributes of a text."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(textwrap.dedent(text))):
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.update(value.split("."))
    return found


def _bound(node: ast.AST) -> set[str]:
    """Names that the text gives to something itself."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _parsed(text: str) -> _Function:
    try:
        body = ast.parse(textwrap.dedent(text)).body
    except SyntaxError as error:
        raise Refused(f"Python does not understand line {error.lineno}: {error.msg}") from None
    if len(body) != 1 or not isinstance(body[0], _Function):
        raise Refused("the text must be one function: it begins with def, and nothing comes before or after it")
    return body[0]


def _module(name: str) -> Any:
    if not name.startswith(PACKAGE):
        raise Refused(f"{name} is no module of {PACKAGE.rstrip('.')}")
    try:
        return sys.modules.get(name) or import_module(name)
    except ImportError:
        raise Refused(f"there is no module {name}") from None
