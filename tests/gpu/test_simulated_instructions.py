"""Instructions of warps, simulated: what they compute, and that wrong uses show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu import instructions, simulator
from tests.gpu.instructions import Case

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")


def simulate(case: Case) -> torch.Tensor:
    result = torch.zeros_like(case.expected)
    # Copies need sources at multiples of 16 bytes.
    source = torch.empty(case.source.numel() + 4, dtype=torch.int32)
    source = source[(-source.data_ptr() // 4) % 4 :][: case.source.numel()].copy_(case.source)
    simulator.Simulated(case.ir).run((1, 1, 1), [source.data_ptr(), result.data_ptr()])
    return result


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("case", list(instructions.cases()), ids=lambda c: c.name)
def test_by_the_documentation(case: Case, is_reversed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_reversed:
        monkeypatch.setenv("TORCH_TILE_SIMULATE_REVERSED", "1")
    torch.testing.assert_close(simulate(case), case.expected, rtol=1e-5, atol=case.tolerance)


def test_copies_are_seen_after_the_wait_only() -> None:
    unwaited = simulate(instructions.copies(instructions.WAIT_NONE))
    assert (unwaited == -1).all()
    case = instructions.copies(instructions.WAIT_ONE)
    found, expected = simulate(case).view(32, 5), case.expected.view(32, 5)
    assert torch.equal(found[:, :4], expected[:, :4]) and (found[:, 4] == -1).all()


@pytest.mark.parametrize(
    "what, message", [("wait", "was written before wgmma.wait_group"), ("fence", "without wgmma.fence")]
)
def test_wrong_uses_of_wgmma(what: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {what: False}
    with pytest.raises(RuntimeError, match="the launch failed"):
        simulate(instructions.wgmma("bf16", 64, 128, (False, False), False, **options))
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    "body, message",
    [
        (
            "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 %odd)\n  call void @llvm.nvvm.bar.warp.sync(i32 -1)",
            "",
        ),
        (
            "br i1 %is, label %one, label %end\none:\n  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n"
            "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n  br label %end\nend:\n"
            "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)",
            "waits at",
        ),
    ],
    ids=["barriers that differ", "half a warp"],
)
def test_threads_that_do_not_meet(body: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    ir = instructions.kernel(
        f"  %odd = and i32 %t, 1\n  %is = icmp eq i32 %odd, 0\n  {body}\n",
        "declare void @llvm.nvvm.bar.warp.sync(i32)",
        64,
    )
    with pytest.raises(RuntimeError, match="the launch failed"):
        simulator.Simulated(ir).run((1, 1, 1), [0, 0])
    assert message in capfd.readouterr().err


def test_misaligned_rows(capfd: pytest.CaptureFixture[str]) -> None:
    case = instructions.ldmatrix(4, False)
    with pytest.raises(RuntimeError, match="the launch failed"):
        simulate(
            Case(
                case.name,
                case.ir.replace("mul i32 %t, 16\n  %row", "mul i32 %t, 8\n  %row"),
                case.source,
                case.expected,
            )
        )
    assert "ldmatrix: address 8 of shared memory is no multiple of 16" in capfd.readouterr().err


def test_assembly_as_mlir_writes_it() -> None:
    """Immediate operands, predicates that comparisons set, and waits that say that registers change."""
    case = instructions.wgmma("bf16", 8, 128, (False, True), False)
    given = "p, 1, 1, 0, 1; }"
    assert given in case.ir and '"(float %v4' in case.ir
    ir = case.ir.replace(given, "p, $11, $12, $13, $14; }").replace('l,l,r"(', 'l,l,r,n,n,n,n"(')
    ir = ir.replace("i64 %b.desc, i32 1)", "i64 %b.desc, i32 1, i32 1, i32 1, i32 0, i32 1)")
    struct = "{ float, float, float, float }"
    waited = "\n".join(f"  %w{k} = extractvalue {struct} %d, {k}" for k in range(4))
    waited += f"""
  %waited = call {struct} asm sideeffect "wgmma.wait_group.sync.aligned 0;", "=f,=f,=f,=f,0,1,2,3,~{{memory}}"({
        ", ".join(f"float %w{k}" for k in range(4))
    })"""
    ir = ir.replace("  call void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64 0)", waited)
    ir = ir.replace(f"extractvalue {struct} %d, ", f"extractvalue {struct} %waited, ")
    ir = ir.replace(f"  %w0 = extractvalue {struct} %waited", f"  %w0 = extractvalue {struct} %d")
    for k in range(1, 4):
        ir = ir.replace(f"  %w{k} = extractvalue {struct} %waited", f"  %w{k} = extractvalue {struct} %d")
    changed = Case(case.name, ir, case.source, case.expected)
    torch.testing.assert_close(simulate(changed), case.expected, rtol=1e-5, atol=1e-4)


def test_copies_under_a_predicate() -> None:
    case = instructions.copies(instructions.WAIT_BY_ASSEMBLY, through_assembly=True)
    text = '"cp.async.cg.shared.global [$0], [$1], 16;", "r,l"(i32 %a.address, ptr addrspace(1) %a.from)'
    assert text in case.ir
    changed = '"{ .reg .pred p; setp.ne.b32 p, $2, 0; @p cp.async.cg.shared.global [$0], [$1], 16; }", "r,l,r"'
    changed += "(i32 %a.address, ptr addrspace(1) %a.from, i32 %even)"
    found = simulate(Case("", case.ir.replace(text, changed), case.source, case.expected)).view(32, 5)
    expected = case.expected.view(32, 5).clone()
    expected[1::2, :4] = -1
    assert torch.equal(found, expected)


def test_products_of_bytes_without_scales() -> None:
    """Sums of wgmma on bytes, and a predicate that is always true."""
    case = instructions.wgmma("bf16", 8, 128, (False, False), False)
    text = "setp.ne.b32 p, $10, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
    assert text in case.ir and "p, 1, 1, 0, 0; }" in case.ir
    changed = text.replace("ne.b32 p, $10", "eq.b32 p, 0").replace("k16.f32.bf16.bf16", "k32.s32.s8.s8")
    ir = case.ir.replace(text, changed).replace("p, 1, 1, 0, 0; }", "p; }").replace("=f", "=r")
    ir = ir.replace("float", "i32")
    source = case.source.clone()
    found = simulate(Case("", ir, source, torch.zeros(512, dtype=torch.int32)))
    # The same bytes as rows of 32, under the swizzle of 128; the sums begin with the bits of floats.
    left, right = (source[k : k + n].view(torch.int8) for k, n in ((0, 2048), (2048, 4096)))
    row, at = torch.arange(64)[:, None] * 128, torch.arange(32)[None, :]
    address = row + at
    address = address ^ ((address >> 7 & 7) << 4)
    product = left[address].int() @ right[address[:8]].int().t()
    registers = source[6144:].view(128, 8)[:, 4:]
    for thread in range(128):
        first, column = 16 * (thread // 32) + thread % 32 // 4, thread % 4 * 2
        expected = torch.cat([product[first + r, column : column + 2] for r in (0, 8)])
        assert torch.equal(found.view(128, 4)[thread], registers[thread] + expected)
