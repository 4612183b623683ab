"""python -m torch_tile: whether all is well, what a script compiles to, bisection, disk cache, versions, options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from torch_tile import cli_bisect, cli_cache, cli_doctor, cli_explain, cli_report, config


def _version(_: argparse.Namespace) -> int:
    import torch

    from torch_tile import _C, __version__

    print(f"torch_tile {__version__}\ntorch {torch.__version__}\npython {sys.version.split()[0]}")
    try:
        print(_C.version()["compiler"])
    except Exception as error:  # the library may be missing, and this command is how one finds out
        print(f"compiler library: {error}")
        return 1
    return 0


def _env(_: argparse.Namespace) -> int:
    status = 0
    for name, kind, default, variables, doc in config.table():
        try:
            value, source = config.value_and_source(name)
            print(f"{name} = {value!r}  (from {source}; {kind}, default {default}; {variables})\n    {doc}")
        except ValueError as error:
            print(f"{name}: {error}\n    {doc}")
            status = 1
    return status


def _program() -> str:
    """How this was called: `torch-tile`, or by module."""
    return "python -m torch_tile" if os.path.basename(sys.argv[0]) in ("__main__.py", "-m") else "torch-tile"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog=_program(), description=__doc__)
    commands = parser.add_subparsers(required=True)
    cli_cache.add_arguments(commands.add_parser("cache", help="show, check or clear the disk cache"))
    cli_bisect.add_arguments(commands.add_parser("bisect", help="which pass, graph and operator make a script fail"))
    cli_report.add_arguments(commands.add_parser("report", help="one HTML page on what a program compiled"))
    commands.add_parser("doctor", help="what is installed and there to run on, what would be slow or fail, and why"
                        ).set_defaults(run=cli_doctor.run)  # fmt: skip
    cli_explain.add_arguments(commands.add_parser("explain", help="run a script, and say what it compiles to"))
    commands.add_parser("version", help="versions of everything in use").set_defaults(run=_version)
    commands.add_parser("env", help="every option, its value, and where that comes from").set_defaults(run=_env)
    arguments = parser.parse_args(argv)
    if sys.stdout is None:
        print(f"{parser.prog}: standard output is closed", file=sys.stderr)
        return 1
    try:
        result: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough, such as `head`
        _write_nowhere()
        return getattr(arguments, "status", 0)
    except OSError as error:
        if error.filename is not None:
            raise
        _write_nowhere()
        print(f"{parser.prog}: standard output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return result


def _write_nowhere() -> None:
    """What is still to be written to standard output, at exit too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
