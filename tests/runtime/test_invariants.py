"""What must hold for any program: aliasing, mutation, threads, forks, memory bounds, errors at run time."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from tests.compiling import BACKEND, IS_TILE, assert_same, compiled, copy_inputs, fresh, tile_only
from tests.runtime.guard_pages import guarded_copy

ROOT = Path(__file__).resolve().parents[2]


def same_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


# Aliasing


def test_same_tensor_twice() -> None:
    x = torch.randn(5, 17)
    function = compiled(lambda a, b: (a + b, (a * b).sum(-1)))
    assert_same(function(x, x), (x + x, (x * x).sum(-1)))
    y = torch.randn(5, 17)
    assert_same(function(x, y), (x + y, (x * y).sum(-1)))


def test_same_tensor_twice_with_mutation() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * b

    x = torch.randn(5, 17)
    y = x.clone()
    assert_same(compiled(f)(x, x), f(y, y))
    assert_same(x, y, exact=True)


def test_overlapping_inputs() -> None:
    memory = torch.randn(64)
    a, b = memory.as_strided((5, 7), (3, 2)), memory.as_strided((5, 7), (2, 1), 4)
    function = compiled(lambda a, b: (a - b, a.sum(0), (a * 2).t()))
    assert_same(function(a, b), (a - b, a.sum(0), (a * 2).t()))


def test_views_of_one_base_with_mutation() -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a.sum() + b

    first, second = torch.randn(12), None
    second = first.clone()
    assert_same(compiled(f, fullgraph=False)(first[:8], first[4:]), f(second[:8], second[4:]))
    assert_same(first, second, exact=True)


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "expanded": lambda: torch.randn(1, 6, 1, 5).expand(4, 6, 5, 5),
    "offset": lambda: torch.randn(1000)[13 : 13 + 600].view(4, 6, 5, 5),
    "channels_last": lambda: torch.randn(4, 6, 5, 5).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(5, 6, 5, 4).transpose(0, 3),
    "stepped": lambda: torch.randn(8, 6, 10, 15)[::2, :, ::2, ::3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_input_layouts(layout: str, dynamic: bool) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = torch.sigmoid(x) * y + 1
        return z, z.sum((0, 2, 3)), z.amax(-1), z.flatten(1).softmax(-1), z.permute(0, 2, 3, 1).contiguous()

    x, y = LAYOUTS[layout](), torch.randn(6, 1, 1)
    assert_same(compiled(f, dynamic=dynamic)(x, y), f(x, y), rtol=1e-5, atol=1e-5)


# Mutation


def mutate_and_return(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(y)
    return x, x * 2


def mutate_view(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[1:3, ::2] = y[1:3, ::2] * 2
    x[:, -1].mul_(3)
    return x.sum(0)


def mutate_twice(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.mul_(y)
    before = x.clone()
    x.t().add_(1)
    return before, x[0]


def shift_within(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[1:] = x[:-1] + y[1:]
    return x.clone()


def transpose_within(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[:4, :4].copy_(x[:4, :4].t() + y[0, 0])
    return x + y


def swap(x: torch.Tensor, y: torch.Tensor) -> Any:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x - y


def normalise_in_place(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.sub_(x.mean(-1, keepdim=True)).div_(x.std(-1, keepdim=True) + 1)
    return (x * y).sum()


def data_dependent_rows(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[torch.tensor([0, 2])] = y[torch.tensor([2, 0])]
    return x * 1


def out_argument(x: torch.Tensor, y: torch.Tensor) -> Any:
    torch.add(x, y, out=x)
    return x.exp()


MUTATIONS = [
    mutate_and_return, mutate_view, mutate_twice, shift_within, transpose_within, swap, normalise_in_place,
    data_dependent_rows, out_argument,
]  # fmt: skip


@pytest.mark.parametrize("function", MUTATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_mutation(function: Callable[..., Any], dynamic: bool, layout: str) -> None:
    x, y = torch.randn(6, 9), torch.randn(6, 9)
    if layout == "transposed":
        x, y = torch.randn(9, 6).t(), torch.randn(9, 6).t()
    given, reference = copy_inputs((x, y)), copy_inputs((x, y))
    step = compiled(function, dynamic=dynamic, fullgraph=function is not out_argument)
    for _ in range(2):
        result, expected = step(*given), function(*reference)
        assert_same(result, expected, rtol=1e-5, atol=1e-5)
        assert_same(given, reference, rtol=1e-5, atol=1e-5)


def test_returned_input_is_the_input() -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    result = compiled(mutate_and_return)(x, y)
    assert result[0] is x


def test_inputs_are_unchanged_unless_declared() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x.clone()
        z.add_(1)
        w = (y * 2).t()
        w += 1
        return z, w, torch.cat([x, z]).relu_()

    x, y = torch.randn(4, 9), torch.randn(4, 9)
    before = copy_inputs((x, y))
    versions = x._version, y._version
    assert_same(compiled(f)(x, y), f(*before))
    assert_same((x, y), before, exact=True)
    assert (x._version, y._version) == versions


def test_outputs_alias_as_in_eager() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return x[1:], x.t(), y, y[0], y.view(-1)

    x = torch.randn(4, 5)
    result = compiled(f)(x)
    assert_same(result, f(x))
    assert same_storage(result[0], x) and same_storage(result[1], x)
    assert same_storage(result[2], result[3]) and same_storage(result[2], result[4])
    result[2].zero_()
    assert result[4].abs().sum() == 0
    assert not same_storage(compiled(f)(x)[2], result[2])


def test_outputs_do_not_share_by_accident() -> None:
    """Equal values and constants are one computation, but two tensors."""
    result = compiled(lambda x: (x + 1, x + 1, torch.zeros(5), torch.zeros(5)))(torch.randn(5))
    pointers = {t.data_ptr() for t in result}
    assert len(pointers) == len(compiled_outputs := result), compiled_outputs


def test_buffers_are_not_reused_between_calls() -> None:
    function = compiled(lambda x: ((x * 2).sum(-1), x + 1))
    x, y = torch.randn(33, 65), torch.randn(33, 65)
    first = function(x)
    kept = copy_inputs(first)
    function(y)
    assert_same(first, kept, exact=True)


# Autograd


def network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (F.layer_norm(torch.tanh(x @ w), (7,)) * w.sum(0)).sum()


def test_retain_graph() -> None:
    x, w = torch.randn(5, 6), torch.randn(6, 7, requires_grad=True)
    loss = compiled(network)(x, w)
    (first,) = torch.autograd.grad(loss, w, retain_graph=True)
    (second,) = torch.autograd.grad(loss, w, retain_graph=True)
    (third,) = torch.autograd.grad(loss, w)
    assert_same(second, first, exact=True)
    assert_same(third, first, exact=True)
    assert_same(first, torch.autograd.grad(network(x, w), w)[0], rtol=1e-4, atol=1e-4)


def test_two_forwards_before_backward() -> None:
    w = torch.randn(6, 7, requires_grad=True)
    xs = [torch.randn(5, 6) for _ in range(3)]
    function = compiled(network)
    losses = [function(x, w) for x in xs]
    for loss, x in reversed(list(zip(losses, xs, strict=True))):
        (result,) = torch.autograd.grad(loss, w)
        assert_same(result, torch.autograd.grad(network(x, w), w)[0], rtol=1e-4, atol=1e-4)


def test_compile_and_call_inside_backward() -> None:
    function = compiled(lambda g: torch.tanh(g) * 2)

    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return function(g)

    x = torch.randn(5, 6, requires_grad=True)
    x.register_hook(lambda g: compiled(lambda t: t + 1)(g))
    (Clipped.apply(x) ** 2).sum().backward()
    assert_same(x.grad, torch.tanh(2 * x.detach()) * 2 + 1)


def test_hook_inside_compiled_model() -> None:
    layer = torch.nn.Linear(6, 7)
    seen: list[torch.Tensor] = []
    x = torch.randn(5, 6)
    output = compiled(layer)(x)
    output.register_hook(lambda g: seen.append(compiled(lambda t: t * 3)(g)))
    output.sum().backward()
    assert_same(seen[0], torch.full((5, 7), 3.0))
    assert_same(layer.weight.grad, x.sum(0).expand(7, 6).contiguous(), rtol=1e-5, atol=1e-5)


def test_forward_under_no_grad_then_with_grad() -> None:
    x, w = torch.randn(5, 6), torch.randn(6, 7, requires_grad=True)
    function = compiled(network)
    with torch.no_grad():
        assert not function(x, w).requires_grad
    assert_same(torch.autograd.grad(function(x, w), w)[0], torch.autograd.grad(network(x, w), w)[0], rtol=1e-4, atol=1e-4)
    with torch.inference_mode():
        assert_same(function(x, w), network(x, w), rtol=1e-4, atol=1e-4)


def test_optimizer_step() -> None:
    """One graph updates all parameters in place."""
    parameters = [torch.randn(5, 7, requires_grad=True), torch.randn(9, requires_grad=True)]
    copies = [p.detach().clone().requires_grad_() for p in parameters]
    optimizers = [torch.optim.AdamW(ps, lr=0.1) for ps in (parameters, copies)]
    step = compiled(optimizers[0].step, fullgraph=False)
    for _ in range(3):
        for p, q in zip(parameters, copies, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        step()
        optimizers[1].step()
    assert_same(parameters, copies, rtol=1e-5, atol=1e-5)


# Random numbers


def test_dropout_statistics_and_mask() -> None:
    x = torch.ones(200, 501, requires_grad=True)
    function = compiled(lambda x: F.dropout(x, 0.3))
    y = function(x)
    kept = (y != 0).double().mean().item()
    assert abs(kept - 0.7) < 0.01
    assert_same(y[y != 0].unique(), torch.tensor([1 / 0.7]), rtol=1e-6, atol=0.0)
    y.sum().backward()
    assert x.grad is not None
    assert_same(x.grad, y.detach())
    rows, columns = (y != 0).double().mean(1), (y != 0).double().mean(0)
    assert rows.std() < 3 * (0.21 / 501) ** 0.5 and columns.std() < 3 * (0.21 / 200) ** 0.5


def test_dropout_under_a_seed() -> None:
    function = compiled(lambda x: F.dropout(F.dropout(x, 0.5) + 1, 0.5))
    x = torch.ones(33, 65)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append((function(x), function(x)))
    assert_same(results[0], results[1], exact=True)
    assert not torch.equal(results[0][0], results[0][1]), "two calls draw the same numbers"
    assert not torch.equal(results[0][0], results[2][0]), "two seeds draw the same numbers"


def test_random_functions() -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.rand_like(x), torch.rand(100, 100), torch.randn(100, 100), torch.bernoulli(torch.full((100, 100), 0.25))

    uniform, other, normal, bernoulli = compiled(f)(torch.ones(100, 100))
    for sample in (uniform, other):
        assert 0 <= sample.min() and sample.max() < 1 and abs(sample.mean() - 0.5) < 0.02
    assert not torch.equal(uniform, other)
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05
    assert abs(bernoulli.mean() - 0.25) < 0.03


# Threads and processes


def test_two_threads_compile_and_call() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            x = torch.full((17, 33), float(seed))
            function = compiled(lambda t: torch.tanh(t * seed).sum(-1) + seed)
            for _ in range(20):
                assert_same(function(x), torch.tanh(x * seed).sum(-1) + seed, rtol=1e-5, atol=1e-5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads)


def test_threads_call_one_program() -> None:
    function = compiled(lambda t: (torch.sigmoid(t) * 2, t.sum(0)))
    inputs = [torch.randn(129, 65) for _ in range(4)]
    function(inputs[0])
    results: list[Any] = [None] * len(inputs)

    def work(i: int) -> None:
        for _ in range(30):
            results[i] = function(inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for x, result in zip(inputs, results, strict=True):
        assert_same(result, (torch.sigmoid(x) * 2, x.sum(0)), rtol=1e-5, atol=1e-5)


def test_fork_after_compile() -> None:
    """The child calls what the parent compiled, and compiles something new."""
    code = f"""
    import os, sys, torch
    torch.set_num_threads(1)
    extra = {{"options": {{"strict": True}}}} if {IS_TILE} else {{}}
    f = torch.compile(lambda x: (x * 2 + 1).sum(-1), backend="{BACKEND}", **extra)
    x = torch.randn(64, 33)
    expected = f(x)
    child = os.fork()
    if child == 0:
        try:
            ok = torch.equal(f(x), expected)
            g = torch.compile(lambda x: torch.tanh(x) - 3, backend="{BACKEND}", **extra)
            ok = ok and torch.allclose(g(x), torch.tanh(x) - 3)
            os._exit(0 if ok else 3)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(4)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    assert torch.equal(f(x), expected)
    """
    run_python(code)


def run_python(code: str, **environment: str) -> str:
    """Runs code in a process of its own, from the root of the project."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def _child(queue: Any) -> None:
    x = torch.arange(10.0)
    queue.put(compiled(lambda t: t * 2 + 1)(x).tolist())


def test_multiprocessing_spawn() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_child, args=(queue,))
    process.start()
    assert queue.get(timeout=120) == [2.0 * i + 1 for i in range(10)]
    process.join(60)
    assert process.exitcode == 0


def awkward_program(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = F.layer_norm(x, (x.shape[-1],)) * w
    return y, y.sum(0), y.sum(), torch.softmax(y, -1), x.var(), (x * w).amax(0), x.argmax(), F.gelu(x).t().contiguous()


@pytest.mark.parametrize("shape", [(257, 129), (3, 100003), (4097, 7)], ids=str)
def test_same_bits_for_any_number_of_threads(shape: tuple[int, int]) -> None:
    x, w = torch.randn(shape), torch.randn(shape[1])
    function = compiled(awkward_program)
    results = []
    for threads in (1, 2, 7):
        torch.set_num_threads(threads)
        results.append(function(x, w))
    assert_same(results[0], awkward_program(x, w), rtol=1e-3, atol=1e-3)
    if IS_TILE:
        assert_same(results[1], results[0], exact=True)
        assert_same(results[2], results[0], exact=True)


@tile_only
def test_same_bits_with_and_without_fusion() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        a = torch.exp(x) * y + torch.tanh(x)
        b = torch.where(a > 1, a / (y.abs() + 1), -a)
        return b.transpose(0, 1).reshape(-1) * 2, torch.cat([a, b], 1) + 1, torch.erf(b) - a.sigmoid()

    x, y = torch.randn(33, 65), torch.randn(33, 65)
    fused = compiled(f)(x, y)
    fresh()
    assert_same(compiled(f, fusion=False)(x, y), fused, exact=True)


@tile_only
def test_same_bits_with_wide_and_narrow_kernels_for_random_numbers() -> None:
    """The numbers depend on seed and logical index only: a transposed or fused consumer changes nothing."""
    results = []
    for consumer in (lambda y: y, lambda y: y.t().contiguous().t(), lambda y: y * 1.0):
        fresh()
        torch.manual_seed(7)
        results.append(compiled(lambda x, c=consumer: c(F.dropout(x, 0.5)))(torch.ones(37, 53)).contiguous())
    assert_same(results[1], results[0], exact=True)
    assert_same(results[2], results[0], exact=True)


# Memory bounds


GUARDED: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, y: (x * 2 + y, x.exp(), (x > y), x.double(), x.to(torch.int8)),
    "rows": lambda x, y: (x.sum(-1), (x * y).amax(-1), x.argmax(-1), torch.softmax(x, -1), F.layer_norm(x, (x.shape[-1],))),
    "columns": lambda x, y: (x.sum(0), (x * y).amax(0), x.var(0), torch.softmax(x, 0)),
    "everything": lambda x, y: (x.sum(), (x * y).amin(), x.var(), (x > 0).any()),
    "views": lambda x, y: (x.t() + y.t(), x.flip(0, 1) * 2, x[:, ::2] + 1, torch.cat([x, y], 1) * 2, F.pad(x, (1, 2, 3, 4)), x.reshape(-1)[1:] + 1),
    "low_precision": lambda x, y: (x.bfloat16() * y.bfloat16(), x.half().sum(-1), x.bfloat16().float().sum(0)),
    "integers": lambda x, y: (x.int() // 3, (x.long() * y.long()) % 7, x.to(torch.uint8) + 1, x.to(torch.int16).sum(0), (x > 0) | (y > 0)),
    "gather": lambda x, y: (x[y.long().flatten()[:3] * 0], torch.gather(x, 1, y.long() * 0), F.embedding(y.long() * 0, x)),
    "transposed": lambda x, y: (x.t().contiguous() + 1, (x + y).t().sum(0), x.t().softmax(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.parametrize("dynamic", [False, True])
def test_no_access_beyond_a_tensor(name: str, dynamic: bool) -> None:
    """A fault would end the process, so the first failure is the last line of the log."""
    f = GUARDED[name]
    function = compiled(f, dynamic=dynamic)
    shapes = [(3, 5), (1, 17), (7, 31), (65, 33)] if dynamic else [(3, 5), (1, 1), (5, 17), (2, 63), (33, 65), (17, 1)]
    for shape in shapes:
        x, y = torch.randn(shape), torch.randn(shape)
        for flush in ("end", "start"):
            guarded = [guarded_copy(t, flush) for t in (x, y)]
            assert_same(function(*guarded), f(x, y), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.bool, torch.bfloat16, torch.float64, torch.int64], ids=str)
def test_no_access_beyond_a_tensor_by_dtype(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> Any:
        return x.logical_not(), x.sum(-1), x.float() + 1, x.t().contiguous(), x.amax(0)

    function = compiled(f, dynamic=True)
    for shape in ((3, 5), (2, 67), (9, 131)):
        x = (torch.randn(shape) * 10).abs().to(dtype)
        for flush in ("end", "start"):
            assert_same(function(guarded_copy(x, flush)), f(x), rtol=5e-2, atol=5e-2)


def test_writes_stay_inside_the_tensor() -> None:
    """In-place writes to guarded memory, contiguous and as columns."""

    def f(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y)
        x[:, 1:].mul_(2)

    for shape in ((3, 5), (7, 65), (1, 129)):
        fresh()
        x, y = torch.randn(shape), torch.randn(shape)
        expected = x.clone()
        f(expected, y)
        for flush in ("end", "start"):
            guarded = guarded_copy(x, flush)
            compiled(f)(guarded, guarded_copy(y, flush))
            assert_same(guarded, expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_division_by_a_tensor_with_masked_tails(dtype: torch.dtype) -> None:
    """Memory past a tail may hold zeros: those lanes must not divide."""

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y), (x // y).sum(-1)

    function = compiled(f)
    memory = torch.zeros(4096, dtype=dtype)
    for size in (1, 3, 15, 17, 63, 65):
        y = memory[:size]
        y.fill_(3)
        x = torch.arange(size, dtype=dtype) - (0 if dtype == torch.uint8 else 7)
        assert_same(function(x, y), f(x, y))
        y.zero_()


def test_integer_division_overflow() -> None:
    """INT_MIN / -1 traps on x86 when done naively."""
    for dtype in (torch.int64, torch.int32):
        x = torch.full((17,), torch.iinfo(dtype).min, dtype=dtype)
        y = torch.full((17,), -1, dtype=dtype)
        result = compiled(lambda x, y: x // y)(x, y)
        assert result.dtype == dtype and result.shape == x.shape


def test_integer_division_by_zero() -> None:
    """Eager raises; the process lives."""
    function = compiled(lambda x, y: x // y)
    x, y = torch.arange(33), torch.ones(33, dtype=torch.int64)
    assert_same(function(x, y), x)
    y[5] = 0
    with pytest.raises(RuntimeError, match=r"(?i)zero"):
        function(x, y)
    assert_same(function(x, torch.ones_like(y)), x)


def test_nan_past_the_tail() -> None:
    def f(x: torch.Tensor) -> Any:
        return x.sum(-1), x.amax(-1), x.sum(), x.argmax(-1), torch.softmax(x, -1), x.var(-1), x.sum(0), x.argmin(0)

    for rows, columns in ((3, 5), (5, 17), (2, 65), (33, 31)):
        fresh()
        memory = torch.full((rows + 4, columns + 70), float("nan"))
        x = memory[2 : 2 + rows, 3 : 3 + columns]
        x.copy_(torch.randn(rows, columns))
        assert_same(compiled(f)(x), f(x), rtol=1e-5, atol=1e-5)


def test_nan_propagates() -> None:
    x = torch.randn(9, 33)
    x[3, 5] = x[3, 20] = x[7, 32] = float("nan")

    def f(x: torch.Tensor) -> Any:
        return x.amax(-1), x.amin(0), x.argmax(-1), x.argmin(-1), x.argmax(), x.clamp(-1, 1), torch.maximum(x, -x), x.relu()

    assert_same(compiled(f)(x), f(x))


def test_argmax_takes_the_first_of_equals() -> None:
    x = torch.tensor([[1, 3, 3, 2] * 20, [5] * 80, [0] * 79 + [9]], dtype=torch.float32)

    def f(x: torch.Tensor) -> Any:
        return x.argmax(-1), x.argmin(-1), x.argmax(0), x.argmax(), x.argmin()

    assert_same(compiled(f)(x), f(x))
    assert_same(compiled(f)(x.int()), f(x.int()))


# Errors at run time


INDEXED: dict[str, Callable[..., Any]] = {
    "index": lambda x, i: x[i] * 2,
    "embedding": lambda x, i: F.embedding(i, x) + 1,
    "gather": lambda x, i: torch.gather(x, 0, i[:, None].expand(-1, 5)) + 1,
    "index_select": lambda x, i: x.index_select(0, i) + 1,
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("bad", [9, -10, 2**40])
def test_index_out_of_range(name: str, bad: int) -> None:
    f = INDEXED[name]
    function = compiled(f)
    x, good = torch.randn(9, 5), torch.arange(7)
    assert_same(function(x, good), f(x, good))
    indices = good.clone()
    indices[3] = bad
    with pytest.raises((IndexError, RuntimeError) if not IS_TILE else IndexError):
        function(x, indices)
    assert_same(function(x, good), f(x, good))


def test_index_below_zero() -> None:
    """Indexing wraps negative numbers; an embedding does not."""
    x, i = torch.randn(9, 5), torch.tensor([-1, -9, 0, 8])
    assert_same(compiled(lambda x, i: x[i] + 1)(x, i), x[i] + 1)
    with pytest.raises((IndexError, RuntimeError)):
        compiled(lambda x, i: F.embedding(i, x) + 1)(x, i)


def test_other_inputs_after_compile() -> None:
    """Another dtype, size, rank, stride or requires_grad: compiled anew, never wrong."""
    f = lambda x: (x * 2 + 1).sum(-1)  # noqa: E731
    function = compiled(f, dynamic=None, fullgraph=False)
    inputs = [
        torch.randn(3, 5), torch.randn(3, 5).double(), torch.randn(4, 5), torch.randn(4, 9), torch.randn(5, 3).t(),
        torch.randn(2, 3, 5), torch.arange(15).view(3, 5), torch.randn(3, 5).bfloat16(), torch.randn(3, 5, requires_grad=True),
    ]  # fmt: skip
    with torch._dynamo.config.patch(recompile_limit=20):
        for x in inputs:
            assert_same(function(x).detach(), f(x).detach())


def test_data_dependent_sizes() -> None:
    def f(x: torch.Tensor) -> Any:
        y = (x * 2)[x > 0]
        return y.sum(), y + 1, x.nonzero().sum()

    x = torch.randn(5, 9)
    assert_same(compiled(f, fullgraph=False)(x), f(x), rtol=1e-5, atol=1e-5)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        fresh()
        for x in (torch.randn(5, 9), torch.randn(5, 9), torch.zeros(5, 9)):
            assert_same(compiled(f)(x), f(x), rtol=1e-5, atol=1e-5)


def test_unbacked_scalars() -> None:
    def f(x: torch.Tensor, n: torch.Tensor) -> Any:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 9)
        return torch.zeros(k) + 1, x * k

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        function = compiled(f)
        for k in (5, 0, 1, 9):
            assert_same(function(torch.randn(3), torch.tensor(k))[0], torch.ones(k))
    assert dict(counters["graph_break"]) == {}


def test_wide_and_long() -> None:
    """More than fits the scratch of one task, more inputs than registers, sizes beyond 32 bits of bytes stay right."""
    tensors = [torch.randn(50) for _ in range(120)]
    f = lambda *ts: sum(t * i for i, t in enumerate(ts))  # noqa: E731
    assert_same(compiled(f)(*tensors), f(*tensors), rtol=1e-4, atol=1e-3)
    row = torch.randn(1, 300_001)
    g = lambda x: torch.softmax(x, -1)  # noqa: E731
    assert_same(compiled(g)(row), g(row), rtol=1e-4, atol=1e-9)


def test_subnormals_and_float_state() -> None:
    """Denormals are kept, or flushed, as the calling thread says."""
    x = torch.full((65,), 1e-40)
    function = compiled(lambda x: x * 0.5)
    assert_same(function(x), x * 0.5, exact=True)
    if torch.set_flush_denormal(True):
        try:
            flushed = function(x)
        finally:
            torch.set_flush_denormal(False)
        assert flushed.abs().sum() == 0
    assert_same(function(x), x * 0.5, exact=True)
