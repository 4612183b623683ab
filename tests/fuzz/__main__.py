"""python -m tests.fuzz --seed S --programs N --minutes M: random programs against eager mode.

Workers run the programs, since what is looked for may end a process. Findings go to OUT/findings.jsonl, and as scripts
of plain PyTorch beside it; counts to OUT/counts.json. Program I of seed S is `--replay S:I`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import select
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BATCH = 60
LIMIT_S = 240.0
SIMULATED = "simulated"  # a GPU: programs are compiled for it and run on the CPU
LOST_CONTEXT = "CUDA error"
NEXT_PROCESS = 75  # a worker's exit status: the rest of its batch needs a new process


def extra_of(index: int) -> str:
    return ("threads", "warm", "fusion", "", "")[index % 5]


def judged(program: Any, extra: str) -> tuple[Any, Any]:
    """The finding that counts, and why one does not."""
    from tests.fuzz import check

    found = check.check(program, extra, check.BACKEND)
    if not found:
        return None, ""
    if check.is_unsupported(found[0]):
        return None, f"unsupported: {found[0].text[:200]}"
    found = [finding for finding in found if finding.kind != "judge"] or found
    if found[0].kind == "judge":
        return None, f"no judge: {found[0].text[:200]}"
    if LOST_CONTEXT not in found[0].text and check.is_torchs(program, found[0], extra):
        return None, f"torch: {found[0].text[:200]}"
    return found[0], ""


def drawn(seed: str, profile: str | None, device: str) -> Any:
    """The program of a seed, which is the same for every device; it is drawn on the CPU."""
    from tests.fuzz.generate import generate
    from tests.fuzz.program import on_device

    return on_device(generate(seed, profile, raises=device == "cpu"), "cpu" if device == SIMULATED else device)


def device_context(device: str) -> contextlib.AbstractContextManager[Any]:
    if device != SIMULATED:
        return contextlib.nullcontext()
    from tests.gpu.simulated_backend import simulated

    return simulated()


def one(seed: str, extra: str, profile: str | None, seconds: float, device: str = "cpu") -> dict[str, Any]:
    from tests.fuzz.shrink import shrink

    program = drawn(seed, profile, device)
    row = {"seed": seed, "extra": extra, "profile": program.profile, "mode": program.mode, "training": program.training}
    finding, why = judged(program, extra)
    row["why"] = why
    if finding is not None:

        def fails(candidate: Any) -> bool:
            try:
                other, _ = judged(candidate, extra)
            except Exception:  # the candidate is no program
                return False
            return other is not None and other.kind == finding.kind

        lost = LOST_CONTEXT in finding.text
        small = program if lost else shrink(program, fails, seconds)
        last = finding if lost else judged(small, extra)[0]
        row.update(
            kind=finding.kind, text=str(last or finding), script=small.script(f"{seed} {extra} {last or finding}")
        )
    return row


def work(arguments: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(2)
    for index in range(arguments.start, arguments.start + arguments.programs):
        seed = f"{arguments.seed}:{index}"
        print(json.dumps({"begin": index}), flush=True)
        try:
            with device_context(arguments.device):
                row = one(seed, extra_of(index), arguments.profile, arguments.shrink_s, arguments.device)
        except Exception:
            row = {"seed": seed, "kind": "fuzzer", "text": traceback.format_exc()[-3000:], "profile": "?"}
        print(json.dumps(row), flush=True)
        if LOST_CONTEXT in row.get("text", ""):  # nothing runs on the device in this process any more
            sys.exit(NEXT_PROCESS)


def supervise(arguments: argparse.Namespace) -> int:
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + arguments.minutes * 60
    counts: collections.Counter[str] = collections.Counter()
    start, last = arguments.start, arguments.start + arguments.programs
    while start < last and time.monotonic() < end:
        start = _batch(arguments, start, min(BATCH, last - start), end, counts, out)
        (out / f"counts-{arguments.seed}.json").write_text(json.dumps(counts, indent=1, sort_keys=True))
    print(json.dumps(counts, sort_keys=True))
    return int(counts["findings"] > 0)


def _batch(
    arguments: argparse.Namespace, start: int, count: int, end: float, counts: collections.Counter[str], out: Path
) -> int:
    """Programs from `start` on in one process; returns the next that nobody has run."""
    command = [sys.executable, "-m", "tests.fuzz", "--worker", "--seed", arguments.seed, "--start", str(start)]
    command += ["--programs", str(count), "--shrink-s", str(arguments.shrink_s)]
    command += ["--device", arguments.device]
    command += ["--profile", arguments.profile] if arguments.profile else []
    errors = open(out / "stderr.txt", "w+")  # noqa: SIM115  the worker's, as long as it runs
    worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors)
    assert worker.stdout is not None
    current, since, buffer, why = start, time.monotonic(), b"", ""
    while True:
        if select.select([worker.stdout], [], [], 1.0)[0]:
            data = os.read(worker.stdout.fileno(), 1 << 16)
            if not data:
                break
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                row = json.loads(line) if line.startswith(b"{") else {}
                since = time.monotonic()
                if "begin" in row:
                    current = row["begin"]
                elif row:
                    _note(row, counts, out)
                    current += 1
        elif time.monotonic() - since > LIMIT_S + arguments.shrink_s:
            why = "hang"
            worker.kill()
            break
        if time.monotonic() > end and not why:
            worker.terminate()
            worker.wait()
            return start + count
    status = worker.wait()
    if status == 0:
        return start + count
    if status == NEXT_PROCESS:
        return current
    errors.seek(0)
    row = {"seed": f"{arguments.seed}:{current}", "kind": why or "crash", "profile": "?"}
    row |= {
        "text": f"exit status {status}: {errors.read()[-2000:]}",
        "script": f"# --replay {arguments.seed}:{current}",
    }
    _note(row, counts, out)
    return current + 1


def _note(row: dict[str, Any], counts: collections.Counter[str], out: Path) -> None:
    counts["programs"] += 1
    counts[f"profile {row['profile']}"] += 1
    for key in ("mode", "training", "extra"):
        if row.get(key):
            counts[f"{key} {row[key]}"] += 1
    if row.get("why"):
        counts[row["why"].split(":")[0]] += 1
        with open(out / "left-out.txt", "a") as file:
            file.write(f"{row['seed']} {row['why']}\n".replace("\\n", " "))
    if "kind" in row:
        counts["findings"] += 1
        counts[f"finding {row['kind']}"] += 1
        with open(out / "findings.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        (out / f"{row['seed'].replace(':', '-')}-{row['kind']}.py").write_text(row.get("script", "") + "\n")
        print(f"\n== {row['seed']} {row['kind']}\n{row['text']}\n{row.get('script', '')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--start", type=int, default=0, help="first program")
    parser.add_argument("--programs", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--profile", help="one kind of program")
    parser.add_argument("--device", default="cpu", help="where the programs run: cpu, cuda, simulated")
    parser.add_argument("--shrink-s", type=float, default=90.0, help="seconds to shrink a finding")
    parser.add_argument("--out", default="build/fuzz")
    parser.add_argument("--replay", help="SEED:INDEX: one program in this process")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
    elif arguments.replay:
        print(drawn(arguments.replay, arguments.profile, arguments.device).script(arguments.replay), flush=True)
        extra = extra_of(int(arguments.replay.split(":")[1]))
        with device_context(arguments.device):
            row = one(arguments.replay, extra, arguments.profile, arguments.shrink_s, arguments.device)
        print(row.get("text", row["why"] or "nothing found"), row.get("script", ""), sep="\n")
    else:
        sys.exit(supervise(arguments))


if __name__ == "__main__":
    main()
