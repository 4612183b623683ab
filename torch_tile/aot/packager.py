"""`torch_tile.aot.package`: an exported program into one file, compiled for each target."""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import torch
from torch.export import ExportedProgram

from torch_tile import _C, config
from torch_tile.aot import structures
from torch_tile.aot.lower import Lowered, lower
from torch_tile.config import Settings
from torch_tile.errors import OptionError, UnsupportedError
from torch_tile.frontend.options import check_left_out
from torch_tile.package_file import Source, Variant, Writer
from torch_tile.targets import gpu_targets

log = logging.getLogger(__name__)
_PROCESSORS = ("host", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")


def package(
    exported: ExportedProgram,
    path: str | os.PathLike[str],
    targets: str | Sequence[str] = ("host",),
    options: Mapping[str, Any] | None = None,
) -> str:
    """Compile an exported program and write it, with its constants, to one file.

    Args:
        exported: of `torch.export.export`, with `dynamic_shapes` where sizes may change.
        path: of the file, which is replaced as a whole.
        targets: one or several of "host", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4" and GPUs as "sm_90"; the best
            one for the machine is chosen when the file is loaded. Neither a GPU nor its tools are needed.
        options: as for `torch.compile(backend="tile", options=...)`. `freezing` computes with parameters now.

    Returns:
        The path.

    Raises:
        UnsupportedError: the program needs Python, or another kind of machine than the targets name.
        OptionError: an unknown target or option, or an option that a package cannot obey.
        TypeError: `exported` is no exported program, or `path` no path.
        OSError: the file cannot be written, as there is no folder for it, or `path` is one.
    """
    if not isinstance(exported, ExportedProgram):
        raise TypeError(
            f"exported expected an ExportedProgram, got {type(exported).__name__}; "
            "call torch.export.export(model, args) first"
        )
    settings = config.resolve(options=options)
    check_left_out(settings)
    _check_options(options or {})
    wanted = _names(targets)
    path = _checked(path)
    with _named(path):
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with open(descriptor, "w+b") as file:
        try:
            _write(exported, file, wanted, settings)
            file.flush()
            os.fchmod(descriptor, 0o666 & ~_umask())
            with _named(path):
                os.replace(unfinished, path)
        except BaseException:
            os.unlink(unfinished)
            raise
    return str(path)


# What a package cannot obey, and why.
_REFUSED = {
    "target": "its argument targets says what to compile for",
    "cudagraphs": "a packaged program is not recorded",
    "max_autotune": "libraries are chosen where the model is loaded, by rule",
    "shape_padding": "products of a packaged program are not padded",
    "matmul_library": "torch_tile.config.matmul_library says it in the process that loads the model",
    "deterministic": "call torch.use_deterministic_algorithms(True) in the process that loads the model",
    "nan_asserts": "results of a packaged program are not looked at",
    "poison": "buffers are those of the process that loads the model",
    "debug": "stages are not written; torch.compile of the same model writes them",
    "interpret": "kernels are compiled",
    **dict.fromkeys(
        ("only_first_graphs", "only_first_kernels", "only_first_operators", "bisect_report"),
        "bisection runs the model by torch.compile",
    ),
}
_WITHOUT_EFFECT = frozenset(
    ("cache", "cache_dir", "cache_layers", "cache_limit_bytes", "remote_cache", "force_compile", "threads")
)


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse what has no meaning for a package, rather than ignore it."""
    for given, name, value in config.translated(options):
        knob = config.KNOBS[name]
        reason = "call the pass on the exported program's graph before" if knob.is_pass else _REFUSED.get(name)
        if reason is not None and (value != knob.default or name == "target"):
            raise OptionError(f"option {given!r} is not obeyed by package: {reason}")
        if name in _WITHOUT_EFFECT and value != knob.default:
            log.warning("option %r has no effect on package: the model is compiled anew, without a cache", given)


def _names(targets: Any) -> list[str]:
    names = [targets] if isinstance(targets, str) else targets
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"targets expected a name or a list of names, got {targets!r}")
    if not names:
        raise OptionError("targets expected at least one, got none")
    for name in names:
        _facts(name)
    return list(dict.fromkeys(names))


def _checked(path: str | os.PathLike[str]) -> Path:
    """A place where a file can be, before the model is compiled for it."""
    try:
        checked = Path(path)
    except TypeError:
        raise TypeError(f"path expected a str or an os.PathLike of one, got {type(path).__name__}") from None
    if checked.is_dir():
        raise IsADirectoryError(errno.EISDIR, "package writes a file, and this is a folder", str(checked))
    if not checked.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no folder to write the package into", str(checked.parent))
    return checked


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors name the file that was asked for, not the one beside it that becomes it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot write the package: {error.strerror}", str(path)) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(exported: ExportedProgram, file: IO[bytes], wanted: list[str], settings: Settings) -> None:
    writer = Writer(file)
    lowered: dict[str, Lowered] = {}
    variants = []
    for target in wanted:
        features, architecture, device = _facts(target)
        if device not in lowered:
            _check_device(exported, device)
            lowered[device] = lower(exported, settings, device)
        variants.append(_variant(lowered[device], target, features, architecture, settings, writer))
    first = next(iter(lowered.values()))
    metadata = {
        "in_spec": structures.dumped(exported.call_spec.in_spec, "arguments"),
        "out_spec": structures.dumped(exported.call_spec.out_spec, "results"),
        "argument_names": structures.argument_names(exported),
        "literals": {str(place): value for place, value in first.literals.items()},
        "literal_names": {str(place): name for place, name in first.literal_names.items()},
        "outputs": first.outputs,
        "steps": first.steps,
        "guards": first.guards,
        "written": first.written,
        "versions": _C.version(),
    }
    from torch_tile import __version__

    writer.finish(f"torch-tile {__version__}", json.dumps(metadata), first.arguments, variants)


def _facts(target: str) -> tuple[list[str], str, str]:
    """Features that a machine must have, its architecture, and the device of tensors."""
    if target in gpu_targets():
        return [], "cuda", "cuda"
    features = None if target.startswith("sm_") else _C.processor_features(target)
    if features is None:
        known = [*_PROCESSORS, *gpu_targets()]
        nearest = difflib.get_close_matches(target.lower(), known, n=1, cutoff=0.85)
        hint = f" (the nearest: {nearest[0]})" if nearest else ""
        raise OptionError(f"unknown target {target!r}{hint}; known targets: {', '.join(known)}")
    architecture = _C.processor_architecture()
    if target != "host" and architecture != "x86_64":
        raise OptionError(f"target {target!r} is compiled for on x86-64 alone, and this is {architecture}")
    return features, architecture, "cpu"


def _check_device(exported: ExportedProgram, device: str) -> None:
    values = [*exported.state_dict.values(), *exported.constants.values()]
    values += [node.meta.get("val") for node in exported.graph.find_nodes(op="placeholder")]
    devices = {value.device.type for value in values if isinstance(value, torch.Tensor)}
    if not devices <= {"cpu", device}:
        raise UnsupportedError(
            "package",
            f"the program was exported on {', '.join(sorted(devices))}; export it on the CPU for other targets",
        )


def _variant(
    lowered: Lowered, target: str, features: list[str], architecture: str, settings: Settings, writer: Writer
) -> Variant:
    options = {**settings.compiler_options(), "target": target}
    code = _C.compile_artifact(lowered.text, options)
    facts = _C.describe_artifact(code)
    if not facts["needs_torch"] and any(name.startswith("Sleef_") for name in facts["functions"]):
        # libtorch_cpu has Sleef; a program that calls no operator should not need it for that alone.
        code = _C.compile_artifact(lowered.text, {**options, "sleef": "false"})
    inputs, packable = list[Source](), list[int]()
    for source in lowered.inputs:
        if isinstance(source, int):
            inputs.append(Source(False, source))
            continue
        number = writer.constant(source.name, source.tensor, source.is_written)
        inputs.append(Source(True, number))
        if source.is_packable and number not in packable:
            packable.append(number)
    log.info("%s: %d kernels, %d calls outside", target, facts["kernels"], len(facts["operators"]))
    sources = writer.sources(lowered.sources)
    return Variant(
        target, features, architecture, writer.blob(code), bool(facts["needs_torch"]), inputs, packable, sources
    )
