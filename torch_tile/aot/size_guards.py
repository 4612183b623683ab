"""What an exported program requires of sizes beyond ranges, as `x.size(0) % 2 == 0`: text, looked at in each call.

A guard is text of Python over `a0_1`, the size of dimension 1 of argument 0, and `a2`, an integer argument. Nothing but
arithmetic and comparisons is in it, whoever wrote the file.
"""

from __future__ import annotations

import ast
import dataclasses
import logging
import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from torch_tile.aot.structures import argument_names
from torch_tile.errors import PackageError, UnsupportedError

log = logging.getLogger(__name__)

_NODES = (
    ast.Expression,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.Not,
    ast.USub,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Div,
    ast.Mod,
    ast.Pow,
    ast.Compare,
    ast.Eq,
    ast.NotEq,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.Load,
)
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": max,
    "min": min,
    "round": round,
    "float": float,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
}
# As torch writes them in guards -> ours.
_WRITTEN_AS = {
    **{f"math.{name}": name for name in ("trunc", "floor", "ceil")},
    **{f"torch.sym_{name}": name for name in ("float", "max", "min")},
}
NAME = re.compile(r"a(\d+)(?:_(\d+))?")
"""The number of an argument, and of a dimension of it."""
_EQUALITY = re.compile(r"a\d+_\d+ == a\d+_\d+")
_MOST_CHARACTERS = 4000


def guards_of(program: ExportedProgram) -> list[str]:
    """The guards that are arithmetic of sizes. A warning names others, as of strides: they are not checked.

    Raises:
        UnsupportedError: a guard of sizes is none that a package can hold; without it, calls could read beyond memory.
    """
    leaves = _argument_numbers(program)
    found = []
    for text in getattr(program, "_guards_code", ()):
        try:
            tree = ast.parse(text, mode="eval")
            named = ast.unparse(ast.fix_missing_locations(_Names(leaves).visit(tree)))
            _parsed(named)
        except (SyntaxError, ValueError, RecursionError) as error:
            if ".size()" in text:
                raise UnsupportedError(
                    "package",
                    f"the exported program requires of its arguments `{text}`, which a package cannot check: {error}; "
                    "export it with sizes that do not change, or with arguments of other structure",
                ) from None
            log.warning("the package does not check what the exported program requires of its arguments: %s", text)
            continue
        # Sizes that are one symbol are compared by the program.
        if named not in found and not _EQUALITY.fullmatch(named):
            found.append(named)
    return found


def _argument_numbers(program: ExportedProgram) -> dict[str, Any]:
    """The arguments of the exported module by name, with the number of each value in its place. Those that `*rest`
    takes are called `rest_0` and so on, those that `**rest` takes by their keywords."""
    spec: Any = program.call_spec.in_spec
    if spec is None:
        return {}
    args, kwargs = pytree.tree_unflatten(range(spec.num_leaves), spec)
    names = argument_names(program)
    of_both = {name for name in names if names.count(name) > 1}
    return {name: value for name, value in (*zip(names, args, strict=False), *kwargs.items()) if name not in of_both}


@dataclasses.dataclass(frozen=True)
class _Field:
    """Of a named tuple or another class."""

    name: str


class _Names(ast.NodeTransformer):
    """Puts `a0_1` in the place of `L['x'].size()[1]`."""

    def __init__(self, leaves: dict[str, Any]) -> None:
        self._leaves = leaves

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
            if call.func.attr != "size":
                raise ValueError(call.func.attr)
            return ast.Name(f"a{self._number(call.func.value)}_{int(ast.literal_eval(node.slice))}", ast.Load())
        return ast.Name(f"a{self._number(node)}", ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func)
        function = ast.Name(_WRITTEN_AS.get(name, name), ast.Load())
        return ast.Call(function, [self.visit(argument) for argument in node.args], node.keywords)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(f"a{self._number(node)}", ast.Load())

    def _number(self, node: ast.expr) -> int:
        path: list[Any] = []
        text = ast.unparse(node)
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            path.insert(0, _Field(node.attr) if isinstance(node, ast.Attribute) else ast.literal_eval(node.slice))
            node = node.value
        if not isinstance(node, ast.Name) or node.id != "L" or not path:
            raise ValueError(f"`{text}` is no argument")
        if path[0] not in self._leaves and len(path) > 1:  # of `*rest` or `**rest`
            path[:2] = [f"{path[0]}_{path[1]}" if isinstance(path[1], int) else path[1]]
        value: Any = self._leaves
        try:
            for key in path:
                value = getattr(value, key.name) if isinstance(key, _Field) else value[key]
        except (KeyError, IndexError, TypeError, AttributeError):
            raise ValueError(f"no argument is known as `{text}`") from None
        if not isinstance(value, int):
            raise ValueError(f"`{text}` is no value")
        return value


def _parsed(text: str) -> ast.Expression:
    """
    Raises:
        ValueError: it is no arithmetic of sizes.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("too long")
    tree = ast.parse(text, mode="eval")
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and not node.keywords]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and (NAME.fullmatch(node.id) or (node.id in _FUNCTIONS and node in functions)):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            continue
        if isinstance(node, ast.Constant) and type(node.value) in (int, bool, float):
            continue
        if not isinstance(node, _NODES):
            raise ValueError(type(node).__name__)
    return tree


class SizeGuards:
    """The guards of a package, compiled.

    Raises:
        PackageError: one is something else.
    """

    def __init__(self, texts: list[str]) -> None:
        self._guards = []
        for text in texts:
            try:
                code = compile(_parsed(text), "<guard of a package>", "eval")
            except (SyntaxError, ValueError, TypeError, RecursionError):
                raise PackageError("load", f"expected a guard over sizes, got {str(text)[:100]!r}") from None
            self._guards.append((text, code, [_source(match) for match in NAME.finditer(text)]))

    def __bool__(self) -> bool:
        return bool(self._guards)

    def check(self, values: list[Any], name_of: Callable[[int], str]) -> None:
        """
        Args:
            values: of a call, in order.
            name_of: the name of the argument of a number, for the message.

        Raises:
            ValueError: a guard does not hold; says what it is, and what the sizes are.
        """
        for text, code, sources in self._guards:
            known = {name: size for name, number, dim in sources if (size := _size(values, number, dim)) is not None}
            if any(name not in known for name, _, _ in sources):
                continue  # another kind of argument, or another rank, which is refused with the program's own words
            try:
                holds = eval(code, {"__builtins__": {}, **_FUNCTIONS}, known)  # of nodes that _parsed has looked at
            except ArithmeticError:  # a division by 0, or an integer of a number that has none
                holds = False
            if not holds:
                raise ValueError(_message(text, known, name_of))


def _source(match: re.Match[str]) -> tuple[str, int, int | None]:
    """A name of a guard, the number of its argument, and the dimension."""
    number, dim = match.groups()
    return match.group(), int(number), None if dim is None else int(dim)


def _size(values: list[Any], number: int, dim: int | None) -> Any:
    value = values[number] if number < len(values) else None
    if dim is None:
        return value if isinstance(value, (int, torch.SymInt)) else None
    return value.shape[dim] if isinstance(value, torch.Tensor) and dim < value.dim() else None


def _message(text: str, known: dict[str, Any], name_of: Callable[[int], str]) -> str:
    def shown(match: re.Match[str]) -> str:
        name = name_of(int(match.group(1)))
        return name if match.group(2) is None else f"{name}.size({match.group(2)})"

    given = ", ".join(f"{NAME.sub(shown, name)} = {value}" for name, value in sorted(known.items()))
    return f"sizes of arguments expected {NAME.sub(shown, text)}, as the exported program does; got {given}"
