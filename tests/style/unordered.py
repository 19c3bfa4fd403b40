"""Finds what could let a machine into a simulated history: places that go through a set, and numbers from a hash.

A set gives its members by their hashes. Those of texts and bytes differ from process to process, and those of tuples
and large numbers with the size of a word; a history must depend on neither. `hash` itself differs the same way, and so
does ``Random(0.5)``, which calls it. `id` is an address: a key to look up by, not one to sort by.

Python does not say of an expression whether it is a set, so the source is read for it: displays, calls of `set`, unions
and differences of sets and of `keys()`, names that the module declares or assigns as sets, and attributes and functions
that are sets wherever pykraft declares them. What takes a set as a whole is left alone: `sorted`, `len`, another set.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

FREELY = "any order"
"""These words in a comment of the line say that the order does not matter there."""
_KINDS = ("set", "frozenset", "Set", "AbstractSet", "MutableSet")
_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_OPERATIONS = {"union", "intersection", "difference", "symmetric_difference"}
_VIEWS = {"keys", "items"}
_WHOLE = {"sorted", "len", "set", "frozenset", "any", "all", "sum", "min", "max"}
"""What comes out of these is the same in every order; with a `key` it need not be."""
_IN_TURN = {
    "list",
    "tuple",
    "iter",
    "enumerate",
    "zip",
    "map",
    "filter",
    "dict",
    "deque",
    "Counter",
    "chain",
    "reversed",
}
_METHODS_IN_TURN = {"join", "extend", "fromkeys", "from_iterable", "choice", "choices", "sample", "shuffle"}
_SAME_SEEDS = (int, str)

Declared = Mapping[str, bool]
"""By the name of an attribute or function: whether it is a set wherever it is declared."""


def declared_sets(modules: Iterable[Iterable[ast.AST]]) -> Declared:
    """What these modules, by their nodes, declare as sets, and as something else."""
    kinds: defaultdict[str, set[bool]] = defaultdict(set)
    for nodes in modules:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                        kinds[each.target.id].add(_is_set_type(each.annotation))
            elif isinstance(node, ast.FunctionDef):
                kinds[node.name].add(_is_set_type(node.returns))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
                kinds[node.target.attr].add(_is_set_type(node.annotation))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                if isinstance(node.value, ast.Set | ast.SetComp) or _calls(node.value, {"set", "frozenset"}):
                    kinds[node.targets[0].attr].add(True)
                elif isinstance(node.value, ast.List | ast.Dict | ast.Tuple | ast.ListComp | ast.DictComp):
                    kinds[node.targets[0].attr].add(False)
    return {name: found == {True} for name, found in kinds.items()}


def unordered(path: str, text: str, tree: ast.Module, declared: Declared) -> Iterator[str]:
    """The lines of a module that depend on an order, a hash or an address that another machine has otherwise."""
    lines = text.split("\n")
    reader = _Reader(declared)
    reader.visit(tree)
    for number, what in sorted(set(reader.found)):
        line = lines[number - 1]
        if FREELY not in line.partition("#")[2]:
            yield f"{path}:{number}: {what}: {line.strip()}"


def _is_set_type(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Subscript):
        return _is_set_type(annotation.value)
    if isinstance(annotation, ast.BinOp):
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    return isinstance(annotation, ast.Name) and annotation.id in _KINDS


def _calls(node: ast.expr, names: set[str]) -> bool:
    """Whether that is the call of one of these functions."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Subscript):
        function = function.value
    return isinstance(function, ast.Name) and function.id in names


class _Reader(ast.NodeVisitor):
    """Goes through a module, function by function."""

    def __init__(self, declared: Declared) -> None:
        self.found: list[tuple[int, str]] = []
        self._declared = declared
        self._locals: list[dict[str, bool]] = [{}]
        self._free: set[int] = set()
        """The generators of which only the whole counts."""

    # --- what is a set ------------------------------------------------------------------------------------------------

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
                return any(self._is_set(side) or _is_view(side) for side in (left, right))
            case ast.IfExp(body=one, orelse=other):
                return self._is_set(one) or self._is_set(other)
            case ast.Name(id=name):
                return next((known[name] for known in reversed(self._locals) if name in known), False)
            case ast.Attribute(attr=name):
                return self._declared.get(name, False)
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                return (name in _OPERATIONS and self._is_set(value)) or self._declared.get(name, False)
            case ast.Call(func=ast.Name(id=name)):
                return name in ("set", "frozenset") or self._declared.get(name, False)
        return False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self._locals.append({each.arg: _is_set_type(each.annotation) for each in arguments})
        self.generic_visit(node)
        self._locals.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._locals[-1][target.id] = self._is_set(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self._locals[-1][node.target.id] = _is_set_type(node.annotation)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.generic_visit(node)
        self._locals[-1][node.target.id] = self._is_set(node.value)

    # --- what goes through it -----------------------------------------------------------------------------------------

    def _look(self, node: ast.expr) -> None:
        if self._is_set(node):
            self.found.append((node.lineno, "goes through a set"))

    def visit_For(self, node: ast.For) -> None:
        self._look(node.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        if id(node) not in self._free:
            self._look(node.value)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._free.update(map(id, node.elts))
        self.generic_visit(node)

    def _visit_comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        if id(node) not in self._free:
            for each in node.generators:
                self._look(each.iter)
        self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = _visit_comprehension  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        if any(key.arg == "key" and isinstance(key.value, ast.Name) and key.value.id == "id" for key in node.keywords):
            self.found.append((node.lineno, "sorts by address"))
        match node.func:
            case ast.Name(id=name) if name in _WHOLE:
                has_key = any(keyword.arg == "key" for keyword in node.keywords)
                for each in node.args:
                    if has_key:
                        self._look(each)
                    else:
                        self._free.update((id(each), *map(id, getattr(each, "args", ()))))
            case ast.Name(id=name) if name in _IN_TURN and id(node) not in self._free:
                for each in node.args:
                    self._look(each)
            case ast.Name(id="hash"):
                self.found.append((node.lineno, "takes a hash"))
            case ast.Name(id="Random") if node.args and not _is_same_seed(node.args[0]):
                self.found.append((node.lineno, "seeds by what may have a hash"))
            case ast.Attribute(value=value, attr="pop") if not node.args:
                self._look(value)
            case ast.Attribute(attr=name) if name in _METHODS_IN_TURN:
                for each in node.args:
                    self._look(each)
        self.generic_visit(node)


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS


def _is_same_seed(node: ast.expr) -> bool:
    """Whether a seed is a text, or a name: the result of a call may be a fraction."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, _SAME_SEEDS)
    return isinstance(node, ast.JoinedStr | ast.Name)
