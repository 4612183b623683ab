"""The fuzzer's own parts, and a few programs of each kind against eager."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._functorch.aot_autograd import aot_module_simplified

from tests.compiling import BACKEND
from tests.fuzz import check, oracle
from tests.fuzz.__main__ import extra_of, judged
from tests.fuzz.analysis import IS_EXACT, IS_INEXACT, record, wide_run
from tests.fuzz.generate import PROFILES, generate
from tests.fuzz.program import ARITH, CHOICE, EXACT, ROUND, SUM, VIEW, Input, Line, Program
from tests.fuzz.shrink import shrink


def program(*lines: Line, outputs: tuple[str, ...], inputs: tuple[Input, ...], **more: Any) -> Program:
    sizes = {"A": 5, "B": 7, "C": 16}
    return Program("test", inputs, lines, outputs, sizes, {"A": 6, "B": 7, "C": 33}, **more)


def wrong_backend(change: Callable[[list[Any]], list[Any]]) -> Callable[..., Any]:
    """A backend whose results `change` falsifies."""

    def backend(gm: Any, inputs: Any) -> Any:
        def compile(gm: Any, inputs: Any) -> Any:
            return lambda *arguments: change(list(gm.forward(*arguments)))

        return aot_module_simplified(gm, inputs, compile)

    return backend


def off_by(amount: float) -> Callable[[list[Any]], list[Any]]:
    def change(values: list[Any]) -> list[Any]:
        first = values[0].clone()
        first.view(-1)[-1] += amount
        return [first, *values[1:]]

    return change


X = Input(torch.float32, ("A", "B"), values="uniform")


@pytest.mark.parametrize(
    "line,amount,kind",
    [
        (Line("v0 = x0 * x0", ARITH), 1e-6, "wrong"),
        (Line("v0 = x0.exp()", ROUND), 3e-6, "inexact"),
        (Line("v0 = x0.sum(0)", SUM), 3e-6, "inexact"),
        (Line("v0 = (x0 > 0).to(torch.int64)", CHOICE), 1, "wrong"),
    ],
    ids=["bits", "function", "sum", "integer"],
)
def test_oracle_sees_one_wrong_element(line: Line, amount: float, kind: str) -> None:
    tried = program(line, outputs=("v0",), inputs=(X,))
    assert not check.check(tried, backend=wrong_backend(lambda values: values))
    assert [f.kind for f in check.check(tried, backend=wrong_backend(off_by(amount)))] == [kind]


def test_oracle_sees_shared_memory() -> None:
    tried = program(Line("v0 = x0 * 1", ARITH), outputs=("v0", "x0"), inputs=(X,))
    found = check.check(tried, backend=lambda gm, inputs: lambda x: (x, x))
    assert [f.kind for f in found] == ["alias"]


def test_oracle_sees_changed_inputs() -> None:
    tried = program(Line("v0 = x0 * 2", ARITH), outputs=("v0",), inputs=(X,))
    found = check.check(tried, backend=lambda gm, inputs: lambda x: (x.mul_(2).clone(),))
    assert [f.kind for f in found] == ["input"]


def test_oracle_sees_strides_and_missing_errors() -> None:
    tried = program(Line("v0 = x0 * 2", ARITH), outputs=("v0",), inputs=(X,))
    found = check.check(tried, backend=lambda gm, inputs: lambda x: ((x * 2).t().contiguous().t(),))
    assert [f.kind for f in found] == ["stride"]
    raising = program(Line("v0 = x0[torch.arange(9)]", EXACT), outputs=("v0",), inputs=(X,))
    found = check.check(raising, backend=lambda gm, inputs: lambda *x: (torch.zeros(9, 7),))
    assert [f.kind for f in found] == ["raises"]


def test_jumps_of_inexact_values_have_no_judge() -> None:
    lines = (Line("v0 = x0.exp()", ROUND), Line("v1 = x0 + x0", ARITH), Line("v2 = v1 > 1", CHOICE))
    tried = program(*lines, Line("v3 = v1[1:]", VIEW), Line("v3.add_(v0[1:])", ARITH), outputs=("v2",), inputs=(X,))
    eager, _ = record(tried.make_inputs(), tried.lines, False)
    assert [eager.status_of(f"v{i}") for i in range(4)] == [IS_INEXACT, IS_INEXACT, IS_EXACT, IS_INEXACT]


def test_noise_is_of_the_size_of_rounding_errors() -> None:
    lines = (Line("v0 = x0.exp()", ROUND), Line("v1 = v0 - 1", ARITH))
    tried = program(*lines, outputs=("v1",), inputs=(X,))
    inputs = tried.make_inputs()
    eager, steps = record(inputs, lines, False)
    exact = wide_run(eager, inputs, lines, steps, None).values["v1"]
    moved = wide_run(eager, inputs, lines, steps, 1).values["v1"]
    torch.testing.assert_close(exact, inputs[0].double().exp() - 1, rtol=0, atol=0)
    error = (moved - exact).abs().max()
    assert 2e-8 < error < 2e-6


def test_shrinks_to_the_line_at_fault() -> None:
    lines = (
        Line("v0 = x0 + 1", ARITH), Line("v1 = v0.t()", VIEW), Line("v2 = v1.cos()", ROUND), Line("v3 = v2 * 2", ARITH),
    )  # fmt: skip
    big = program(*lines, outputs=("v0", "v3"), inputs=(X, X), mode="dynamic")
    small = shrink(big, lambda p: any("cos" in line.text for line in p.lines))
    assert [line.text for line in small.lines] == ["v2 = x0.cos()"]
    assert small.outputs == ("x0",) or small.outputs == ("v2",)
    assert len(small.inputs) == 1 and small.mode == "static"


def test_script_runs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    script = generate("script:1").script("what was found")
    plain = re.sub(r'"tile", (.*), options=.*\)', r'"eager", \1)', script)
    assert plain != script
    exec(compile(plain, "script", "exec"), {})
    assert "eager" in capsys.readouterr().out


def test_seed_decides_the_program() -> None:
    assert generate("same:5") == generate("same:5")
    assert generate("same:5") != generate("same:6")


@pytest.mark.fuzz
@pytest.mark.parametrize("profile", PROFILES)
def test_random_programs(profile: str) -> None:
    for index in range(4):
        tried = generate(f"tier:{index}", profile)
        finding, _ = judged(tried, extra_of(index))
        assert finding is None, tried.script(str(finding))


def test_left_out_findings_are_torchs() -> None:
    """What AOTAutograd alone does wrong as well is not ours."""
    tried = program(Line("v0 = x0 * 2", ARITH), outputs=("v0",), inputs=(X,))
    assert not check.is_torchs(tried, oracle.Finding("wrong", ""), "")
    assert BACKEND
