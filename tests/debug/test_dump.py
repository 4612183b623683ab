"""TORCH_COMPILE_DEBUG=1: the folder says how to read it, times are there, the script judges; perf maps."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

from tests import processes
from tests.compiling import IS_TILE, ROOT

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)

PROGRAM = """
import os, sys
import torch
def f(x, w, i):
    return torch.softmax((x @ w)[i], -1)
function = torch.compile(f, backend="tile", options={"strict": True})
x, w = torch.full((5, 7), 3.0), torch.full((7, 9), 0.5)
function(x, w, torch.tensor([1, 4, 4]))
import torch_tile
import torch_tile.language as tl
from torch_tile import _C
print(os.getpid())
"""


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("dumps")
    environment = {
        **os.environ, "TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(folder), "TORCH_TILE_PERF_MAP": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (graph,) = (path.parent for path in folder.rglob("90-run.py"))
    return graph, done


def run_script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return processes.run(folder / "90-run.py", *arguments)


def test_says_where(dumped: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = dumped
    assert f"torch_tile: every stage is written to {folder.parent}; begin with index.md" in done.stderr


def test_pages_say_what_to_read(dumped: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = dumped
    page = (folder / "index.md").read_text()
    listed = re.findall(r"^\d+\. `([^`]*)`", page, re.MULTILINE)
    assert listed[0] == "kernels.txt" and listed[-1] == "90-run.py"
    assert set(listed) <= {path.name for path in folder.iterdir()} | {"inputs.pt"}
    assert {path.name for path in folder.iterdir()} <= set(re.findall(r"`([^`]*)`", page)) | {"index.md", "inputs.pt"}
    pages = (folder.parent / "index.md").read_text()
    assert f"[{folder.name}]({folder.name}/index.md) | inference | 1 | 1 |" in pages


def test_times_of_kernels(dumped: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = dumped
    rows = [line.split(" | ") for line in (folder / "kernels.txt").read_text().splitlines()]
    (kernel,) = [row for row in rows if row[0].startswith("fused_")]
    assert re.search(r"lower \d+\.\d+, .*emit \d+\.\d+, .*total \d+\.\d+$", kernel[3])
    (whole,) = [row[0] for row in rows if row[0].startswith("whole graph")]
    assert re.search(r"fusion \d+\.\d+, .*total \d+", whole)
    assert (folder / "20-fusion.txt").read_text().startswith("lines are those of 05-import.mlir\n")


def test_script_passes_and_fails(dumped: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = dumped
    done = run_script(folder, "--time")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[0] == "arguments: of the first call"
    assert done.stdout.splitlines()[-1] == "PASS"
    assert re.search(r"^eager: \d+\.\d+ ms\ntile: \d+\.\d+ ms$", done.stdout, re.MULTILINE)
    script = folder / "90-run.py"
    text = script.read_text()
    # A program that gives something else.
    script.write_text(text.replace("run(compiled, inputs)", "{k: x + 0.1 for k, x in run(compiled, inputs).items()}"))
    try:
        done = run_script(folder, "--random")
        assert done.returncode == 1 and done.stdout.splitlines()[-1] == "FAIL"
        assert "arguments: random" in done.stdout and "<-- FAIL" in done.stdout
    finally:
        script.write_text(text)
    done = run_script(folder, "--help")
    assert done.returncode == 0 and "--time" in done.stdout and "PASS or FAIL" in done.stdout


def test_script_of_a_backward_graph_has_its_arguments(tmp_path: Path) -> None:
    """Random masks and indices would be zeros, behind which no result is wrong."""
    program = """
import torch
x = torch.randn(8, 16, requires_grad=True)
torch.compile(lambda x: torch.dropout(x.exp(), 0.5, True), backend="tile")(x).sum().backward()
"""
    environment = {**os.environ, "TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, timeout=300)
    (folder,) = (path.parent for path in tmp_path.rglob("90-run.py") if "backward" in path.parent.name)
    done = run_script(folder)
    assert done.stdout.splitlines()[0] == "arguments: of the first call", done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "PASS"
    assert not re.search(r"largest difference \S+ of 0\.0\b", done.stdout)


def dumps_of(program: str, folder: Path) -> Path:
    """The folder of the one graph of a program."""
    environment = {**os.environ, "TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, timeout=300)
    (graph,) = (path.parent for path in folder.rglob("90-run.py"))
    return graph


FROZEN = """
import torch
module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
function = torch.compile(module, backend="tile", options={"freezing": True, "strict": True})
with torch.no_grad():
    x = torch.full((2, 8), 3.0)
    torch.testing.assert_close(function(x), module(x))
"""


def test_script_of_a_frozen_graph_has_its_constants(tmp_path: Path) -> None:
    folder = dumps_of(FROZEN, tmp_path)
    assert torch.equal(torch.load(folder / "inputs.pt")[0], torch.full((2, 8), 3.0))
    constants = torch.load(folder / "constants.pt")
    assert all(value.abs().max() > 0 for value in constants.values())
    assert {(folder / name).stat().st_mode & 0o777 for name in ("inputs.pt", "constants.pt")} == {0o600}
    page = (folder / "index.md").read_text()
    assert "`constants.pt`" in page and "`inputs.pt`" in page
    done = run_script(folder)
    assert done.stdout.splitlines()[:2] == ["arguments: of the first call", "constants: of the graph"], done.stderr
    assert done.stdout.splitlines()[-1] == "PASS"
    assert not re.search(r"largest difference \S+ of 0\.0\b", done.stdout)


def test_script_without_constants_takes_random_ones_and_says_so(tmp_path: Path) -> None:
    folder = dumps_of(FROZEN, tmp_path)
    (folder / "constants.pt").unlink()
    done = run_script(folder)
    assert "constants: random, not those of the program" in done.stdout.splitlines(), done.stderr
    assert done.stdout.splitlines()[-1] == "PASS"
    assert not re.search(r"largest difference \S+ of 0\.0\b", done.stdout)


@pytest.mark.parametrize(
    "function",
    [
        "def function(x, y):\n    x.mul_(2)\n    return y + 1",
        "buffer = torch.ones(4)\ndef function(x, y):\n    buffer.add_(x)\n    return y + 1",
    ],
    ids=["argument", "buffer"],
)
def test_script_compares_what_the_graph_writes(function: str, tmp_path: Path) -> None:
    program = f"import torch\n{function}\ntorch.compile(function, backend='tile')(torch.ones(4), torch.ones(2, 3))"
    folder = dumps_of(program, tmp_path)
    done = run_script(folder)
    assert done.stdout.splitlines()[-1] == "PASS", done.stderr
    assert re.search(r"^argument \d after the call: \(4,\) torch.float32 largest difference", done.stdout, re.MULTILINE)
    script = folder / "90-run.py"
    wrong = "compiled = lambda *arguments: module(*[x.clone() for x in arguments])\n    is_right = compare_all"
    script.write_text(script.read_text().replace("is_right = compare_all", wrong, 1))
    done = run_script(folder)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "FAIL"
    assert re.search(r"^argument \d after the call: .*<-- FAIL$", done.stdout, re.MULTILINE)


def test_script_names_operators_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "defining.py").write_text("""import torch
@torch.library.custom_op("torch_tile_test_dump::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2
double.register_fake(torch.empty_like)
""")
    program = f"""
import sys, torch
sys.path.insert(0, {str(tmp_path)!r})
from defining import double
torch.compile(lambda x: double(x.sin()) + 1, backend="tile")(torch.ones(4))
"""
    folder = dumps_of(program, tmp_path / "dumps")
    done = run_script(folder)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.strip() == (
        "the graph calls operators that are not defined: torch_tile_test_dump::double (defined in "
        f"{tmp_path / 'defining.py'}, line 2); import the module that defines them at the line of "
        f"{folder / '90-run.py'} that says IMPORT HERE"
    )
    script = folder / "90-run.py"
    imported = f"sys.path.insert(0, {str(tmp_path)!r})\nimport defining\n# IMPORT HERE"
    script.write_text(script.read_text().replace("# IMPORT HERE", imported))
    done = run_script(folder)
    assert done.stdout.splitlines()[-1] == "PASS", done.stderr


def test_calls_have_reasons(dumped: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, _ = dumped
    assert "| aten::mm | library call (matrix product)" in (folder / "kernels.txt").read_text()


def test_perf_map(dumped: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = dumped
    path = Path(f"/tmp/perf-{int(done.stdout.split()[-1])}.map")
    lines = path.read_text().splitlines()
    path.unlink()
    entries = [re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) tile::(\S+)", line) for line in lines]
    assert entries and all(entries)
    assert any(entry[3].startswith("fused_") and int(entry[2], 16) > 50 for entry in entries if entry)


def test_perf_map_follows_no_link_and_waits_for_no_pipe(tmp_path: Path) -> None:
    """Everybody may make files in /tmp, under the name of any process."""
    script = """
        import os, sys, torch
        place, target = f"/tmp/perf-{os.getpid()}.map", sys.argv[1]
        os.symlink(target, place) if target else os.mkfifo(place)
        try:
            assert torch.compile(lambda x: x + 1, backend="tile")(torch.ones(9)).sum() == 18
        finally:
            os.unlink(place)
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    target = tmp_path / "target"
    target.write_text("")
    for argument in (str(target), ""):
        done = subprocess.run(
            [sys.executable, str(path), argument],
            cwd=ROOT, capture_output=True, text=True, timeout=100,
            env={**os.environ, "TORCH_TILE_PERF_MAP": "1", "TORCH_TILE_CACHE": "0", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "kernels have no names in perf" in done.stderr
    assert target.read_text() == ""


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.compile(lambda x: x + 1, backend='tile')(torch.ones(1)))"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(blocker)},
    )  # fmt: skip
    if done.returncode == 0:  # else torch's own dumps have failed
        assert "torch_tile: stages are not written to " in done.stderr and done.stdout.strip() == "tensor([2.])"


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    program = """
import torch
import torch._dynamo
for i in range(3):
    torch._dynamo.reset()
    torch.compile(lambda x: x + i, backend="tile", options={"debug": True, "strict": True})(torch.ones(4))
"""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TORCH_COMPILE_DEBUG")}
    environment["TORCH_COMPILE_DEBUG_DIR"] = str(blocker)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"torch_tile: stages are not written to {blocker}/")
    assert ": Not a directory: " in line and line.endswith("; TORCH_COMPILE_DEBUG_DIR names another folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_folder_that_cannot_be_searched(tmp_path: Path) -> None:
    program = """
import os, torch
import torch._inductor.config, torch_tile.frontend.compile  # files of root's
torch.compile(lambda x: x, backend="tile", options={"strict": True})(torch.ones(4))
os.setresuid(65534, 65534, 65534)
options = {"debug": True, "strict": True, "cache": False}
print(torch.compile(lambda x: x + 1, backend="tile", options=options)(torch.ones(1)))
"""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TORCH_COMPILE_DEBUG")}
    environment["TORCH_COMPILE_DEBUG_DIR"] = str(tmp_path)
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "tensor([2.])", done.stderr[-3000:]
    assert done.stderr.count("torch_tile: stages are not written to ") == 1 and "Permission denied" in done.stderr


def test_the_option_for_a_picture_writes_one(tmp_path: Path) -> None:
    """Inductor's name, without the variable that turns all of debugging on."""
    program = """
import torch
function = torch.compile(
    lambda x, w: torch.softmax(x @ w, -1), backend="tile", options={"strict": True, "trace.graph_diagram": True}
)
function(torch.ones(5, 7), torch.ones(7, 9))
"""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TORCH_COMPILE_DEBUG")}
    environment["TORCH_COMPILE_DEBUG_DIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (picture,) = tmp_path.rglob("70-graph.svg")
    root = ElementTree.parse(picture).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    shown = " ".join(root.itertext())
    assert "fused_" in shown and "aten::mm" in shown, "a kernel and a call outside"
