"""Small wrong versions of a module's functions, to see whether its tests notice."""

from __future__ import annotations

import ast
import inspect
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

SWAPPED: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
}
"""Operators and what each may be mistaken for."""
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


UNCHANGED = "unchanged"


def mutants(module: types.ModuleType) -> Iterator[tuple[str, types.ModuleType]]:
    """Yield (line and change, module with that one change) for every place in the functions of ``module``.

    The first one is :data:`UNCHANGED`, to show that it is the change that the tests notice. All share the classes and
    constants of the original, so that the values of both compare equal.
    """
    source = inspect.getsource(module)
    yield UNCHANGED, _build(ast.parse(source), module)
    for wanted in range(sum(len(_changes(node)) for node in _nodes(ast.parse(source)))):
        changed = ast.parse(source)
        text = _apply(changed, wanted)
        yield text, _build(changed, module)


def _build(tree: ast.Module, module: types.ModuleType) -> types.ModuleType:
    mutant = types.ModuleType(module.__name__)
    exec(compile(tree, f"<mutant of {module.__name__}>", "exec"), vars(mutant))  # noqa: S102
    vars(mutant).update({name: value for name, value in vars(module).items() if not inspect.isfunction(value)})
    return mutant


def survives(tests: types.ModuleType) -> bool:
    """Whether every test function of a module passes; those that need fixtures or take long are left out."""
    try:
        for test, arguments in _calls(tests):
            test(**arguments)
    except Exception:
        return False
    return True


def _apply(tree: ast.Module, wanted: int) -> str:
    for node in _nodes(tree):
        changes = _changes(node)
        if wanted < len(changes):
            before = ast.unparse(node)
            changes[wanted]()
            ast.fix_missing_locations(node)
            return f"line {getattr(node, 'lineno', '?')}: {before} -> {ast.unparse(node)}"
        wanted -= len(changes)
    raise AssertionError("more mutants asked for than there are")


def _nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes of the functions' bodies, without annotations and texts for people."""
    waiting: list[ast.AST] = [part for part in tree.body if isinstance(part, ast.FunctionDef)]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.FunctionDef):
            waiting += node.body[1:] if ast.get_docstring(node) else node.body
            continue
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not _is_dull(child)]


def _is_dull(node: ast.AST) -> bool:
    """Annotations, texts for people, and ``strict=``, which only says what was checked before."""
    return isinstance(node, ast.JoinedStr | ast.arg) or (isinstance(node, ast.keyword) and node.arg == "strict")


def _changes(node: ast.AST) -> list[Callable[[], None]]:
    """What can be done to a node, in place."""
    if isinstance(node, ast.Compare):
        return [_item(node.ops, i, new()) for i, old in enumerate(node.ops) for new in SWAPPED[type(old)]]
    if isinstance(node, ast.BoolOp):
        return _bool_changes(node)
    if isinstance(node, ast.BinOp):
        return [_attribute(node, "op", new()) for new in SWAPPED.get(type(node.op), ())]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return [_attribute(node, "operand", ast.UnaryOp(node.op, node.operand))]
    if isinstance(node, ast.Constant):
        return _constant_changes(node)
    if isinstance(node, ast.Name) and node.id in NAMES:
        return [_attribute(node, "id", NAMES[node.id])]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Refusal":
        return [_item(node.args, 0, ast.Constant("torn"))]
    if isinstance(node, ast.If | ast.IfExp):
        return [_attribute(node, "test", ast.Constant(value)) for value in (True, False)]
    return []


def _bool_changes(node: ast.BoolOp) -> list[Callable[[], None]]:
    """The other operator, and each operand left out."""
    nothing = ast.Constant(True if isinstance(node.op, ast.And) else None)
    swaps = [_attribute(node, "op", new()) for new in SWAPPED[type(node.op)]]
    return swaps + [_item(node.values, i, nothing) for i in range(len(node.values))]


def _constant_changes(node: ast.Constant) -> list[Callable[[], None]]:
    if isinstance(node.value, bool):
        return [_attribute(node, "value", not node.value)]
    if isinstance(node.value, int | float):
        return [_attribute(node, "value", node.value + step) for step in (1, -1)]
    return []


def _attribute(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def _item(items: list[Any], index: int, value: Any) -> Callable[[], None]:
    return lambda: items.__setitem__(index, value)


def _calls(tests: types.ModuleType) -> Iterator[tuple[Callable[..., object], dict[str, object]]]:
    for name, test in vars(tests).items():
        if not name.startswith("test_") or hasattr(test, "hypothesis"):
            continue
        axes = [_axis(mark.args) for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        for combination in itertools.product(*axes):
            yield test, {key: value for part in combination for key, value in part.items()}


def _axis(arguments: tuple[object, ...]) -> list[dict[str, object]]:
    names, values = arguments[:2]
    assert isinstance(values, list)
    if isinstance(names, str):
        return [{names: value} for value in values]
    assert isinstance(names, tuple)
    return [dict(zip(names, value, strict=True)) for value in values]
