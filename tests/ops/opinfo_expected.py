"""What does not equal eager over torch's operator database, and why. Everything else must."""

from __future__ import annotations

# (operator, dtype or "", kind or "") -> reason; an empty string stands for all.
EXPECTED: dict[tuple[str, str, str], str] = {
    ("nn.functional.embedding_bag", "bfloat16", "gradient"): (
        "torch's meta function gives _embedding_bag's second result another size than its kernel does"
    ),
    ("norm.inf", "", "empty"): (
        "torch's meta function refuses an operand without elements along a dimension that has some; aot_eager as well"
    ),
    ("unravel_index", "int64", "dynamic"): "tracing makes another tensor of a size of 2**63 - 1; aot_eager as well",
}


def reason_for(op: str, dtype: str, kind: str) -> str | None:
    for key in ((op, dtype, kind), (op, "", kind), (op, dtype, ""), (op, "", "")):
        if key in EXPECTED:
            return EXPECTED[key]
    return None
