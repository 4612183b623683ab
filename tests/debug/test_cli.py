"""python -m torch_tile: doctor, explain, env; tile-compile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import torch_tile
from tests.compiling import IS_TILE, ROOT
from torch_tile import cli, cli_doctor, config

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    status = cli.main(arguments)
    return status, capsys.readouterr().out


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    for command in ("cache", "doctor", "explain", "version", "env"):
        (line,) = [line for line in lines if line.split()[:1] == [command]]
        assert len(line.split()) > 3


def test_usage_names_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for called, name in (("/x/torch_tile/__main__.py", "python -m torch_tile"), ("/bin/torch-tile", "torch-tile")):
        monkeypatch.setattr(sys, "argv", [called])
        with pytest.raises(SystemExit):
            cli.main(["--help"])
        assert capsys.readouterr().out.startswith(f"usage: {name} [-h]")


def test_doctor(capsys: pytest.CaptureFixture[str], cache_dir: Path) -> None:
    status, text = run(capsys, "doctor")
    assert status == 0 and text.rstrip().endswith("no problems"), text
    for name in ("torch-tile", "torch", "compiler library", "processor", "threads", "GPU", "cache"):
        assert any(line.startswith(name) for line in text.splitlines()), name
    assert "this torch-tile was built for" in text
    (library,) = [line for line in text.splitlines() if line.startswith("compiler library")]
    assert "LLVM" in library and "+" not in library.partition("LLVM")[2] and len(library) < 120
    status, text = run(capsys, "doctor")
    assert f"cache             {cache_dir}, mode 0700, " in text and " entries of " in text


def test_doctor_of_a_build_that_does_not_say_its_torch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch_tile._build", None)  # an import of it fails
    text = run(capsys, "doctor")[1]
    assert "which torch this torch-tile was built for is not known" in text
    assert "build it again after an update of torch" in text and "another build" not in text


def test_cmake_package_of_a_checkout_that_was_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_tile, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(FileNotFoundError, match="cmake holds no CMake package of torch-tile: `make build` in the"):
        torch_tile.cmake_prefix_path()
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake" / "TorchTileConfig.cmake").write_text("")
    assert torch_tile.cmake_prefix_path() == str(tmp_path / "cmake")


def test_doctor_says_what_is_slow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", str(blocker / "cache"))
    monkeypatch.setenv("TORCH_TILE_FORCE_COMPILE", "1")
    with config.patch(fusion=False):
        status, text = run(capsys, "doctor")
    assert status == 1 and "no problems" not in text, text
    assert f"problem: nothing is kept in the cache, so every process compiles anew: {blocker} is not a folder" in text
    assert "slow: option `force_compile` is on: nothing is taken from the cache" in text
    assert "slow: option `fusion` is off: each operation is a kernel" in text


def test_doctor_finds_a_full_disk(cache_dir: Path) -> None:
    """An empty file can still be made on it."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    cache_dir.mkdir(exist_ok=True)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, before[1]))
    try:
        problem = cli_doctor._unwritable(cache_dir)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert problem == f"{cache_dir} cannot be written: File too large"
    assert cli_doctor._unwritable(cache_dir) is None


def test_doctor_finds_a_missing_library(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from torch_tile import _C; _C.set_compiler_library('/nowhere.so'); "
         "import sys; from torch_tile import cli; sys.exit(cli.main(['doctor']))"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
        # The extension's libraries come with torch.
        env={**os.environ, "PYTHONSTARTUP": ""},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "problem: the compiler library cannot be opened: cannot open torch-tile's compiler library: " in done.stdout
    assert done.stdout.rstrip().endswith("1 problems")


def test_env_says_where_values_come_from(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TILE_STRICT", "1")
    with config.patch(fusion=False):
        status, text = run(capsys, "env")
    assert status == 0
    assert "strict = True  (from the environment, TORCH_TILE_STRICT; bool, default False;" in text
    assert "fusion = False  (from code; bool, default True;" in text
    assert "poison = False  (from the default;" in text


def test_a_reader_that_stops() -> None:
    command = f"set -o pipefail; {sys.executable} -m torch_tile env | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert done.stderr == "" and done.stdout.count("\n") == 1


@pytest.mark.parametrize("command", ["env", "doctor", "version"])
def test_output_that_cannot_be_written(command: str) -> None:
    for redirection, why in ((">&-", "is closed"), (">/dev/full", "cannot be written: No space left on device")):
        shell = f"{sys.executable} -m torch_tile {command} {redirection}"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (1, f"python -m torch_tile: standard output {why}\n")


def test_explain_has_the_status_of_the_script_where_nobody_reads(tmp_path: Path) -> None:
    script = tmp_path / "many.py"
    script.write_text("import sys\nfor i in range(100000):\n    print(i)\n")
    command = f"set -o pipefail; {sys.executable} -m torch_tile explain {script} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert done.stdout == "0\n" and done.returncode == 1 and "BrokenPipeError" in done.stderr


COMPILES = "import torch\ntorch.compile(lambda x: x + 1, backend='tile')(torch.ones(3))\n"


def traceback_of(script: Path, line: int, code: str, error: str) -> str:
    """What Python shows, with the script's frame alone."""
    head = f'Traceback (most recent call last):\n  File "{script}", line {line}, in <module>\n'
    return f"{head}    {code}\n{error}\n"


def test_explains_a_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "f = torch.compile(lambda x: torch.softmax(x, -1).sort().values, backend='tile')\n"
        "f(torch.randn(5, 7))\n"
        "print('script', sys.argv[1:])\n"
        "sys.exit(3)\n"
    )
    status, text = run(capsys, "explain", str(script), "--flag", "x")
    assert status == 3
    assert text.splitlines()[0] == "script ['--flag', 'x']"
    assert "1 graph (inference), compiled in " in text and "aten::sort: library call (sorting), from " in text
    script.write_text("print('nothing')\n")
    status, text = run(capsys, "explain", str(script))
    assert status == 0 and text == 'nothing\nthe script compiles nothing with torch.compile(backend="tile")\n'
    script.write_text(COMPILES + "raise ValueError('of the script')\n")
    assert cli.main(["explain", str(script)]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("1 graph (inference), compiled in ")
    assert captured.err == traceback_of(script, 3, "raise ValueError('of the script')", "ValueError: of the script")
    script.write_text("import torch\ntorch.compile(lambda x: x * 2, backend='tile')(torch.eye(3).to_sparse())\n")
    status, text = run(capsys, "explain", str(script))
    assert status == 0 and "compiles nothing" in text and "; Dynamo left it to eager mode: " in text


def test_files_that_cannot_be_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script, missing = tmp_path / "script.py", tmp_path / "missing"
    assert cli.main(["bisect", str(missing)]) == 2
    assert f"bisect: there is no file {missing}" in capsys.readouterr().err
    script.write_text("x = (\n")
    assert cli.main(["bisect", str(script)]) == 2
    assert f"bisect: {script} is no Python: " in capsys.readouterr().err
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nraise SystemExit(3)\n")
    assert cli.main(["report", str(script), "-o", str(missing / "report.html")]) == 2
    assert f"there is no folder {missing}" in capsys.readouterr().err and not (tmp_path / "ran").exists()
    assert cli.main(["report", str(script), "-o", str(tmp_path / "report.html")]) == 3
    script.write_text(COMPILES + "raise SystemExit(4)\n")
    assert cli.main(["report", str(script), "-o", str(tmp_path / "report.html")]) == 4
    assert (tmp_path / "report.html").exists()
    captured = capsys.readouterr()
    assert "report.html: 1 graph, " in captured.out
    assert f"{script} ended with status 4; the report shows what it did up to there" in captured.err


def test_outputs_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script, output = tmp_path / "script.py", tmp_path / "report.html"
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    for given, text in {
        str(tmp_path): f"{tmp_path} is a folder; name a file in it: -o {output}",
        "/proc/x.html": "/proc/x.html cannot be written: ",
    }.items():
        assert cli.main(["report", str(script), "-o", given]) == 2
        assert f"torch_tile report: {text}" in capsys.readouterr().err
    assert cli.main(["report", str(script), "-o"]) == 2
    assert "-o expected a file to write" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists() and not output.exists()
    script.write_text(COMPILES + f"import os\nos.mkdir({str(output)!r})\n")
    assert cli.main(["report", str(script), "-o", str(output)]) == 1
    assert f"{output} cannot be written: Is a directory; name another file with -o" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "error"),
    [("int('x')", "ValueError: invalid literal for int() with base 10: 'x'"),
     ("open('/nowhere')", "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'")],
)  # fmt: skip
def test_report_of_a_script_that_raises(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, code: str, error: str
) -> None:
    script, output = tmp_path / "script.py", tmp_path / "report.html"
    script.write_text(COMPILES + code + "\n")
    assert cli.main(["report", str(script), "-o", str(output)]) == 1
    captured = capsys.readouterr()
    said = f"torch_tile report: {script} ended with {error}; the report shows what it did up to there\n"
    assert captured.err == traceback_of(script, 3, code, error) + said
    assert output.exists() and "1 graph, " in captured.out
    script.write_text(code + "\n")
    assert cli.main(["report", str(script), "-o", str(output)]) == 1
    assert f'compiled no graph with backend="tile"; it ended with {error}' in capsys.readouterr().err


def test_report_hands_arguments_to_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, output = tmp_path / "script.py", str(tmp_path / "report.html")
    script.write_text(COMPILES + "import sys\nprint(sys.argv[1:])\n")
    for before, after, given in (
        ([], ["--lr", "3", "--output", output], ["--lr", "3"]),
        ([], ["a=b", f"--output={output}", "--lr=3"], ["a=b", "--lr=3"]),
        (["-o", output], ["-h", "-o", "x"], ["-h", "-o", "x"]),
        ([], ["-o", output, "--", "-o", "x"], ["-o", "x"]),
    ):
        status, text = run(capsys, "report", *before, str(script), *after)
        assert status == 0 and text.splitlines()[0] == str(given) and f"{output}: 1 graph, " in text
    assert cli.main(["report", str(tmp_path), "--lr", "3"]) == 2
    assert f"{tmp_path} is no script (a .py file) that takes arguments: --lr 3" in capsys.readouterr().err


def test_report_of_files_that_are_no_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, output = tmp_path / "trace.log", str(tmp_path / "report.html")

    def said(content: bytes) -> str:
        file.write_bytes(content)
        assert cli.main(["report", str(file), "-o", output]) == 1
        return capsys.readouterr().err

    assert cli.main(["report", str(tmp_path / "nope")]) == 2
    assert f"there is no file {tmp_path / 'nope'}" in capsys.readouterr().err
    for content in (b"", bytes(range(256)) * 64, b"x] 5\n\tx\n"):
        assert f"{file} is no trace: it has no entry of TORCH_TRACE" in said(content)
    entry = b'V1 x.py:1] {"str": ["a.py", 0]}\nV1 x.py:2] {"has_payload": "900150983cd24fb0d6963f7d28e17f72"}\n\tabc\n'
    assert said(entry) == f'torch_tile report: {file} compiled no graph with backend="tile"\n'
    for size in (len(entry) - 3, len(entry) - 6, len(entry) - 20):
        assert 'compiled no graph with backend="tile"; it ends within an entry' in said(entry[:size])


def tile_compile(*arguments: str, text: str = "") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", "from torch_tile.tile_compile import main; main()", *arguments],
        cwd=ROOT, input=text.encode(), capture_output=True, timeout=300,
    )  # fmt: skip


GRAPH = """graph.func @graph(%0: !graph.tensor<[64], f32>) -> (!graph.tensor<[64], f32>) attributes {symbols = []} {
  %1 = graph.exp %0 : (!graph.tensor<[64], f32>) -> !graph.tensor<[64], f32>
  graph.return %1 : !graph.tensor<[64], f32>
}
"""


def test_tile_compile_gives_the_artifact_of_a_graph() -> None:
    import torch

    from torch_tile import _C

    done = tile_compile(text=GRAPH)
    assert done.returncode == 0, done.stderr
    x = torch.randn(64)
    torch.testing.assert_close(_C.load_artifact(done.stdout)([x])[0], x.exp())
    done = tile_compile("--emit=artifact", text="tile.kernel")
    assert done.returncode == 1 and b"expected a graph (graph.func) to emit an artifact of, got kernels" in done.stderr


def test_tile_compile_lists_its_own_options() -> None:
    done = tile_compile("--help")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0 and len(lines) < 45
    assert any("--emit" in line for line in lines) and any("05-import.mlir" in line for line in lines)
