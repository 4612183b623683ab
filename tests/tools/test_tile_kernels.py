"""Tile kernels compiled for several processors give what torch gives."""

from __future__ import annotations

import pytest
import torch

from .kernel_runner import TILE_COMPILE, Kernel

pytestmark = pytest.mark.skipif(not TILE_COMPILE.exists(), reason="tile-compile is not built")

# One with masks for every width, one with masks for words only, one without any.
TARGETS = ["host", "x86-64-v3", "x86-64"]

TYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.bool: "i1",
}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sample(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(-100, 100, shape).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lanes", [1, 16, 24, 64])
def test_copy_with_a_tail(target: str, dtype: torch.dtype, lanes: int) -> None:
    t = TYPES[dtype]
    kernel = Kernel(
        f"""
tile.kernel @copy(%x: !tile.ptr<{t}>, %out: !tile.ptr<{t}>, %n: i64) {{
  %pid = tile.program_id 0 : i64
  %w = arith.constant {lanes} : i64
  %i = arith.muli %pid, %w : i64
  %left = arith.subi %n, %i : i64
  %v = tile.load %x[%i] strides [1] valid [%left] : !tile.ptr<{t}> -> tensor<{lanes}x{t}>
  tile.store %v, %out[%i] strides [1] valid [%left] : tensor<{lanes}x{t}>, !tile.ptr<{t}>
  tile.return
}}""",
        target,
    )
    for n in (0, 1, 5, 64, 77):
        x, out = sample((100,), dtype), sample((100,), dtype)
        expected = out.clone()
        expected[:n] = x[:n]
        assert kernel([x, out], [n], programs=-(-100 // lanes)) == 0
        assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int32, torch.float16, torch.int8])
@pytest.mark.parametrize("known", ["< 5", "< 20", ">= 11", "== 9"])
def test_masks_known_in_part(target: str, dtype: torch.dtype, known: str) -> None:
    """A condition of the whole row, and one that is known for each lane: some registers are masked off, or follow the
    row's condition alone."""
    t, lanes = TYPES[dtype], 32
    masks, values = f"tensor<{lanes}xi1>", f"tensor<{lanes}x{t}>"
    sign, limit = known.split()
    predicate = {"<": "slt", ">=": "sge", "==": "eq"}[sign]
    kernel = Kernel(
        f"""
tile.kernel @masked(%x: !tile.ptr<{t}>, %out: !tile.ptr<{t}>, %copy: !tile.ptr<{t}>, %rows: i64, %o: {t}) {{
  %pid = tile.program_id 0 : i64
  %w = arith.constant {lanes} : i64
  %first = arith.muli %pid, %w : i64
  %limit = arith.constant dense<{limit}> : tensor<{lanes}xi32>
  %iota = tile.iota : tensor<{lanes}xi32>
  %inside = arith.cmpi slt, %pid, %rows : i64
  %row = tile.splat %inside : i1 -> {masks}
  %column = arith.cmpi {predicate}, %iota, %limit : tensor<{lanes}xi32>
  %both = arith.andi %row, %column : {masks}
  %either = arith.ori %row, %column : {masks}
  %v = tile.load %x[%first] strides [1] mask %both : {masks} other %o : {t} : !tile.ptr<{t}> -> {values}
  tile.store %v, %out[%first] strides [1] : {values}, !tile.ptr<{t}>
  %e = tile.load %x[%first] strides [1] mask %either : {masks} other %o : {t} : !tile.ptr<{t}> -> {values}
  tile.store %e, %copy[%first] strides [1] mask %both : {masks} : {values}, !tile.ptr<{t}>
  tile.return
}}""",
        target,
    )
    x, out, copy = (sample((4, lanes), dtype) for _ in range(3))
    other = torch.zeros(1, dtype=dtype)
    column = {"<": torch.lt, ">=": torch.ge, "==": torch.eq}[sign](torch.arange(lanes), int(limit))
    row = torch.arange(4)[:, None] < 2
    expected = torch.where(row & column, x, other)
    copied = torch.where(row & column, torch.where(row | column, x, other), copy)
    assert kernel([x, out, copy], [2, 0], programs=4) == 0
    assert torch.equal(out, expected)
    assert torch.equal(copy, copied)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("strides", ["%s, 1", "1, %s", "%s, 2", "0, 1", "1, 0", "%s, %s"])
def test_structured_load(target: str, dtype: torch.dtype, strides: str) -> None:
    t = TYPES[dtype]
    kernel = Kernel(
        f"""
tile.kernel @load(%x: !tile.ptr<{t}>, %out: !tile.ptr<{t}>, %s: i64, %m: i64, %n: i64, %o: {t}) {{
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [{strides}] valid [%m, %n] other %o : {t} : !tile.ptr<{t}> -> tensor<4x16x{t}>
  tile.store %v, %out[%zero] strides [16, 1] : tensor<4x16x{t}>, !tile.ptr<{t}>
  tile.return
}}""",
        target,
    )
    x = sample((40, 40), dtype)
    steps = [{"%s": 40, "0": 0, "1": 1, "2": 2}[s] for s in strides.split(", ")]
    if steps == [40, 40]:
        x = sample((1000,), dtype)
    for m, n in [
        (4, 16),
        (2, 16),
        (4, 7),
        (3, 5),
        (0, 16),
        (4, 0),
        (-3, -1),
        (100, 100),
    ]:
        out = sample((4, 16), dtype)
        expected = torch.zeros((4, 16), dtype=dtype)
        view = x.as_strided((4, 16), steps)
        m_, n_ = max(0, min(m, 4)), max(0, min(n, 16))
        expected[:m_, :n_] = view[:m_, :n_]
        assert kernel([x, out], [40, m, n, 0]) == 0
        assert torch.equal(out, expected), (m, n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64])
def test_structured_store(target: str, dtype: torch.dtype) -> None:
    t = TYPES[dtype]
    kernel = Kernel(
        f"""
tile.kernel @store(%x: !tile.ptr<{t}>, %out: !tile.ptr<{t}>, %s: i64, %m: i64, %n: i64) {{
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [16, 1] : !tile.ptr<{t}> -> tensor<4x16x{t}>
  tile.store %v, %out[%zero] strides [1, %s] valid [%m, %n] : tensor<4x16x{t}>, !tile.ptr<{t}>
  tile.return
}}""",
        target,
    )
    for m, n in [(4, 16), (2, 5), (0, 3), (3, 16)]:
        x, out = sample((4, 16), dtype), sample((16, 8), dtype)
        expected = out.clone()
        expected[:n, :m] = x[:m, :n].T
        assert kernel([x, out], [8, m, n]) == 0
        assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8, torch.bool])
@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8), (4, 1), (1, 8), (3, 5), (6, 16), (16, 6)])
def test_transpose(target: str, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    t, (m, n) = TYPES[dtype], shape
    kernel = Kernel(
        f"""
tile.kernel @transpose(%x: !tile.ptr<{t}>, %out: !tile.ptr<{t}>) {{
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [{n}, 1] : !tile.ptr<{t}> -> tensor<{m}x{n}x{t}>
  %r = tile.trans %v perm [1, 0] : tensor<{m}x{n}x{t}> -> tensor<{n}x{m}x{t}>
  tile.store %r, %out[%zero] strides [{m}, 1] : tensor<{n}x{m}x{t}>, !tile.ptr<{t}>
  tile.return
}}""",
        target,
    )
    x, out = sample((m, n), dtype), sample((n, m), dtype)
    assert kernel([x, out]) == 0
    assert torch.equal(out, x.T)


@pytest.mark.parametrize("perm", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_permute_three_axes(perm: tuple[int, int, int]) -> None:
    shape = (2, 4, 8)
    to = [shape[p] for p in perm]
    kernel = Kernel(
        f"""
tile.kernel @permute(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {{
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [32, 8, 1] : !tile.ptr<f32> -> tensor<2x4x8xf32>
  %r = tile.trans %v perm [{perm[0]}, {perm[1]}, {perm[2]}] : tensor<2x4x8xf32> -> tensor<{to[0]}x{to[1]}x{to[2]}xf32>
  tile.store %r, %out[%zero] strides [{to[1] * to[2]}, {to[2]}, 1] : tensor<{to[0]}x{to[1]}x{to[2]}xf32>, !tile.ptr<f32>
  tile.return
}}"""
    )
    x, out = torch.randn(shape), torch.randn(to)
    assert kernel([x, out]) == 0
    assert torch.equal(out, x.permute(perm))


@pytest.mark.parametrize("shape", [(64,), (16, 4), (2, 32), (4, 4, 4), (32, 2), (64, 1), (1, 64)])
def test_reshape(shape: tuple[int, ...]) -> None:
    to = "x".join(map(str, shape))
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    kernel = Kernel(
        f"""
tile.kernel @reshape(%x: !tile.ptr<f32>, %out: !tile.ptr<f32>) {{
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [8, 1] : !tile.ptr<f32> -> tensor<8x8xf32>
  %r = tile.reshape %v : tensor<8x8xf32> -> tensor<{to}xf32>
  tile.store %r, %out[%zero] strides {strides} : tensor<{to}xf32>, !tile.ptr<f32>
  tile.return
}}"""
    )
    x, out = torch.randn(8, 8), torch.randn(shape)
    assert kernel([x, out]) == 0
    assert torch.equal(out, x.reshape(shape))


def test_broadcast_of_rows_and_columns(target: str) -> None:
    kernel = Kernel(
        """
tile.kernel @outer(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %out: !tile.ptr<f32>) {
  %zero = arith.constant 0 : i64
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> tensor<4xf32>
  %b = tile.load %y[%zero] strides [1] : !tile.ptr<f32> -> tensor<16xf32>
  %c = tile.expand_dims %a axis 1 : tensor<4xf32> -> tensor<4x1xf32>
  %r = tile.expand_dims %b axis 0 : tensor<16xf32> -> tensor<1x16xf32>
  %cc = tile.broadcast %c : tensor<4x1xf32> -> tensor<4x16xf32>
  %rr = tile.broadcast %r : tensor<1x16xf32> -> tensor<4x16xf32>
  %p = arith.mulf %cc, %rr : tensor<4x16xf32>
  tile.store %p, %out[%zero] strides [16, 1] : tensor<4x16xf32>, !tile.ptr<f32>
  tile.return
}""",
        target,
    )
    x, y, out = torch.randn(4), torch.randn(16), torch.empty(4, 16)
    assert kernel([x, y, out]) == 0
    assert torch.equal(out, torch.outer(x, y))


@pytest.mark.parametrize("lanes", [1, 2, 7, 16, 48, 128])
def test_argmax(target: str, lanes: int) -> None:
    kernel = Kernel(
        f"""
tile.kernel @argmax(%x: !tile.ptr<f32>, %out: !tile.ptr<i64>, %n: i64) {{
  %zero = arith.constant 0 : i64
  %low = arith.constant 0xFF800000 : f32
  %v = tile.load %x[%zero] strides [1] valid [%n] other %low : f32 : !tile.ptr<f32> -> tensor<{lanes}xf32>
  %i = tile.iota : tensor<{lanes}xi64>
  %m, %k = tile.reduce (%v, %i) axis 0 : (tensor<{lanes}xf32>, tensor<{lanes}xi64>) -> (f32, i64) {{
  ^bb0(%a: f32, %ai: i64, %b: f32, %bi: i64):
    %gt = arith.cmpf ogt, %a, %b : f32
    %eq = arith.cmpf oeq, %a, %b : f32
    %first = arith.cmpi slt, %ai, %bi : i64
    %tie = arith.andi %eq, %first : i1
    %left = arith.ori %gt, %tie : i1
    %r = arith.select %left, %a, %b : f32
    %ri = arith.select %left, %ai, %bi : i64
    tile.yield %r, %ri : f32, i64
  }}
  tile.store %k, %out[%zero] strides [] : i64, !tile.ptr<i64>
  tile.return
}}""",
        target,
    )
    for n in {1, max(1, lanes // 2), lanes}:
        x, out = (
            torch.randint(0, 5, (lanes,)).float(),
            torch.zeros(1, dtype=torch.int64),
        )
        assert kernel([x, out], [n]) == 0
        assert out.item() == int((x[:n] == x[:n].max()).nonzero()[0])


@pytest.mark.parametrize("shape", [(16, 16), (4, 8), (3, 7), (2, 64), (8, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_sum_of_two_axes(target: str, shape: tuple[int, int], axis: int) -> None:
    m, n = shape
    left = shape[1 - axis]
    kernel = Kernel(
        f"""
tile.kernel @sum(%x: !tile.ptr<i32>, %out: !tile.ptr<i32>) {{
  %zero = arith.constant 0 : i64
  %v = tile.load %x[%zero] strides [{n}, 1] : !tile.ptr<i32> -> tensor<{m}x{n}xi32>
  %s = tile.reduce (%v) axis {axis} : (tensor<{m}x{n}xi32>) -> tensor<{left}xi32> {{
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    tile.yield %c : i32
  }}
  tile.store %s, %out[%zero] strides [1] : tensor<{left}xi32>, !tile.ptr<i32>
  tile.return
}}""",
        target,
    )
    x, out = sample((m, n), torch.int32), torch.zeros(left, dtype=torch.int32)
    assert kernel([x, out]) == 0
    assert torch.equal(out, x.sum(axis, dtype=torch.int32))


@pytest.mark.parametrize("index_type", ["i32", "i64"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64])
def test_gather_and_scatter(target: str, dtype: torch.dtype, index_type: str) -> None:
    t, it = TYPES[dtype], index_type
    kernel = Kernel(
        f"""
tile.kernel @permute(%x: !tile.ptr<{t}>, %index: !tile.ptr<{it}>, %out: !tile.ptr<{t}>, %back: !tile.ptr<{t}>,
                     %n: i64, %size: i64) {{
  %zero = arith.constant 0 : i64
  %raw = tile.load %index[%zero] strides [1] valid [%n] : !tile.ptr<{it}> -> tensor<16x{it}>
  %i = tile.check_index %raw in %size valid %n wrap line 7 : tensor<16x{it}> -> tensor<16x{it}>
  %iota = tile.iota : tensor<16xi64>
  %ns = tile.splat %n : i64 -> tensor<16xi64>
  %mask = arith.cmpi slt, %iota, %ns : tensor<16xi64>
  %v = tile.gather %x[%i] mask %mask : tensor<16xi1> : !tile.ptr<{t}>, tensor<16x{it}> -> tensor<16x{t}>
  tile.store %v, %out[%zero] strides [1] : tensor<16x{t}>, !tile.ptr<{t}>
  tile.scatter %v, %back[%i] mask %mask : tensor<16xi1> : tensor<16x{t}>, !tile.ptr<{t}>, tensor<16x{it}>
  tile.return
}}""",
        target,
    )
    index_dtype = torch.int32 if it == "i32" else torch.int64
    x = sample((40,), dtype)
    index = torch.randperm(40)[:16].to(index_dtype)
    index[1] -= 40
    for n in (16, 9, 0):
        out, back = sample((16,), dtype), torch.zeros(40, dtype=dtype)
        assert kernel([x, index, out, back], [n, 40]) == 0
        expected, expected_back = (
            torch.zeros(16, dtype=dtype),
            torch.zeros(40, dtype=dtype),
        )
        expected[:n] = x[index[:n].long()]
        expected_back[index[:n].long()] = x[index[:n].long()]
        assert torch.equal(out, expected) and torch.equal(back, expected_back)
    for bad in (40, -41, 2**31 - 1, -(2**31)):
        wrong = index.clone()
        wrong[5], wrong[9] = bad, 1000
        assert (
            kernel(
                [x, wrong, sample((16,), dtype), torch.zeros(40, dtype=dtype)],
                [16, 40],
                programs=3,
            )
            == 1
        )
        assert kernel.error == [bad, 40, 7]
        assert kernel([x, wrong, sample((16,), dtype), torch.zeros(40, dtype=dtype)], [5, 40]) == 0
    assert kernel([x, index, sample((16,), dtype), torch.zeros(40, dtype=dtype)], [16, 0]) == 1


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8])
@pytest.mark.parametrize("op", ["divsi", "remsi", "floordivsi", "ceildivsi"])
@pytest.mark.parametrize("lanes", [1, 16])
def test_integer_division(target: str, dtype: torch.dtype, op: str, lanes: int) -> None:
    t = TYPES[dtype]
    kernel = Kernel(
        f"""
tile.kernel @div(%x: !tile.ptr<{t}>, %y: !tile.ptr<{t}>, %out: !tile.ptr<{t}>) {{
  %pid = tile.program_id 0 : i64
  %w = arith.constant {lanes} : i64
  %i = arith.muli %pid, %w : i64
  %a = tile.load %x[%i] strides [1] : !tile.ptr<{t}> -> tensor<{lanes}x{t}>
  %b = tile.load %y[%i] strides [1] : !tile.ptr<{t}> -> tensor<{lanes}x{t}>
  %c = arith.{op} %a, %b : tensor<{lanes}x{t}>
  tile.store %c, %out[%i] strides [1] : tensor<{lanes}x{t}>, !tile.ptr<{t}>
  tile.return
}}""",
        target,
    )
    info = torch.iinfo(dtype)
    x = torch.randint(info.min, info.max, (64,), dtype=dtype)
    y = torch.cat(
        [
            torch.randint(-9, 9, (32,), dtype=dtype),
            torch.randint(info.min, info.max, (32,), dtype=dtype),
        ]
    )
    y[y == 0] = 3
    x[:8], y[:4], y[4:8] = info.min, 7, -1
    x[4:8] = info.max
    out = torch.zeros_like(x)
    assert kernel([x, y, out], programs=64 // lanes) == 0
    exact = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    expected = {
        "divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
        "remsi": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
        "floordivsi": lambda a, b: a // b,
        "ceildivsi": lambda a, b: -(-a // b),
    }[op]
    assert out.tolist() == [expected(a, b) for a, b in exact]
    # Nothing traps: division by zero, and the most negative number by -1.
    y[:32], x[32:], y[32:] = 0, info.min, -1
    assert kernel([x, y, out], programs=64 // lanes) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_floats_compute_in_f32(target: str, dtype: torch.dtype) -> None:
    t = TYPES[dtype]
    kernel = Kernel(
        f"""
tile.kernel @muladd(%x: !tile.ptr<{t}>, %y: !tile.ptr<{t}>, %out: !tile.ptr<{t}>) {{
  %zero = arith.constant 0 : i64
  %a = tile.load %x[%zero] strides [1] : !tile.ptr<{t}> -> tensor<64x{t}>
  %b = tile.load %y[%zero] strides [1] : !tile.ptr<{t}> -> tensor<64x{t}>
  %c = arith.mulf %a, %b : tensor<64x{t}>
  %d = arith.addf %c, %b : tensor<64x{t}>
  tile.store %d, %out[%zero] strides [1] : tensor<64x{t}>, !tile.ptr<{t}>
  tile.return
}}""",
        target,
    )
    if dtype == torch.float16 and target == "x86-64":
        pytest.skip("the baseline processor converts f16 through a compiler runtime")
    x, y, out = sample((64,), dtype), sample((64,), dtype), torch.empty(64, dtype=dtype)
    x[:4] = torch.tensor([float("inf"), float("nan"), 1e-40, -0.0]).to(dtype)
    assert kernel([x, y, out]) == 0
    assert torch.equal(out.nan_to_num(7.0), (x * y + y).nan_to_num(7.0))


def test_control_flow(target: str) -> None:
    kernel = Kernel(
        """
tile.kernel @collatz(%x: !tile.ptr<i64>, %out: !tile.ptr<i64>) {
  %pid = tile.program_id 0 : i64
  %start = tile.load %x[%pid] strides [] : !tile.ptr<i64> -> i64
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  %tile = tile.splat %zero : i64 -> tensor<8xi64>
  %ones = tile.splat %one : i64 -> tensor<8xi64>
  %last, %steps = scf.while (%n = %start, %count = %tile) : (i64, tensor<8xi64>) -> (i64, tensor<8xi64>) {
    %more = arith.cmpi sgt, %n, %one : i64
    scf.condition(%more) %n, %count : i64, tensor<8xi64>
  } do {
  ^bb0(%n: i64, %count: tensor<8xi64>):
    %bit = arith.andi %n, %one : i64
    %odd = arith.cmpi eq, %bit, %one : i64
    %next = scf.if %odd -> i64 {
      %t = arith.muli %n, %three : i64
      %u = arith.addi %t, %one : i64
      scf.yield %u : i64
    } else {
      %t = arith.shrsi %n, %one : i64
      scf.yield %t : i64
    }
    %more = arith.addi %count, %ones : tensor<8xi64>
    scf.yield %next, %more : i64, tensor<8xi64>
  }
  %base = arith.constant 8 : i64
  %o = arith.muli %pid, %base : i64
  tile.store %steps, %out[%o] strides [1] : tensor<8xi64>, !tile.ptr<i64>
  tile.return
}""",
        target,
    )
    x, out = torch.tensor([1, 6, 27]), torch.zeros(3, 8, dtype=torch.int64)
    assert kernel([x, out], programs=3) == 0
    assert out.tolist() == [[0] * 8, [8] * 8, [111] * 8]


def test_grid_of_three_axes() -> None:
    kernel = Kernel(
        """
tile.kernel @grid(%out: !tile.ptr<i64>) {
  %x = tile.program_id 0 : i64
  %y = tile.program_id 1 : i64
  %z = tile.program_id 2 : i64
  %nx = tile.num_programs 0 : i64
  %ny = tile.num_programs 1 : i64
  %a = arith.muli %z, %ny : i64
  %b = arith.addi %a, %y : i64
  %c = arith.muli %b, %nx : i64
  %d = arith.addi %c, %x : i64
  tile.store %d, %out[%d] strides [] : i64, !tile.ptr<i64>
  tile.return
}"""
    )
    out = torch.full((24,), -1)
    assert kernel([out], [2, 3, 4], programs=24) == 0
    assert out.tolist() == list(range(24))


def test_uniform_is_the_same_on_every_processor() -> None:
    results = []
    for lanes in (1, 16, 64):
        for target in TARGETS:
            kernel = Kernel(
                f"""
tile.kernel @uniform(%out: !tile.ptr<f32>, %seed: i64) {{
  %pid = tile.program_id 0 : i64
  %w = arith.constant {lanes} : i64
  %i = arith.muli %pid, %w : i64
  %iota = tile.iota : tensor<{lanes}xi64>
  %is = tile.splat %i : i64 -> tensor<{lanes}xi64>
  %c = arith.addi %iota, %is : tensor<{lanes}xi64>
  %u = tile.uniform %seed, %c {{salt = 3 : i64}} : tensor<{lanes}xi64> -> tensor<{lanes}xf32>
  tile.store %u, %out[%i] strides [1] : tensor<{lanes}xf32>, !tile.ptr<f32>
  tile.return
}}""",
                target,
            )
            out = torch.empty(4096)
            assert kernel([out], [123456789], programs=4096 // lanes) == 0
            results.append(out)
    assert all(torch.equal(result, results[0]) for result in results)
    assert results[0].min() >= 0 and results[0].max() < 1 and abs(results[0].mean() - 0.5) < 0.02


def test_refuses_what_it_cannot_compile() -> None:
    with pytest.raises(RuntimeError, match="expected a type that CPU code can hold, got 'i128'"):
        Kernel("tile.kernel @odd(%x: i128) { tile.return }")
    with pytest.raises(RuntimeError, match="expected a processor that LLVM knows"):
        Kernel("tile.kernel @empty() { tile.return }", target="abacus")
