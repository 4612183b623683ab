"""Calls that tracing does not take as eager mode does: a graph with one runs in eager mode.

Eager mode refuses some that tracing computes. Functionalization takes the operands of a write apart, so that no kernel
sees them in one memory. Some operators have decompositions that torch applies before a backend can decline them; that
of `multilabel_margin_loss` counts labels behind the first -1, and those of `upsample_*` sample what eager mode copies
(without gradients, `F.interpolate` is left to ATen there, `interpolations.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import GlobalStateSource
from torch._guards import TracingContext
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import guard_or_false

from torch_tile.errors import UnsupportedError
from torch_tile.frontend import interpolations
from torch_tile.frontend.dynamo_calls import graphs_of, name_of, tensors_in, written_by

_FLOATS_ONLY = ("hardshrink", "max_pool1d", "multi_margin_loss")
_MISTAKEN = ("multilabel_margin_loss", "multilabel_margin_loss_forward")
# Positions of operands that a call writes without saying so in its name: running statistics, weights that are
# normalised where they are looked up.
_STATISTICS = {"running_mean": 1, "running_var": 2}
_OPERATOR_STATISTICS = {"running_mean": 3, "running_var": 4}
_LOOKED_UP = frozenset(("embedding", "embedding_bag"))
_SUBTRACTIONS = frozenset(("sub", "isub", "rsub", "subtract"))
_ADDITIONS = _SUBTRACTIONS | {"add"}
_PLACES_IN = frozenset(("cross_entropy", "nll_loss"))
_INTO_FIRST = frozenset(("add_", "sub_", "subtract_", "mul_", "multiply_", "iadd", "isub", "imul"))
# Eager mode reads a tensor of no dimension as a number before it writes.
_READ_NUMBERS = frozenset(("fill_", "masked_fill_", "index_fill_"))
# Those that change no element.
_CHANGES_OF_VIEWS = frozenset(("set_", "resize_", "resize_as_", "requires_grad_", "detach_", "as_strided_", "t_"))
_CHANGES_OF_VIEWS |= {"transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_"}


def _span(x: torch.Tensor) -> tuple[int, int] | None:
    """First and last byte of a tensor's elements; None of symbols, and of no elements."""
    sizes = [*x.shape, *x.stride(), x.storage_offset()]
    if not all(isinstance(number, int) for number in sizes) or x.numel() == 0:
        return None
    first = int(x.storage_offset()) * x.element_size()
    steps = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return first, first + (int(steps) + 1) * x.element_size()


def _reach(x: torch.Tensor) -> tuple[int, int] | None:
    """The span of a tensor that fills it; None of any other, whose overlap ATen does not check."""
    span, expected = _span(x), 1
    if span is None:
        return None
    for stride, size in sorted((stride, size) for stride, size in zip(x.stride(), x.shape, strict=True) if size != 1):
        if stride != expected:
            return None
        expected *= size
    return span


def _overlap_in_part(a: torch.Tensor, b: torch.Tensor) -> bool:
    """As ATen's check of a write to `a` that reads `b`."""
    # What vmap and grad wrap has no storage of its own to compare.
    if any(map(torch._C._functorch.is_functorch_wrapped_tensor, (a, b))):
        return False
    if a is b or a.untyped_storage()._cdata != b.untyped_storage()._cdata:
        return False
    one, other = _reach(a), _reach(b)
    if one is None or other is None or one[0] >= other[1] or other[0] >= one[1]:
        return False
    return one != other or a.stride() != b.stride()


def _is_expanded(x: torch.Tensor) -> bool:
    """Whether elements share memory, as ATen's check of a write sees it."""
    if guard_or_false(x.numel() == 0):
        return False
    return any(
        guard_or_false(size > 1)
        for size, stride in zip(x.shape, x.stride(), strict=True)
        if guard_or_false(stride == 0)
    )


def _operands(node: Node) -> list[Any]:
    """The first two arguments of a call: tensors, or numbers."""
    operands = [*node.args[:2], *(node.kwargs[name] for name in ("input", "other") if name in node.kwargs)]
    return [operand.meta.get("example_value") if isinstance(operand, Node) else operand for operand in operands]


def _mixes_dtypes(node: Node, name: str) -> str | None:
    """Why eager mode refuses the dtypes of an addition, a subtraction, a product or the places of a loss."""
    operands = _operands(node)
    tensors = [x for x in operands if isinstance(x, torch.Tensor)]
    if len(operands) != 2 or not tensors:
        return None
    plain = name.strip("_")
    if plain in _SUBTRACTIONS and any(isinstance(x, bool) for x in operands):
        return f"{name} of a bool"
    factor = node.kwargs.get("alpha") if plain in _ADDITIONS else None
    factor = factor.meta.get("example_value") if isinstance(factor, Node) else factor
    if isinstance(factor, (bool, float, torch.SymFloat)):
        dtype = torch.result_type(*operands)
        if isinstance(factor, bool) and dtype is not torch.bool:
            return f"{name} with a bool as alpha"
        if not isinstance(factor, bool) and not (dtype.is_floating_point or dtype.is_complex):
            return f"{name} of integers with a float as alpha"
    if plain in _PLACES_IN and operands[1] is tensors[-1]:
        dtype = operands[1].dtype
        if not dtype.is_floating_point and not dtype.is_complex and dtype not in (torch.int64, torch.uint8):
            return f"{name} whose targets are {dtype}"
    is_write = name in _INTO_FIRST and operands[0] is tensors[0]
    if is_write and not torch.can_cast(torch.result_type(*operands), operands[0].dtype):
        return f"{name} of a {operands[0].dtype} by what is no {operands[0].dtype}"
    return None


def check_level() -> None:
    """A graph that is called within a level of forward-mode differentiation runs in eager mode.

    Raises:
        UnsupportedError: arguments may have tangents, which a program drops.
    """
    context = TracingContext.try_get()
    if context is not None and hasattr(GuardBuilder, "DUAL_LEVEL"):  # a private part of torch
        context.guards_context.dynamo_guards.add(GlobalStateSource().make_guard(GuardBuilder.DUAL_LEVEL))
    if torch.autograd.forward_ad._current_level >= 0:
        raise UnsupportedError("import", "a call within torch.autograd.forward_ad.dual_level()")


def _check_results(gm: GraphModule) -> None:
    """AOTAutograd makes results that are views anew behind a program, with gradients whatever the mode was."""
    if not torch.is_grad_enabled():
        return
    arguments = list(tensors_in(gm.graph.find_nodes(op="placeholder") + gm.graph.find_nodes(op="get_attr")))
    for node in gm.graph.output_node().all_input_nodes:
        for x in tensors_in(node):
            # An operator may return its operand: that is no view made here.
            if _is_made_without_gradients(x) and not any(x is argument for argument in arguments):
                raise UnsupportedError(
                    "import", f"{name_of(node)}, whose result is a view that was made without gradients"
                )


def _is_made_without_gradients(x: torch.Tensor) -> bool:
    try:
        if not x.requires_grad or x.grad_fn is not None or not x._is_view():
            return False
    except RuntimeError:  # torch cannot make the function of a view whose base was written through `detach`
        return False
    made = torch._C._autograd._get_creation_meta(x)
    return bool(made != torch._C._autograd.CreationMeta.DEFAULT)


def check_inference_tensors(gm: Any, inputs: Sequence[Any]) -> None:
    """Outside of inference mode, eager mode refuses writes of tensors that were made in it.

    Raises:
        UnsupportedError: the graph has such a write, or may have one.
    """
    if torch.is_inference_mode_enabled() or not isinstance(gm, GraphModule):
        return
    if not any(isinstance(x, torch.Tensor) and x.is_inference() for x in inputs):
        return
    # Calls over lists count no version.
    writes_lists = any(name_of(node).startswith("_foreach_") and written_by(node) for node in gm.graph.nodes)
    for node, x in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True):
        if isinstance(x, torch.Tensor) and x.is_inference():
            traced = node.meta.get("example_value")
            if writes_lists or not isinstance(traced, torch.Tensor) or traced._version > 0:
                raise UnsupportedError("import", "a write of an inference tensor outside of torch.inference_mode()")


def check_calls(gm: Any) -> None:
    """Looks at the calls of a graph of Dynamo's, and of the bodies of its higher-order operators.

    Raises:
        UnsupportedError: eager mode refuses one of them, or computes something else.
    """
    if isinstance(gm, GraphModule):
        _check_results(gm)
    for module in graphs_of(gm):
        for node in module.graph.nodes:
            if node.op in ("call_function", "call_method"):
                _check_call(node)


def _sets_by_tensors(node: Node, name: str) -> bool:
    """Whether it is `x[indices] = values`, which writes x itself and not a view of it."""
    if name != "setitem":
        return False
    indices = node.args[1] if isinstance(node.args[1], (list, tuple)) else [node.args[1]]
    return all(any(x.dim() > 0 for x in tensors_in(index)) for index in indices)


def _named(node: Node, names: dict[str, int]) -> list[Any]:
    found = [node.kwargs.get(name, node.args[at] if at < len(node.args) else None) for name, at in names.items()]
    return [each.meta.get("example_value") for each in found if isinstance(each, Node)]


def _writes_what_others_read(node: Node) -> bool:
    """Of a call over lists that writes the first of them: whether an element lies in memory of another place's. Eager
    mode goes through the lists element by element."""
    places: dict[int, list[tuple[int, bool, torch.Tensor]]] = {}
    for number, argument in enumerate(node.args):
        if not isinstance(argument, (list, tuple)):
            continue
        for place, x in enumerate(next(tensors_in(each), None) for each in argument):
            if x is None or guard_or_false(x.numel() == 0):
                continue
            if not torch._C._functorch.is_functorch_wrapped_tensor(x):
                places.setdefault(x.untyped_storage()._cdata, []).append((place, number == 0, x))
    return any(_are_written_across(shared) for shared in places.values())


def _are_written_across(shared: list[tuple[int, bool, torch.Tensor]]) -> bool:
    """Of tensors over one storage, each with its place and whether it is written: whether one is written that has
    memory in common with another place's. Symbols are taken to have."""
    if len({place for place, _, _ in shared}) < 2 or not any(is_written for _, is_written, _ in shared):
        return False
    known = [(span, place, is_written) for place, is_written, x in shared if (span := _span(x))]
    if len(known) < len(shared):
        return True
    known.sort(key=lambda each: each[0])
    for number, (span, place, is_written) in enumerate(known):
        for other, another_place, is_other_written in itertools.islice(known, number + 1, None):
            if other[0] >= span[1]:
                break
            if place != another_place and (is_written or is_other_written):
                return True
    return False


def _check_hidden_writes(node: Node, name: str) -> None:
    if name in ("batch_norm", "instance_norm"):
        statistics = _named(node, _OPERATOR_STATISTICS if node.target is torch.batch_norm else _STATISTICS)
        if len(statistics) == 2 and statistics[0] is statistics[1] and statistics[0] is not None:
            raise UnsupportedError("import", f"{name} whose mean and variance are one tensor")
    if name not in _LOOKED_UP or not any(_is_expanded(x) for x in _named(node, {"weight": 1})):
        return
    if node.kwargs.get("max_norm", node.args[3] if len(node.args) > 3 else None) is not None:
        raise UnsupportedError("import", f"{name} writes elements that share memory")


def _check_call(node: Node) -> None:
    name = name_of(node)
    if name in _FLOATS_ONLY and any(not x.dtype.is_floating_point for x in tensors_in(node.args[:1])):
        raise UnsupportedError("import", f"{name} of a tensor that has no floating-point dtype")
    if name.startswith("quantize_per") and any(not x.is_quantized for x in tensors_in(node)):
        raise UnsupportedError("import", f"{name}, whose result tracing takes for a tensor of floats")
    if name.partition(".")[0] in _MISTAKEN:
        raise UnsupportedError("import", f"{name}, of which tracing makes another function")
    if reason := _mixes_dtypes(node, name):
        raise UnsupportedError("import", reason)
    if interpolations.is_refused(node):
        raise UnsupportedError("import", f"{name} of or to a size of 0, or of a dtype that eager mode refuses")
    if interpolations.keeps_a_size(node) and interpolations.choose(node) is None:
        raise UnsupportedError("import", f"{name} by a factor that keeps a size, which eager mode does not sample")
    if name.startswith("_foreach_") and name.endswith("_") and _writes_what_others_read(node):
        raise UnsupportedError("import", f"{name} writes memory of other elements of its lists")
    _check_hidden_writes(node, name)
    changed = node.args[:1] if name == "setitem" else written_by(node)
    if name not in _CHANGES_OF_VIEWS and any(_is_expanded(x) for x in tensors_in(changed)):
        # Functionalization adds up what was written, even where eager mode takes the write.
        raise UnsupportedError("import", f"{name} writes elements that share memory")
    read = [x for x in tensors_in((node.args, node.kwargs)) if x.dim() > 0 or name not in _READ_NUMBERS]
    for written in tensors_in(node.args[:1] if _sets_by_tensors(node, name) else written_by(node)):
        if any(_overlap_in_part(written, x) for x in read):
            raise UnsupportedError("import", f"{name} reads part of the memory that it writes")
