"""Lines by family. Each function looks at the program under way and gives a line's text and rule, or None.

`{t}` and `{u}` become new names. What eager refuses is dropped by the caller, so nothing is checked twice here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from tests.fuzz.program import ARITH, BITS, CHOICE, EXACT, FLOATS, INTEGERS, ROUND, SUM, VIEW

if TYPE_CHECKING:
    from tests.fuzz.generate import Drawing

Made = tuple[str, str] | None
Draw = Callable[["Drawing"], Made]
FAMILIES: dict[str, list[Draw]] = {}
REAL = (*FLOATS, *INTEGERS)


def family(name: str) -> Callable[[Draw], Draw]:
    def put(function: Draw) -> Draw:
        FAMILIES.setdefault(name, []).append(function)
        return function

    return put


def is_float(t: torch.Tensor) -> bool:
    return t.is_floating_point()


def is_real(t: torch.Tensor) -> bool:
    return t.dtype in REAL


def is_integer(t: torch.Tensor) -> bool:
    return t.dtype in INTEGERS


def is_bool(t: torch.Tensor) -> bool:
    return t.dtype == torch.bool


def is_discrete(t: torch.Tensor) -> bool:
    return is_integer(t) or is_bool(t)


def has_dims(t: torch.Tensor) -> bool:
    return t.dim() > 0


def is_complex(t: torch.Tensor) -> bool:
    return t.is_complex()


def each(name: str, rule: str, accept: Callable[[torch.Tensor], bool], lines: str) -> None:
    """Lines of one operand {x}, with {d} a dimension of it, {e} another, and {c} a small number."""

    def draw(g: Drawing, text: str) -> Made:
        x = g.pick(accept, rule in (CHOICE, BITS))
        if x is None:
            return None
        number = g.rng.choice(["2", "3", "-1", "0.5", "1.5", "-2", "0", "1", "0.1", "7"])
        return filled(text, x=x, d=g.dim(x), e=g.dim(x), c=number), rule

    for text in split(lines):
        FAMILIES.setdefault(name, []).append(lambda g, text=text: draw(g, text))  # type: ignore[misc]


def pairs(name: str, rule: str, accept: Callable[[torch.Tensor], bool], lines: str) -> None:
    """Lines of two operands {x} and {y} that broadcast, and {m} a mask that does."""

    def draw(g: Drawing, text: str) -> Made:
        exact = rule in (CHOICE, BITS)
        x = g.pick(accept, exact)
        if x is None:
            return None
        y = g.other(x, accept, exact)
        m = g.other(x, is_bool) if "{m}" in text else x
        if "{m}" in text and not is_bool(g.tensor(m)):
            return None
        return filled(text, x=x, y=y, m=m, d=g.dim(x)), rule

    for text in split(lines):
        FAMILIES.setdefault(name, []).append(lambda g, text=text: draw(g, text))  # type: ignore[misc]


def split(lines: str) -> list[str]:
    return [text.strip() for text in lines.split(";")]


def filled(text: str, **names: object) -> str:
    for name, value in names.items():
        text = text.replace("{" + name + "}", str(value))
    has_target = " = " in text.split("(")[0] or "_(" in text or "] = " in text or "] += " in text or "out=" in text
    return text if has_target else "{t} = " + text


def anything(t: torch.Tensor) -> bool:
    return True


# Views, and what may be one.
each("view", VIEW, has_dims, """
    {x}.transpose({d}, {e}); {x}.flip({d}); {x}.squeeze({d}); {x}.unsqueeze({d}); {x}[1:]; {x}[..., ::2];
    {x}[..., 1::3]; {x}[-1]; {x}[..., 0]; {x}[:2]; {x}[..., -3:]; {x}.select({d}, -1);
    {x}.narrow({d}, 0, {x}.shape[{d}] // 2); {x}.unflatten({d}, (2, -1)); {x}.unflatten({d}, (-1, 3));
    {x}.movedim({d}, {e}); {x}.unfold({d}, 2, 1); {x}.unfold({d}, 3, 2); {x}.chunk(2, {d})[-1];
    {x}.split(2, {d})[0]; {x}.unbind({d})[0]; {x}.diagonal(0, {d}, {e}); {x}.tensor_split(3, {d})[1];
    {x}.diagonal(1, {d}, {e}); {x}.flatten({d}); {x}.flatten(0, {d})
""")  # fmt: skip
each("view", VIEW, anything, """
    {x}.reshape(-1); {x}.unsqueeze(0); {x}.expand(3, *{x}.shape); {x}[None]; {x}.detach(); {x}.view({x}.shape);
    {x}.contiguous(); {x}.squeeze(); {x}.mT; {x}.adjoint(); {x}.unsqueeze(-1).expand(*{x}.shape, 2);
    {x}.view_as({x}); {x}.ravel(); {x}.swapaxes(0, -1)
""")  # fmt: skip


@family("view")
def as_strided(g: Drawing) -> Made:
    x = g.pick(lambda t: t.numel() > 1 and not t.is_neg() and not t.is_conj())
    if x is None:
        return None
    extent = g.tensor(x).untyped_storage().nbytes() // g.tensor(x).element_size()
    a, b = g.rng.choice([(2, 2), (3, 1), (2, 3), (4, 1)])
    s, r = g.rng.choice([(1, 1), (2, 1), (1, 2), (1, 0), (3, 1)])
    offset = g.rng.randrange(0, max(extent - (a - 1) * s - (b - 1) * r, 1))
    return f"{{t}} = {x}.as_strided(({a}, {b}), ({s}, {r}), {offset})", VIEW


@family("view")
def reshape(g: Drawing) -> Made:
    x = g.pick(lambda t: t.numel() > 1)
    if x is None:
        return None
    divisors = [d for d in (2, 3, 4, 5, 7) if g.tensor(x).numel() % d == 0]
    if not divisors:
        return None
    shape = g.rng.choice(["{d}, -1", "-1, {d}", "1, {d}, -1"]).replace("{d}", str(g.rng.choice(divisors)))
    return f"{{t}} = {x}.{g.rng.choice(['reshape', 'reshape', 'view'])}({shape})", VIEW


@family("view")
def permute(g: Drawing) -> Made:
    x = g.pick(lambda t: t.dim() > 1)
    if x is None:
        return None
    order = list(range(g.tensor(x).dim()))
    g.rng.shuffle(order)
    return f"{{t}} = {x}.permute({', '.join(map(str, order))})", VIEW


@family("calls")
def view_dtype(g: Drawing) -> Made:
    x = g.pick(lambda t: is_real(t) and not t.is_neg() and not t.requires_grad, exact=True)
    if x is None:
        return None
    same = [t for t in REAL if t.itemsize == g.tensor(x).element_size()]
    return f"{{t}} = {x}.view({g.rng.choice(same if g.rng.random() < 0.7 else REAL)})", BITS


# Moves that copy.
each("moves", EXACT, has_dims, """
    {x}.flip({d}); {x}.roll(2, {d}); {x}.roll((1, -1), ({d}, {e})); {x}.clone(); {x}.tril();
    torch.cat([{x}, {x}], {d}); torch.stack([{x}, {x}.flip({e})], {d}); {x}.triu(1);
    torch.nn.functional.pad({x}, (1, 2)); torch.nn.functional.pad({x}, (-1, 1)); {x}.repeat_interleave(2, {d})
""")  # fmt: skip
each("moves", EXACT, anything, """
    torch.zeros_like({x}); {x}.new_full({x}.shape, 3); {x}.repeat(2, *([1] * {x}.dim())); {x}.rot90(1, (0, -1))
""")  # fmt: skip
each("moves", EXACT, has_dims, """
    torch.nn.functional.pad({x}, (1, 1), mode='reflect'); torch.diag_embed({x}); {x}.fill_diagonal_(1);
    torch.nn.functional.pad({x}[None, None].flatten(2), (2, 1), mode='circular')
""")  # fmt: skip
pairs("moves", EXACT, anything, """
    torch.where({m}, {x}, {y}); torch.cat([{x}.reshape(-1), {y}.reshape(-1)]); {x}.expand_as({y});
    torch.stack([{x}, {y}]); torch.cat([{x}, {y}], {d}); {x}.masked_fill({m}, 2);
    torch.broadcast_tensors({x}, {y})[0]
""")  # fmt: skip

# Bits that eager and we share in every dtype.
each("exact", EXACT, is_real, """
    {x}.neg(); {x}.abs(); {x}.relu(); {x}.clamp(-1, 2); {x}.clamp_min({c}); {x}.positive();
    torch.nn.functional.hardtanh({x}); {x}.nan_to_num(1, 2, 3); torch.nn.functional.threshold({x}, 0, {c})
""")  # fmt: skip
pairs("exact", EXACT, is_real, """
    torch.maximum({x}, {y}); torch.minimum({x}, {y}); torch.fmax({x}, {y}); torch.fmin({x}, {y});
    torch.where({m}, {x}, {y}); torch.clamp({x}, {y}, {y} + 1); torch.where({m}, {x}, 0)
""")  # fmt: skip
pairs("choice", CHOICE, is_real, """
    {x} > {y}; {x} <= {y}; {x} == {y}; {x} != {y}; torch.where({x} < {y}, {x}, {y}); torch.copysign({x}, {y});
    torch.isclose({x}, {y}); torch.heaviside({x}, {y}); torch.fmod({x}, {y}.abs() + 1);
    torch.remainder({x}, {y}.abs() + 2); torch.logical_xor({x}, {y});
    torch.div({x}, {y}.abs() + 1, rounding_mode='floor'); torch.div({x}, {y}.abs() + 1, rounding_mode='trunc')
""")  # fmt: skip
each("choice", CHOICE, is_real, """
    {x}.floor(); {x}.ceil(); {x}.round(); {x}.trunc(); {x}.sign(); {x}.isnan(); {x} > 0; {x}.signbit();
    {x}.isinf(); {x} == {c}; {x} // 2; {x} % 3; {x}.logical_not(); {x}.frac(); {x}.isfinite();
    {x}.nan_to_num().clamp(-99, 99).to(torch.int32); {x}.sgn(); {x} >= {c}; {x}.bool()
""")  # fmt: skip
each("cast", EXACT, anything, """
    {x}.to(torch.float64); {x}.to(torch.bool); {x}.to(torch.complex64).real
""")  # fmt: skip
each("cast", CHOICE, is_real, """
    {x}.nan_to_num().clamp(-99, 99).to(torch.int8); {x}.nan_to_num().clamp(0, 99).to(torch.uint8);
    {x}.nan_to_num().clamp(-99, 99).to(torch.int16); {x}.nan_to_num().clamp(-99, 99).to(torch.int64)
""")  # fmt: skip
each("cast", ARITH, anything, """
    {x}.to(torch.float32); {x}.to(torch.bfloat16); {x}.to(torch.float16); {x}.half().float()
""")  # fmt: skip
each("cast", EXACT, is_discrete, ";".join(f"{{x}}.to({d})" for d in INTEGERS))

# One IEEE operation each.
pairs("arith", ARITH, anything, """
    {x} + {y}; {x} * {y}; {x} - {y}; {x} * {y}; torch.add({x}, {y}); {x} + {y}
""")  # fmt: skip
pairs("arith", ARITH, is_real, """
    {x} / {y}; torch.true_divide({x}, {y}); torch.rsub({x}, {y})
""")  # fmt: skip
each("arith", ARITH, is_real, """
    {x} + {c}; {x} * {c}; {c} - {x}; {x} - {c}; {x} / 3; {x}.square(); 2 / {x}
""")  # fmt: skip
each("arith", ARITH, anything, """
    {x} * 2; {x} + 1; {x} + {x}; {x} * True
""")  # fmt: skip
pairs("integer", EXACT, is_integer, """
    {x} & {y}; {x} | {y}; {x} ^ {y}; {x} << ({y} & 3); {x} >> ({y} & 3); {x} // ({y} | 1); {x} % ({y} | 1);
    torch.gcd({x}, {y}); torch.fmod({x}, {y} | 1); {x} * {y} + {x}; {x} / ({y} | 1)
""")  # fmt: skip
each("integer", EXACT, is_discrete, """
    ~{x}; {x} & 1; {x} | 6; {x} ^ 3
""")  # fmt: skip
each("integer", EXACT, is_integer, """
    {x} >> 1; {x} << 2; {x} // 3; {x} % 5; {x} // -2; {x} % -3; -{x}; {x}.pow(3); {x} - 7; {x} + 1; {x}.sum({d});
    {x}.cumsum({d})
""")  # fmt: skip
pairs("integer", EXACT, is_bool, """
    {x} & {y}; {x} | {y}; {x} ^ {y}; ~{x}; {x} + {y}; {x} * {y}; {x} > {y}
""")  # fmt: skip

# Orders of additions.
each("sums", SUM, has_dims, """
    {x}.sum({d}); {x}.sum({d}, keepdim=True); {x}.cumsum({d}); {x}.sum(({d}, {e})); {x}.sum(({d},), keepdim=True)
""")  # fmt: skip
each("sums", SUM, anything, """
    {x}.sum(); {x}.sum(dtype=torch.float64); {x}.sum(dtype=torch.float32); {x}.nansum()
""")  # fmt: skip
each("sums", ROUND, is_float, """
    {x}.mean(); {x}.mean({d}); {x}.var({d}); {x}.std({d}, correction=0); {x}.norm(2, {d}); {x}.prod({d});
    {x}.softmax({d}); {x}.log_softmax({d}); {x}.logsumexp({d});
    torch.nn.functional.layer_norm({x}, {x}.shape[-1:]); {x}.norm(1, {d});
    torch.nn.functional.normalize({x}, dim={d}); torch.var_mean({x}, {d})[0]; {x}.mean(({d},), keepdim=True)
""")  # fmt: skip
each("sums", EXACT, is_integer, """
    {x}.prod({d}); {x}.sum({d}, dtype=torch.int32); {x}.cumprod({d})
""")  # fmt: skip
each("extrema", EXACT, is_real, """
    {x}.amax({d}); {x}.amin({d}, keepdim=True); {x}.amax(); {x}.max({d})[0]; {x}.cummax({d})[0];
    {x}.aminmax(dim={d})[0]
""")  # fmt: skip
each("extrema", CHOICE, is_real, """
    {x}.argmax({d}); {x}.argmin({d}); {x}.argmax(); {x}.max({d})[1]; {x}.min({d}, keepdim=True)[1];
    {x}.cummin({d})[1]
""")  # fmt: skip
each("extrema", CHOICE, anything, """
    {x}.any({d}); {x}.all({d}); {x}.any(); {x}.count_nonzero({d}); ({x} != 0).sum({d})
""")  # fmt: skip

# Continuous functions.
each("round", ROUND, is_float, """
    {x}.abs().neg().exp(); {x}.abs().sqrt();
    {x}.abs().log1p(); {x}.tanh(); {x}.sigmoid(); {x}.sin(); {x}.cos(); {x}.erf();
    (({x}.abs() + 0.5).rsqrt()); ({x}.abs() + 0.5).log(); torch.nn.functional.gelu({x});
    torch.nn.functional.silu({x}); ({x}.abs() + 0.5).pow(1.5); torch.nn.functional.softplus({x}); {x}.atan();
    {x}.clamp(-3, 3).sinh(); {x}.clamp(-3, 3).expm1(); torch.nn.functional.elu({x});
    torch.nn.functional.leaky_relu({x}, 0.1); torch.nn.functional.mish({x}); {x}.clamp(-2, 2).exp2()
""")  # fmt: skip
pairs("round", ROUND, is_float, """
    torch.atan2({x}, {y}.abs() + 1); torch.hypot({x}, {y}); torch.lerp({x}, {y}, 0.3);
    torch.addcmul({x}, {x}, {y}); torch.logaddexp({x}, {y}); {x} / ({y}.abs() + 0.5);
    torch.add({x}, {y}, alpha=0.3); torch.addcdiv({x}, {x}, {y}.abs() + 1)
""")  # fmt: skip

# Writes in place.
each("writes", ARITH, anything, """
    {x}.add_(1); {x}.mul_(2); {x}[1:].mul_(3); {x}[..., 0].add_(2); {x}.mul_({x})
""")  # fmt: skip
each("writes", EXACT, anything, """
    {x}.zero_(); {x}.fill_(3); {x}[:1] = 5; {x}[..., ::2] = 0; {x}.copy_({x}.flip(0)); {x}[-1] = 1; {x}.t_()
""")  # fmt: skip
each("writes", EXACT, is_real, """
    {x}.neg_(); {x}.relu_(); {x}.clamp_(-1, 3); {x}.abs_(); {x}.copy_({x}.mT); {x}.masked_fill_({x} > 0, 1)
""")  # fmt: skip
each("writes", CHOICE, is_real, """
    {x}[{x} > 1] = -1; {x}.floor_(); {x}.masked_fill_({x} > 2, 0); {x}.gt_(0); {x}.sign_()
""")  # fmt: skip
each("writes", ROUND, is_float, """
    {x}.tanh_(); {x}.sigmoid_(); {x}.clamp_(-2, 2).exp_(); {x}.sin_()
""")  # fmt: skip
each("writes", EXACT, has_dims, """
    {x}.squeeze_(); {x}.unsqueeze_(0); {x}.transpose_({d}, {e}); {x}.roll(1, 0).copy_({x})
""")  # fmt: skip
each("writes", SUM, has_dims, """
    {x}.cumsum_({d}); {x}[:2].copy_({x}.sum({d}, keepdim=True)[:2]); {x}.sub_({x}.sum())
""")  # fmt: skip
pairs("writes", ARITH, anything, """
    {x}.add_({y}); {x}.mul_({y}); {x}.sub_({y}); {x}[1:].add_({y}); {x}[..., :1] += {y}; {x}.t().add_({y})
""")  # fmt: skip
pairs("writes", EXACT, anything, """
    {x}.copy_({y}); {x}[:1] = {y}; {x}[1:] = {y}; {x}[..., ::2] = {y}; {x}.masked_fill_({m}, 4); {x}[{m}] = 0;
    {x}.data.copy_({y})
""")  # fmt: skip
pairs("writes", EXACT, is_real, """
    torch.maximum({x}, {y}, out={x})
""")  # fmt: skip
pairs("writes", ARITH, is_real, """
    torch.add({x}, {y}, out={x}); {x}.div_({y})
""")  # fmt: skip

# Indices of an own size, so that there are duplicates.


def indexed(name: str, rule: str, lines: str, accept: Callable[[torch.Tensor], bool] = has_dims) -> None:
    def draw(g: Drawing, text: str) -> Made:
        x = g.pick(lambda t: has_dims(t) and accept(t) and t.numel() > 0)
        if x is None:
            return None
        d = g.dim(x)
        n, k = g.rng.choice([1, 2, 3, 5, g.size(x, d), 2 * g.size(x, d)]), g.rng.choice([0, 1, 1, 2, 3, 7])
        index = f"(torch.arange({n}) * {k} % {x}.shape[{d}])"
        held = g.pick(lambda t: t.dtype == torch.int64 and t.dim() in (1, 2) and 0 < t.numel() <= 64, exact=True)
        if held is not None and g.rng.random() < 0.4:
            index = f"({held} % {x}.shape[{d}])"
        s = g.pick(lambda t: t.dtype == g.tensor(x).dtype) or x
        full = f"(torch.arange({x}.numel()).reshape({x}.shape) * {k} % {x}.shape[{d}])"
        return filled(text, x=x, d=d, e=g.dim(x), i=index, f=full, y=s, c=g.rng.choice([0, 1, 2])), rule

    for text in split(lines):
        FAMILIES.setdefault(name, []).append(lambda g, text=text: draw(g, text))  # type: ignore[misc]


indexed("gather", EXACT, """
    {x}.index_select({d}, {i}.reshape(-1)); {x}.gather({d}, {f}); {x}[{i} % {x}.shape[0]]; {x}.take({i});
    {x}[..., {i} % {x}.shape[-1]]; torch.take_along_dim({x}, {f}, {d}); {x}.movedim({d}, 0)[{i}];
    torch.nn.functional.embedding({i}, {x}); {x}[{i} % {x}.shape[0], {i} % {x}.shape[-1]];
    {x}[-{i} % {x}.shape[0] - {x}.shape[0]]
""")  # fmt: skip
indexed("scatter", EXACT, """
    {x}.scatter({d}, {f}, 2); {x}.index_fill({d}, {i}.reshape(-1), 3); {x}.index_fill_({d}, {i}.reshape(-1), 1)
""")  # fmt: skip
indexed("scatter", EXACT, """
    {x}.scatter_reduce({d}, {f}, {x}, 'amax'); {x}.scatter_reduce_({d}, {f}, {x}.clone(), 'amin')
""", accept=is_real)  # fmt: skip
indexed("scatter", SUM, """
    {x}.scatter_add({d}, {f}, {x}); {x}.scatter_add_({d}, {f}, {x}.clone());
    {x}.index_add({d}, {f}.reshape(-1)[:{x}.shape[{d}]], {x});
    {x}.index_put(({i} % {x}.shape[0],), {x}[{i} % {x}.shape[0]], accumulate=True);
    {x}.scatter_reduce({d}, {f}, {x}, 'sum');
    {x}.index_put_(({i} % {x}.shape[0],), {x}[{i} % {x}.shape[0]] * 2, accumulate=True);
    {t} = torch.zeros_like({x}).scatter_add_({d}, {f}, {x})
""")  # fmt: skip
indexed("scatter", ROUND, """
    {x}.scatter_reduce({d}, {f}, {x}, 'mean'); {x}.scatter_reduce({d}, {f}, {x}, 'prod')
""", accept=is_float)  # fmt: skip
indexed("scatter", EXACT, """
    {x}.select_scatter({x}.select({e}, 0) * 0, {e}, -1); {x}.slice_scatter({x}[:1] * 0, 0, 1, 2);
    {x}[{i} % {x}.shape[0]] = 1; {x}.index_copy({d}, torch.arange({x}.shape[{d}]).flip(0), {x});
    {x}.diagonal_scatter({x}.diagonal() * 0);
    {x}.index_copy_({d}, torch.arange({x}.shape[{d}]).flip(0), {x}.clone());
    {x}.put_({i} % {x}.numel(), {i}.to({x}.dtype) * 0)
""")  # fmt: skip

# Calls outside.
each("calls", CHOICE, has_dims, """
    {t}, {u} = {x}.sort({d}, stable=True); {x}.sort(dim={d}, descending=True, stable=True)[0]; {x}.topk(1, {d})[0];
    {x}.kthvalue(1, {d})[0]; {x}.median({d})[0]; {x}.mode({d})[0]; {x}.argsort(dim={d}, stable=True)
""")  # fmt: skip
each("calls", CHOICE, anything, """
    {x}.nonzero(); {x}.unique(); {x}[{x} > 0]; {x}.masked_select({x} > 0); torch.nonzero({x} > 1)[..., 0]
""")  # fmt: skip
each("calls", CHOICE, is_real, """
    torch.bucketize({x}, torch.arange(-4, 5) * 1.0); torch.ops.fuzz_ops.positive({x});
    torch.searchsorted(torch.arange(-4., 5.), {x}.float())
""")  # fmt: skip
each("calls", EXACT, anything, """
    {t}, {u} = torch.ops.fuzz_ops.split_and_write_({x}); torch.ops.fuzz_ops.scaled({x}, 1.0);
    {x}.view_as({x}.clone())
""")  # fmt: skip
each("calls", ARITH, is_real, """
    torch.ops.fuzz_ops.scaled({x}, 2.0)
""")  # fmt: skip
each("calls", ROUND, is_float, """
    {x} @ {x}.mT; {x}.mT @ {x}; {x}.cumprod({d}); torch.cdist({x}, {x}); {x}.abs().cumsum({d}).log1p();
    {x}.trapezoid()
""")  # fmt: skip
pairs("calls", ROUND, is_float, """
    {x} @ {y}; {x} @ {y}.mT; torch.nn.functional.linear({x}, {y});
    torch.outer({x}.reshape(-1)[:20], {y}.reshape(-1)[:20])
""")  # fmt: skip
pairs("calls", ARITH, is_real, """
    torch.ops.fuzz_ops.increase_({x}, {y})
""")  # fmt: skip

# Complex numbers, which only calls compute.
each("complex", EXACT, is_complex, """
    {x}.real; {x}.imag; {x}.conj(); torch.view_as_real({x}); {x}.resolve_conj(); {x}.conj().imag; {x}.clone();
    {x}.mH
""")  # fmt: skip
each("complex", ROUND, is_complex, """
    {x}.abs(); {x} * {x}; {x}.angle().cos(); {x}.exp(); {x}.sum(); {x}.conj() * {x}; ({x} * 1j).real
""")  # fmt: skip
each("complex", EXACT, is_float, """
    torch.complex({x}.float(), {x}.float()); torch._neg_view({x});
    torch.view_as_complex(torch.stack([{x}.double(), {x}.double()], -1))
""")  # fmt: skip
each("complex", VIEW, is_complex, """
    {x}.conj(); {x}.real; {x}.imag; torch.view_as_real({x}); {x}.conj().real; {x}.conj().imag;
    {x}.conj().resolve_neg()
""")  # fmt: skip
each("complex", EXACT, is_complex, """
    {x}.real.mul_(2); {x}.imag.zero_(); torch.view_as_real({x})[..., 1].neg_(); {x}.conj_physical_();
    {x}.conj().real.add_(1)
""")  # fmt: skip
