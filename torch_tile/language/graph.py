"""Kernels inside torch.compile: a launch becomes one operator of the graph, `torch_tile::launch`.

The operator names the kernel and its constants by a key, which this process learns while Dynamo traces the launch; the
key depends on the source alone, so graphs on disk stay true.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from torch_tile.language.dtypes import dtype

KERNELS: list[Any] = []
# Key -> (kernel, what each parameter is: ("constant", value), or a letter for the next argument of its kind).
_launches: dict[str, tuple[Any, dict[str, Any]]] = {}

# torch has no types for these.
_library: Any = torch.library.Library("torch_tile", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define(
    "launch(str key, SymInt[] grid, Tensor(a!)[] written, Tensor[] read, SymInt[] integers, float[] floats) -> ()"
)


def register(kernel: Any) -> int:
    KERNELS.append(kernel)
    return len(KERNELS) - 1


def _launch(key: str, grid: Any, written: Any, read: Any, integers: Any, floats: Any) -> None:
    found = _launches.get(key)
    if found is None:
        raise RuntimeError(f"the kernel {key} is not known in this process; import the module that defines it")
    kernel, parameters = found
    sources = {"w": iter(written), "r": iter(read), "i": iter(integers), "f": iter(floats)}
    arguments = {
        name: kind[1] if isinstance(kind, tuple) else bool(next(sources["i"])) if kind == "b" else next(sources[kind])
        for name, kind in parameters.items()
    }
    kernel.run(grid=tuple(grid), **arguments)


def _fake(key: str, grid: Any, written: Any, read: Any, integers: Any, floats: Any) -> None:
    return None


_library.impl("launch", _launch, "CPU")
_library._register_fake("launch", _fake)


def remember(index: int, names: Any, kinds: Any, values: Any) -> tuple[str, str]:
    """Key of a launch, and its kinds with tensors told apart into written (w) and read (r).

    Runs while Dynamo traces, as Python: arguments and result are constants.
    """
    from torch_tile.language.compile import written_arguments

    kernel = KERNELS[index]
    samples = {
        name: torch.empty((), dtype=value) if kind == "t" else value
        for name, kind, value in zip(names, kinds, values, strict=True)
    }
    written = written_arguments(kernel, samples)
    letters = "".join("w" if n in written else "r" if k == "t" else k for n, k in zip(names, kinds, strict=True))
    source = kernel.src + repr([(n, v) for n, k, v in zip(names, kinds, values, strict=True) if k == "c"])
    digest = hashlib.sha256(f"{source}{letters}".encode()).hexdigest()[:16]
    key = f"{kernel.fn.__module__}.{kernel.fn.__qualname__}:{digest}"
    _launches[key] = (
        kernel,
        {n: ("constant", v) if k == "c" else k for n, k, v in zip(names, letters, values, strict=True)},
    )
    return key, letters


# What torch.compiler.assume_constant_result sets, without importing Dynamo.
remember._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _run_outside(kernel: Any, args: Any, kwargs: Any, grid: Any) -> None:
    kernel.run(*args, grid=grid, **kwargs)


# A break of the graph; Dynamo is imported when it is first called, which is when Dynamo traces.
run_outside: Any = torch._disable_dynamo(_run_outside)  # type: ignore[attr-defined]


def launch_in_graph(kernel: Any, grid: Any, args: Any, kwargs: Any) -> None:
    """What Dynamo traces in place of a launch."""
    bound = kernel.bind(args, kwargs)
    for value in bound.values():
        # Functions as arguments, tuples and descriptors have no name by which the operator could find them again.
        if not isinstance(value, (torch.Tensor, int, float, str, torch.SymInt, torch.dtype, dtype, type(None))):
            run_outside(kernel, args, kwargs, grid)
            return
    if callable(grid):
        grid = grid(dict(bound))
    sizes = list(grid) if isinstance(grid, (tuple, list)) else [grid]
    sizes = [*sizes, 1, 1][:3]
    names: list[str] = []
    kinds: list[str] = []
    values: list[Any] = []
    integers: list[Any] = []
    floats: list[Any] = []
    tensors: list[torch.Tensor] = []
    for parameter in kernel.params:
        value = bound[parameter.name]
        names.append(parameter.name)
        if parameter.is_constexpr:
            kinds.append("c")
            values.append(value)
        elif isinstance(value, torch.Tensor):
            kinds.append("t")
            values.append(value.dtype)
            tensors.append(value)
        elif isinstance(value, bool):
            kinds.append("b")
            values.append(False)
            integers.append(int(value))
        elif isinstance(value, (int, torch.SymInt)):
            kinds.append("i")
            values.append(2)
            integers.append(value)
        elif isinstance(value, (float, torch.SymFloat)):
            kinds.append("f")
            values.append(1.5)
            floats.append(value)
        else:
            kinds.append("c")
            values.append(value)
    key, letters = remember(kernel.index, tuple(names), tuple(kinds), tuple(values))
    pointers = [letter for letter in letters if letter in "wr"]
    written = [t for t, letter in zip(tensors, pointers, strict=True) if letter == "w"]
    read = [t for t, letter in zip(tensors, pointers, strict=True) if letter == "r"]
    torch.ops.torch_tile.launch(key, sizes, written, read, integers, floats)
