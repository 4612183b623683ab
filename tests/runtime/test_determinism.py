"""Random numbers, threads and processes: the same program gives the same results wherever and however often it runs."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import BACKEND, IS_TILE, assert_same, compiled, fresh, run_python, tile_only

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
        return (
            torch.rand_like(x),
            torch.rand(100, 100),
            torch.randn(100, 100),
            torch.bernoulli(torch.full((100, 100), 0.25)),
        )

    uniform, other, normal, bernoulli = compiled(f)(torch.ones(100, 100))
    for sample in (uniform, other):
        assert sample.min() >= 0 and sample.max() < 1 and abs(sample.mean() - 0.5) < 0.02
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
