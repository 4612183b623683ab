"""Which of the sizes 0 and 1 an exported program can be called with.

`torch.export` traces with sizes of at least 2, and what it writes down of a value's shape may hold for these alone:
`x[:1]` has one row unless `x` has none, `x.squeeze()` drops a dimension of one element. So the graphs are run once more
without data, with these sizes, and the shapes compared.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

log = logging.getLogger(__name__)

_Sizes = dict[Any, int]
"""Symbol -> value."""

_LEAST_TRACED = 2

# What cannot be run without data says nothing of sizes.
_UNDECIDED = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    NotImplementedError,
)


class _Differs(Exception):
    pass


def is_traced_larger(lower: Any, upper: Any) -> bool:
    """Whether a size of this range may be less than those that the program was traced with."""
    return bool(lower <= _LEAST_TRACED <= upper)


def least_given(lower: Any) -> Any:
    """The least size that the program was given, of the lower bound of a trace."""
    return 0 if 0 < lower <= _LEAST_TRACED else lower


def least_sizes(programs: list[ExportedProgram]) -> _Sizes:
    """For each symbol that may be less than 2 the least size, 0, 1 or 2, from which on all programs have the shapes of
    their traces.

    Args:
        programs: forms of one program, over the same symbols.
    """
    graphs = [GraphModule(program.graph_module, program.graph_module.graph) for program in programs]
    ranges = programs[0].range_constraints
    hints = _hints(graphs)  # of all symbols but those that depend on data
    symbols = [s for s, limits in ranges.items() if s in hints and is_traced_larger(limits.lower, limits.upper)]

    def holds(sizes: _Sizes) -> bool:
        return all(_has_shapes(gm, {**hints, **sizes}) for gm in graphs)

    least = dict.fromkeys(symbols, _LEAST_TRACED)
    if symbols and not holds({}):
        log.warning("the program does not run without data: its package refuses sizes of 0 and 1")
        return least
    for size in (1, 0):
        left = [symbol for symbol in symbols if least[symbol] == size + 1]
        if not left:
            break
        together = holds(dict.fromkeys(left, size))
        for symbol in left:
            if together or (len(left) > 1 and holds({symbol: size})):
                least[symbol] = size
    return least


def _placeholders(gm: GraphModule) -> list[Node]:
    return list(gm.graph.find_nodes(op="placeholder"))


def _hints(graphs: Iterable[GraphModule]) -> _Sizes:
    hints: _Sizes = {}
    for gm in graphs:
        for node in _placeholders(gm):
            value = node.meta.get("val")
            for size in value.shape if isinstance(value, torch.Tensor) else (value,):
                if not isinstance(size, torch.SymInt):
                    continue
                env = size.node.shape_env
                # The older name for the table is a property in newer versions, and a warning.
                known = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val
                hints.update((symbol, int(number)) for symbol, number in known.items())
    return hints


def _number(size: Any, sizes: _Sizes) -> int | None:
    """Nothing where it depends on data. Raises ZeroDivisionError."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    value = size.node.expr.xreplace({symbol: sympy.Integer(number) for symbol, number in sizes.items()})
    return int(value) if value.is_Integer else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's messages about operators that refuse their operands."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _has_shapes(gm: GraphModule, sizes: _Sizes) -> bool:
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), _quiet():
            _Comparison(gm, lambda size: _number(size, sizes)).run(
                *(_argument(node.meta.get("val"), sizes) for node in _placeholders(gm))
            )
    except _UNDECIDED:
        return True
    except Exception:  # operators refuse sizes in many ways
        return False
    return True


def _argument(value: Any, sizes: _Sizes) -> Any:
    if isinstance(value, torch.Tensor):
        numbers = [[_number(n, sizes) for n in each] for each in (value.shape, value.stride())]
        return torch.empty_strided(*numbers, dtype=value.dtype, device=value.device)  # type: ignore[arg-type]
    return _number(value, sizes) if isinstance(value, torch.SymInt) else value


class _Comparison(Interpreter):
    def __init__(self, gm: GraphModule, number_of: Callable[[Any], int | None]) -> None:
        super().__init__(gm)
        self.extra_traceback = False
        self._number_of = number_of

    def run_node(self, n: Node) -> Any:
        if "_scaled_dot_product" in str(n.target) and any(self._is_empty(operand) for operand in n.all_input_nodes):
            raise _Differs  # kernels of ATen divide by the sizes; a model in eager mode does not come to them
        if n.target is torch.ops.aten.select_scatter.default:  # whose rule for shapes does not look at the index
            arguments: Any = self.map_nodes_to_values(n.args, n)
            arguments[0].select(*arguments[2:])
        result = super().run_node(n)
        traced = n.meta.get("val")
        if traced is not None and n.op != "output":
            pairs = zip(pytree.tree_leaves(result), pytree.tree_leaves(traced), strict=False)
            for own, expected in pairs:
                self._compare(own, expected)
        return result

    def _is_empty(self, operand: Node) -> bool:
        value = self.env.get(operand)
        return isinstance(value, torch.Tensor) and value.numel() == 0

    def _compare(self, own: Any, expected: Any) -> None:
        if isinstance(own, torch.Tensor) and isinstance(expected, torch.Tensor):
            if own.dim() != expected.dim():
                raise _Differs
            for size, other in zip(own.shape, expected.shape, strict=True):
                self._compare(size, other)
        elif isinstance(own, int) and isinstance(expected, (int, torch.SymInt)) and not isinstance(own, bool):
            number = self._number_of(expected)
            if number is not None and number != own:
                raise _Differs
