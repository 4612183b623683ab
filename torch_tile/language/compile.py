"""Compiles kernels and launches them: one compiled kernel per types of the arguments and values of constants."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import torch

from torch_tile import _C
from torch_tile.errors import TileError, UnsupportedError
from torch_tile.language import arguments, kernel_cache, target_info, traceback
from torch_tile.language.compile_time_values import as_constant, constexpr
from torch_tile.language.compiled_kernel import CompiledKernel
from torch_tile.language.core import error as error_of
from torch_tile.language.core import state, tensor
from torch_tile.language.dtypes import dtype, dtype_of_torch, pointer_type
from torch_tile.language.jit import JITFunction
from torch_tile.language.launch_arguments import (
    TensorWrapper,
    evaluate_grid,
    host_descriptor,
    read_only,
    scalar_type,
)
from torch_tile.language.launch_options import HINTS, NONE, LaunchOptions, options_of
from torch_tile.language.places import TracedKernel, plain
from torch_tile.language.stages import compiler_options
from torch_tile.language.states import state_of
from torch_tile.language.trace import Tracer
from torch_tile.targets import architecture

log = logging.getLogger(__name__)

# Of a torch without CUDA all tensors that kernels take are on the CPU: nothing is asked of each.
_HAS_CUDA = torch.version.cuda is not None


class Specialization:
    """Types and constants of a launch: the key of a compiled kernel, and the flat arguments."""

    __slots__ = ("device", "flat", "key")

    def __init__(self) -> None:
        self.key: list[Any] = []
        self.flat: list[Any] = []
        self.device: torch.device | None = None  # of tensors that are not on the CPU

    def add(self, value: Any, type_: Any = None) -> None:
        """Takes apart what the launch passes; `build` puts it together in the same order."""
        if isinstance(value, torch.Tensor):
            self.tensor(value)
            return
        kind = type(value)
        if kind is int:
            self.key.append(type_ or ("i" if -(2**31) <= value < 2**31 else scalar_type(value, None)))
            self.flat.append(value)
            return
        if kind is float or kind is bool:
            self.key.append(type_ or kind)
            self.flat.append(value)
            return
        if kind is constexpr:
            self.constant(value)
            return
        if isinstance(value, (tuple, list)):
            self.key += [type(value), len(value)]
            for item in value:
                self.add(item)
            return
        if isinstance(value, np.ndarray) and value.ndim:
            scalar_type(value, None)  # says what is wrong
        base = getattr(value, "base", None)
        if isinstance(base, (torch.Tensor, TensorWrapper)):
            if hasattr(value, "block_shape"):
                padding = getattr(value, "padding", "zero")
                self.key += ["descriptor", base.dtype, tuple(value.block_shape), padding, len(value.shape)]
                self.tensor(_tensor_of(base))
                self.flat += [*value.shape, *value.strides]
            else:
                self.key += ["pointer", value.dtype]
                self.tensor(_tensor_of(base))
            return
        if hasattr(value, "item") and hasattr(value, "dtype") and not getattr(value, "ndim", 0):  # numbers of numpy
            self.key.append(scalar_type(value, type_))
            self.flat.append(value.item())
            return
        if isinstance(value, torch.SymInt):
            self.add(int(value), type_)
            return
        self.constant(value)

    def tensor(self, value: torch.Tensor) -> None:
        self.key.append(value.dtype)
        self.flat.append(value)
        if _HAS_CUDA and value.is_cuda:
            self.device = self.device or value.device

    def constant(self, value: Any) -> None:
        self.key += ["constant", state_of(value)]


def known_multiples(flat: list[Any]) -> tuple[int, ...]:
    """What is known of each argument when a kernel for GPU is compiled: 16 if an integer or a tensor's address is
    divisible by 16, 1 if an integer is 1, else 0. Accesses of neighbours are whole words for it."""
    known = []
    for value in flat:
        if isinstance(value, torch.Tensor):
            known.append(16 if value.data_ptr() % 16 == 0 else 0)
        elif type(value) is int:
            known.append(1 if value == 1 else 16 if value % 16 == 0 else 0)
        else:
            known.append(0)
    return tuple(known)


# What arguments are called in text; %c0 and %1 are other values.
_ARGUMENT_NAME = re.compile("(?!c[0-9]+$)[A-Za-z_][A-Za-z0-9_]*")


def _element_type(value: Any) -> Any:
    """The type as which a kernel sees the elements of a tensor or of a TensorWrapper."""
    return value.dtype if isinstance(value.dtype, dtype) else dtype_of_torch(value.dtype)


def _tensor_of(value: Any) -> Any:
    return value.base if isinstance(value, TensorWrapper) else value


class Signature:
    """Arguments of the tile kernel, made while its parameters are bound."""

    def __init__(self, run: Tracer) -> None:
        self.run = run
        self.types: list[str] = []
        self.pointers: list[str] = []
        self.names: list[str] = []  # per argument, the parameter it belongs to
        self.hint = ""  # the parameter that is bound

    def argument(self, type_: Any) -> tensor:
        name = f"%{self.hint}" if _ARGUMENT_NAME.fullmatch(self.hint) else f"%a{len(self.types)}"
        while name in self.run.region_of:
            name += f"_{len(self.types)}"
        value = tensor(name, type_, (), frozenset({name}) if type_.is_ptr() else None)
        self.run.region_of[value.value] = 0
        self.types.append(f"{value.value}: {type_.mlir}")
        self.names.append(self.hint)
        if type_.is_ptr():
            self.pointers.append(name)
        return value

    def build(self, value: Any, type_: Any = None) -> Any:
        if isinstance(value, constexpr):
            return as_constant(value)
        if isinstance(value, torch.Tensor):
            return self.argument(pointer_type(dtype_of_torch(value.dtype)))
        if isinstance(value, (tuple, list)):
            items = [self.build(v) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        base = getattr(value, "base", None)
        if isinstance(base, (torch.Tensor, TensorWrapper)):
            if hasattr(value, "block_shape"):
                return self._descriptor(value, base)
            return self.argument(pointer_type(_element_type(value)))
        if isinstance(value, torch.SymInt):
            value = int(value)
        if isinstance(value, (bool, int, float, np.generic, np.ndarray)):
            return self.argument(scalar_type(value, type_))
        return as_constant(value)

    def _descriptor(self, value: Any, base: Any) -> Any:
        from types import SimpleNamespace

        from torch_tile.language.dtypes import int64

        pointer = self.argument(pointer_type(_element_type(base)))
        shape = [self.argument(int64) for _ in value.shape]
        strides = [self.argument(int64) for _ in value.strides]
        made = SimpleNamespace(
            shape=shape, strides=strides, block_shape=value.block_shape, padding=getattr(value, "padding", "zero")
        )
        return host_descriptor(made, pointer)


def trace(kernel: JITFunction, bound: dict[str, Any], device: torch.device | None = None) -> TracedKernel:
    """The kernel as text of the tile dialect, for arguments of these types and constants of these values; for a GPU
    with its pointers before its numbers."""
    with target_info.compiling_for(device):
        return _trace(kernel, bound, pointers_first=device is not None)[0]


def written_pointers(kernel: JITFunction, bound: dict[str, Any]) -> tuple[list[bool], str]:
    """For each tensor among the arguments, in their order: whether the kernel may write through it; and its text."""
    traced, run, signature = _trace(kernel, bound)
    return [run.written is None or value in run.written for value in signature.pointers], traced.text


def _build_parameter(
    signature: Signature, parameter: Any, value: Any, positional: list[Any], keywords: dict[str, Any]
) -> None:
    signature.hint = parameter.name
    if parameter.kind is parameter.kind.VAR_POSITIONAL:
        positional += [signature.build(v) for v in value]
        return
    if parameter.kind is parameter.kind.VAR_KEYWORD:
        keywords.update({k: signature.build(v) for k, v in value.items()})
        return
    made = as_constant(value) if parameter.is_constexpr else signature.build(value, parameter.type)
    if parameter.is_const:
        made = read_only(made)
    if parameter.kind is parameter.kind.KEYWORD_ONLY:
        keywords[parameter.name] = made
    else:
        positional.append(made)


def _trace(
    kernel: JITFunction, bound: dict[str, Any], pointers_first: bool = False
) -> tuple[TracedKernel, Tracer, Signature]:
    run = Tracer()
    signature = Signature(run)
    outer, state.run = state.run, run
    try:
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for parameter in kernel.params:
            with arguments.named(parameter.name):
                _build_parameter(signature, parameter, bound[parameter.name], positional, keywords)
        if (returned := kernel.form(True)(*positional, **keywords)) is not None:
            kind = getattr(returned, "type", type(returned).__name__)
            raise error_of(f"a kernel returns nothing, got {kind}; store results with tl.store")
    except TileError as error:
        arguments.explain(error, kernel.params, bound)
        raise traceback.at_user_line(error, kernel.fn) from None
    except Exception as error:
        raise traceback.trimmed(error) from error.__cause__
    finally:
        state.run = outer
    body = "\n".join([*run.prologue, *run.lines])
    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in kernel.fn.__name__)
    types = sorted(signature.types, key=lambda t: ": !tile.ptr" not in t) if pointers_first else signature.types
    text = f"tile.kernel @{name}({', '.join(types)}) {{\n{body}\n  tile.return\n}}\n"
    traced = TracedKernel(plain(text), lambda: run.places.located(text, run.names))
    return traced, run, signature


def specialize(kernel: JITFunction, bound: dict[str, Any]) -> Specialization:
    found = Specialization()
    key, flat = found.key, found.flat
    for parameter in kernel.params:
        value = bound[parameter.name]
        # The kinds that are common are told apart here, without a call each.
        kind = type(value)
        if parameter.is_constexpr:
            if kind is int or kind is str or kind is bool:
                key.append(kind)
                key.append(value)
            else:
                found.constant(value)
        elif kind is torch.Tensor:
            found.tensor(value)
        elif kind is int and parameter.type is None and -0x80000000 <= value <= 0x7FFFFFFF:
            key.append("i")
            flat.append(value)
        elif parameter.kind is parameter.kind.VAR_KEYWORD:
            found.key.append(tuple(value))
            for item in value.values():
                found.add(item)
        else:
            try:
                found.add(value, parameter.type)
            except (TileError, TypeError, ValueError) as error:
                raise arguments.about(error, parameter.name, kernel.fn.__name__) from None
    return found


def find_compiled(
    kernel: JITFunction, bound: dict[str, Any], options: LaunchOptions = NONE, target: str | None = None
) -> tuple[CompiledKernel, list[Any]]:
    """The kernel compiled for these arguments, or for a target like "sm_90" instead of their device; and what is passed
    to it."""
    options.check(kernel.fn.__name__)
    _forget_what_is_stale(kernel)
    found = specialize(kernel, bound)
    device = target or found.device
    if device is not None:
        found.key += [device, options, known_multiples(found.flat)]
    key: Any = tuple(found.key)
    try:
        compiled = kernel.launchers.get(key)
    except TypeError:  # a constant that cannot be hashed
        compiled, key = None, (repr(key),)
    if compiled is None:
        kernel.outer_values.add([kernel, *bound.values()])
        compiled = compile_bound(kernel, bound, found.flat, device, options)
        kernel.launchers[key] = compiled
    return compiled, found.flat


def make_plan(kernel: JITFunction, num_positional: int, names: Any) -> Any:
    """How to read the arguments of calls with so many positional arguments and these names.

    Returns:
        (places, defaults): for each parameter, where its value stands in positional arguments, named ones and
        defaults, and whether it is a constant; None where the general way is needed.
    """
    if not kernel._is_plain or num_positional > len(kernel.params):
        return None
    places: list[tuple[int, bool]] = []
    defaults: list[Any] = []
    for position, parameter in enumerate(kernel.params):
        if parameter.type is not None or parameter.is_const:
            return None
        if position < num_positional:
            if parameter.name in names:
                return None
            place = position
        elif parameter.name in names:
            place = num_positional + names.index(parameter.name)
        elif parameter.has_default:
            place = num_positional + len(names) + len(defaults)
            defaults.append(parameter.default)
        else:
            return None
        places.append((place, parameter.is_constexpr))
    known = {*kernel.arg_names, *HINTS}
    return (tuple(places), tuple(defaults)) if known.issuperset(names) else None


def _find_quickly(kernel: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """(compiled kernel, what is passed to it) for arguments of the common kinds that were seen before, or None.

    Makes the keys that `specialize` makes.
    """
    shape = (len(args), *kwargs)
    plan = kernel.plans.get(shape, False)
    if plan is False:
        plan = kernel.plans[shape] = make_plan(kernel, len(args), shape[1:])
    if plan is None:
        return None
    places, defaults = plan
    values = (*args, *kwargs.values(), *defaults)
    key: list[Any] = []
    flat: list[Any] = []
    device = None
    for place, is_constexpr in places:
        value = values[place]
        kind = type(value)
        if is_constexpr:
            if kind is not int and kind is not bool and kind is not str:
                return None
            key.append(kind)
            key.append(value)
        elif kind is torch.Tensor or kind is torch.nn.Parameter:
            key.append(value.dtype)
            flat.append(value)
            if _HAS_CUDA and value.is_cuda:
                device = device or value.device
        elif kind is int and -0x80000000 <= value <= 0x7FFFFFFF:
            key.append("i")
            flat.append(value)
        elif kind is float:
            key.append(float)
            flat.append(value)
        else:
            return None
    if device is not None:
        key += [device, options_of(kwargs), known_multiples(flat)]
    compiled = kernel.launchers.get(tuple(key))
    return None if compiled is None else (compiled, flat)


def _forget_what_is_stale(kernel: JITFunction) -> None:
    """Drops what was compiled with values of globals and the like that have changed since."""
    outer = kernel.outer_values
    if outer.values and (changed := outer.changed()):
        log.info("kernel %s is compiled again: %s changed", kernel.fn.__name__, ", ".join(changed))
        kernel.forget()


def launch(kernel: JITFunction, grid: Any, args: Any, kwargs: Any) -> CompiledKernel:
    """Runs the kernel over a grid, compiling it for new types, constants, and values that it reads from outside."""
    _forget_what_is_stale(kernel)
    found = _find_quickly(kernel, args, kwargs)
    if found is not None and type(grid) is tuple:
        compiled, flat = found
        if len(grid) == 1 and type(grid[0]) is int and grid[0] >= 0:
            compiled.run(grid[0], 1, 1, flat)
            return compiled
    bound = kernel.bind(args, kwargs)
    compiled, flat = found or find_compiled(kernel, bound, options_of(kwargs))
    x, y, z = evaluate_grid(grid, kernel.meta(bound), kernel.fn.__name__)
    compiled.run(x, y, z, flat)
    return compiled


def compile_bound(
    kernel: JITFunction,
    bound: dict[str, Any],
    flat: list[Any],
    device: torch.device | str | None = None,
    launch_options: LaunchOptions = NONE,
) -> CompiledKernel:
    with target_info.compiling_for(device):
        traced, _, signature = _trace(kernel, bound)
    name = kernel.fn.__name__
    make_native = getattr(_C, "make_launcher", None)
    if make_native is None:
        raise UnsupportedError(
            f"kernel {name}", "this build cannot compile single kernels; use kernel.interpret[grid](...)"
        )
    options = compiler_options(device, launch_options)
    if device is not None:
        options["argument_multiples"] = ",".join(map(str, known_multiples(flat)))
    assembled_for = "" if device is None else architecture(str(device))

    def make(distinct: bool) -> bytes:
        chosen = {**options, "distinct_arguments": str(distinct).lower()}
        try:
            return kernel_cache.compile_kernel(name, traced, chosen, assembled_for)
        except TileError as error:
            # Locations in the text are the user's, so `line` is a line of the user's file.
            error.stage = f"kernel {name} ({error.stage})"
            raise

    launcher = make_native(make(True), "a" * len(flat), 0, lambda: make(False))
    return CompiledKernel(kernel, traced, signature.names, launcher, options, device)
