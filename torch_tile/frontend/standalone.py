"""Compiled graphs that outlive their process: `torch_tile.standalone_compile`, and torch.compile(...).aot_compile.

An artifact is what the disk cache keeps of one graph of Dynamo's: the entry of AOTAutograd (autograd_cache.py), the
programs of its graphs and their kernels. On disk it is a folder that is laid out as a disk cache, or a package
(package_file.py) with its entries. Loading reads them as a cache layer, so what does not fit the compiler or the
processor is compiled again from the graph's text.

An entry of AOTAutograd is a pickle: load files that you trust.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch._dynamo.aot_compile_types import SerializableCallable
from torch._functorch import config as functorch_config
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from torch_tile import _C, config, disk_cache
from torch_tile.config import Settings
from torch_tile.errors import ArtifactError, OptionError, TileError
from torch_tile.frontend.aot import CACHED_VERSIONS, compile_with_autograd, reloaded
from torch_tile.frontend.artifact_guards import ArgumentGuards, check_inputs, fake_inputs, static
from torch_tile.frontend.options import settings_of
from torch_tile.package_file import Writer
from torch_tile.repeated_arguments import with_own_tensors

_HEADER = "header.json"
_PARAMETERS = "parameters.pt"
# They say where and how much is kept, not what is compiled.
_OF_THIS_MACHINE = frozenset(
    (
        *("bisect_report", "buffer_limit_bytes", "debug", "force_compile", "threads"),
        *("cache", "cache_dir", "cache_layers", "cache_limit_bytes"),
    )
)

Format = Literal["binary", "unpacked"]
Entries = dict[str, bytes]
"""By "kind/name", as in the disk cache; and the tensors that the graph itself holds."""


class CompiledArtifact(SerializableCallable):
    """A compiled graph that can be saved; called with the inputs of the graph, it returns its outputs."""

    def __init__(
        self, function: Callable[..., Any], header: dict[str, Any], entries: Entries, reason: str = ""
    ) -> None:
        self._function = function
        self._header = header
        self._entries = entries
        self._reason = reason
        self._guards = _guards_of(header)
        self._out_spec = _out_spec_of(header)

    def __call__(self, *args: Any) -> Any:
        """Run.

        Returns:
            What the graph returns, in its structure.

        Raises:
            TypeError: another number of arguments, or one of another kind.
            ValueError: sizes that the graph was not compiled for; names the argument.
        """
        if self._guards is not None:
            self._guards.check(args)
        results = self._function(*with_own_tensors(args))
        return results if self._out_spec is None else pytree.tree_unflatten(results, self._out_spec)

    def save(self, *, path: str | os.PathLike[str], format: Format = "binary") -> None:
        """Write the artifact.

        Args:
            path: a file, or for the format `unpacked` a folder; what is there is replaced.
            format: `binary`, or `unpacked`: a folder that holds header.json and a disk cache.

        Raises:
            ArtifactError: the graph holds something that cannot be kept; says what.
            OSError: the file cannot be written; a file that was there stays.
        """
        _check_format(format)
        self._check()
        place = Path(path)
        if format == "binary":
            if place.is_dir():
                raise ArtifactError("save", f"{place} is a folder, and the format binary is a file")
            if not place.parent.is_dir():
                raise FileNotFoundError(
                    errno.ENOENT, "there is no folder to write the artifact into", str(place.parent)
                )
            temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
            try:
                temporary.write_bytes(self._to_bytes())
                temporary.replace(place)
            finally:
                temporary.unlink(missing_ok=True)  # of a write that failed
            return
        if place.is_dir() and any(place.iterdir()) and not (place / _HEADER).is_file():
            raise ArtifactError("save", f"{place} holds files that are no artifact")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / _HEADER).write_text(json.dumps(self._header, indent=1), encoding="utf-8")
        _write_entries(place / "cache", self._entries)
        if _PARAMETERS in self._entries:
            (place / _PARAMETERS).write_bytes(self._entries[_PARAMETERS])

    def _check(self) -> None:
        if self._reason:
            raise ArtifactError("save", self._reason)

    def _to_bytes(self) -> bytes:
        self._check()
        from torch_tile import __version__

        file = io.BytesIO()
        writer = Writer(file)
        numbers = {name: writer.blob(content) for name, content in sorted(self._entries.items())}
        metadata = json.dumps({"artifact": self._header, "entries": numbers})
        writer.finish(f"torch-tile {__version__}", metadata, (), ())
        return file.getvalue()

    @classmethod
    def serialize_compile_artifacts(cls, fn: CompiledArtifact) -> bytes:
        """For torch._dynamo.aot_compile."""
        return fn._to_bytes()

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> CompiledArtifact:
        """For torch._dynamo.aot_compile."""
        with tempfile.TemporaryDirectory(prefix="torch-tile-artifact-") as folder:
            place = Path(folder) / "artifact"
            place.write_bytes(data)
            return _from_file(place, "the artifact")

    def _take(self, guards: ArgumentGuards, out_spec: Any) -> None:
        self._guards, self._header["guards"] = guards, guards.data
        self._out_spec = out_spec
        try:
            self._header["outputs"] = None if out_spec is None else pytree.treespec_dumps(out_spec)
        except NotImplementedError as error:  # classes without a name
            self._reason = self._reason or f"the structure of its outputs cannot be kept: {error}"

    @staticmethod
    def load(*, path: str | os.PathLike[str], format: Format = "binary") -> CompiledArtifact:
        """Read what `save` wrote.

        Raises:
            ArtifactError: it is no artifact, is damaged, or was made by another version of torch.
            OSError: it cannot be read.
        """
        _check_format(format)
        place = Path(path)
        if format == "binary":
            if (place / _HEADER).is_file():
                raise ArtifactError("load", f"{place} is a folder: load it with format='unpacked'")
            if place.exists() and not place.is_file():
                raise ArtifactError("load", f"{place} is neither a file nor a folder that `save` wrote")
            place.open("rb").close()  # an OSError where it cannot be read
            return _from_file(place, str(place))
        if place.is_file():
            raise ArtifactError("load", f"{place} is a file: load it with format='binary'")
        header = _read_header((place / _HEADER).read_bytes(), str(place / _HEADER))
        entries = _entries_of(place / "cache")
        if (place / _PARAMETERS).is_file():
            entries[_PARAMETERS] = (place / _PARAMETERS).read_bytes()
        return CompiledArtifact(_load(header, entries, str(place / "cache"), str(place)), header, entries)


def _check_format(format: str) -> None:
    if format not in ("binary", "unpacked"):
        raise ValueError(f"format expected 'binary' or 'unpacked', got {format!r}")


def _guards_of(header: dict[str, Any]) -> ArgumentGuards | None:
    """None for a graph that Dynamo guards."""
    return None if header.get("guards") is None else ArgumentGuards(header["guards"])


def _out_spec_of(header: dict[str, Any]) -> Any:
    """Structure of the outputs; None of outputs that are one flat list."""
    return None if header.get("outputs") is None else pytree.treespec_loads(header["outputs"])


def _flatten_outputs(gm: GraphModule) -> Any:
    """Makes a graph return one flat list, and returns the structure that its outputs had; None if they were flat.

    Raises:
        ValueError: the graph returns one value.
    """
    output = gm.graph.output_node()
    outputs = _structure_of(output.args[0])
    if not isinstance(outputs, (list, tuple, dict)):
        raise ValueError("gm expected to return a tuple or list, got a graph that returns one value")
    leaves, spec = pytree.tree_flatten(outputs)
    if type(outputs) in (list, tuple) and all(child.is_leaf() for child in spec.children()):
        return None
    output.args = (tuple(leaves),)
    gm.graph.eliminate_dead_code(lambda node: not _makes_named_tuple(node))
    gm.recompile()
    return spec


def _structure_of(outputs: Any) -> Any:
    """Outputs as a call of the graph returns them: torch.fx keeps lists and dicts in classes of its own, and named
    tuples as calls of theirs."""
    if isinstance(outputs, dict):
        return {key: _structure_of(value) for key, value in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return (list if isinstance(outputs, list) else tuple)(map(_structure_of, outputs))
    if isinstance(outputs, Node) and _makes_named_tuple(outputs):
        return cast("Any", outputs.target)(*map(_structure_of, outputs.args))
    return outputs


def _makes_named_tuple(node: Node) -> bool:
    return isinstance(node.target, type) and pytree.is_namedtuple_class(node.target) and not node.kwargs


def _read_header(data: bytes, source: str) -> dict[str, Any]:
    """A header that says all that it has to."""
    try:
        header: Any = json.loads(data.decode())
        kinds = {name: type(header[name]) for name in ("torch", "key", "options")}
        if kinds != {"torch": str, "key": str, "options": dict}:
            raise TypeError(f"it holds {', '.join(f'{name} of type {kind.__name__}' for name, kind in kinds.items())}")
        _guards_of(header)
        _out_spec_of(header)
    except KeyError as error:
        raise ArtifactError("load", f"{source} is damaged: it does not hold {error}") from None
    except (ValueError, TypeError, SyntaxError) as error:
        raise ArtifactError("load", f"{source} is damaged: {error}") from None
    return dict(header)


def _write_entries(folder: Path, entries: Entries) -> None:
    cache = _C.DiskCache(str(folder), 0, [])
    for name, content in entries.items():
        kind, _, key = name.partition("/")
        if name == _PARAMETERS:
            continue
        cache.write(kind, bytes.fromhex(key), content)
    _C.flush_disk_cache()


def _entries_of(folder: Path) -> Entries:
    _C.flush_disk_cache()
    cache = _C.DiskCache(str(folder), 0, [])
    found = {}
    for kind, name, *_ in _C.cache_entries(str(folder)):
        content = cache.read(kind, bytes.fromhex(name)) if name else None
        if content is not None:
            found[f"{kind}/{name}"] = content
    return found


def _from_file(place: Path, source: str) -> CompiledArtifact:
    try:
        file = _C.open_package(str(place))
        file.verify()
        metadata = json.loads(file.metadata)
        entries = {str(name): file.blob(number) for name, number in metadata.get("entries", {}).items()}
    except TileError as error:
        reason = error.text.removeprefix(f"'{place}': ")
        raise ArtifactError("load", f"{source} is no artifact of torch_tile that can be used: {reason}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ArtifactError("load", f"{source} is damaged: {error}") from None
    if "artifact" not in metadata:
        raise ArtifactError("load", f"{source} is a packaged model: torch_tile.aot.load loads it")
    header = _read_header(json.dumps(metadata["artifact"]).encode(), source)
    with tempfile.TemporaryDirectory(prefix="torch-tile-artifact-") as folder:
        _write_entries(Path(folder) / "cache", entries)
        return CompiledArtifact(_load(header, entries, str(Path(folder) / "cache"), source), header, entries)


def _load(header: dict[str, Any], entries: Entries, folder: str, source: str) -> Callable[..., Any]:
    if header["torch"] != torch.__version__:
        raise ArtifactError(
            "load", f"{source} was made with torch {header['torch']}, and this is torch {torch.__version__}"
        )
    # It takes private parts of torch's, which other versions may not have.
    from torch_tile.frontend import autograd_cache

    try:
        settings = config.resolve(None, header["options"])
    except OptionError as error:
        raise ArtifactError("load", f"{source} is damaged, or made by another version of torch_tile: {error}") from None
    later = settings
    settings = settings.changed(cache_layers=os.pathsep.join([folder, *settings.cache_layers()]))
    settings.after_loading = later
    cache = _C.DiskCache("", 0, [folder])
    context = TracingContext.try_get() or TracingContext(FakeTensorMode(shape_env=ShapeEnv()))
    with tracing(context):
        loaded = autograd_cache.load_artifact(header["key"], cache, settings, reloaded)
    disk_cache.report()
    if loaded is None:
        raise ArtifactError("load", f"{source} holds no sound entry of its graph")

    parameters = _loaded_parameters(entries[_PARAMETERS], source) if _PARAMETERS in entries else []

    def call(*arguments: Any) -> Any:
        return loaded([*parameters, *arguments])

    return call


def _saved_parameters(gm: Any) -> bytes | None:
    """What AOTAutograd puts before the inputs of a graph: tensors that the graph holds itself; None if it has none."""
    if not isinstance(gm, GraphModule):
        return None
    named = dict([*gm.named_parameters(remove_duplicate=False), *gm.named_buffers(remove_duplicate=False)])
    if not named:
        return None
    buffer = io.BytesIO()
    torch.save([(value.detach(), value.requires_grad) for value in named.values()], buffer)
    return buffer.getvalue()


def _loaded_parameters(data: bytes, source: str) -> list[torch.Tensor]:
    try:
        return [value.requires_grad_(flag) for value, flag in torch.load(io.BytesIO(data), weights_only=True)]
    except Exception as error:
        raise ArtifactError("load", f"{source} is damaged: its parameters cannot be read: {error}") from None


@contextlib.contextmanager
def _recorded(settings: Settings) -> Iterator[tuple[Settings, Path]]:
    """Settings under which all that is compiled goes to a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="torch-tile-artifact-") as folder:
        place = Path(folder) / "cache"
        recorded = settings.changed(cache=True, cache_dir=str(place), cache_layers="", cache_limit_bytes=0)
        recorded.artifact_key, recorded.real_inputs = uuid.uuid4().hex, settings.real_inputs
        yield recorded, place


def compile_artifact(gm: GraphModule, example_inputs: Sequence[Any], settings: Settings) -> CompiledArtifact:
    """A graph of Dynamo's, compiled with its backward if it has one, under the caller's tracing context."""
    with _recorded(settings) as (recorded, folder):
        with functorch_config.patch(
            force_non_lazy_backward_lowering=True, bundled_autograd_cache=False, strict_autograd_cache=False
        ):
            function = compile_with_autograd(gm, example_inputs, recorded)
        entries = _entries_of(folder)
        if (parameters := _saved_parameters(gm)) is not None:
            entries[_PARAMETERS] = parameters
        options = {
            name: value
            for name, value in settings.items()
            if name not in _OF_THIS_MACHINE and not config.KNOBS[name].is_pass and value != config.KNOBS[name].default
        }
        header = {"torch": torch.__version__, "key": recorded.artifact_key, "options": options}
        reason = ""
        if not any(name.startswith("autograd/") for name in entries):
            reason = f"the graph cannot be kept: {recorded.reason_against_keeping or 'it runs in eager mode'}"
            if not torch.__version__.startswith(CACHED_VERSIONS):
                reason = f"graphs are kept with torch {CACHED_VERSIONS[0]}*, and this is torch {torch.__version__}"
        return CompiledArtifact(function, header, entries, reason)


def _inputs_of(gm: GraphModule, inputs: Sequence[Any], dynamic_shapes: str, mode: Any) -> list[Any]:
    """Example inputs as they are traced: which of their sizes are symbols is what `dynamic_shapes` says."""
    if dynamic_shapes == "from_graph":
        return fake_inputs(gm, inputs, mode)
    if dynamic_shapes == "from_example_inputs":
        return [static(x, mode) if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor) else x for x in inputs]
    return [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs]


def _fake_mode(gm: GraphModule, inputs: Sequence[Any], dynamic_shapes: str) -> Any:
    if dynamic_shapes == "from_tracing_context":
        return TracingContext.get().fake_mode
    if dynamic_shapes == "from_graph":
        values = [n.meta.get("example_value", n.meta.get("val")) for n in gm.graph.nodes]
        modes = {id(value.fake_mode): value.fake_mode for value in values if isinstance(value, FakeTensor)}
        # A graph that was traced with real tensors has a mode for each value, and no size of it is dynamic.
        return next(iter(modes.values())) if len(modes) == 1 else FakeTensorMode(shape_env=ShapeEnv())
    if dynamic_shapes == "from_example_inputs":
        return next((x.fake_mode for x in inputs if isinstance(x, FakeTensor)), FakeTensorMode(shape_env=ShapeEnv()))
    raise ValueError(
        f"dynamic_shapes expected 'from_graph', 'from_example_inputs' or 'from_tracing_context', got {dynamic_shapes!r}"
    )


def standalone_compile(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    dynamic_shapes: Literal["from_example_inputs", "from_tracing_context", "from_graph"] = "from_graph",
    options: dict[str, Any] | None = None,
) -> CompiledArtifact:
    """Compile a graph ahead of the calls, as torch._inductor.standalone_compile does. Needs torch 2.13.

    Args:
        gm: a graph with flat inputs, as Dynamo captures it or make_fx makes it. It returns a tuple, list or dict, which
            may hold others. It is not changed.
        example_inputs: its inputs.
        dynamic_shapes: where it is said which sizes are dynamic: the fake tensors of the graph, the example inputs
            themselves (those of fake tensors that are symbols), or the tracing context of the caller. Calls with other
            sizes are refused.
        options: as for torch.compile.

    Returns:
        A callable with `save`; `CompiledArtifact.load` reads what that wrote, in any process.

    Raises:
        torch_tile.OptionError: an option that is not known, or a value that is not accepted.
        TypeError: `gm` is no graph.
        ValueError: the graph returns one value, or has other inputs.
    """
    settings = settings_of(None, options)
    if not isinstance(gm, GraphModule):
        raise TypeError(
            f"gm expected a torch.fx.GraphModule, got {type(gm).__name__}; make_fx(function)(*inputs) makes one"
        )
    gm = copy.deepcopy(gm)
    out_spec = _flatten_outputs(gm)
    check_inputs(gm, example_inputs)
    mode = _fake_mode(gm, example_inputs, dynamic_shapes)
    inputs = _inputs_of(gm, example_inputs, dynamic_shapes, mode)
    settings.real_inputs = example_inputs
    with tracing(TracingContext(mode)):
        artifact = compile_artifact(gm, inputs, settings)
    artifact._take(ArgumentGuards.of(gm, inputs, mode.shape_env), out_spec)
    return artifact
