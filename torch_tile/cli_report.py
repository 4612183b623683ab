"""python -m torch_tile report: one HTML page on what a program compiled, from a run of it or from its trace."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from torch_tile.errors import TileError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        nargs="?",
        type=Path,
        help="a script to run, a file or folder of TORCH_TRACE, or a folder with torch_compile_debug; "
        "without it the newest trace of $TORCH_TRACE or of this folder",
    )
    parser.add_argument("-o", "--output", type=Path, help="default: report.html")
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        help="what the script is called with; of these, -o is the report's unless one stands before the script or `--` "
        "before the arguments",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """The script's exit status; 1 where there is nothing to report on, 2 where the command line is wrong."""
    try:
        output, of_script = _output(arguments)
        source = _source(arguments, of_script)
        _check_output(output)
    except ValueError as error:
        return _failed(str(error), 2)
    from torch_tile.debug.report import collect, entries, page

    place = os.path.abspath(output)  # the script may go to another folder
    if source.suffix == ".py":
        trace = collect.of_script(source, of_script)
    else:
        try:
            trace = entries.read_file(entries.newest(source) if source.is_dir() else source)
        except (TileError, OSError) as error:
            return _failed(getattr(error, "text", str(error)))
    ended = f"ended with {trace.end.text}" if trace.end.text else "ends within an entry" if trace.is_cut else ""
    if not trace.graphs:
        before = f"; it {ended}" if ended else ""
        return _failed(f'{source} compiled no graph with backend="tile"{before}', trace.end.status or 1)
    text = page.write_page(trace)
    try:
        Path(place).write_text(text, encoding="utf-8")
    except OSError as error:
        return _failed(f"{output} cannot be written: {error.strerror}; name another file with -o, and run it again")
    if ended:
        what = "did" if trace.end.text else "says"
        print(f"torch_tile report: {source} {ended}; the report shows what it {what} up to there", file=sys.stderr)
    count = f"{len(trace.graphs)} graph" + "s" * (len(trace.graphs) != 1)
    print(f"{output}: {count}, {len(text.encode()) / 1e6:.2f} MB")
    return trace.end.status


def _failed(text: str, status: int = 1) -> int:
    print(f"torch_tile report: {text}", file=sys.stderr)
    return status


def _output(arguments: argparse.Namespace) -> tuple[Path, list[str]]:
    """Where the report goes, and arguments of the script.

    Raises:
        ValueError: -o stands at the end.
    """
    given = list(arguments.arguments)
    output: Path | None = arguments.output
    if output is not None:
        return output, given
    of_script: list[str] = []
    while given and given[0] != "--":
        name, is_joined, value = given.pop(0).partition("=")
        if name not in ("-o", "--output") or (is_joined and name == "-o"):
            of_script.append(name + is_joined + value)
        elif is_joined or given:
            output = Path(value if is_joined else given.pop(0))
        else:
            raise ValueError(f"{name} expected a file to write")
    return output or Path("report.html"), of_script + given[1:]


def _source(arguments: argparse.Namespace, of_script: Sequence[str]) -> Path:
    """A script or a trace that is there.

    Raises:
        ValueError: it is not, or has arguments and is no script.
    """
    source: Path = arguments.source or Path(os.environ.get("TORCH_TRACE") or ".")
    if not (os.path.isfile(source) or (source.suffix != ".py" and os.path.isdir(source))):
        raise ValueError(f"there is no file {source}")
    if of_script and source.suffix != ".py":
        raise ValueError(f"{source} is no script (a .py file) that takes arguments: {' '.join(of_script)}")
    return source


def _check_output(output: Path) -> None:
    """Finds out before a script runs for long.

    Raises:
        ValueError: the file cannot be written.
    """
    if os.path.isdir(output):
        raise ValueError(f"{output} is a folder; name a file in it: -o {output / 'report.html'}")
    if not os.path.isdir(output.parent):
        raise ValueError(f"there is no folder {output.parent} to write {output.name} into")
    is_new = not os.path.lexists(output)
    if not is_new and not os.path.isfile(output):
        return  # opening a pipe would wait for its reader
    try:
        output.open("ab").close()
        if is_new:
            output.unlink()
    except OSError as error:
        raise ValueError(f"{output} cannot be written: {error.strerror}; name another file with -o") from None
