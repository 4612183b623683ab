"""torch's operator database (OpInfo) under the backend: what is tried of one operator and dtype, and what came of it.

Each check runs a few samples of an operator in one compiled function, in the worker process or in pytest; `sweep.py`
runs the whole database in worker processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

from tests.compiling import BACKEND, IS_TILE, strides_that_matter

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
KINDS = ("forward", "noncontiguous", "permuted", "empty", "dynamic", "gradient", "dynamic_gradient", "written")
# Where samples live; the database makes them there.
DEVICE = os.environ.get("TORCH_TILE_TEST_DEVICE", "cpu")
_DYNAMIC_DTYPES = (torch.float32, torch.int64)

# Eager mode gives an argument back where AOTAutograd, which takes composites apart, makes a copy.
_COPIED_BY_AUTOGRAD = {
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout.without_train",
}

# Relative and absolute, as OpInfo's own tests have them for a device against another; above them float64 is the judge.
_TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-5, 1e-5),
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-3),
}
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}
# Results are whatever memory held.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}


@dataclasses.dataclass
class Outcome:
    """Of one check: `status` is ok, skipped, wrong, stride, dtype, error or fallback; counts are of compiled graphs."""

    status: str
    message: str = ""
    kernels: int = 0
    graphs: int = 0
    fallbacks: int = 0
    externs: list[str] = dataclasses.field(default_factory=list)
    reasons: list[str] = dataclasses.field(default_factory=list)


def name_of(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def operators() -> list[OpInfo]:
    """The database in a fixed order."""
    return sorted(op_db, key=name_of)


def pairs(op: OpInfo) -> list[torch.dtype]:
    supported = op.supported_dtypes(DEVICE)
    return [dtype for dtype in DTYPES if dtype in supported]


Sample = tuple[Any, tuple[Any, ...], dict[str, Any]]


def _call(function: Callable[..., Any], sample: Sample) -> Any:
    return function(sample[0], *sample[1], **sample[2])


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _is_empty(sample: Any) -> bool:
    return any(t.numel() == 0 for t in _tensors((sample.input, sample.args, sample.kwargs)))


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested


def _chosen(op: OpInfo, dtype: torch.dtype, kind: str, count: int) -> list[Sample]:
    """A few samples, spread evenly over the first ones: databases put the simple ones first and the odd ones last."""
    needs_gradient = kind.endswith("gradient")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        found = list(itertools.islice(op.sample_inputs(DEVICE, dtype, requires_grad=needs_gradient), 64))
    found = [s for s in found if all(map(_is_plain, _tensors((s.input, s.args, s.kwargs))))]
    empty = [s for s in found if _is_empty(s)]
    if kind == "empty":
        found = empty or [s for s in map(_emptied, found[:8]) if s is not None]
        count = 2
    else:
        found = [s for s in found if s not in empty] or found
    if len(found) > count:
        found = [found[(i * (len(found) - 1)) // max(count - 1, 1)] for i in range(count)]
    if kind == "noncontiguous":
        found = [s.noncontiguous() for s in found]
    samples = [(s.input, tuple(s.args), dict(s.kwargs)) for s in found]
    return pytree.tree_map_only(torch.Tensor, _permuted, samples) if kind == "permuted" else samples


def _permuted(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, the two last dimensions the other way round in memory."""
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2) if tensor.dim() >= 2 else tensor


def _emptied(sample: Any) -> Any:
    """The sample with no elements along the first dimension, if its tensors agree on that dimension."""
    tensors = _tensors((sample.input, sample.args, sample.kwargs))
    if not tensors or any(t.dim() == 0 or t.shape != tensors[0].shape for t in tensors):
        return None

    def cut(leaf: Any) -> Any:
        return leaf.detach()[:0].requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

    return type(sample)(cut(sample.input), *pytree.tree_map(cut, sample.args), **pytree.tree_map(cut, sample.kwargs))


def _copied(samples: Sequence[Sample]) -> Any:
    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        extent = sum((n - 1) * s for n, s in zip(leaf.shape, leaf.stride(), strict=True)) + 1 if leaf.numel() else 0
        source = leaf.detach().as_strided((extent,), (1,))
        result = source.clone().as_strided(leaf.shape, leaf.stride(), 0)
        return result.requires_grad_(leaf.requires_grad)

    return pytree.tree_map(copy, list(samples))


def _widened(samples: Sequence[Sample]) -> Any:
    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _WIDER:
            return leaf.detach().to(_WIDER[leaf.dtype]).requires_grad_(leaf.requires_grad)
        return _WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    return pytree.tree_map(widen, list(samples))


def _gradients(function: Callable[..., Any], samples: Any) -> list[torch.Tensor | None]:
    leaves = [t for t in _tensors(samples) if t.requires_grad]
    outputs = [t for t in _tensors(function(samples)) if t.requires_grad]
    if not leaves or not outputs:
        return []
    weights = [
        torch.linspace(0.5, 1.5, t.numel(), dtype=torch.float64, device=t.device).reshape(t.shape).to(t.dtype)
        for t in outputs
    ]
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


class Mismatch(Exception):
    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


def _compare(result: Any, expected: Any, wide: Callable[[], Any], check_stride: bool) -> None:
    results, spec = pytree.tree_flatten(result)
    expecteds, expected_spec = pytree.tree_flatten(expected)
    if len(results) != len(expecteds):
        raise Mismatch("wrong", f"structure {spec}, not {expected_spec}")
    judge: list[Any] = []
    stride = ""
    for index, (a, b) in enumerate(zip(results, expecteds, strict=True)):
        if not isinstance(b, torch.Tensor):
            if type(a) is not type(b) or not (a == b or a != a or math.isclose(a, b, rel_tol=1e-5)):
                raise Mismatch("wrong", f"result {index}: {a!r}, not {b!r}")
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            raise Mismatch("dtype", f"result {index}: {a.dtype} {list(a.shape)}, not {b.dtype} {list(b.shape)}")
        rtol, atol = _TOLERANCES.get(b.dtype, (0.0, 0.0))
        if b.dtype.is_complex:
            rtol, atol = 1.3e-5, 1e-5
        if not torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
            if b.dtype not in _WIDER:
                raise Mismatch("wrong", f"result {index}: {_difference(a, b)}")
            judge = judge or pytree.tree_leaves(wide())
            if not judge or not _as_good(a, b, judge[index]):
                raise Mismatch("wrong", f"result {index}: {_difference(a, b)}")
        if check_stride and not stride and strides_that_matter(a) != strides_that_matter(b):
            stride = f"result {index}: strides {a.stride()}, not {b.stride()}, of sizes {list(a.shape)}"
    if stride:
        raise Mismatch("stride", stride)


def _as_good(result: torch.Tensor, expected: torch.Tensor, exact: Any) -> bool:
    """Whether it is as near to the result in wider arithmetic as eager is, or nearer but for a few roundings."""
    if not isinstance(exact, torch.Tensor) or exact.shape != result.shape:
        return False
    a, b, exact = result.double(), expected.double(), exact.double()
    finite = a.isfinite() & b.isfinite() & exact.isfinite()
    rounded = exact.to(result.dtype).double()
    if not torch.equal(torch.where(finite, 0.0, a).nan_to_num(7.0), torch.where(finite, 0.0, b).nan_to_num(7.0)):
        # Overflow to infinity is right where either is.
        near = torch.isclose(a, rounded, rtol=4 * torch.finfo(result.dtype).eps, atol=0.0)
        same = near | (a.isnan() & (rounded.isnan() | b.isnan())) | (a == b)
        if not bool((finite | same).all()):
            return False
    a, b, exact = a[finite], b[finite], exact[finite]
    if a.numel() == 0:
        return True
    eps = torch.finfo(result.dtype).eps
    scale = exact.abs()
    error, allowed = (a - exact).abs(), (b - exact).abs()
    return bool((error <= 2 * allowed.max() + 4 * eps * scale + eps * min(1.0, float(scale.max()))).all())


def _difference(a: torch.Tensor, b: torch.Tensor) -> str:
    if a.dtype is torch.bool or not (a.is_floating_point() or a.is_complex()):
        bad = (a != b).flatten()
    else:
        bad = ~torch.isclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True).flatten()
    place = int(bad.nonzero()[0]) if bad.any() else 0
    values = (a.flatten()[place].item(), b.flatten()[place].item()) if a.numel() else ("nothing", "nothing")
    return f"{int(bad.sum())} of {a.numel()} differ, the first at {place}: {values[0]}, not {values[1]}"


def applies(op: OpInfo, dtype: torch.dtype, kind: str) -> bool:
    if kind.endswith("gradient") and (
        not op.supports_autograd or dtype not in op.supported_backward_dtypes(DEVICE) or not dtype.is_floating_point
    ):
        return False
    if kind == "written" and name_of(op) in _COPIED_BY_AUTOGRAD:
        return False
    return not kind.startswith("dynamic") or dtype in _DYNAMIC_DTYPES


@contextlib.contextmanager
def _recording() -> Iterator[list[Any]]:
    if not IS_TILE:
        yield []
        return
    from torch_tile.debug.record import recording

    with recording() as graphs:
        yield graphs


def check(op: OpInfo, dtype: torch.dtype, kind: str, count: int = 3) -> Outcome:
    """Compile a few samples and compare with eager; never raises."""
    if not applies(op, dtype, kind):
        return Outcome("skipped")
    torch._dynamo.reset()
    try:
        samples = _chosen(op, dtype, kind, count)
    except Exception as error:  # the database's own samples need what is not installed, or do not exist
        return Outcome("skipped", f"samples: {error}")
    if not samples:
        return Outcome("skipped", "no samples")
    kept, reference = [], []
    function = op.get_op()
    for sample in samples:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(1)
            try:
                expected = _once(function, [sample], kind)
                torch.manual_seed(1)
                if name_of(op) not in UNDEFINED:
                    _compare(_once(function, [sample], kind), expected, lambda: None, False)
            except Exception:  # eager itself refuses, or gives another result each time
                continue
        kept.append(sample)
        reference.append(expected)
    if not kept:
        return Outcome("skipped", "eager has no reproducible result")
    return _checked(op, function, kept, reference, kind)


def _change(samples: Any) -> None:
    """Writes every argument in place, after the operators: no result may be one, unless eager's is."""
    for tensor in _tensors(samples):
        if tensor.dtype is torch.bool:
            tensor.logical_not_()
        else:
            tensor.add_(1)


def _sharing(results: Any, samples: Any) -> list[int]:
    """For each result which of the arguments and results is the first in its memory."""
    everything = [t.untyped_storage()._cdata for t in _tensors((samples, results))]
    return [everything.index(t.untyped_storage()._cdata) for t in _tensors(results)]


def _once(function: Callable[..., Any], samples: Any, kind: str) -> Any:
    samples = _copied(samples)

    def run(samples: Any) -> Any:
        results = [_call(function, sample) for sample in samples]
        if kind == "written":
            _change(samples)
        return results

    return _gradients(run, samples) if kind.endswith("gradient") else run(samples)


def _checked(op: OpInfo, function: Callable[..., Any], samples: Any, reference: Any, kind: str) -> Outcome:
    def run(samples: Any) -> Any:
        results = []
        for sample in samples:
            results.append(function(sample[0], *sample[1], **sample[2]))
        if kind == "written":
            _change(samples)
        return results

    options = {"options": {"fallback_random": True, "strict": True}} if IS_TILE else {}
    compiled = torch.compile(run, backend=BACKEND, dynamic=kind.startswith("dynamic"), **options)
    outcome = Outcome("ok")
    with _recording() as graphs, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given = _copied(samples)
            if any(torch.is_tensor(t) for t in _tensors(given)):
                torch.manual_seed(1)
            results = _gradients(compiled, given) if kind.endswith("gradient") else compiled(given)
            if name_of(op) not in UNDEFINED:
                expected = _expected(function, samples, kind, reference)

                def wide() -> Any:
                    torch.manual_seed(1)
                    try:
                        return _expected(function, _widened(samples), kind, None)
                    except Exception:
                        return []

                _compare(results, expected, wide, not kind.endswith("gradient"))
                if kind == "written":
                    _compare_sharing(function, samples, results, given)
        except Mismatch as error:
            outcome = Outcome(error.status, str(error))
            if error.status == "stride" and _has_strides_of_meta(function, samples, results):
                outcome = Outcome("ok", "strides are those of torch's meta functions, not of its kernels")
        except Exception as error:
            outcome = Outcome("error", _brief(error))
    outcome.graphs = len(graphs)
    outcome.fallbacks = sum(g.fallback for g in graphs)
    if outcome.fallbacks and outcome.status == "ok":
        outcome = dataclasses.replace(outcome, status="fallback", message="a graph ran in eager mode under strict")
    outcome.kernels = sum(len(g.kernels) for g in graphs)
    externs = [extern for g in graphs for extern in g.externs]
    outcome.externs = sorted({name for _, name, _ in externs})
    outcome.reasons = sorted({reason for _, _, reason in externs})
    return outcome


def _compare_sharing(function: Callable[..., Any], samples: Any, results: Any, given: Any) -> None:
    copied = _copied(samples)
    expected = _sharing([_call(function, sample) for sample in copied], copied)
    if (found := _sharing(results, given)) != expected:
        raise Mismatch("wrong", f"results share memory as {found}, not {expected}")


def _has_strides_of_meta(function: Callable[..., Any], samples: Any, results: Any) -> bool:
    """A compiler sees the meta function of an operator, which for some chooses other strides than the kernel."""
    mode = FakeTensorMode()
    try:
        fake = pytree.tree_map_only(torch.Tensor, lambda t: mode.from_tensor(t.detach()), list(samples))
        with mode:
            predicted = [t for sample in fake for t in _tensors(_call(function, sample))]
            wanted = [strides_that_matter(t) for t in predicted]
    except Exception:  # data decides, or there is no meta function
        return False
    return wanted == [strides_that_matter(t) for t in _tensors(results)]


def _expected(function: Callable[..., Any], samples: Any, kind: str, reference: Any) -> Any:
    """All samples after one seed, as the compiled function runs them."""
    torch.manual_seed(1)
    return _once(function, samples, kind)


def _brief(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    frames = traceback.extract_tb(error.__traceback__)
    last = f"{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {' | '.join(lines[:3])[:400]} [{last}]"
