"""python -m torch_tile explain SCRIPT: runs a script and says what its torch.compile(backend="tile") came to."""

from __future__ import annotations

import argparse
import os
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
    from torch_tile.debug import scripts
    from torch_tile.debug.explain import recorded

    with recorded() as explanation:
        end = scripts.run(arguments.script, arguments.arguments)
    arguments.status = end.status  # whatever becomes of the output
    explanation.verbose = arguments.verbose
    if explanation.graphs:
        print(explanation)
    else:
        before = f" before it ended with {end.text}" if end.text else ""
        reason = f"; {explanation.reason_of_eager}" if explanation.reason_of_eager else ""
        print(f'the script compiles nothing with torch.compile(backend="tile"){before}{reason}')
    return end.status
