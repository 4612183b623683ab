"""What exceptions that a program raises say: the operator, the user's line, and the class of eager mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch_tile.debug import places

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

# Whose kernels in ATen raise RuntimeError for an index out of range. Others raise IndexError.
_RAISE_RUNTIME_ERRORS = {
    "aten::gather", "aten::masked_scatter", "aten::max_unpool2d", "aten::max_unpool3d", "aten::scatter",
    "aten::scatter_add", "aten::scatter_reduce",
}  # fmt: skip
# Those that raise it for an empty dimension.
_RAISE_RUNTIME_ERRORS_IF_EMPTY = {"aten::embedding", "aten::index_select"}


@dataclass
class Sources:
    """What is known of the lines of a graph's text."""

    places: Mapping[int, str] = field(default_factory=dict)
    """The user's line."""
    operators: Mapping[int, str] = field(default_factory=dict)
    """The operator that the user called, or the Python callable."""
    runtime_errors: set[int] = field(default_factory=set)
    """Lines of which eager mode raises RuntimeError for an index out of range."""

    @classmethod
    def of(cls, gm: GraphModule, graph: Any) -> Sources:
        nodes = places.nodes_by_name(gm)
        known = [(line, nodes[name]) for line, name in graph.lines if name in nodes]
        operators = {line: name for line, node in known if (name := _operator_of(node))}
        operators.update(_callees_of(graph))
        errors = {line for line, node in known if _raises_runtime_error(node, operators.get(line, ""))}
        return cls(places.places_of(gm, graph), operators, errors)

    def rows(self) -> dict[int, tuple[str, str, bool]]:
        """For packages: by line the operator, the place, and the class of errors."""
        return {
            line: (self.operators.get(line, ""), self.places.get(line, ""), line in self.runtime_errors)
            for line in {*self.operators, *self.places}
        }

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, str, str, bool]]) -> Sources:
        """What a package holds. Its lines are those of the program that was exported, whose files need not be here."""
        rows = list(rows)
        return cls(
            {line: place for line, _, place, _ in rows if place},
            {line: operator for line, operator, _, _ in rows if operator},
            {line for line, _, _, raises_runtime_error in rows if raises_runtime_error},
        )

    def packed(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "places": places.packed(self.places),
            "operators": places.packed(self.operators),
            "runtime_errors": sorted(self.runtime_errors),
        }

    @classmethod
    def unpacked(cls, entry: Mapping[str, Any]) -> Sources:
        """What `packed` made, without the lines of files that have changed since."""
        operators = {line: name for name, lines in entry.get("operators", {}).items() for line in lines}
        return cls(places.unpacked(entry.get("places", {})), operators, set(entry.get("runtime_errors", ())))


def note_steps(find: Callable[[], Sources]) -> Callable[[BaseException, str, list[list[int]]], BaseException | None]:
    """What a program calls where a step has raised. It adds a note to the exception, which names the operator and the
    line of the user's program, and returns another exception if eager mode raises one of another class.

    Args:
        find: gives the sources of the program's graph.
    """

    def note(error: BaseException, step: str, lines: list[list[int]]) -> BaseException | None:
        sources = find()
        other = _as_in_eager_mode(error, sources, lines[0])
        text = _note(sources, step, lines)
        target: Any = other or error
        if text and text not in getattr(target, "__notes__", ()):
            if hasattr(target, "add_note"):
                target.add_note(text)
            else:  # before Python 3.11, where nobody shows it who is not asked to
                target.__notes__ = [*getattr(target, "__notes__", ()), text]
        return other

    return note


def _note(sources: Sources, step: str, lines: list[list[int]]) -> str:
    if not step:
        return ""
    operators = list(dict.fromkeys(sources.operators[line] for line in lines[0] if line in sources.operators))
    # torch keeps no lines of some bodies.
    known = [[sources.places[line] for line in each if line in sources.places] for each in lines]
    where = list(dict.fromkeys(next((each for each in known if each), [])))
    what = step
    if len(operators) == 1 and step == "a Python callable of the graph":
        what = operators[0]
    elif len(operators) == 1 and step.startswith(("kernel ", "a ")):
        what = f"{operators[0]} in {step}"
    if len(where) <= 1:
        return f"raised by {what}" + "".join(f", from {place}" for place in where)
    shown = where[:8] + [f"... and {len(where) - 8} more"] * (len(where) > 8)
    return f"raised by {what}, which is made of" + "".join(f"\n  {place}" for place in shown)


def _as_in_eager_mode(error: BaseException, sources: Sources, lines: list[int]) -> BaseException | None:
    if type(error) is not IndexError or len(lines) != 1:
        return None
    is_empty = str(error).endswith("with size 0")
    if lines[0] in sources.runtime_errors or (
        is_empty and sources.operators.get(lines[0]) in _RAISE_RUNTIME_ERRORS_IF_EMPTY
    ):
        return RuntimeError(str(error))
    return None


def _operator_of(node: Node) -> str | None:
    """What the user called: the operator before its decomposition."""
    operator = node.meta.get("original_aten") or node.target
    schema = getattr(operator, "_schema", None)
    if schema is None:
        return None
    overload = getattr(operator, "_overloadname", "default")
    return str(schema.name) + ("" if overload == "default" else f".{overload}")


def _raises_runtime_error(node: Node, operator: str) -> bool:
    name = operator.partition(".")[0]
    if name == "aten::index_add":  # but for vectors
        value = _first_value(node)
        return value is not None and value.dim() > 1
    if name == "aten::index_select":  # but along the first dimension
        # The dimension, or the list of indices of aten.index; a part of a decomposition may have neither.
        which = node.args[1] if len(node.args) > 1 else None
        value = _first_value(node)
        if isinstance(which, int) and value is not None:
            return which not in (0, -value.dim())
        return isinstance(which, (list, tuple)) and len(which) > 1
    return name in _RAISE_RUNTIME_ERRORS


def _first_value(node: Node) -> Any:
    return getattr(node.args[0], "meta", {}).get("val") if node.args else None


def _callees_of(graph: Any) -> dict[int, str]:
    """For lines of the graph text that call Python what is called."""
    names = {}
    for node in graph.pycalls:  # of subgraphs, too, whose lines have longer names
        operators = [each for each in (node.target, *node.args) if hasattr(each, "_schema")]
        names[node.name] = str(operators[0] if operators else getattr(node.target, "__name__", node.target))
    return {line: names[name] for line, name in graph.lines if name in names}
