"""@torch_tile.jit: kernels as objects that are launched, interpreted, or called by other kernels."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import textwrap
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from torch_tile import config
from torch_tile.errors import InvalidKernelError, TileError, nearest
from torch_tile.interpreter.memory import Region
from torch_tile.interpreter.run import Interpreter
from torch_tile.language import arguments, graph, traceback
from torch_tile.language.compile_time_values import as_constant, const, constexpr, unwrap
from torch_tile.language.control import runtime
from torch_tile.language.core import state
from torch_tile.language.dtypes import dtype, type_of_annotation
from torch_tile.language.launch_arguments import evaluate_grid, interpret_argument, read_only
from torch_tile.language.launch_options import HINTS, options_of
from torch_tile.language.outer_values import OuterValues
from torch_tile.language.rewrite_source import rewrite


class Parameter:
    """One parameter of a kernel, as its annotation says it."""

    __slots__ = ("default", "has_default", "is_const", "is_constexpr", "kind", "name", "type")

    def __init__(self, parameter: inspect.Parameter) -> None:
        self.name = parameter.name
        self.has_default = parameter.default is not inspect.Parameter.empty
        self.kind = parameter.kind
        self.default = parameter.default
        annotation = parameter.annotation
        text = annotation if isinstance(annotation, str) else ""
        self.is_constexpr = annotation is constexpr or "constexpr" in text
        self.is_constexpr |= getattr(annotation, "__name__", "") == "constexpr"
        name = text.rsplit(".", 1)[-1].strip("'\" ")
        self.type = annotation if isinstance(annotation, dtype) else type_of_annotation(name)
        self.is_const = annotation is const or name == "const"


# What os.environ keeps: reading it costs a tenth of asking os.environ.
_ENVIRONMENT: Any = getattr(os.environ, "_data", os.environ)
_INTERPRET: Any = getattr(os.environ, "encodekey", str)("TORCH_TILE_INTERPRET")


def _is_interpreted() -> bool:
    """config.get("interpret"), at the cost that a launch can bear."""
    if not config.is_set() and _INTERPRET not in _ENVIRONMENT:
        return False
    return bool(config.get("interpret"))


@functools.cache
def _launcher() -> Any:
    """Imported when a kernel is first compiled: interpreting needs no compiler."""
    from torch_tile.language.compile import launch

    return launch


class JITFunction:
    """A kernel. `kernel[grid](*args)` launches it; `kernel.interpret[grid](*args)` runs it in Python.

    Attributes:
        fn: the undecorated function.
    """

    def __init__(self, fn: Any, **options: Any) -> None:
        if not isinstance(fn, types.FunctionType):
            raise TypeError(f"torch_tile.jit expected a function, got {fn!r}")
        self.fn = fn
        self.options = options
        self.signature = inspect.signature(fn)
        self.params = [Parameter(p) for p in self.signature.parameters.values()]
        self.arg_names = [p.name for p in self.params]
        self._defaults = {p.name: p.default for p in self.params}
        self.has_variadic_parameters = any(p.kind in (p.kind.VAR_POSITIONAL, p.kind.VAR_KEYWORD) for p in self.params)
        self._has_constants = any(p.is_constexpr for p in self.params)
        self._is_plain = all(p.kind is p.kind.POSITIONAL_OR_KEYWORD for p in self.params)
        self._changed_source: str | None = None
        self._forms: dict[bool, Any] = {}
        self.launchers: dict[Any, Any] = {}
        self.plans: dict[Any, Any] = {}  # see compile.make_plan
        self.outer_values = OuterValues()  # of what `launchers` holds
        self.index = graph.register(self)
        functools.update_wrapper(self, fn)

    def __repr__(self) -> str:
        return f"JITFunction({self.fn.__module__}:{self.fn.__qualname__})"

    @property
    def src(self) -> str:
        """The function's source, from `def` on."""
        if self._changed_source is not None:
            return self._changed_source
        text = textwrap.dedent(inspect.getsource(self.fn))
        start = re.search(r"^def\s+\w+\s*\(", text, re.MULTILINE)
        return text[start.start() :] if start else text

    def _unsafe_update_src(self, new_src: str) -> None:
        """Gives the kernel another source; scripts written for Triton make variants of kernels so."""
        self._changed_source = new_src
        self._forms.clear()
        self.forget()

    def forget(self) -> None:
        """Drops what was compiled; the next launch compiles again."""
        self.launchers.clear()
        self.outer_values = OuterValues()

    @property
    def cache_key(self) -> str:
        return hashlib.sha256(self.src.encode()).hexdigest()

    @property
    def __globals__(self) -> dict[str, Any]:
        return self.fn.__globals__

    def form(self, for_tracing: bool) -> Any:
        """The function as the interpreter or the tracer runs it."""
        found = self._forms.get(for_tracing)
        if found is None:
            try:
                found = rewrite(self.fn, for_tracing, runtime, self._changed_source)
            except InvalidKernelError as error:
                error.stage = f"kernel {self.fn.__name__}"
                raise
            self._forms[for_tracing] = found
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run = state.run
        if run is None:
            raise RuntimeError(
                f"kernel {self.fn.__name__} expected a grid: launch it as {self.fn.__name__}[grid](...), or "
                "call it inside another kernel"
            )
        for hint in [k for k in kwargs if k in HINTS and k not in self.arg_names]:
            del kwargs[hint]
        if self._has_constants:
            args, kwargs = self._with_constants(args, kwargs)
        form = self.form(run.tracing)
        try:
            return form(*args, **kwargs)
        except RecursionError:
            raise InvalidKernelError(
                f"kernel {self.fn.__name__}", "recursion is not supported: kernels call each other without end"
            ) from None

    def _with_constants(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Arguments of a call inside a kernel: those of tl.constexpr parameters are no scalars of the kernel."""
        items = [
            as_constant(value) if k < len(self.params) and self.params[k].is_constexpr else value
            for k, value in enumerate(args)
        ]
        named = {p.name for p in self.params if p.is_constexpr}
        return items, {k: as_constant(v) if k in named else v for k, v in kwargs.items()}

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._run(grid, args, kwargs)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Launches the kernel over a grid. Returns the compiled kernel, for its `asm` and `metadata`."""
        return self._run(grid, args, kwargs)

    def _run(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.compiler.is_compiling():
            return graph.launch_in_graph(self, grid, args, kwargs)
        if kwargs.pop("warmup", False):
            return self.warmup(*args, grid=grid, **kwargs)
        if _is_interpreted():
            return self.interpret.run(*args, grid=grid, **kwargs)
        return _launcher()(self, grid, args, kwargs)

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> Any:
        """Compiles the kernel for these arguments without running it. A torch.dtype stands for a tensor of it, whose
        address is a multiple of 16, on the device of the other tensors or on torch's default device.

        `target="sm_90"` compiles for a GPU that need not be there.

        Returns:
            The compiled kernel, as a launch does, for its `asm`, `n_regs`, `n_spills` and `metadata`.
        """
        from torch_tile.language.compile import find_compiled

        target = kwargs.pop("target", None) if "target" not in self.arg_names else None
        bound = self.bind(args, kwargs)
        devices = [v.device for v in bound.values() if isinstance(v, torch.Tensor)]
        for parameter in self.params:
            value = bound[parameter.name]
            if isinstance(value, torch.dtype) and not parameter.is_constexpr:
                bound[parameter.name] = torch.empty((), dtype=value, device=devices[0] if devices else None)
        return find_compiled(self, bound, options_of(kwargs), target)[0]

    @property
    def interpret(self) -> Interpreted:
        """The kernel, to be run in Python: `kernel.interpret[grid](...)`, `kernel.interpret(programs=[(3, 0, 0)])`."""
        return Interpreted(self)

    # --- arguments ---------------------------------------------------------------------------------------------------

    def bind(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """Arguments by parameter, defaults filled in.

        Raises:
            TypeError: an argument is missing, unknown or given twice; names the parameters.
        """
        if self._is_plain and len(args) <= len(self.arg_names):
            found = dict(zip(self.arg_names, args, strict=False))
            is_known = True
            for name, value in kwargs.items():
                if name in self._defaults and name not in found:
                    found[name] = value
                elif name not in HINTS or name in found:
                    is_known = False
            if is_known:
                if len(found) < len(self.arg_names):
                    for name, default in self._defaults.items():
                        if name not in found and default is not inspect.Parameter.empty:
                            found[name] = default
                if len(found) == len(self.arg_names):
                    return found
        names = set(self.arg_names)
        known = {k: v for k, v in kwargs.items() if k in names or k not in HINTS}
        try:
            bound = self.signature.bind(*args, **known)
        except TypeError as error:
            raise TypeError(
                f"kernel {self.fn.__name__}({', '.join(self.arg_names)}): {self._wrong(args, known, error)}"
            ) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _wrong(self, args: Any, named: dict[str, Any], error: TypeError) -> str:
        """What is wrong with arguments of a launch, beside unknown names."""
        unknown = [k for k in named if k not in self.arg_names]
        if not unknown or not self._is_plain:
            return str(error)
        texts = []
        try:
            self.signature.bind(*args, **{k: v for k, v in named.items() if k in self.arg_names})
        except TypeError as other:
            texts.append(str(other))
        names = ", ".join(f"{k!r}{nearest(k, [*self.arg_names, *sorted(HINTS)])}" for k in unknown)
        return "; ".join([*texts, f"it has no argument {names}"])

    def meta(self, bound: dict[str, Any]) -> dict[str, Any]:
        return {k: unwrap(v) for k, v in bound.items()}


class Interpreted:
    """A kernel to be run in Python.

    Calling it with options gives another one:
        programs: ids of the programs to run, like [(3, 0, 0)]; all of them by default.
        check: what to look for, of "races" (stores that collide, reads of what other programs store), "division" (of
            integers by zero), "nan" (the operation that makes the first NaN), "uninitialized" (results that depend on
            elements a masked load did not read); True for races, division and uninitialized. Programs that take turns
            by atomics (a lock, a counter) do not race: one that acquires what another released comes after it.
    """

    def __init__(self, kernel: Any, programs: Iterable[Any] | None = None, check: Any = ()) -> None:
        self.kernel = kernel
        self.programs = programs
        if check is True:
            check = ("races", "division", "uninitialized")
        self.check = (check,) if isinstance(check, str) else tuple(check or ())

    def __call__(self, programs: Iterable[Any] | None = None, check: Any = ()) -> Interpreted:
        return type(self)(self.kernel, programs, check)

    follows_triton = False

    def translated(self, value: Any) -> Any:
        """What an argument means in this language, where it may be of another."""
        return value

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return functools.partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Runs the programs one after the other, in the order of their ids.

        Raises:
            MemoryAccessError: an address is outside the storage of its argument.
            RaceError: on request; see `check`.
        """
        kernel = self.kernel
        bound = {name: self.translated(value) for name, value in kernel.bind(args, kwargs).items()}
        sizes = evaluate_grid(grid, kernel.meta(bound), kernel.fn.__name__)
        regions: list[Region] = []
        interpreter = Interpreter(regions, sizes, self.check, self.follows_triton)
        outer, state.run = state.run, interpreter
        try:
            with np.errstate(all="ignore"):
                values: list[Any] = []
                extra: dict[str, Any] = {}
                for parameter in kernel.params:
                    with arguments.named(parameter.name):
                        _interpret_parameter(parameter, bound[parameter.name], values, extra, regions)
                interpreter.memory.__init__(regions)  # type: ignore[misc]
                body = kernel.form(False)
                positional, keywords = _split(kernel.params, values, extra)
                interpreter.run(lambda: body(*positional, **keywords), self.programs)
        except TileError as error:
            arguments.explain(error, kernel.params, bound)
            raise traceback.at_user_line(error, kernel.fn) from None
        except Exception as error:
            raise traceback.trimmed(error) from error.__cause__
        finally:
            state.run = outer


def _interpret_parameter(
    parameter: Parameter, value: Any, values: list[Any], extra: dict[str, Any], regions: list[Region]
) -> None:
    """Adds what a parameter stands for to positional or to named arguments."""
    if parameter.kind is parameter.kind.VAR_POSITIONAL:
        values += [interpret_argument(f"{parameter.name}[{k}]", v, regions) for k, v in enumerate(value)]
    elif parameter.kind is parameter.kind.VAR_KEYWORD:
        extra.update({k: interpret_argument(k, v, regions) for k, v in value.items()})
    elif parameter.is_constexpr:
        values.append(as_constant(value))
    else:
        item = interpret_argument(parameter.name, value, regions, parameter.type)
        values.append(read_only(item) if parameter.is_const else item)


def _split(params: list[Parameter], values: list[Any], extra: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Keyword-only parameters go by name."""
    keywords = dict(extra)
    names = [p.name for p in params if p.kind is p.kind.KEYWORD_ONLY]
    if not names:
        return values, keywords
    keywords.update(zip(names, values[-len(names) :], strict=True))
    return values[: -len(names)], keywords


def constexpr_function(function: Any) -> Any:
    """Marks a function that computes with values known when the kernel is compiled; Python runs it as it is.

    Example:
        >>> @torch_tile.constexpr_function
        ... def log2(n):
        ...     return n.bit_length() - 1
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*[unwrap(a) for a in args], **{k: unwrap(v) for k, v in kwargs.items()})

    return call


def jit(fn: Any = None, **options: Any) -> Any:
    """Makes a kernel of a function.

    Args:
        fn: a function in the tile language. Parameters annotated `tl.constexpr` are known when it is compiled.
        options: hints of Triton's decorator (do_not_specialize, noinline, ...), without effect.

    Example:
        >>> @torch_tile.jit
        ... def double(x_ptr, n, BLOCK: tl.constexpr):
        ...     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        ...     tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
        >>> double[(torch_tile.cdiv(x.numel(), 256),)](x, x.numel(), BLOCK=256)
    """
    if fn is None:
        return lambda function: JITFunction(function, **options)
    return fn if isinstance(fn, JITFunction) else JITFunction(fn, **options)
