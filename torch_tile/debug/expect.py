"""torch_tile.expect: for tests of users: fused, or fail and say why not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator
from typing import Any, TypeAlias

import torch

from torch_tile.debug import places
from torch_tile.debug.explain import Explanation, decisions_of, recorded

Number: TypeAlias = "int | Container[int] | Callable[[int], Any] | None"
Operators: TypeAlias = "Number | Container[str | torch._ops.OpOverload | torch._ops.OpOverloadPacket]"


@contextlib.contextmanager
def expect(
    *, kernels: Number = None, outside: Operators = None, graphs: Number = None, fallbacks: Number = 0
) -> Iterator[Explanation]:
    """Fail unless what is compiled in the block is as expected.

    A number is an int, a range or another container, or a function that says whether a number is right. What was
    compiled before the block is not seen: `torch.compiler.reset()` makes it be compiled again.

    Args:
        kernels: distinct kernels of all graphs.
        outside: calls outside; also the set of operators that must be called ("aten::addmm", "addmm" or
            torch.ops.aten.addmm), and no others.
        graphs: that the backend was given and compiled, forward and backward each.
        fallbacks: graphs in eager mode.

    Returns:
        The explanation, which is complete when the block ends.

    Raises:
        TypeError: an expectation of another kind.
        AssertionError: says what came instead, with reasons and lines of the user's program.
    """
    for name, number in (("kernels", kernels), ("graphs", graphs), ("fallbacks", fallbacks)):
        _check_number(name, number)
    if isinstance(outside, (set, frozenset, list, tuple)):
        outside = type(outside)(_operator_name(item) for item in outside)
    if not _is_of_operators(outside):
        _check_number("outside", outside, " or a set of operators")
    with recorded() as explanation:
        yield explanation
    wrong = [
        f"expected {name}={_text(expected)}, got {got}"
        for name, expected, got in (
            ("graphs", graphs, len(explanation.graphs)),
            ("kernels", kernels, explanation.num_kernels),
            ("fallbacks", fallbacks, explanation.num_fallbacks),
        )
        if not _is_right(got, expected)
    ]
    if wrong_calls := _wrong_calls(explanation, outside):
        wrong.append(wrong_calls)
    if wrong:
        raise AssertionError("\n".join(["; ".join(wrong), *_what_came(explanation)]))


def _check_number(name: str, expected: Any, more: str = "") -> None:
    is_number = expected is None or (isinstance(expected, int) and not isinstance(expected, bool)) or callable(expected)
    is_container = hasattr(expected, "__contains__") and not isinstance(expected, (str, bytes))
    if isinstance(expected, (set, frozenset, list, tuple)):
        is_container = all(isinstance(item, int) for item in expected)
    if not is_number and not is_container:
        raise TypeError(
            f"{name} expected an int, a range or another container of ints, a function of a number{more}, or None, "
            f"got {expected!r}"
        )


def _operator_name(item: Any) -> Any:
    """The name of an overload or a packet of torch.ops; anything else as it is."""
    if isinstance(item, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        packet = item.overloadpacket if isinstance(item, torch._ops.OpOverload) else item
        return str(packet._qualified_op_name)
    return item


def _is_right(got: int, expected: Any) -> bool:
    if expected is None:
        return True
    if callable(expected):
        return bool(expected(got))
    return bool(got == expected) if isinstance(expected, int) else got in expected


def _is_of_operators(expected: Any) -> bool:
    return isinstance(expected, (set, frozenset, list, tuple)) and all(isinstance(item, str) for item in expected)


def _plain(operator: str) -> str:
    return operator.rpartition("::")[2].removeprefix("aten.").partition(".")[0]


def _wrong_calls(explanation: Explanation, expected: Any) -> str | None:
    called = [operator for _, operator, _ in explanation.externs]
    if not _is_of_operators(expected):
        return None if _is_right(len(called), expected) else f"expected outside={_text(expected)}, got {len(called)}"
    plain = {_plain(name) for name in expected}
    missing = sorted(name for name in expected if _plain(name) not in {_plain(operator) for operator in called})
    others = sorted({operator for operator in called if _plain(operator) not in plain})
    if not missing and not others:
        return None
    parts = [f"{', '.join(missing)} not called"] * bool(missing) + [f"{', '.join(others)} called too"] * bool(others)
    return f"expected outside={_text(expected)}, got {' and '.join(parts)}"


def _text(expected: Any) -> str:
    if callable(expected):
        return getattr(expected, "__name__", repr(expected))
    return repr(sorted(expected)) if isinstance(expected, (set, frozenset)) else repr(expected)


def _what_came(explanation: Explanation) -> Iterator[str]:
    if not explanation.graphs:
        yield "  no graph was compiled in the block; what was compiled before it is not compiled again: call "
        yield "  torch.compiler.reset() before the block"
    for graph in explanation.graphs:
        if graph.fallback:
            yield f"  {graph.name} ({graph.kind}) runs in eager mode: {(graph.notes or ['see the warning'])[0]}"
            continue
        yield f"  {graph.name} ({graph.kind}):"
        for kernel in graph.kernels:
            yield f"    kernel {kernel.name}, {kernel.launches} x"
            yield from (f"      {places.shortened(source)}" for source in kernel.sources)
        refused = places.collapsed(decisions_of(graph, refused_only=True))
        yield from (f"    not fused: {line.removeprefix('no').strip()}" for line in refused)
        yield from (f"    outside {line}" for line in places.collapsed(call.line() for call in graph.calls))
    for each in explanation.graph_breaks:
        yield f"  graph break at {each.line()}"
