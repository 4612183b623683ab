"""Bisection and torch's minifier: each names what a seeded mistake makes wrong."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compiling import ROOT, compiled, fresh, tile_only
from torch_tile import cli
from torch_tile.cli_bisect import Script, bisect, culprit, smallest
from torch_tile.debug import faults

pytestmark = tile_only


def test_smallest() -> None:
    for most in range(1, 20):
        for first in range(1, most + 1):
            asked: list[int] = []
            assert smallest(lambda n, first=first, asked=asked: asked.append(n) or n >= first, most) == first
            assert len(asked) <= most.bit_length() + 2
        assert smallest(lambda n: False, most) is None
    assert smallest(lambda n: True, 0) is None
    assert smallest(lambda n: True, 7) is None, "it fails with none, too"


def test_culprit() -> None:
    names = [str(n) for n in range(13)]
    for name in names:
        assert culprit(lambda without, name=name: name in without, names) == name
    assert culprit(lambda without: False, names) is None
    assert culprit(lambda without: True, []) is None
    # Two together: neither alone is the cause.
    assert culprit(lambda without: {"1", "9"} <= set(without), names) is None


class Simulated(Script):
    """A script of three graphs with five operators each, in which one operator is wrong under one pass."""

    def fails(
        self,
        without: Sequence[str] = (),
        graphs: int | None = None,
        kernels: int | None = None,
        operators: int | None = None,
        is_shown: bool = False,
    ) -> bool:
        self.num_runs += 1
        self.last = 3 if graphs is None else graphs
        is_in = (operators is None or operators >= 8) and (kernels is None or kernels >= 3)
        return self.last >= 2 and is_in and "epilogues" not in without

    def reported(self, kind: str) -> list[str]:
        if kind == "graph":
            return [str(n + 1) for n in range(3)]
        if kind == "kernel":
            return [f"{n + 1} kernel_{n} add.Tensor, mul.Tensor\tfile.py:{n}: x + {n}" for n in range(2 * self.last)]
        return [f"{n + 1} add_{n} aten.add.Tensor file.py:{n}: x + {n}" for n in range(5 * self.last)]


def test_what_bisection_says(capsys: pytest.CaptureFixture[str]) -> None:
    script = Simulated(["python", "script.py"], 1.0, Path("unused"))
    assert bisect(script) == 0
    said = capsys.readouterr().out
    assert "graph 2 of 3 is the first whose compilation makes it fail" in said
    assert "kernel 3 of 4 is the first: kernel_2, of add.Tensor, mul.Tensor  (file.py:2: x + 2)" in said
    assert "operator 8 of 10 is the first: add_7 = aten.add.Tensor  (file.py:7: x + 7)" in said
    assert "pass epilogues is the cause: without it the script succeeds" in said
    assert 'options={"disable_passes": "epilogues"} or TORCH_TILE_DISABLE_PASSES=epilogues' in said
    assert script.num_runs < 25


def bisect_file(path: Path, text: str, timeout: str) -> int:
    path.write_text(textwrap.dedent(text))
    return cli.main(["bisect", "--timeout", timeout, str(path)])


def test_a_script_that_takes_longer_than_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisect_file(tmp_path / "slow.py", "import time\ntime.sleep(30)", "0.5") == 1
    said = capsys.readouterr().out
    assert "it takes more than 0.5 seconds (--timeout), which counts as a failure" in said
    assert "with every graph in eager mode it takes more than 0.5 seconds, too: nothing can be said" in said
    assert "torch_tile is not the cause" not in said


def test_one_run_that_takes_longer_than_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    import os, time
    if os.environ.get("TORCH_TILE_ONLY_FIRST_GRAPHS") == "0":
        time.sleep(30)
    raise SystemExit(1)
    """
    assert bisect_file(tmp_path / "slow.py", text, "3") == 1
    said = capsys.readouterr().out
    assert "run 2 took more than 3 seconds, the first did not: nothing can be said; --timeout gives" in said


@pytest.mark.parametrize("timeout", ["-3", "0", "nan", "inf", "1e300", "long"])
def test_limits_that_are_no_seconds(timeout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bisect", f"--timeout={timeout}", str(tmp_path / "none.py")])
    assert f"expected seconds, a number above 0, got '{timeout}'" in capsys.readouterr().err


SCRIPT = """
import torch
from torch_tile.debug import faults

def first(x):
    return torch.exp(x) * 2

def second(x):
    y = torch.cos(x) + 1
    z = torch.relu(y - 1.5)   # this line is wrong
    return torch.tanh(z) * 3

x = torch.linspace(-2, 2, 65)
with faults.wrong_operator("aten.relu.default"{condition}):
    for function in (first, second):
        compiled = torch.compile(function, backend="tile", options={{"strict": True}})
        torch.testing.assert_close(compiled(x), function(x))
"""


def run_bisect(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    path.write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, "-m", "torch_tile", "bisect", str(path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=500,
    )  # fmt: skip


@pytest.mark.slow
def test_bisect_names_graph_operator_and_pass(tmp_path: Path) -> None:
    condition = ', lambda settings: "random" not in settings.disabled_passes()'
    done = run_bisect(tmp_path / "script.py", SCRIPT.format(condition=condition))
    assert done.returncode == 0, done.stdout + done.stderr
    for expected in (
        "graph 2 of 2 is the first",
        "kernel 2 of 2 is the first: ",
        "relu",
        "= aten.relu.default  (",
        "script.py:10: z = torch.relu(y - 1.5)",
        "pass random is the cause",
        'options={"disable_passes": "random"}',
    ):
        assert expected in done.stdout, done.stdout


@pytest.mark.slow
def test_bisect_names_random_numbers(tmp_path: Path) -> None:
    text = """
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4))
    x = torch.randn(8, 16)
    torch.manual_seed(1)
    expected = model(x)
    torch.manual_seed(1)
    torch.testing.assert_close(torch.compile(model, backend="tile")(x), expected, rtol=0, atol=1e-5)
    """
    done = run_bisect(tmp_path / "script.py", text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "graph 1 of 1 is the first" in done.stdout and "pass random is the cause" in done.stdout, done.stdout
    assert 'options={"disable_passes": "random"}' in done.stdout


@pytest.mark.slow
def test_bisect_where_nothing_is_wrong(tmp_path: Path) -> None:
    done = run_bisect(tmp_path / "right.py", "print('fine')")
    assert done.returncode == 2 and "nothing to find" in done.stdout
    done = run_bisect(tmp_path / "wrong.py", "raise SystemExit(3)")
    assert done.returncode == 1 and "torch_tile is not the cause" in done.stdout


def test_first_operators_alone_are_compiled() -> None:
    """What is beyond the number is a call outside; the result is the same."""
    from torch_tile import counters
    from torch_tile.debug import limits

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.relu(torch.cos(x) + 1) * 2)

    x = torch.linspace(-2, 2, 65)
    calls = []
    for number in range(6):
        fresh()
        limits._num_operators = 0
        torch.testing.assert_close(compiled(f, only_first_operators=number)(x), f(x))
        calls.append(int(counters["pycalls"]))
    assert calls == [5, 4, 3, 2, 1, 0]
    fresh()
    limits._num_graphs = 0
    function = compiled(f, only_first_graphs=0)
    torch.testing.assert_close(function(x), f(x))
    assert counters["graphs"] == 0 and counters["fallbacks"] == 0


def test_graphs_beyond_the_first_run_as_in_eager_mode() -> None:
    """With the random numbers of eager mode, forwards and backwards."""
    from torch_tile.debug import limits

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    results = []
    for function in (f, compiled(f, only_first_graphs=0)):
        limits._num_graphs = 0
        torch.manual_seed(0)
        x = torch.ones(1000, requires_grad=True)
        y = function(x)
        y.sum().backward()
        results.append((y, x.grad))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


def _cosine_for_sine(graph: torch.fx.Graph) -> None:
    for node in graph.nodes:
        if node.target is torch.ops.aten.sin.default:
            node.target = torch.ops.aten.cos.default


def test_passes_of_the_user_can_be_left_out() -> None:
    x = torch.linspace(-2, 2, 65)
    assert not torch.allclose(compiled(torch.sin, post_grad_pass=_cosine_for_sine)(x), torch.sin(x))
    fresh()
    function = compiled(torch.sin, post_grad_pass=_cosine_for_sine, disable_passes="user_passes")
    torch.testing.assert_close(function(x), torch.sin(x))


def test_first_kernels_alone_are_compiled() -> None:
    """Operators of what is beyond the number are calls outside, unless a kernel that is left has them, too."""
    from torch_tile import counters
    from torch_tile.debug import limits

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.relu(torch.cos(x) + 1) @ w
        return torch.softmax(torch.tanh(y) * 2, -1) @ w + x

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    with torch.no_grad():
        for number, (kernels, calls) in enumerate([(0, 7), (1, 4), (2, 1), (3, 0)]):
            fresh()
            limits._num_kernels = 0
            torch.testing.assert_close(compiled(f, only_first_kernels=number)(x, w), f(x, w))
            assert (counters["kernels"], counters["pycalls"]) == (kernels, calls)


def test_a_kernel_counts_as_often_as_it_is_launched(tmp_path: Path) -> None:
    from torch_tile.debug import limits

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.relu(x @ w + 1) @ w + 1)

    limits._num_kernels = 0
    x, report = torch.randn(8, 8), tmp_path / "report"
    with torch.no_grad():
        compiled(f, bisect_report=str(report), disable_passes="epilogues")(x, x)
    kernels = [line for line in report.read_text().splitlines() if line.startswith("kernel ")]
    assert len(kernels) == 2
    for number, line in enumerate(kernels, 1):
        what, _, source = line.partition("\t")
        assert what.startswith(f"kernel {number} ") and what.endswith(" add.Tensor, relu")
        assert "test_bisect.py:" in source and "torch.relu(torch.relu(x @ w + 1) @ w + 1)" in source


def test_every_pass_can_be_left_out() -> None:
    from torch_tile.debug.limits import PASSES

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return torch.nn.functional.glu(torch.nn.functional.gelu(y @ w)).to(torch.bfloat16) * 2

    x, w = torch.randn(2, 3, 16, 32), torch.randn(32, 32)
    for name in [*PASSES, "aten.glu.default", ",".join(PASSES)]:
        fresh()
        with torch.no_grad():
            torch.testing.assert_close(compiled(f, disable_passes=name)(x, w), f(x, w), rtol=2e-2, atol=2e-2)
    with pytest.raises(ValueError, match="got 'fuson'; the nearest is 'fusion'"):
        torch.compile(f, backend="tile", options={"disable_passes": "fuson"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("aten.gluu.default", "; the nearest is 'aten.glu.default'"),
        ("aten.glu", "; the nearest is 'aten.glu.default'"),
        ("glu.default", "; the nearest is 'aten.glu.default'"),
        ("aten.glu.nosuch", "; the nearest is 'aten.glu.default'"),
        ("aten.", ""),
        ("a.b.c", ""),
        ("fusion,torch.nn.Linear", ""),
    ],
)
def test_operators_that_do_not_exist_cannot_be_left_out(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r"option 'disable_passes' expected .* or operators like aten") as e:
        torch.compile(torch.sin, backend="tile", options={"disable_passes": name})
    assert f"got {name.split(',')[-1]!r}" in str(e.value) and hint in str(e.value)


def test_an_operator_without_a_decomposition_is_said(caplog: pytest.LogCaptureFixture) -> None:
    torch.compile(torch.sin, backend="tile", options={"disable_passes": "aten.mm.default"})
    assert "names aten.mm.default, which has no decomposition here: it has no effect" in caplog.text


# torch's minifier


@pytest.fixture
def minifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_config: Any) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    set_config(torch._dynamo.config, "debug_dir_root", str(tmp_path))
    with torch._dynamo.config.patch(repro_level=4):
        yield tmp_path
    torch._dynamo.config.repro_after = None


def wrong(x: torch.Tensor) -> torch.Tensor:
    y = torch.cos(x) + 1
    z = torch.relu(y - 1.5)
    return torch.tanh(z) * 3


def launcher(folder: Path) -> Path:
    found = list(folder.rglob("minifier_launcher.py"))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("after", ["aot", "dynamo"])
def test_accuracy_minifier_finds_a_wrong_operator(minifier: Path, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.linspace(-2, 2, 65)
    with faults.wrong_operator("aten.relu.default"):
        with torch._dynamo.config.patch(repro_after=after), pytest.raises(Exception, match="Bad accuracy detected"):
            compiled(wrong)(x)
        script = launcher(minifier)
        assert "aten.relu" in script.read_text() or "torch.relu" in script.read_text()
        fresh()
        monkeypatch.setattr(sys, "argv", [str(script)])
        runpy.run_path(str(script), run_name="__main__")
    smallest = (minifier / "repro.py").read_text()
    assert "relu" in smallest and "tanh" not in smallest and "cos" not in smallest, smallest


@pytest.mark.parametrize("needs_gradients", [False, True])
@pytest.mark.parametrize("is_right", [False, True])
def test_accuracy_minifier_behind_dynamo(minifier: Path, needs_gradients: bool, is_right: bool) -> None:
    x = torch.linspace(-2, 2, 65, requires_grad=needs_gradients)
    model = torch.nn.Sequential(torch.nn.Linear(65, 8)).requires_grad_(needs_gradients)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(model(x)) + 1

    options = {} if is_right else {"post_grad_pass": _cosine_for_sine}
    with torch._dynamo.config.patch(repro_after="dynamo"):
        if is_right:
            torch.testing.assert_close(compiled(f)(x), f(x))
        else:
            with pytest.raises(Exception, match="Bad accuracy detected"):
                compiled(f, **options)(x)
    assert len(list(minifier.rglob("minifier_launcher.py"))) == (0 if is_right else 1)


def test_minifier_says_nothing_about_what_is_right(minifier: Path) -> None:
    x = torch.linspace(-2, 2, 65, requires_grad=True)
    with torch._dynamo.config.patch(repro_after="aot"):
        y = compiled(wrong)(x)
        y.sum().backward()
    torch.testing.assert_close(y, wrong(x))
    assert not list(minifier.rglob("minifier_launcher.py"))


def test_minifier_of_failures(minifier: Path) -> None:
    x = torch.linspace(-2, 2, 65)
    after_aot = torch._dynamo.config.patch(repro_after="aot", repro_level=2)
    with faults.injected("view_inputs", "exception"), after_aot, pytest.raises(Exception, match="injected fault"):
        compiled(wrong)(x)
    assert launcher(minifier)
