"""python -m torch_tile bisect script.py: which pass, graph, kernel and operator make a script fail."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from torch_tile.debug import limits

_SWITCHES = (
    "TORCH_TILE_DISABLE_PASSES",
    "TORCH_TILE_ONLY_FIRST_GRAPHS",
    "TORCH_TILE_ONLY_FIRST_KERNELS",
    "TORCH_TILE_ONLY_FIRST_OPERATORS",
    "TORCH_TILE_BISECT_REPORT",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="list the passes that can be left out, and end")
    parser.add_argument("--timeout", type=_seconds, default=600.0, help="seconds of one run; beyond it the run fails")
    parser.add_argument(
        "script", nargs="?", help="a Python script that ends with another status than 0 when it is wrong"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"expected seconds, a number above 0, got {text!r}")
    return value


class OutOfTimeError(Exception):
    """A run has exceeded the limit, which is not how the script fails."""


def smallest(fails: Callable[[int], bool], most: int) -> int | None:
    """The least number in [1, most] at which `fails` begins to hold; None where it does not hold at the end, or holds
    at 0. In between it is asked at halves."""
    if most < 1 or not fails(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    # That nothing fails at 0 was taken for granted.
    return None if high == 1 and fails(0) else high


def culprit(helps: Callable[[Sequence[str]], bool], names: Sequence[str]) -> str | None:
    """The one of `names` whose absence helps, found by halves; None where the absence of all does not."""
    if not names or not helps(names):
        return None
    names = list(names)
    while len(names) > 1:
        half = names[: len(names) // 2]
        names = half if helps(half) else names[len(names) // 2 :]
    return names[0] if helps(names) else None


@dataclasses.dataclass
class Script:
    """A script, run again and again with parts of the compiler turned off."""

    command: list[str]
    timeout: float
    report: Path
    num_runs: int = 0
    is_out_of_time: bool = False
    """Whether the last run has exceeded the limit."""
    hangs: bool = False
    """Whether the failure that is looked for is to exceed it."""

    def fails(
        self,
        without: Sequence[str] = (),
        graphs: int | None = None,
        kernels: int | None = None,
        operators: int | None = None,
        is_shown: bool = False,
    ) -> bool:
        """Whether it fails with these passes left out, and these numbers of graphs, kernels and operators compiled.

        Raises:
            OutOfTimeError: it has exceeded the limit, and does not with everything compiled.
        """
        environment = {name: value for name, value in os.environ.items() if name not in _SWITCHES}
        environment["TORCH_TILE_DISABLE_PASSES"] = ",".join(without)
        environment["TORCH_TILE_BISECT_REPORT"] = str(self.report)
        if graphs is not None:
            environment["TORCH_TILE_ONLY_FIRST_GRAPHS"] = str(graphs)
        if kernels is not None:
            environment["TORCH_TILE_ONLY_FIRST_KERNELS"] = str(kernels)
        if operators is not None:
            environment["TORCH_TILE_ONLY_FIRST_OPERATORS"] = str(operators)
        self.report.write_text("", encoding="utf-8")
        self.num_runs += 1
        self.is_out_of_time = False
        try:
            done = subprocess.run(self.command, env=environment, capture_output=True, text=True, timeout=self.timeout)
        except subprocess.TimeoutExpired:
            self.is_out_of_time = True
            if self.num_runs == 1:
                self.hangs = True
            elif not self.hangs:
                raise OutOfTimeError from None
            return True
        if is_shown and done.returncode:
            print("".join(f"    {line}\n" for line in done.stderr.strip().splitlines()[-3:]), end="")
        return done.returncode != 0

    def reported(self, kind: str) -> list[str]:
        """What the last run compiled: a line for each graph, kernel or operator."""
        lines = self.report.read_text(encoding="utf-8").splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{kind} ")]


def _wrong_pass(script: Script) -> str | None:
    found = culprit(lambda names: not script.fails(names), list(limits.PASSES))
    if found != "decompositions":
        return found
    from torch_tile.frontend.decompositions import decomposition_table

    table = decomposition_table(True, True)
    ours = [str(op) for op, function in table.items() if str(function.__module__).startswith("torch_tile")]
    return culprit(lambda names: not script.fails(names), ours) or found


def run(arguments: argparse.Namespace) -> int:
    """Prints what was found. 0: something was; 1: the script fails without us; 2: it is right."""
    if arguments.list:
        for name, text in limits.PASSES.items():
            print(f"{name}: {text}")
        return 0
    if arguments.script is None:
        print("bisect needs a script: python -m torch_tile bisect script.py", file=sys.stderr)
        return 2
    if (problem := _unusable(arguments.script)) is not None:
        print(f"bisect: {problem}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="torch-tile-bisect-") as folder:
        command = [sys.executable, arguments.script, *arguments.arguments]
        script = Script(command, arguments.timeout, Path(folder) / "report")
        try:
            return bisect(script)
        except OutOfTimeError:
            print(
                f"run {script.num_runs} took more than {script.timeout:g} seconds, the first did not: nothing can be "
                "said; --timeout gives each run more"
            )
            return 1


def _unusable(script: str) -> str | None:
    """Why a file cannot be run at all."""
    if not os.path.isfile(script):
        return f"there is no file {script}"
    try:
        compile(Path(script).read_bytes(), script, "exec")
    except (SyntaxError, ValueError) as error:
        return f"{script} is no Python: {error}"
    return None


def bisect(script: Script) -> int:
    """As `run`, for a script."""
    print(f"running {' '.join(script.command[1:])}")
    if not script.fails(is_shown=True):
        print("the script ends with status 0: there is nothing to find")
        return 2
    if script.hangs:
        print(f"    it takes more than {script.timeout:g} seconds (--timeout), which counts as a failure")
    num_graphs = len(script.reported("graph"))
    if script.fails(graphs=0):
        if script.is_out_of_time:
            print(
                f"with every graph in eager mode it takes more than {script.timeout:g} seconds, too: nothing can be "
                "said; --timeout gives each run more"
            )
            return 1
        print("the script fails with every graph in eager mode, too: torch_tile is not the cause")
        return 1
    graph = smallest(lambda n: script.fails(graphs=n), num_graphs)
    if graph is None:
        print("the script does not fail every time: nothing can be said")
        return 1
    print(f"graph {graph} of {num_graphs} is the first whose compilation makes it fail")
    script.fails(graphs=graph)
    kernels, operators = script.reported("kernel"), script.reported("operator")
    _say_kernel(kernels, smallest(lambda n: script.fails(graphs=graph, kernels=n), len(kernels)))
    number = smallest(lambda n: script.fails(graphs=graph, operators=n), len(operators))
    if number is None:
        print("no single operator makes it fail: views, writes and calls outside are left")
    else:
        _, name, target, *source = operators[number - 1].split(" ", 3)
        print(f"operator {number} of {len(operators)} is the first: {name} = {target}{_at(source)}")
    wrong = _wrong_pass(script)
    if wrong is None:
        print("no pass is the cause: it fails with all of them left out")
    else:
        print(
            f"pass {wrong} is the cause: without it the script succeeds; {limits.PASSES.get(wrong, 'a decomposition')}"
        )
        print(f'until it is right: options={{"disable_passes": "{wrong}"}} or TORCH_TILE_DISABLE_PASSES={wrong}')
    print(f"{script.num_runs} runs")
    return 0


def _say_kernel(kernels: Sequence[str], number: int | None) -> None:
    if number is None:
        print("no single kernel makes it fail: views, writes and calls outside are left")
        return
    what, _, source = kernels[number - 1].partition("\t")
    _, name, *targets = what.split(" ", 2)
    print(f"kernel {number} of {len(kernels)} is the first: {name}, of {''.join(targets)}{_at([source])}")


def _at(source: Sequence[str]) -> str:
    return f"  ({source[0].strip()})" if source and source[0].strip() else ""
