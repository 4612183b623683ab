"""Runs torch's operator database under the backend, in worker processes that may crash or hang, one row per check.

python -m tests.ops.sweep --out rows.jsonl [--match REGEX] [--kinds forward,gradient] [--dtypes float32] [--count 3]
TORCH_TILE_TEST_BACKEND=aot_eager python -m tests.ops.sweep --out reference.jsonl
TORCH_TILE_TEST_DEVICE=cuda python -m tests.ops.sweep --out part3.jsonl --shard 3/16
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def work(arguments: argparse.Namespace) -> None:
    """The worker: rows to the file, and to the parent what is being tried."""
    import torch

    from tests.ops import opinfo

    torch.set_num_threads(1)
    chosen = [op for op in opinfo.operators() if re.search(arguments.match, opinfo.name_of(op))]
    part, parts = map(int, arguments.shard.split("/"))
    chosen = chosen[part::parts]
    wanted = arguments.dtypes.split(",") if arguments.dtypes else []
    with open(arguments.out, "a") as out:
        for position, op in enumerate(chosen):
            if position < arguments.start:
                continue
            for dtype in opinfo.pairs(op):
                name = str(dtype).removeprefix("torch.")
                if wanted and name not in wanted:
                    continue
                for kind in arguments.kinds.split(",") if arguments.kinds else opinfo.KINDS:
                    print(json.dumps([position, opinfo.name_of(op), name, kind]), flush=True)
                    begin = time.perf_counter()
                    outcome = opinfo.check(op, dtype, kind, arguments.count)
                    row = {"op": opinfo.name_of(op), "dtype": name, "kind": kind, **dataclasses.asdict(outcome)}
                    row["seconds"] = round(time.perf_counter() - begin, 3)
                    if outcome.status != "skipped":
                        out.write(json.dumps(row) + "\n")
                        out.flush()
                    if opinfo.DEVICE != "cpu":
                        torch.cuda.synchronize()  # a kernel that failed ends the process: the next one starts afresh


def supervise(arguments: argparse.Namespace) -> None:
    """Starts workers until the database is through; an operator that ends one or takes too long is noted and passed."""
    start = arguments.start
    while True:
        command = [sys.executable, "-m", "tests.ops.sweep", "--worker", "--start", str(start), "--out", arguments.out]
        command += ["--match", arguments.match, "--kinds", arguments.kinds, "--dtypes", arguments.dtypes]
        command += ["--count", str(arguments.count), "--shard", arguments.shard]
        worker = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE if not arguments.loud else None
        )
        assert worker.stdout is not None
        current, why, buffer = None, "", b""
        os.set_blocking(worker.stdout.fileno(), False)
        if worker.stderr:
            os.set_blocking(worker.stderr.fileno(), False)
        last = time.monotonic()
        tail = b""
        while True:
            ready, _, _ = select.select([s for s in (worker.stdout, worker.stderr) if s], [], [], 1.0)
            if worker.stderr in ready and worker.stderr:
                tail = (tail + (worker.stderr.read() or b""))[-2000:]
            if worker.stdout in ready:
                data = worker.stdout.read()
                if data == b"":
                    break
                buffer += data or b""
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    if line.startswith(b"["):
                        current = json.loads(line)
                        last = time.monotonic()
            if time.monotonic() - last > arguments.limit_s + (60 if current is None else 0):
                why = "timeout"
                worker.kill()
                break
        status = worker.wait()
        if status == 0 and not why:
            return
        if current is None:
            raise SystemExit(f"the worker did not start: {tail.decode(errors='replace')}")
        row = {
            "op": current[1], "dtype": current[2], "kind": current[3], "status": why or "crash",
            "message": f"exit status {status}: {tail.decode(errors='replace')[-600:]}",
        }  # fmt: skip
        with open(arguments.out, "a") as out:
            out.write(json.dumps(row) + "\n")
        start = current[0] + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--match", default="")
    parser.add_argument("--kinds", default="", help="all if left out")
    parser.add_argument("--dtypes", default="")
    parser.add_argument("--count", type=int, default=3, help="samples of each check")
    parser.add_argument("--start", type=int, default=0, help="skip this many operators")
    parser.add_argument("--shard", default="0/1", help="K/N: every Nth operator from the Kth on")
    parser.add_argument("--limit-s", type=float, default=180.0, help="for one check")
    parser.add_argument("--loud", action="store_true", help="show what workers write to stderr")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
    else:
        supervise(arguments)


if __name__ == "__main__":
    main()
