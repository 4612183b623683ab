"""The extension: loads and runs compiled graphs. Import torch before it."""

from collections.abc import Callable
from typing import Any, TypedDict, final

import torch

class KernelRow(TypedDict):
    name: str
    hash: str
    target: str
    launches: int
    bytes_moved: int | None
    """By all launches of one call; None where it depends on a symbolic size."""
    lines: list[int]
    """Lines of the graph text the kernel was made from."""

class ExternRow(TypedDict):
    name: str
    lines: list[int]

@final
class Program:
    """A loaded graph. Immutable, thread-safe and re-entrant."""

    __name__: str
    _boxed_call: bool
    _fx_graph_cache_key: str
    _fx_graph_cache_debug_lines: list[str]
    _input_names: list[str | None]
    """What the user calls the inputs, for messages."""
    num_kernels: int
    """Distinct kernels; `num_launches` counts launches."""
    num_launches: int
    launch_groups: list[list[int]]
    """Launches on CPU that share parallel regions: for each group, how many run side by side in each of its levels."""
    num_externs: int
    num_pycalls: int
    writes_inputs: bool
    num_packed: int
    """Dispatcher calls whose constant weight has been packed so far."""
    kernels: list[KernelRow]
    externs: list[ExternRow]
    steps: str
    """Listing of the step program."""
    notes: str
    """What the compiler has to say, if it ran: lines of a line of the graph text (0: none) and a message."""
    step_lines: list[list[int]]
    _note_step: Callable[[BaseException, str, list[list[int]]], BaseException | None]
    """Called with what a step has raised, what the step is (empty if it cannot fail), and lines of the graph text:
    those of the step, or of its check that has failed, then of each step that ran its body. An exception that it
    returns is raised instead."""
    loaded_from: str
    """`compiled` or `disk`."""
    cache_entries: list[str]
    """`kind/name` of what the disk cache holds of it, once everything is written."""
    compile_ms: float

    def __call__(self, *inputs: torch.Tensor | int | list[torch.Tensor | int]) -> list[torch.Tensor | int | None]:
        """Run with the inputs of the graph in order, or with one list of them, which comes back empty.

        Raises:
            RuntimeError: an input does not have the dtype, sizes and strides the program was compiled for.
            IndexError: an index held by a tensor is out of range.
        """

@final
class GraphText:
    """An FX graph as text of the graph dialect."""

    text: str
    lines: list[tuple[int, str]]
    """Line of the text, from 1, and the FX node it comes from."""
    symbols: list[tuple[str, str]]
    """Our name of each symbol and torch's."""
    pycalls: list[Any]
    """FX nodes behind the callables that `graph.pycall` ops name by index."""
    constants: list[torch.Tensor]
    """Tensors the graph module holds: the last inputs of the program."""
    number_inputs: list[tuple[int, str]]
    """Position and kind of inputs that are no integers: "float" (the program takes a 0-d float64 tensor), "bool" (0 or
    1), "nested", the length of a jagged tensor (any integer)."""
    number_outputs: list[tuple[int, str]]
    """The same of outputs; "input k" is the k-th input itself."""
    device: str
    """Where kernels run: the first CUDA device of the graph, else the CPU."""
    externs: list[tuple[str, str, str]]
    """FX node, operator, and why it is not generated."""

def print_graph(graph_module: torch.fx.GraphModule) -> GraphText:
    """Print an ATen graph with fake tensors in `meta["val"]`.

    Raises:
        torch_tile.errors.UnsupportedError: something the dialect cannot say; names the node.
    """

def compile_kernel(
    text: str, options: dict[str, str], dump: Callable[[str, str], None] | None = None, architecture: str = ""
) -> bytes:
    """Compile a module of one tile.kernel, or of Triton's IR in generic form, to a standalone kernel.

    Args:
        text: the module.
        options: for the compiler: `target`, `distinct_arguments` and others of csrc/compiler/driver/Options.h.
        dump: called with the file name of each stage and its text.
        architecture: what PTX is assembled for, like "sm_90"; empty on the CPU.

    Raises:
        torch_tile.errors.InvalidKernelError: the text does not parse.
        torch_tile.errors.UnsupportedError: something that does not compile; the text names it.
    """

def import_triton(text: str, embeddable: bool = False, pointers_first: bool = False) -> str:
    """Triton's IR in generic form to text of the tile dialect, with locations.

    With `embeddable` the text can stand beside other such modules in one text. With `pointers_first` kernels take their
    pointers before their numbers.
    """

def make_launcher(
    kernel: bytes, plan: str, num_ignored: int = 0, make_aliased: Callable[[], bytes] | None = None
) -> Callable[..., None]:
    """A callable that runs a standalone kernel: launcher(grid_x, grid_y, grid_z, *ignored, *arguments).

    Args:
        kernel: of compile_kernel.
        plan: a letter per argument: `a` goes to the kernel, `-` is dropped, `(...)` are the items of a tuple.
        num_ignored: how many values come between the grid and the arguments; of six, as Triton passes them, the last
            three are launch metadata and hooks.
        make_aliased: makes the kernel to run where tensors share memory, if `kernel` was compiled for those that do
            not.
    """

def assembled_resources(ptx: str, architecture: str) -> dict[str, int | None]:
    """What a thread needs of a kernel that is assembled: `num_registers` and `local_bytes`; None without an assembler.

    Args:
        ptx: of one kernel; begins with a comment.
        architecture: like "sm_90a".

    Raises:
        ValueError: what the assembler says of the text.
    """

def kernel_resources(launcher: Callable[..., None], device: int = -1) -> dict[str, int | None]:
    """What a block of a kernel for GPU needs: `num_threads`, `shared_bytes`, and of a thread `num_registers` and
    `local_bytes`; on a CUDA device also `blocks_per_multiprocessor`. None is what nobody knows yet.

    Args:
        launcher: of make_launcher.
        device: number of a CUDA device; negative to ask the kernel's code alone.
    """

def compile_graph(
    text: str,
    options: dict[str, str],
    cache_dir: str | None,
    cache_limit_bytes: int,
    dump: Callable[[str, str | bytes], None] | None,
    pycalls: list[Callable[..., Any]],
    force_compile: bool = False,
    poison: bool = False,
    device: str = "cpu",
    architecture: str = "",
    matmul_library: str = "auto",
    threads: int = 0,
    cache_layers: list[str] = ...,
    dump_on_miss: bool = False,
) -> Program:
    """Compile a module of the graph dialect, or load it from the disk cache.

    Args:
        text: the module.
        options: for the compiler; every one is part of the cache key.
        cache_dir: None for no disk cache.
        cache_limit_bytes: least recently used entries go beyond it; 0 for no limit.
        dump: called with the file name and content of every stage. The compiler then runs even where the cache has the
            graph.
        pycalls: the callables that `graph.pycall` steps name by index.
        force_compile: do not read the disk cache; what is compiled is still written to it.
        device: what kernels run on; the option `target` fits it.
        architecture: that PTX is assembled for, where it is not `target`.
        poison: fill freed buffers with NaN.
        matmul_library: "auto", "aten" or "onednn": who multiplies float32 matrices on the CPU.
        threads: that compile; no part of the key.
        cache_layers: folders that are only read, for what `cache_dir` has not.
        dump_on_miss: a graph that the disk cache has is loaded, and nothing is dumped.

    Raises:
        torch_tile.errors.TileError: one of its subclasses, with stage, text and line.
    """

def time_launches(call: Callable[[], Any], names: list[str], device: str) -> list[tuple[str, float]]:
    """Call `call`; name and time in microseconds of each launch in it of kernels with these names, in order.

    Args:
        call: runs programs on this thread.
        names: of kernels, as `Program.kernels` has them.
        device: on a CUDA device times are those between events of the current stream, else those of the host's clock.
    """

def graph_key(text: str, options: dict[str, str]) -> bytes:
    """Key of a graph in the disk cache."""

def compile_artifact(text: str, options: dict[str, str]) -> bytes:
    """Compile a module of the graph dialect to an artifact with the code of its kernels; nothing is cached or loaded.

    Raises:
        torch_tile.errors.TileError: one of its subclasses, with stage, text and line.
    """

def describe_artifact(data: bytes) -> dict[str, Any]:
    """`operators` that an artifact calls, `functions` that its kernels call, `needs_torch`, number of `kernels`."""

def processor_features(target: str) -> list[str] | None:
    """What a processor must have to run code for a target ("host", "x86-64-v3"); None for an unknown one."""

def processor_architecture() -> str:
    """`x86_64` or `aarch64`."""

def open_package(path: str) -> PackageFile:
    """Map a file of torch_tile.aot.package and read its index.

    Raises:
        torch_tile.errors.InvalidKernelError: the file is no package of this version, cut short or damaged.
    """

class PackageFile:
    """A mapped package (csrc/runtime/package/PackageFile.h)."""

    producer: str
    torch_version: str
    metadata: str
    inputs: list[tuple[str, str, list[tuple[int, int]]]]
    """Name, dtype or "int", and the least and greatest of each size."""
    constants: list[tuple[str, str, list[int], list[int], int, bool]]
    """Name, dtype, sizes, strides, number of the blob, whether programs write it."""
    variants: list[dict[str, Any]]
    """target, features, architecture, needs_torch, program_bytes."""

    def blob(self, number: int) -> bytes:
        """Bytes of a blob, compared with their checksum."""

    def choose(self, capability: int = 0) -> int:
        """The best variant for this processor, or for a GPU of that compute capability (90 for 9.0)."""

    def verify(self) -> None:
        """Compare everything with its checksums."""

    def source_lines(self, variant: int) -> list[tuple[int, str, str, bool]]:
        """For lines of the text that a program was compiled from: the number, the operator that the user called, the
        user's line, and whether eager mode raises RuntimeError for an index out of range."""

    def load(self, variant: int, device: str, matmul_library: str = "auto") -> PackagedModel: ...

class PackagedModel:
    """A program of a package with its constants. Models of one PackageFile share written buffers."""

    steps: str

    def run(
        self,
        arguments: list[Any],
        describe: Callable[[BaseException, str, list[list[int]]], BaseException | None] | None = None,
    ) -> list[Any]:
        """Arguments and results are tensors and integers; a result may be None. `describe` is what
        torch_tile.debug.failures.note_steps gives."""

    def constant(self, number: int) -> torch.Tensor:
        """A parameter or buffer as it is now."""

class TensorState:
    """A tensor as it was when this was made, without keeping it alive."""

    def __init__(self, tensor: torch.Tensor, keeps_content: bool = False) -> None:
        """`keeps_content`: for a contiguous tensor on the CPU, whose bytes are compared each time."""

    def is_same(self, tensor: torch.Tensor) -> bool:
        """Whether it is that tensor, with that memory, and unwritten as far as torch keeps count, or as bytes tell."""

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether it is that tensor, whatever has been done to it."""

    @property
    def is_expired(self) -> bool:
        """Whether the tensor is gone."""

def freeze_program(
    program: Program,
    arguments: list[tuple[int, TensorState]],
    constants: list[torch.Tensor],
    packable: list[int],
    otherwise: Callable[[list[Any]], Any],
) -> Program:
    """The same program for calls in which some arguments never change.

    Args:
        program: its last inputs are `constants`.
        arguments: position and state of arguments that are checked and not passed on. A call in which one of them is
            another tensor, or has been written, goes to `otherwise`.
        constants: what the program has in their place.
        packable: which of the constants are never written, so that oneDNN may keep them in an order of its own.
        otherwise: takes the arguments of a call as a list.
    """

def planned_steps(program: Program, symbols: dict[str, int]) -> list[tuple[str, int, int, int, int, int]]:
    """What a call does for given values of its symbols (64 where none is given), in the order in which it does it.
    Launches of the bodies of a control step follow it.

    Kind, step, slot, other, amount, position, as `PlannedStep` of csrc/runtime/executor/Program.h has them.
    """

def set_perf_map(enabled: bool) -> None:
    """Whether kernels that are loaded from now on get a line in /tmp/perf-PID.map."""

def rebind_program(program: Program, other: Program | None) -> None:
    """Calls of `program`, which freeze_program made, do from now on what those of `other` do, another such program of
    the same arguments; without one, all go to `otherwise`. What was made of the old values is freed."""

def prefers_onednn(matmul_library: str) -> bool:
    """Whether oneDNN multiplies float32 matrices under this setting, on this processor."""

def load_artifact(
    data: bytes, pycalls: list[Callable[..., Any]] = ..., poison: bool = False, matmul_library: str = "auto"
) -> Program:
    """Load artifact bytes that carry the code of their kernels, as tile-compile writes them."""

def set_compiler_library(path: str) -> None:
    """Use this file instead of the libtorch_tile_compiler.so beside the extension. No effect once one is open."""

def set_buffer_limit(num_bytes: int) -> None:
    """Freed memory of large CPU buffers to keep at most; 0 keeps none and uses torch's allocator."""

def empty_cache() -> None:
    """Give the kept memory back to the system."""

def inject_fault(fault: str) -> int:
    """For tests: "stage:kind" makes that stage of the extension or the compiler fail so; "" ends it. How often the one
    before has been reached."""

def buffer_statistics() -> dict[str, int]:
    """used_bytes, kept_bytes, peak_bytes (of what was in use); requests and mapped: how many needed fresh memory."""

class DiskCache:
    """The disk cache (csrc/runtime/cache/DiskCache.h). Kinds are graphs, kernels, autograd and language; keys have 32
    bytes."""

    def __init__(self, folder: str, limit_bytes: int = 0, layers: list[str] = ...) -> None: ...
    def read(self, kind: str, key: bytes) -> bytes | None:
        """The payload that was written; None where there is none that is sound and to be trusted."""

    def contains(self, kind: str, key: bytes) -> bool:
        """Whether there is an entry, or one on its way; it may be damaged."""

    def write(self, kind: str, key: bytes, payload: bytes, replace: bool = False) -> None:
        """Write on a background thread. An entry that is there stays, unless it is to be replaced."""

def cache_entries(folder: str, verify: bool = False) -> list[tuple[str, str, int, float, str]]:
    """Kind, name, bytes, time of last use and problem of each entry; problems of content are found with `verify`."""

def cache_leftovers(folder: str) -> list[tuple[str, int]]:
    """Path and bytes of each file that a process which has ended left unfinished."""

def clear_cache(folder: str) -> tuple[int, int, int, int, list[str], list[tuple[str, str]]]:
    """Remove all entries: number of entries and bytes, the same of files that ended processes left unfinished, folders
    that are gone, and what is left with the reason."""

def prune_cache(folder: str, limit_bytes: int) -> tuple[int, int, int, int]:
    """Remove least recently used entries beyond the limit: number of entries and bytes, and the same of files that
    ended processes left unfinished."""

def cache_notices() -> list[tuple[bool, str]]:
    """What came up in the disk cache since the last call: whether it is a warning, and its text."""

def flush_disk_cache() -> None:
    """Wait until everything compiled so far is on disk. Runs by itself when Python exits."""

def describe_processor(name: str) -> tuple[list[str], list[str]]:
    """Processors that LLVM knows, and the instruction sets that the named one has and this machine lacks."""

def version() -> dict[str, str]:
    """Versions of the extension and of the compiler library (which this opens)."""

def assembler() -> str:
    """Who makes machine code of PTX in this process: nvJitLink, ptxas or driver."""
