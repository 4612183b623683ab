"""The key of a graph on disk holds all that decides what AOTAutograd and we make of it."""

from __future__ import annotations

import logging
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torch_tile import _C
from torch_tile.frontend import aot

from .test_autograd_cache import again

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith(aot.CACHED_VERSIONS), reason="entries are kept with tried versions of torch only"
)


def number_of_entries(cache_dir: Path) -> int:
    _C.flush_disk_cache()
    return len(list((cache_dir / "autograd").glob("*")))


def define(source: str, **names: Any) -> types.SimpleNamespace:
    """A user's module. What it registers takes the place of what it registered before, as in a new process."""
    space: dict[str, Any] = {"torch": torch, "__name__": "users_module", **names}
    exec(compile(source, "users_module.py", "exec"), space)
    return types.SimpleNamespace(**space)


_OPERATOR = """
@torch.library.custom_op("cache_keys::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@scale.register_fake
def _(x):
    return torch.empty_like(x)

FACTOR = {factor}

def helper(grad):
    return grad * FACTOR

def make(power):
    def backward(ctx, grad):
        {comment}
        return helper(grad) ** power
    return backward

scale.register_autograd(make({power}))
"""


def gradient(factor: float = 2, power: int = 1, comment: str = "pass") -> torch.Tensor:
    module = define(_OPERATOR.format(factor=factor, power=power, comment=comment))
    x = torch.ones(4, requires_grad=True)
    again(lambda x: module.scale(x.sin()).sum(), x).backward()
    assert x.grad is not None
    return x.grad / torch.ones(4).cos()


def test_an_edited_backward_gives_its_own_gradient(cache_dir: Path, traced: list[str]) -> None:
    assert gradient(comment="grad = grad * 3").allclose(torch.tensor(6.0))
    assert gradient(comment="grad = grad * 5").allclose(torch.tensor(10.0))


def test_what_a_backward_reaches_is_part_of_it(cache_dir: Path, traced: list[str]) -> None:
    assert gradient(factor=3).allclose(torch.tensor(3.0))
    assert gradient(factor=4).allclose(torch.tensor(4.0))  # a global of a function that it calls
    assert gradient(factor=4, power=2).allclose(torch.tensor(16.0))  # its closure


def test_an_operator_that_is_defined_alike_hits(cache_dir: Path, traced: list[str]) -> None:
    assert gradient().allclose(torch.tensor(2.0))
    assert gradient(comment="# moved\n\n        pass").allclose(torch.tensor(2.0))
    assert traced == ["forward", "backward"]
    assert number_of_entries(cache_dir) == 1


def test_operators_that_a_backward_calls(cache_dir: Path, traced: list[str]) -> None:
    inner = """
@torch.library.custom_op("cache_keys::inner", mutates_args=())
def inner(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@inner.register_fake
def _(x):
    return torch.empty_like(x)

lib = torch.library.Library("cache_keys_composite", "FRAGMENT")
"""
    outer = """
@torch.library.custom_op("cache_keys::outer", mutates_args=())
def outer(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@outer.register_fake
def _(x):
    return torch.empty_like(x)

@inner.register_autograd
def _(ctx, grad):
    return grad * {factor}

def backward(ctx, grad):
    with torch.enable_grad():
        probe = torch.ones_like(grad, requires_grad=True)
        return torch.autograd.grad(torch.ops.cache_keys.inner(probe), probe, grad)[0]

outer.register_autograd(backward)
"""
    for factor in (3, 5):
        source = inner + outer.format(factor=factor).replace("@inner.register_autograd\ndef _", "def inner_backward")
        module = define(source + "\ninner.register_autograd(inner_backward)\n")
        x = torch.ones(4, requires_grad=True)
        torch.compiler.reset()
        torch.compile(module.outer, backend="tile")(x).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [factor] * 4


def test_an_edited_fake_implementation(cache_dir: Path, traced: list[str]) -> None:
    source = """
@torch.library.custom_op("cache_keys::widen", mutates_args=())
def widen(x: torch.Tensor) -> torch.Tensor:
    return x.new_ones({size})

@widen.register_fake
def _(x):
    return x.new_empty({size})
"""
    for size in (3, 5, 3):
        module = define(source.format(size=size))
        torch.compiler.reset()
        result = torch.compile(lambda x: module.widen(x.sin()) + 1, backend="tile")(torch.ones(2))  # noqa: B023
        assert result.tolist() == [2.0] * size
    assert traced == ["inference", "inference"]


@pytest.fixture
def library() -> Iterator[Callable[[], torch.library.Library]]:
    made: list[torch.library.Library] = []

    def make() -> torch.library.Library:
        while made:
            made.pop()._destroy()
        made.append(torch.library.Library("cache_keys_library", "FRAGMENT"))
        return made[-1]

    yield make
    while made:
        made.pop()._destroy()


@pytest.mark.parametrize("key", ["CompositeImplicitAutograd", "CompositeExplicitAutograd", "Autograd"])
def test_kernels_that_cannot_be_read_are_not_kept(
    cache_dir: Path,
    traced: list[str],
    library: Callable[[], torch.library.Library],
    key: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for factor in (2, 3):
        lib = library()
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x * factor, key)  # noqa: B023
        assert again(lambda x: torch.ops.cache_keys_library.f(x) + 1, torch.ones(3)).tolist() == [factor + 1] * 3
    assert number_of_entries(cache_dir) == 0
    assert f"cache_keys_library::f has a kernel for {key} in Python" in caplog.text


def test_fake_implementations_of_libraries(
    cache_dir: Path, traced: list[str], library: Callable[[], torch.library.Library]
) -> None:
    for size in (2, 3, 2):
        lib = library()
        lib.define("g(Tensor x) -> Tensor")
        lib.impl("g", lambda x: x.new_ones(size), "CPU")  # noqa: B023
        torch.library.register_fake("cache_keys_library::g", lambda x: x.new_empty(size), lib=lib)  # noqa: B023
        result = again(lambda x: torch.ops.cache_keys_library.g(x) + 1, torch.ones(4))
        assert result.tolist() == [2.0] * size
    assert len(traced) == 2


def test_python_kernels_of_an_operator(
    cache_dir: Path, traced: list[str], library: Callable[[], torch.library.Library]
) -> None:
    for factor in (2, 3, 2):
        lib = library()
        lib.define("h(Tensor x) -> Tensor")
        lib.impl("h", lambda x: x.clone(), "CPU")
        torch.library.register_fake("cache_keys_library::h", lambda x: torch.empty_like(x), lib=lib)
        op = torch.ops.cache_keys_library.h.default
        op.py_impl(torch._C.DispatchKey.Autograd)(lambda x: x * factor)  # noqa: B023
        assert again(lambda x: torch.ops.cache_keys_library.h(x) + 1, torch.ones(3)).tolist() == [factor + 1] * 3
    assert len(traced) == 2


def test_torchs_operators_with_python_kernels(cache_dir: Path, traced: list[str]) -> None:
    lib = torch.library.Library("aten", "IMPL")
    try:
        # Of an operator that no other test differentiates: torch's records of the kernel outlive the library.
        lib.impl("hardshrink", lambda x, lambd=0.5: x * 5, "AutogradCPU")
        x = torch.ones(3, requires_grad=True)
        again(torch.nn.functional.hardshrink, x)
        assert number_of_entries(cache_dir) == 0
    finally:
        lib._destroy()


def test_a_definition_with_a_value_without_digest(
    cache_dir: Path, traced: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    source = """
@torch.library.custom_op("cache_keys::locked", mutates_args=())
def locked(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@locked.register_fake
def _(x):
    with lock:
        return torch.empty_like(x)
"""
    module = define(source, lock=threading.Lock())
    for _ in range(2):
        again(lambda x: module.locked(x) + 1, torch.ones(3))
    assert len(traced) == 2 and number_of_entries(cache_dir) == 0
    assert "whose value has no digest" in caplog.text


def test_functions_allowed_in_graphs_and_autograd_functions(cache_dir: Path, traced: list[str]) -> None:
    for factor in (2, 3):
        source = f"""
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * {factor}

@torch.compiler.allow_in_graph
def allowed(x):
    return x * {factor}
"""
        module = define(source)
        x = torch.ones(4, requires_grad=True)
        again(lambda x: module.Scale.apply(x).sum(), x).backward()  # noqa: B023
        assert x.grad is not None and x.grad.tolist() == [factor] * 4
        assert again(lambda x: module.allowed(x) + 1, torch.ones(2)).tolist() == [factor + 1] * 2  # noqa: B023


def test_a_triton_op(cache_dir: Path, traced: list[str]) -> None:
    source = """
@torch.library.triton_op("cache_keys::composed", mutates_args=())
def composed(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * {factor}
"""
    x = torch.ones(3)
    for factor in (2, 3, 2):
        module = define(source.format(factor=factor))
        torch.testing.assert_close(again(lambda x: module.composed(x) + 1, x), x.sin() * factor + 1)  # noqa: B023


def test_classes_of_tensors(cache_dir: Path, traced: list[str]) -> None:
    source = """
import torch.utils._pytree as pytree

class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, metadata, size, stride):
        return Scaled(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args = pytree.tree_map_only(Scaled, lambda x: x.inner * FACTOR, args)
        return function(*args, **(kwargs or {}))
"""
    for factor in (2, 3):
        module = define(source, FACTOR=factor)
        torch.compiler.reset()
        result = torch.compile(lambda x: x + 1, backend="tile")(module.Scaled(torch.ones(3)))
        assert result.tolist() == [factor + 1] * 3


def test_modes_of_the_user(cache_dir: Path, traced: list[str]) -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*args, **(kwargs or {}))

    x = torch.ones(3)
    torch.compiler.reset()
    compiled = torch.compile(lambda x: x * 2 + 1, backend="tile")
    with Mode():
        compiled(x)
    assert number_of_entries(cache_dir) == 0


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_base_of_overlapping_inputs_is_part_of_the_key(cache_dir: Path, traced: list[str], dynamic: bool) -> None:
    def f(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x.add_(10)
        return v * 2

    for size in (8, 12, 8, 12):
        base, expected = torch.arange(float(size)), torch.arange(float(size))
        result = again(f, base[:4], base[2:6], dynamic=dynamic)
        assert torch.equal(result, f(expected[:4], expected[2:6]))
        assert torch.equal(base, expected)
    for rows in (2, 3):
        base, expected = torch.arange(12.0).view(rows, -1), torch.arange(12.0).view(rows, -1)
        result = again(f, base.view(-1)[:4], base.view(-1)[2:6], dynamic=dynamic)
        assert torch.equal(result, f(expected.view(-1)[:4], expected.view(-1)[2:6]))
        assert torch.equal(base, expected)


def test_threads_change_no_key(cache_dir: Path, traced: list[str]) -> None:
    x = torch.randn(8)
    again(lambda x: x.sin() + 1, x)
    again(lambda x: x.sin() + 1, x, options={"threads": 3})
    _C.flush_disk_cache()
    assert len(traced) == 1
    assert len(list((cache_dir / "graphs").iterdir())) == 1


def test_the_processor_is_part_of_the_key(cache_dir: Path, traced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What oneDNN does, and what the compiler says of the processor, on a machine that shares the folder."""
    from torch_tile.frontend import autograd_key

    x = torch.randn(8)
    again(lambda x: x.sin() + 1, x)
    monkeypatch.setattr(autograd_key, "fused_dtypes", lambda settings: ({torch.float16}, set()))
    again(lambda x: x.sin() + 1, x)
    version = _C.version()
    monkeypatch.setattr(autograd_key, "compiler_version", lambda: version["compiler"] + "another processor")
    again(lambda x: x.sin() + 1, x)
    assert len(traced) == 3


def test_sources_of_the_package_are_part_of_the_key(
    cache_dir: Path, traced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch_tile.frontend import autograd_key

    x = torch.randn(8)
    sources, extension = autograd_key._fingerprint()
    for fingerprint in ((sources, extension), ("edited", extension), (sources, "built anew"), (sources, extension)):
        monkeypatch.setattr(autograd_key, "_fingerprint", lambda fingerprint=fingerprint: fingerprint)
        again(lambda x: x.sin() + 1, x)
    assert len(traced) == 3
