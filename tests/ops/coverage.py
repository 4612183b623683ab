"""docs/generated/op-coverage.md: what becomes of each operator and dtype of torch's database, from rows of `sweep.py`.

python -m tests.ops.sweep --out rows.jsonl --kinds forward
python -m tests.ops.coverage rows.jsonl [--reference aot_eager.jsonl]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "generated" / "op-coverage.md"
DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "bool")

HEADER = """# Operator coverage

Made by `python -m tests.ops.coverage`; do not edit. The operators are those of torch's operator database
(OpInfo), on the CPU, with a few samples each, forward, with eager mode's random numbers.

- `generated`: kernels perform every operation of the compiled graph.
- `extern`: some operations are called through PyTorch's dispatcher (matrix products, convolution, sort, FFT,
  linear algebra, random numbers of eager mode, ...). Kernels perform the rest.
- `eager`: the graph runs in eager mode. Either Dynamo left nothing to compile (the size of the result depends on
  data), or the graph is not representable (a dtype such as complex32).
- `fails`: the result is not eager's; `tests/ops/opinfo_expected.py` says why.
"""


def classify(row: dict[str, Any]) -> str:
    """What became of one operator and dtype."""
    if row["status"] not in ("ok", "stride"):
        return "fails"
    if row.get("fallbacks") or not row.get("graphs"):
        return "eager"
    return "extern" if row["externs"] else "generated"


def table(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        if row["kind"] == "forward" and row["dtype"] in DTYPES:
            found[row["op"]][row["dtype"]] = classify(row)
    return found


def read_page() -> dict[str, dict[str, str]]:
    """The table as the page has it."""
    found: dict[str, dict[str, str]] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) >= len(DTYPES) + 1:
            found[cells[0].strip("`")] = {d: c for d, c in zip(DTYPES, cells[1:], strict=False) if c}
    return found


def write_page(rows: list[dict[str, Any]], reference: list[dict[str, Any]]) -> None:
    found = table(rows)
    counts = Counter(c for dtypes in found.values() for c in dtypes.values())
    compiled = counts["generated"] + counts["extern"]
    externs: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["kind"] == "forward":
            for name in row.get("externs", ()):
                externs[row["op"]].add(name)
    lines = [HEADER]
    lines.append(
        f"{sum(counts.values())} pairs of operator and dtype: "
        + ", ".join(f"{n} {c}" for c, n in counts.most_common())
        + f".\nOf {compiled} pairs that compile {counts['generated'] / max(compiled, 1):.1%} have no extern call."
    )
    if reference:
        passed = {(r["op"], r["dtype"]) for r in reference if r["kind"] == "forward"}
        for r in reference:
            if r["kind"] in ("forward", "gradient") and r["status"] not in ("ok", "stride"):
                passed.discard((r["op"], r["dtype"]))
        failed = {
            (r["op"], r["dtype"])
            for r in rows
            if r["status"] not in ("ok", "stride") and r["kind"] in ("forward", "gradient")
        }
        both = len(passed - failed)
        lines.append(
            f"\nForward and gradient: {len(passed)} pairs pass with `aot_eager`, {both} of these "
            f"({both / len(passed):.1%}) with `tile`."
        )
    lines += ["", "| operator | " + " | ".join(DTYPES) + " | extern calls |"]
    lines.append("|---|" + "---|" * (len(DTYPES) + 1))
    for name in sorted(found):
        cells = [found[name].get(dtype, "") for dtype in DTYPES]
        outside = ", ".join(sorted(externs[name])[:4]) + (", ..." if len(externs[name]) > 4 else "")
        lines.append(f"| `{name}` | " + " | ".join(cells) + f" | {outside} |")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(lines) + "\n")


def _rows(path: str) -> list[dict[str, Any]]:
    with open(path) as file:
        return [json.loads(line) for line in file]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--reference", help="rows of the backend aot_eager")
    arguments = parser.parse_args()
    write_page(_rows(arguments.rows), _rows(arguments.reference) if arguments.reference else [])


if __name__ == "__main__":
    main()
