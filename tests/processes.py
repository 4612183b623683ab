"""Programs in processes of their own, forked from one that has torch's modules already.

`import torch` and `import torch._dynamo` take 5 s of a core, most of the time of a program that compiles a small graph.
A fork takes none of it. The process that forks has imported nothing of torch_tile and has computed nothing.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Variables that nothing has read in the forking process: a program may have others of these.
_READ_LATER = ("TORCH_TILE_", "PYTEST_")
_ENVIRONMENT = dict(os.environ)

_SERVER = r"""
import json, os, sys, types

def requests():
    rest = b""
    while read := os.read(0, 1 << 16):
        *lines, rest = (rest + read).split(b"\n")
        yield from map(json.loads, lines)

def forked():
    for request in requests():
        child = os.fork()
        if child == 0:
            return request
        os.write(1, b"%d\n" % child)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(1, b"%d\n" % status)
    os._exit(0)

import torch, torch._dynamo, torch._functorch.aot_autograd

request = forked()
for descriptor, path in enumerate((os.devnull, request["stdout"], request["stderr"])):
    file = os.open(path, os.O_RDWR)
    os.dup2(file, descriptor)
    os.close(file)
os.environ.clear()
os.environ.update(request["env"])
os.chdir(request["cwd"])
first, *sys.argv[1:] = request["arguments"]
main = sys.modules["__main__"] = types.ModuleType("__main__")
main.__builtins__ = __builtins__
if first == "-c":
    sys.argv[:2] = ["-c"]
    sys.path[0] = ""
    code = compile(request["arguments"][1], "<string>", "exec")
else:
    sys.argv[0] = main.__file__ = first
    sys.path[0] = os.path.dirname(os.path.abspath(first))
    with open(first, "rb") as file:
        code = compile(file.read(), first, "exec")
exec(code, main.__dict__)
"""


class _Server:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVER], cwd=ROOT, env=_ENVIRONMENT, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        atexit.register(self.process.kill)

    def run(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float) -> tuple[int, str, str]:
        assert self.process.stdin and self.process.stdout
        with tempfile.NamedTemporaryFile() as stdout, tempfile.NamedTemporaryFile() as stderr:
            request = {"arguments": arguments, "cwd": str(cwd), "env": dict(env)}
            request |= {"stdout": stdout.name, "stderr": stderr.name}
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            child = int(self.process.stdout.readline())
            poll = select.poll()  # not select(), which takes no descriptors above 1023
            poll.register(self.process.stdout, select.POLLIN)
            ends = poll.poll(timeout * 1000)
            if not ends:
                os.kill(child, signal.SIGKILL)
            status = int(self.process.stdout.readline())
            said = [Path(file.name).read_text(errors="replace") for file in (stdout, stderr)]
        if not ends:
            raise subprocess.TimeoutExpired(list(arguments), timeout, said[0].encode(), said[1].encode())
        return status, said[0], said[1]


# Two, one after the other: programs that share a cache on disk have other seeds for hashes, as those of users.
_servers: dict[int, _Server] = {}
_turns = itertools.cycle((0, 1))


def run(
    *arguments: str | Path,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 240,
    imports: bool = True,
) -> subprocess.CompletedProcess[str]:
    """As `python *arguments`, where these are a path or "-c" and a text, and then what the program gets.

    Args:
        imports: the program may begin with torch's modules in `sys.modules`. Not where what is imported, and when, is
            what a test is about.

    Raises:
        subprocess.TimeoutExpired: the program was killed after `timeout` seconds.
    """
    env = os.environ if env is None else env
    given = [str(argument) for argument in arguments]
    differ = {name for name, _ in _ENVIRONMENT.items() ^ env.items()}
    if not imports or not all(name.startswith(_READ_LATER) for name in differ):
        return subprocess.run(
            [sys.executable, *given], cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )
    turn = next(_turns)
    if turn not in _servers:
        _servers[turn] = _Server()
    return subprocess.CompletedProcess(given, *_servers[turn].run(given, cwd, env, timeout))
