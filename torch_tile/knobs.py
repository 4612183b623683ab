"""The table of knobs: name, type, default, environment variable, whether it is part of the cache key, what it does."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch_tile.errors import OptionError

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclasses.dataclass(frozen=True)
class Knob:
    """One setting. `environment` lists variables by priority; a knob for the compiler is part of the cache key."""

    name: str
    type: type
    default: Any
    environment: tuple[str, ...]
    doc: str
    is_for_compiler: bool = False
    is_of_process: bool = False
    """There is one value for the process, which options of a torch.compile call cannot change."""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    """The least number that is accepted."""
    maximum: int = (1 << 63) - 1
    """The largest: by default the largest that the extension takes."""

    def parse(self, text: str, variable: str = "") -> Any:
        """The value that an environment variable says."""
        if variable == "TORCH_COMPILE_DEBUG":
            return text == "1"  # as torch reads it
        if self.type is bool:
            if text.strip().lower() not in (*_TRUE, *_FALSE):
                expected = ", ".join((*_TRUE, *_FALSE))
                raise OptionError(f"expected one of {expected}, got {text!r}")
            return text.strip().lower() in _TRUE
        try:
            value = self.type(text)
        except ValueError:
            raise OptionError(f"expected {self.expected()}, got {text!r}") from None
        return self.check(value)

    def expected(self) -> str:
        """What is accepted, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.is_pass:
            return "a callable that takes a torch.fx.Graph, a list of such, or None"
        bounds = f" from {self.minimum} to {self.maximum}" if self.minimum is not None else ""
        return {bool: "bool", int: "int", float: "float", str: "str"}[self.type] + bounds

    @property
    def is_pass(self) -> bool:
        """Whether the value is Python code that rewrites graphs."""
        return self.type is Pass

    def check(self, value: Any, given_as: str = "") -> Any:
        """The value, if it is one.

        Args:
            value: of the knob.
            given_as: the option that the user wrote, where it is another one.

        Raises:
            OptionError: it is not; says what is accepted.
        """
        is_number = self.type in (int, float) and isinstance(value, int) and not isinstance(value, bool)
        if self.is_pass:
            items = value if isinstance(value, (list, tuple)) else [value]
            is_right = value is None or all(callable(item) for item in items)
        elif self.choices:
            is_right = value in self.choices
        else:
            is_right = isinstance(value, self.type) or is_number or (value is None and self.default is None)
            is_right = is_right and not (self.type is int and isinstance(value, bool))
        if is_right and self.minimum is not None:
            is_right = self.minimum <= value <= self.maximum
        if is_right and isinstance(value, str) and "\0" in value:
            raise OptionError(
                f"option {(given_as or self.name)!r} expected a text without null characters, got {value!r}"
            )
        if not is_right:
            raise OptionError(f"option {(given_as or self.name)!r} expected {self.expected()}, got {value!r}")
        return value


_LARGEST_INT = (1 << 31) - 1


class Pass:
    """Type of knobs that hold callables; no value is an instance of it."""


KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("strict", bool, False, ("TORCH_TILE_STRICT",), "Raise instead of falling back to eager mode."),
        Knob(
            "fallback_random", bool, False, ("TORCH_TILE_FALLBACK_RANDOM",), "Random numbers of eager mode, not fused."
        ),
        Knob("cache", bool, True, ("TORCH_TILE_CACHE",), "Use the disk cache, for whatever is kept there."),
        Knob(
            "cache_dir",
            str,
            None,
            ("TORCH_TILE_CACHE_DIR",),
            "Folder of the disk cache; the user's cache folder if unset.",
        ),
        Knob(
            "cache_layers",
            str,
            "",
            ("TORCH_TILE_CACHE_LAYERS",),
            "Folders of other disk caches that are only read, separated as in PATH: those baked into an image.",
        ),
        Knob(
            "cache_limit_bytes",
            int,
            4 << 30,
            ("TORCH_TILE_CACHE_LIMIT_BYTES",),
            "Least recently used entries go beyond this size; 0: no limit.",
            minimum=0,
        ),
        Knob(
            "buffer_limit_bytes",
            int,
            1 << 30,
            ("TORCH_TILE_BUFFER_LIMIT_BYTES",),
            "Freed memory of large CPU buffers that the process keeps for its next calls, at most; 0: none. "
            "For the process, not for one call.",
            is_of_process=True,
            minimum=0,
        ),
        Knob(
            "perf_map",
            bool,
            False,
            ("TORCH_TILE_PERF_MAP",),
            "Name kernels in /tmp/perf-PID.map, where `perf` looks. For the process, not for one call.",
            is_of_process=True,
        ),
        Knob(
            "remote_cache",
            bool,
            False,
            ("TORCH_TILE_REMOTE_CACHE",),
            "Ask torch's remote cache (Redis at TORCHINDUCTOR_REDIS_URL, or `remote_cache.use`) for what the disk "
            "cache has not, and give it what is compiled. Who may write there may run code here.",
        ),
        Knob("interpret", bool, False, ("TORCH_TILE_INTERPRET",), "Run kernels of the tile language in Python."),
        Knob(
            "print_autotuning",
            bool,
            False,
            ("TORCH_TILE_PRINT_AUTOTUNING",),
            "Print what autotuning of kernels of the tile language times and chooses.",
        ),
        Knob("force_compile", bool, False, ("TORCH_TILE_FORCE_COMPILE",), "Compile even what the disk cache has."),
        Knob(
            "debug",
            bool,
            False,
            ("TORCH_TILE_DEBUG", "TORCH_COMPILE_DEBUG"),
            "Write every stage to torch's debug folder.",
        ),
        Knob(
            "poison",
            bool,
            False,
            ("TORCH_TILE_POISON",),
            "Fill freed buffers with NaN, to find reads after the last use.",
        ),
        Knob(
            "emulate_precision_casts",
            bool,
            False,
            ("TORCH_TILE_EMULATE_PRECISION_CASTS",),
            "Keep every rounding to float16 and bfloat16 that eager mode makes.",
            is_for_compiler=True,
        ),
        Knob(
            "freezing",
            bool,
            False,
            ("TORCH_TILE_FREEZING",),
            "Parameters are constants in graphs that need no gradients: computed with once, and packed.",
        ),
        Knob(
            "body_budget",
            int,
            600,
            ("TORCH_TILE_BODY_BUDGET",),
            "Operations of one fused loop body; a value with which one would grow further goes to memory.",
            is_for_compiler=True,
            minimum=1,
            maximum=_LARGEST_INT,
        ),
        Knob(
            "index_budget",
            int,
            160,
            ("TORCH_TILE_INDEX_BUDGET",),
            "Operations of one index expression; views with which one would grow further are made in memory.",
            is_for_compiler=True,
            minimum=1,
            maximum=_LARGEST_INT,
        ),
        Knob(
            "kernel_budget_ms",
            int,
            3000,
            ("TORCH_TILE_KERNEL_BUDGET_MS",),
            "Estimated time of code generation for one CPU kernel; a larger kernel is compiled without optimisation.",
            is_for_compiler=True,
            minimum=0,
            maximum=_LARGEST_INT,
        ),
        Knob("fusion", bool, True, ("TORCH_TILE_FUSION",), "Fuse ops into shared kernels.", is_for_compiler=True),
        Knob(
            "matmul_library",
            str,
            "auto",
            ("TORCH_TILE_MATMUL_LIBRARY",),
            "Who multiplies float32 matrices on the CPU: aten (eager's bits), onednn, or auto: the faster one there.",
            choices=("auto", "aten", "onednn"),
        ),
        Knob(
            "triton_compiler",
            str,
            "triton",
            ("TORCH_TILE_TRITON_COMPILER",),
            "Who compiles `@triton.jit` kernels of graphs on a GPU: triton, whose kernels Python launches, or tile, "
            "whose kernels are steps of the program. A kernel that tile refuses is Triton's. On the CPU: always tile.",
            choices=("triton", "tile"),
        ),
        Knob(
            "target",
            str,
            "host",
            ("TORCH_TILE_TARGET",),
            "Processor to compile for, by LLVM's name.",
            is_for_compiler=True,
        ),
        Knob(
            "threads",
            int,
            0,
            ("TORCH_TILE_COMPILE_THREADS",),
            "Threads that compile kernels, at most 1024; 0: one per processor, at most 8.",
            minimum=0,
            maximum=1024,
        ),
        Knob(
            "cudagraphs",
            bool,
            False,
            ("TORCH_TILE_CUDAGRAPHS",),
            "Record graphs on a CUDA device once and replay them, as mode='reduce-overhead' does.",
        ),
        Knob(
            "max_autotune",
            bool,
            False,
            ("TORCH_TILE_MAX_AUTOTUNE",),
            "Time matrix products, with what surrounds them, as kernels of several block sizes and as calls of the "
            "library, and keep the fastest; on the CPU also each library for products. On a GPU, time other schedules "
            "of kernels, too: see `autotune_schedules`.",
        ),
        Knob(
            "autotune_schedules",
            bool,
            False,
            ("TORCH_TILE_AUTOTUNE_SCHEDULES",),
            "On a GPU, time other schedules of all kernels of a graph of static sizes and keep the fastest, as "
            "`max_autotune` does. Graphs that might index out of range, or assert, on made-up inputs are left out.",
        ),
        Knob(
            "shape_padding",
            bool,
            True,
            ("TORCH_TILE_SHAPE_PADDING",),
            "Pad products on a GPU with zeros, where rows of matrices begin between multiples of 16 bytes and the "
            "library's fast kernels are predicted to gain more than the copies take.",
        ),
        Knob(
            "autotune_seconds",
            int,
            120,
            ("TORCH_TILE_AUTOTUNE_SECONDS",),
            "How long `max_autotune` may time products of one graph, and schedules of its kernels. Products that are "
            "left are calls of the library, and kernels keep the schedule that the model chooses.",
            minimum=0,
            maximum=_LARGEST_INT,
        ),
        Knob(
            "deterministic",
            bool,
            False,
            ("TORCH_TILE_DETERMINISTIC",),
            "Identical bits on every run: calls outside are made under torch.use_deterministic_algorithms(True), which "
            "refuses some of them. Our own kernels have no float atomics, and of several writes of one element by "
            "index the last stays.",
            is_for_compiler=True,
        ),
        Knob(
            "nan_asserts",
            bool,
            False,
            ("TORCH_TILE_NAN_ASSERTS",),
            "Raise AssertionError where a result of a graph holds NaN or infinity although no input does.",
        ),
        Knob(
            "disable_passes",
            str,
            "",
            ("TORCH_TILE_DISABLE_PASSES",),
            "Passes and decompositions to leave out, separated by commas: python -m torch_tile bisect --list.",
        ),
        Knob(
            "only_first_graphs",
            int,
            -1,
            ("TORCH_TILE_ONLY_FIRST_GRAPHS",),
            "Graphs of the process beyond this number run in eager mode; -1: none does. For bisection.",
            minimum=-1,
        ),
        Knob(
            "only_first_kernels",
            int,
            -1,
            ("TORCH_TILE_ONLY_FIRST_KERNELS",),
            "Operators of kernels of the process beyond this number are calls outside; -1: none is. For bisection.",
            minimum=-1,
        ),
        Knob(
            "only_first_operators",
            int,
            -1,
            ("TORCH_TILE_ONLY_FIRST_OPERATORS",),
            "Operators of the process beyond this number are calls outside; -1: none is. For bisection.",
            minimum=-1,
        ),
        Knob(
            "bisect_report",
            str,
            "",
            ("TORCH_TILE_BISECT_REPORT",),
            "File to which graphs, kernels and operators are listed as they are compiled, by number. For bisection.",
        ),
        *(
            Knob(f"{place}_pass", Pass, None, (), doc)
            for place, doc in (
                ("pre_grad", "Called with the torch.fx.Graph that Dynamo captured, or a list of such callables."),
                ("joint", "Called with the ATen graph of forward and backward, or of inference, before our passes."),
                ("joint_post", "As joint_pass, behind our passes."),
                ("post_grad", "Called with each ATen graph before it is compiled: forward, backward, inference."),
                ("post_grad_post", "As post_grad_pass, behind our passes."),
            )
        ),
    )
}
