"""`as_strided` of an input that the graph writes: it may reach what lies between the input's elements, or beyond them.

In a graph without mutation the written input is a new tensor, which has the input's elements alone and begins at its
storage's first element, but the view keeps the offset that it has in the input's storage.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.errors import UnsupportedError
from torch_tile.frontend.dynamo_calls import name_of, tensors_in, written_by

aten = torch.ops.aten

_WRITES = (
    aten.as_strided_scatter.default,
    aten.copy.default,
    aten.diagonal_scatter.default,
    aten.select_scatter.default,
    aten.slice_scatter.default,
)


def _written_input(node: Any) -> Node | None:
    """The graph input whose new value a node is, or views."""
    is_written = False
    while isinstance(node, Node) and node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        returned = node.target._schema.returns
        if node.target in _WRITES:
            is_written = True
        elif not (len(returned) == 1 and returned[0].alias_info is not None and not node.target._schema.is_mutable):
            return None
        node = node.args[0]
    return node if is_written and isinstance(node, Node) and node.op == "placeholder" else None


def _storage(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def _reaches_elements_only(view: torch.Tensor, x: torch.Tensor) -> bool:
    """Whether all elements of the view are elements of x, which are one dense piece of memory. Of sizes that may change
    this becomes a guard."""
    first = view.storage_offset() - x.storage_offset()
    last = first + sum((n - 1) * stride for n, stride in zip(view.shape, view.stride(), strict=True))
    return x.is_contiguous() and bool(first >= 0) and bool(last < x.numel())


def refuse_views_of_copies(gm: Any) -> None:
    """Looks at the calls of a graph of Dynamo's.

    Raises:
        UnsupportedError: a view reaches memory of a written input that tracing replaces by other memory.
    """
    if not isinstance(gm, GraphModule):
        return
    calls = [node for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    views = [node for node in calls if name_of(node).partition(".")[0] == "as_strided"]
    if not views:
        return
    targets = [node.args[:1] if node.target is operator.setitem else written_by(node) for node in calls]
    written = {_storage(x) for target in targets for x in tensors_in(target)}
    inputs = [(node, x) for node in gm.graph.find_nodes(op="placeholder") for x in tensors_in(node)]
    for call in views:
        for view in tensors_in(call):
            for node, x in inputs:
                # Of several inputs over one storage AOTAutograd makes one, which has all of its memory.
                is_alone = sum(_storage(other) == _storage(x) for _, other in inputs) == 1
                if _storage(x) != _storage(view) or _storage(x) not in written or not is_alone:
                    continue
                is_moved = not statically_known_true(x.storage_offset() == 0)
                if is_moved or not _reaches_elements_only(view, x):
                    raise UnsupportedError("import", f"as_strided of '{node.name}', which the graph writes")


def _is_within(view: Node, place: torch.Tensor) -> bool:
    """Whether all elements of the view are elements of a dense tensor at the beginning of its memory. A vector of
    unknown length is taken to be all of its memory, as AOTAutograd's bases are; the program checks each call."""
    value = view.meta["val"]
    last = value.storage_offset() + sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))
    is_dense = statically_known_true(place.storage_offset() == 0) and place.is_contiguous()
    if is_dense and place.dim() == 1 and not (isinstance(last, int) and isinstance(place.numel(), int)):
        return True
    return is_dense and statically_known_true(last < place.numel())


def refuse_views_beyond_writes(gm: GraphModule) -> None:
    """
    Raises:
        UnsupportedError: a view reads memory of a written input that no element of the input has.
    """
    for node in gm.graph.find_nodes(op="call_function", target=aten.as_strided.default):
        place = _written_input(node.args[0])
        if place is not None and not _is_within(node, place.meta["val"]):
            raise UnsupportedError("import", f"as_strided of '{place.name}', which is written, beyond its elements")
