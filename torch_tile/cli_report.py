"""python -m torch_tile report: one HTML page on what a program compiled, from a run of it or from its trace."""

from __future__ import annotations

import argparse
import os
import sys
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
    parser.add_argument("arguments", nargs="*", help="of the script")
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), help="default: report.html")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """The script's exit status; 1 where there is nothing to report on, 2 where nothing can be written."""
    from torch_tile.debug.report import collect, entries, page

    folder = arguments.output.parent
    if not folder.is_dir():
        print(f"torch_tile report: there is no folder {folder} to write {arguments.output.name} into", file=sys.stderr)
        return 2
    source: Path = arguments.source or Path(os.environ.get("TORCH_TRACE", "."))
    try:
        if source.suffix == ".py":
            trace = collect.of_script(source, arguments.arguments)
        else:
            file = entries.newest(source) if source.is_dir() else source
            trace = entries.read(entries.read_file(file), file.name)
    except (TileError, OSError) as error:
        print(f"torch_tile report: {getattr(error, 'text', error)}", file=sys.stderr)
        return 1
    if not trace.graphs:
        print(f'torch_tile report: {source} compiled no graph with backend="tile"', file=sys.stderr)
        return trace.status or 1
    text = page.write_page(trace)
    arguments.output.write_text(text, encoding="utf-8")
    count = f"{len(trace.graphs)} graph" + "s" * (len(trace.graphs) != 1)
    print(f"{arguments.output}: {count}, {len(text.encode()) / 1e6:.2f} MB")
    return trace.status
