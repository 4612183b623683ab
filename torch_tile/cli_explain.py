"""python -m torch_tile explain SCRIPT: runs a script and says what its torch.compile(backend="tile") came to."""

from __future__ import annotations

import argparse
import os
import runpy
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the script and its options."""
    parser.add_argument("--verbose", action="store_true", help="everything, not only the first ten lines")
    parser.add_argument("script", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is called with")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """The script's exit status."""
    if not os.path.isfile(arguments.script):
        print(f"explain: there is no file {arguments.script}", file=sys.stderr)
        return 2
    from torch_tile.debug.explain import recorded

    before = sys.argv, list(sys.path)
    sys.argv = [arguments.script, *arguments.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(arguments.script))
    status = 0
    raised = True
    try:
        with recorded() as explanation:
            try:
                runpy.run_path(arguments.script, run_name="__main__")
                raised = False
            except SystemExit as end:
                raised = False
                status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
                if isinstance(end.code, str):
                    print(end.code, file=sys.stderr)
    finally:
        sys.argv, sys.path[:] = before
        if raised and explanation.graphs:  # what came before the traceback
            print(explanation)
    explanation.verbose = arguments.verbose
    if explanation.graphs:
        print(explanation)
    else:
        print('the script compiles nothing with torch.compile(backend="tile")')
    return status
