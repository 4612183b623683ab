"""Arithmetic of complex numbers on the CPU as arithmetic of their parts, which kernels have.

ATen's complex operators are library calls with a result in memory each, and the rotations of transformers that are
written with complex numbers, spectral layers and quantum circuits are chains of them. Here each value of a chain is a
pair of real tensors. They are read from complex memory as `view_as_real(x).select(-1, k)` and written to it as a stack
of the two, where something that takes complex numbers only (a transform, a product, the caller) wants the value.

The formulas are those of ATen's vectors (`ATen/cpu/vec`, `c10/util/complex.h`), so zeros, infinities and NaN come out
alike: numbers and real operands take part as complex numbers whose imaginary part is 0, and a sum is `a + alpha * b`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.sizes import hint_of

aten = torch.ops.aten

_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}

_Pair = tuple[Any, Any]
"""Real and imaginary part: nodes, or numbers."""


def _value(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else node


def _is_complex(node: Any) -> bool:
    value = _value(node)
    return isinstance(value, torch.Tensor) and value.dtype.is_complex


def _is_plain(node: Node) -> bool:
    """Whether parts can be made of the value, and the value of parts."""
    value = _value(node)
    return bool(value.dtype in _PARTS and value.device.type == "cpu" and value.layout is torch.strided)


class _Parts:
    """Emits the parts of one node before it. `of` gives the pair of an operand."""

    def __init__(self, gm: GraphModule, node: Node, of: Callable[[Node], _Pair]) -> None:
        self.node, self._of = node, of
        self.emit: Callable[..., Any] = functools.partial(emit_before, gm, node)
        self.target: Any = node.target
        value = _value(node)
        self.dtype: Any = _PARTS.get(value.dtype) if isinstance(value, torch.Tensor) else None

    def pair(self, operand: Any, dtype: torch.dtype | None = None) -> _Pair:
        """Of any operand; real ones have 0 as their imaginary part."""
        dtype = dtype or self.dtype
        if not isinstance(operand, Node):
            return (operand.real, operand.imag) if isinstance(operand, complex) else (operand, 0.0)
        parts = self._of(operand) if _is_complex(operand) else (operand, 0.0)
        return self.cast(parts[0], dtype), self.cast(parts[1], dtype)

    def number(self, value: float) -> Any:
        """A 0-d tensor."""
        return self.emit(aten.scalar_tensor.default, value, dtype=self.dtype, device=_value(self.node).device)

    def cast(self, part: Any, dtype: torch.dtype | None) -> Any:
        is_other = isinstance(part, Node) and dtype is not None and _value(part).dtype is not dtype
        return self.emit(aten._to_copy.default, part, dtype=dtype) if is_other else part

    def times(self, a: _Pair, b: _Pair) -> _Pair:
        product = self._product
        real = self._sum(aten.sub.Tensor, product(a[0], b[0]), product(a[1], b[1]))
        return real, self._sum(aten.add.Tensor, product(a[0], b[1]), product(a[1], b[0]))

    def plus(self, a: _Pair, b: _Pair) -> _Pair:
        return self._sum(aten.add.Tensor, a[0], b[0]), self._sum(aten.add.Tensor, a[1], b[1])

    def _product(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Node) and not isinstance(b, Node):
            return a * b
        return self.emit(aten.mul.Tensor, *((a, b) if isinstance(a, Node) else (b, a)))

    def _sum(self, target: Any, a: Any, b: Any) -> Any:
        if isinstance(a, Node):
            return self.emit(target, a, b)
        if not isinstance(b, Node):
            return a + b if target is aten.add.Tensor else a - b
        if target is aten.add.Tensor:
            return self.emit(target, b, a)
        return self.emit(aten.rsub.Scalar, b, a)

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        args = self.node.args
        return args[position] if len(args) > position else self.node.kwargs.get(name, default)


def _multiply(p: _Parts) -> _Pair:
    return p.times(p.pair(p.node.args[0]), p.pair(p.node.args[1]))


def _add(sign: int) -> Callable[[_Parts], _Pair]:
    def add(p: _Parts) -> _Pair:
        alpha = p.argument(2, "alpha", 1)
        return p.plus(p.pair(p.node.args[0]), p.times(p.pair(sign * alpha), p.pair(p.node.args[1])))

    return add


def _divide(p: _Parts) -> _Pair:
    return _quotient(p, p.pair(p.node.args[0]), p.pair(p.node.args[1]))


def _quotient(p: _Parts, dividend: _Pair, divisor: _Pair) -> _Pair:
    """(a + bi) / (c + di) as Smith 1962 and c10 do it: by the larger part of the divisor first."""
    emit = p.emit
    operands = (*dividend, *divisor)
    like = next(part for part in operands if isinstance(part, Node))
    a, b, c, d = (x if isinstance(x, Node) else emit(aten.full_like.default, like, x) for x in operands)
    is_c = emit(aten.ge.Tensor, emit(aten.abs.default, c), emit(aten.abs.default, d))
    choose = functools.partial(emit, aten.where.self, is_c)
    large, small = choose(c, d), choose(d, c)
    ratio = emit(aten.div.Tensor, small, large)

    def plus(x: Node, y: Node) -> Any:
        return emit(aten.add.Tensor, x, emit(aten.mul.Tensor, y, ratio))

    def minus(x: Node, y: Node) -> Any:
        return emit(aten.sub.Tensor, x, emit(aten.mul.Tensor, y, ratio))

    scale = emit(aten.reciprocal.default, plus(large, small))
    first, second = choose(a, b), choose(b, a)
    real = emit(aten.mul.Tensor, plus(first, second), scale)
    across = choose(minus(b, a), emit(aten.sub.Tensor, emit(aten.mul.Tensor, b, ratio), a))
    imag = emit(aten.mul.Tensor, across, scale)
    # By zero: infinities of the signs of the dividend's parts, and NaN.
    is_zero = emit(aten.logical_and.default, emit(aten.eq.Scalar, c, 0.0), emit(aten.eq.Scalar, d, 0.0))
    real, imag = (
        emit(aten.where.self, is_zero, emit(aten.mul.Tensor, own, math.inf), part)
        for own, part in ((a, real), (b, imag))
    )
    return real, imag


def _reciprocal(p: _Parts) -> _Pair:
    return _quotient(p, (1.0, 0.0), p.pair(p.node.args[0]))


# The largest integers of which the exponential is finite.
_LARGEST_EXPONENT = {torch.float32: 88.0, torch.float64: 709.0}


def _exponential(p: _Parts) -> _Pair:
    """exp(x) * (cos(y) + i sin(y)), by C99's rules where a part is 0, infinite or NaN. Products may be finite where
    exp(x) is not."""
    emit, largest = p.emit, _LARGEST_EXPONENT[p.dtype]
    x, y = p.pair(p.node.args[0])
    is_large = emit(aten.gt.Scalar, x, largest)
    rest = emit(aten.exp.default, emit(aten.where.self, is_large, emit(aten.sub.Tensor, x, largest), x))
    scale = emit(aten.where.self, is_large, *(p.number(number) for number in (math.exp(largest), 1.0)))
    cosine, sine = (emit(aten.mul.Tensor, emit(op, y), scale) for op in (aten.cos.default, aten.sin.default))
    real, imag = (emit(aten.mul.Tensor, part, rest) for part in (cosine, sine))
    # Directions of infinities and zeros are those of finite y alone.
    is_finite = emit(aten.lt.Scalar, emit(aten.abs.default, y), math.inf)
    is_lowest, is_highest = (emit(aten.eq.Scalar, x, number) for number in (-math.inf, math.inf))
    exponential = emit(aten.exp.default, x)
    is_infinite = emit(aten.logical_or.default, is_lowest, is_highest)
    has_no_direction = emit(aten.logical_and.default, is_infinite, emit(aten.logical_not.default, is_finite))
    real = emit(aten.where.self, has_no_direction, exponential, real)
    zero = emit(aten.copysign.Tensor, emit(aten.zeros_like.default, x), y)
    is_zero = emit(aten.logical_and.default, has_no_direction, is_lowest)
    imag = emit(aten.where.self, is_zero, zero, imag)
    is_real = emit(aten.eq.Scalar, y, 0.0)
    return emit(aten.where.self, is_real, exponential, real), emit(aten.where.self, is_real, y, imag)


def _of_length_and_angle(p: _Parts) -> _Pair:
    """`aten.polar`."""
    length, angle = (p.cast(part, p.dtype) for part in p.node.args[:2])
    cosine, sine = p.emit(aten.cos.default, angle), p.emit(aten.sin.default, angle)
    return p.emit(aten.mul.Tensor, length, cosine), p.emit(aten.mul.Tensor, length, sine)


def _square(p: _Parts) -> _Pair:
    pair = p.pair(p.node.args[0])
    return p.times(pair, pair)


def _negate(p: _Parts) -> _Pair:
    real, imag = p.pair(p.node.args[0])
    return p.emit(aten.rsub.Scalar, real, 0.0), p.emit(aten.rsub.Scalar, imag, 0.0)


def _conjugate(p: _Parts) -> _Pair:
    real, imag = p.pair(p.node.args[0])  # or of a number in the user's program
    return real, p.emit(aten.neg.default, imag) if isinstance(imag, Node) else -imag


def _of_parts(p: _Parts) -> _Pair:
    real, imag = (p.cast(part, p.dtype) for part in p.node.args[:2])
    return real, imag


def _of_shape(p: _Parts, part: Any) -> Any:
    """The part as a tensor of the shape of the node's value."""
    part = part if isinstance(part, Node) else p.number(part)
    if str(_value(part).shape) == str(_value(p.node).shape):
        return part
    sizes = list(_value(p.node).shape)
    for operand in p.node.all_input_nodes:  # sizes that are symbols are read from an operand
        value = _value(operand)
        for k in range(1, value.dim() + 1) if isinstance(value, torch.Tensor) else ():
            if k <= len(sizes) and isinstance(sizes[-k], torch.SymInt) and str(value.shape[-k]) == str(sizes[-k]):
                sizes[-k] = p.emit(aten.sym_size.int, operand, value.dim() - k)
    return p.emit(aten.expand.default, part, sizes)


def _of_real_view(p: _Parts) -> _Pair:
    real = p.node.args[0]
    last = _value(real).dim() - 1
    return p.emit(aten.select.int, real, last, 0), p.emit(aten.select.int, real, last, 1)


def _each(p: _Parts) -> _Pair:
    """The same operator of the parts: what moves, chooses or adds up elements."""
    results = []
    options = {name: value for name, value in p.node.kwargs.items() if name != "dtype"}
    if p.node.kwargs.get("dtype") is not None:
        options["dtype"] = p.dtype
    for k in range(2):

        def part(x: Any, k: int = k) -> Any:
            return p.pair(x)[k] if _is_complex(x) else x

        args = torch.fx.node.map_aggregate(p.node.args, part)
        try:
            results.append(p.emit(p.target, *args, **options))
        except RuntimeError:
            if p.node.target is not aten.view.default:
                raise
            dense = p.emit(aten.clone.default, args[0], memory_format=torch.contiguous_format)
            results.append(p.emit(p.target, dense, *args[1:]))
    return results[0], results[1]


def _choose(p: _Parts) -> _Pair:
    condition, first, second = p.node.args
    a, b = p.pair(first), p.pair(second)
    parts = [[x if isinstance(x, Node) else p.number(x) for x in each] for each in zip(a, b, strict=True)]
    real, imag = (p.emit(aten.where.self, condition, *each) for each in parts)
    return real, imag


def _cast(p: _Parts) -> _Pair:
    real, imag = (_of_shape(p, part) for part in p.pair(p.node.args[0]))
    options = {name: value for name, value in p.node.kwargs.items() if name in ("memory_format",) and value is not None}
    if options:
        real, imag = (p.emit(aten.clone.default, part, **options) for part in (real, imag))
    return real, imag


def _filled(value_at: int | None) -> Callable[[_Parts], _Pair]:
    """Tensors of one number, which is an argument, or 0."""

    def fill(p: _Parts) -> _Pair:
        args, results = list(p.node.args), []
        number: Any = args[value_at] if value_at is not None else 0.0
        if args and _is_complex(args[0]):
            args[0] = p.pair(args[0])[0]
        for part in (number.real, number.imag) if isinstance(number, complex) else (number, 0.0):
            if value_at is not None:
                args[value_at] = part
            results.append(p.emit(p.target, *args, **{**p.node.kwargs, "dtype": p.dtype}))
        return results[0], results[1]

    return fill


def _ones(p: _Parts) -> _Pair:
    options = {**p.node.kwargs, "dtype": p.dtype}
    return p.emit(aten.ones.default, *p.node.args, **options), p.emit(aten.zeros.default, *p.node.args, **options)


def _magnitude(p: _Parts) -> Any:
    return p.emit(aten.hypot.default, *p.pair(p.node.args[0], _PARTS[_value(p.node.args[0]).dtype]))


def _angle(p: _Parts) -> Any:
    real, imag = p.pair(p.node.args[0], _PARTS[_value(p.node.args[0]).dtype])
    return p.emit(aten.atan2.default, imag, real)


def _stack(emit: Callable[..., Any], real: Any, imag: Any) -> Any:
    return emit(aten.cat.default, [emit(aten.unsqueeze.default, part, -1) for part in (real, imag)], -1)


# Views, which share the memory of their operand: a complex value that somebody wants stays one.
_VIEWS = (
    aten.alias.default,
    aten.detach.default,
    aten.diagonal.default,
    aten.expand.default,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.t.default,
    aten.transpose.int,
    aten.unfold.default,
    aten.unsqueeze.default,
    aten.view.default,
)
_MOVES = (
    aten.cat.default,
    aten.clone.default,
    aten.copy.default,
    aten.diagonal_scatter.default,
    aten.flip.default,
    aten.gather.default,
    aten.index.Tensor,
    aten.index_select.default,
    aten.new_empty_strided.default,
    aten.select_backward.default,
    aten.select_scatter.default,
    aten.slice_backward.default,
    aten.slice_scatter.default,
)
_SUMS = (aten.mean.default, aten.mean.dim, aten.sum.default, aten.sum.dim_IntList)

# Operators with a complex result.
_RULES: dict[Any, Callable[[_Parts], _Pair]] = {
    **dict.fromkeys((*_VIEWS, *_MOVES, *_SUMS), _each),
    aten._conj.default: _conjugate,
    aten._to_copy.default: _cast,
    aten.add.Scalar: _add(1),
    aten.add.Tensor: _add(1),
    aten.complex.default: _of_parts,
    aten.div.Tensor: _divide,
    aten.exp.default: _exponential,
    aten.full.default: _filled(1),
    aten.full_like.default: _filled(1),
    aten.mul.Scalar: _multiply,
    aten.mul.Tensor: _multiply,
    aten.neg.default: _negate,
    aten.new_zeros.default: _filled(None),
    aten.ones.default: _ones,
    aten.polar.default: _of_length_and_angle,
    aten.pow.Tensor_Scalar: _square,
    aten.reciprocal.default: _reciprocal,
    aten.scalar_tensor.default: _filled(0),
    aten.sub.Tensor: _add(-1),
    aten.view_as_complex.default: _of_real_view,
    aten.where.self: _choose,
    aten.zeros.default: _filled(None),
    aten.zeros_like.default: _filled(None),
}
# Operators with a real result of complex operands.
_REAL_RESULTS: dict[Any, Callable[[_Parts], Any]] = {
    aten.abs.default: _magnitude,
    aten.angle.default: _angle,
}
# Operators that ATen computes number by number.
_SLOW = (
    aten.abs.default,
    aten.angle.default,
    aten.div.Tensor,
    aten.exp.default,
    aten.polar.default,
    aten.reciprocal.default,
)
_BETWEEN = (aten.complex.default, aten.view_as_complex.default, aten.view_as_real.default)
_KEPT_VIEWS = (*_VIEWS, aten._conj.default)


def _operands(node: Node) -> Iterable[Node]:
    return (operand for operand in node.all_input_nodes if _is_complex(operand))


# Operators of which all operands that are data have to be complex.
_OF_COMPLEX = (
    aten.copy.default,
    aten.diagonal_scatter.default,
    aten.select_scatter.default,
    aten.slice_scatter.default,
)


def _has_rule(node: Node) -> bool:
    if node.op != "call_function":
        return False
    if _is_complex(node):
        has_rule = node.target in _RULES and _is_plain(node) and _has_operands(node)
    else:
        is_known = node.target in _REAL_RESULTS or node.target is aten.view_as_real.default
        has_rule = is_known and any(True for _ in _operands(node))
    return has_rule and all(map(_is_plain, _operands(node)))


def _has_operands(node: Node) -> bool:
    """Whether the rule knows operands like these."""
    first = node.args[0] if node.args else None
    if node.target is aten.cat.default:
        return all(map(_is_complex, first))  # type: ignore[arg-type]
    if node.target in _OF_COMPLEX:
        return all(map(_is_complex, node.args[:2]))
    if node.target is aten.pow.Tensor_Scalar:
        return bool(node.args[1] == 2)
    if node.target is aten._to_copy.default:
        return bool(_value(first).device == _value(node).device)
    return _is_complex(first) if _RULES[node.target] is _each else True


class _Chains:
    """Sets of nodes with rules that read one another's complex values."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._parents = {node: node for node in nodes}
        for node in self._parents:
            for operand in _operands(node):
                if operand in self._parents:
                    self._parents[self._root(operand)] = self._root(node)

    def _root(self, node: Node) -> Node:
        while self._parents[node] is not node:
            self._parents[node] = self._parents[self._parents[node]]
            node = self._parents[node]
        return node

    def worth_it(self) -> set[Node]:
        """Nodes of chains that save a library call or a value in memory."""
        work: dict[Node, int] = {}
        borders: dict[Node, int] = {}
        for node in self._parents:
            root = self._root(node)
            is_between = node.target in _BETWEEN
            is_work = not is_between and node.target not in _KEPT_VIEWS
            work[root] = work.get(root, 0) + is_work + (node.target in _SLOW)
            borders[root] = borders.get(root, 0) + is_between
        return {n for n in self._parents if work[r := self._root(n)] >= 2 or (work[r] and borders[r])}


def _shows_strides(user: Node) -> bool:
    """Whether a node hands on its operand, or a view of it."""
    if not isinstance(user.target, torch._ops.OpOverload):
        return True
    return any(result.alias_info is not None for result in user.target._schema.returns)


class _Replacement:
    def __init__(self, gm: GraphModule, chosen: set[Node]) -> None:
        self.gm, self.chosen = gm, chosen
        self.pairs: dict[Node, _Pair] = {}
        self.stacks: dict[Node, Node] = {}

    def run(self) -> None:
        for node in list(self.gm.graph.nodes):
            if node not in self.chosen:
                continue
            parts = _Parts(self.gm, node, functools.partial(self._of, node))
            if _is_complex(node):
                real, imag = (_of_shape(parts, part) for part in _RULES[node.target](parts))
                self.pairs[node] = real, imag
                self._write(node)
            elif node.target is aten.view_as_real.default:
                self._replace_view(node, parts)
            else:
                node.replace_all_uses_with(_REAL_RESULTS[node.target](parts))
        self.gm.graph.eliminate_dead_code()
        self.gm.recompile()

    def _of(self, user: Node, operand: Node) -> _Pair:
        """Parts of an operand, read before `user` if there are none."""
        if operand not in self.pairs:
            emit = functools.partial(emit_before, self.gm, user)
            # A caller's tensor may be the conjugate of its memory in another call than the traced one.
            value = emit(aten.resolve_conj.default, operand) if operand.op == "placeholder" else operand
            real = emit(aten.view_as_real.default, value)
            last = _value(real).dim() - 1
            self.pairs[operand] = emit(aten.select.int, real, last, 0), emit(aten.select.int, real, last, 1)
        return self.pairs[operand]

    def _wants_complex(self, user: Node) -> bool:
        if user not in self.chosen or user.target in _KEPT_VIEWS:
            return True
        return user.target is aten.view_as_real.default and bool(self._left(user)) and not self._is_stacked(user)

    def _left(self, view: Node) -> list[Node]:
        """Users of a `view_as_real` that are no parts, or parts of which the caller sees that they are views."""
        last = _value(view).dim() - 1
        places = [[last, 0], [last, 1], [-1, 0], [-1, 1]]
        return [
            user
            for user in view.users
            if user.target is not aten.select.int
            or list(user.args[1:]) not in places
            or any(map(_shows_strides, user.users))
        ]

    def _is_stacked(self, view: Node) -> bool:
        """Whether a stack of the parts serves as the view: nobody has the complex value, and its elements lie in order,
        as the stack's do."""
        node: Any = view.args[0]
        if node not in self.chosen or node.target in _KEPT_VIEWS or not _value(node).is_contiguous():
            return False
        return all(user in self.chosen and user.target not in _KEPT_VIEWS for user in node.users)

    def _write(self, node: Node) -> None:
        """The value as a complex tensor for those who want one."""
        if node.target in _KEPT_VIEWS or not any(map(self._wants_complex, node.users)):
            return
        emit = functools.partial(emit_before, self.gm, node)
        value, parts = _value(node), list(self.pairs[node])
        order = sorted(range(value.dim()), key=lambda dim: hint_of(value.stride(dim)), reverse=True)
        if order != sorted(order):
            parts = [emit(aten.permute.default, part, order) for part in parts]
        made = emit(aten.view_as_complex.default, _stack(emit, *parts))
        if order != sorted(order):
            made = emit(aten.permute.default, made, [order.index(dim) for dim in range(value.dim())])
        if str(_value(made).stride()) != str(value.stride()):
            return  # the operator itself stays
        self.pairs[made] = self.pairs[node]
        self.chosen.add(made)
        node.replace_all_uses_with(made)

    def _replace_view(self, view: Node, parts: _Parts) -> None:
        left = self._left(view)
        pair = parts.pair(view.args[0], _value(view).dtype)
        for user in list(view.users):
            if user not in left:
                user.replace_all_uses_with(pair[user.args[2]])  # type: ignore[index]
                self.gm.graph.erase_node(user)
        if left and self._is_stacked(view):
            operand: Any = view.args[0]
            if operand not in self.stacks:
                self.stacks[operand] = _stack(parts.emit, *pair)
            view.replace_all_uses_with(self.stacks[operand])


def replace_complex(gm: GraphModule) -> int:
    """Rewrites chains of complex operators on the CPU; returns of how many operators."""
    nodes = [node for node in gm.graph.nodes if _has_rule(node)]
    while True:
        # What is read from memory has no conjugate bit: parts are those of the memory.
        chosen = _Chains(nodes).worth_it()
        refused = {n for n in chosen if any(o not in chosen and _value(o).is_conj() for o in _operands(n))}
        if not refused:
            break
        nodes = [node for node in nodes if node not in refused]
    if chosen:
        _Replacement(gm, chosen).run()
    return len(chosen)
