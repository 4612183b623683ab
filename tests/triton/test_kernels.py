"""Kernels written for Triton, unchanged, on CPU tensors."""

from __future__ import annotations

import random

import pytest
import torch
import triton

from tests.compiling import run_python
from torch_tile.errors import UnsupportedError

from . import kernels


@pytest.mark.parametrize("block", [16, 64, 128, 1024, 32768])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.float64])
def test_add(block: int, dtype: torch.dtype) -> None:
    n = 5003
    x, y = (torch.randn(n) * 10).to(dtype), (torch.randn(n) * 10).to(dtype)
    out = torch.full((n + 1,), 7).to(dtype)
    kernels.add[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    assert torch.equal(out[:n], x + y)
    assert out[n] == 7


@pytest.mark.parametrize("n", [1, 100, 781, 5000])
def test_softmax(n: int) -> None:
    x = torch.randn(37, n)
    out = torch.empty_like(x)
    kernels.softmax[(37,)](x, out, x.stride(0), n, BLOCK=triton.next_power_of_2(n))
    torch.testing.assert_close(out, torch.softmax(x, 1), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(64, 64, 64), (100, 70, 50), (1, 257, 33)])
@pytest.mark.parametrize("blocks", [(64, 64, 32), (16, 16, 16), (128, 32, 64)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_matmul(shape: tuple[int, int, int], blocks: tuple[int, int, int], dtype: torch.dtype) -> None:
    m, n, k = shape
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    c = torch.empty(m, n, dtype=dtype)
    grid = (triton.cdiv(m, blocks[0]), triton.cdiv(n, blocks[1]))
    kernels.matmul[grid](a, b, c, m, n, k, BM=blocks[0], BN=blocks[1], BK=blocks[2])
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    torch.testing.assert_close(c, (a.double() @ b.double()).to(dtype), **tolerance)


@pytest.mark.parametrize("n", [64, 100])
def test_attention(n: int) -> None:
    q, k, v = (torch.randn(n, 32) for _ in range(3))
    out = torch.empty(n, 32)
    kernels.attention[(triton.cdiv(n, 32),)](q, k, v, out, n, D=32, BM=32, BN=64)
    torch.testing.assert_close(out, torch.softmax(q @ k.T, 1) @ v, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [16, 4096])
def test_reduction_of_three_values(n: int) -> None:
    x, out = torch.randn(n) + 3, torch.empty(2)
    kernels.variance[(1,)](x, out, N=n)
    torch.testing.assert_close(out, torch.stack([x.mean(), x.var(correction=0)]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(4, 8), (32, 128), (4, 1024)])
def test_scan_of_two_values(shape: tuple[int, int], axis: int, reverse: bool) -> None:
    a, b, out = torch.rand(shape), torch.randn(shape), torch.empty(shape)
    kernels.recurrence[(1,)](a, b, out, M=shape[0], N=shape[1], AXIS=axis, REVERSE=reverse)
    expected, h = torch.empty(shape), torch.zeros(shape[1 - axis])
    steps = range(shape[axis])
    for i in reversed(steps) if reverse else steps:
        h = a.select(axis, i) * h + b.select(axis, i)
        expected.select(axis, i).copy_(h)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("shape", [(1, 8), (4, 64), (2, 1024)])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(shape: tuple[int, int], descending: bool) -> None:
    x = torch.randn(shape)
    out = torch.empty_like(x)
    kernels.sort[(1,)](x, out, M=shape[0], N=shape[1], DESCENDING=descending)
    assert torch.equal(out, x.sort(1, descending=descending).values)


@pytest.mark.parametrize(("n", "bins"), [(64, 8), (2048, 256)])
def test_histogram(n: int, bins: int) -> None:
    x, out = torch.randint(0, bins, (n,), dtype=torch.int32), torch.empty(bins, dtype=torch.int32)
    kernels.histogram[(1,)](x, out, N=n, BINS=bins)
    assert torch.equal(out.long(), torch.bincount(x, minlength=bins))


@pytest.mark.parametrize("kind", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
def test_colliding_atomics(kind: str, dtype: torch.dtype) -> None:
    n = 256
    where, value = torch.randint(0, 5, (n,)), torch.randint(-50, 50, (n,)).to(dtype)
    out, old = torch.zeros(5, dtype=dtype), torch.empty(n, dtype=dtype)
    kernels.collide[(1,)](where, value, out, old, N=n, KIND=kind)
    expected, seen = torch.zeros(5, dtype=dtype), torch.zeros(n, dtype=dtype)
    combine = {"add": torch.add, "max": torch.maximum, "min": torch.minimum}[kind]
    for i in range(n - 1):
        seen[i] = expected[where[i]]
        expected[where[i]] = combine(expected[where[i]], value[i])
    assert torch.equal(out, expected)
    # Triton makes a float's maximum of two atomics, one for either sign: what they see depends on that.
    if kind == "add" or not dtype.is_floating_point:
        assert torch.equal(old[:-1], seen[:-1])


def test_lock() -> None:
    lock, count = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    kernels.locked[(500,)](lock, count)
    assert count.item() == 500


def test_pointers_in_memory() -> None:
    rows = [torch.randn(20) for _ in range(4)]
    table = torch.tensor([row.data_ptr() for row in rows])
    out = torch.empty(4, 20)
    kernels.pointer_table[(4,)](table, out, 20, BLOCK=32)
    assert torch.equal(out, torch.stack(rows))


@pytest.mark.parametrize("n", [8, 512])
def test_rearranging(n: int) -> None:
    x, y, out = torch.randn(n), torch.randn(n), torch.empty(6 * n)
    kernels.rearrange[(1,)](x, y, out, N=n)
    both = torch.stack([x, y]).reshape(n, 2)
    expected = [both[:, 0], both[:, 1], torch.stack([x, y], 1).flatten(), x[(torch.arange(n) * 7) % n], x.flip(0)]
    assert torch.equal(out, torch.cat(expected))


@pytest.mark.parametrize("n", [16, 128, 1024, 4096])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint32, torch.int64, torch.uint64])
def test_high_halves_of_products(n: int, dtype: torch.dtype) -> None:
    """Ops with two results, of which the second is used, on tiles short and long."""
    bits = torch.iinfo(dtype).bits
    numbers = [[random.getrandbits(bits) for _ in range(n)] for _ in range(2)]
    signed = torch.int32 if bits == 32 else torch.int64
    wrap = [[v - (1 << bits) if v >> (bits - 1) else v for v in side] for side in numbers]
    x, y = (torch.tensor(side, dtype=signed).view(dtype) for side in wrap)
    out = torch.empty(n, dtype=dtype)
    kernels.high_halves[(1,)](x, y, out, N=n)
    expected = [(a * b) >> bits for a, b in zip(*numbers, strict=True)]
    assert [v % (1 << bits) for v in out.view(signed).tolist()] == expected


@pytest.mark.parametrize("n", [16, 1024])
def test_halves_of_pointers(n: int) -> None:
    data, out = torch.randn(2 * n), torch.empty(n)
    order = torch.randperm(2 * n)
    kernels.split_pointers[(1,)](data.data_ptr() + 4 * order, out, N=n)
    pairs = data[order].view(n, 2)
    assert torch.equal(out, pairs[:, 0] - 2 * pairs[:, 1])


@pytest.mark.parametrize("n", [16, 1024])
def test_map_of_two_results(n: int) -> None:
    x, y, out = torch.randn(n), torch.randn(n), torch.empty(2, n)
    kernels.map_two[(1,)](x, y, out, N=n)
    assert torch.equal(out, torch.stack([x - y, x + y]))


def test_while_and_early_return() -> None:
    x = torch.tensor([1, 0, 7, 27, 97], dtype=torch.int32)
    out = torch.full((5,), -1, dtype=torch.int32)
    kernels.collatz[(5,)](x, out)
    assert out.tolist() == [0, -1, 16, 111, 118]


def test_grid_of_three_axes() -> None:
    out = torch.empty(4, 3, 5, dtype=torch.int32)
    kernels.grid_ids[(5, 3, 4)](out)
    z, y, x = torch.meshgrid(torch.arange(4), torch.arange(3), torch.arange(5), indexing="ij")
    assert torch.equal(out.long(), x + 10 * y + 100 * z)


@pytest.mark.skipif(not hasattr(triton.language, "make_tensor_descriptor"), reason="an older Triton")
def test_descriptors() -> None:
    x = torch.randn(50, 70)
    out = torch.full((51, 70), 7.0)
    kernels.descriptor_copy[(4, 3)](x, out, 50, 70, BM=16, BN=32)
    assert torch.equal(out[:50], x * 2)
    assert (out[50] == 7).all()


def test_division_by_zero_in_masked_lanes() -> None:
    x, y = torch.arange(-3, 7, dtype=torch.int32), torch.full((10,), 3, dtype=torch.int32)
    out = torch.empty(10, dtype=torch.int32)
    kernels.divide[(1,)](x, y, out, 10, BLOCK=64)
    assert torch.equal(out, torch.div(x, y, rounding_mode="trunc"))


def test_masked_lanes_touch_no_memory() -> None:
    """Addresses far outside the tensor are formed, and not used."""
    x, y, out = torch.randn(3), torch.randn(3), torch.empty(3)
    kernels.add[(1,)](x, y, out, 3, BLOCK=32768)
    assert torch.equal(out, x + y)


@pytest.mark.parametrize("shift", [0, 1, 64])
def test_overlapping_arguments(shift: int) -> None:
    """All is loaded before anything is stored, whatever overlaps."""
    x = torch.randn(4096 + 64)
    expected = x.clone()
    expected[shift : shift + 4096] = x[:4096] + 1
    kernels.shift_in_place[(1,)](x, x[shift:], N=4096)
    assert torch.equal(x, expected)


def test_device_assert() -> None:
    kernels.check[(1,)](torch.zeros(1024), N=1024)
    x = torch.zeros(1024)
    x[1000] = 11
    with pytest.raises(RuntimeError, match=r"too large.*kernels\.py"):
        kernels.check[(1,)](x, N=1024)


def test_device_print() -> None:
    script = """
        import torch
        from tests.triton import kernels
        kernels.show[(1,)](torch.arange(4, dtype=torch.int32), N=4)
    """
    assert "pid (0, 0, 0) idx (3) x: 3" in run_python(script)


def test_library_functions() -> None:
    x, out = torch.rand(64) + 0.5, torch.empty(64)
    kernels.libdevice[(1,)](x, out, N=64)
    torch.testing.assert_close(out, torch.tanh(x) + x**x, rtol=1e-5, atol=1e-6)


SPECIAL = {
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "erfcx": torch.special.erfcx,
    "erfinv": lambda x: torch.special.erfinv(x),
    "erfcinv": lambda x: torch.special.erfinv(1 - x),
    "lgamma": torch.special.gammaln,
    "normcdfinv": torch.special.ndtri,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_functions(name: str, dtype: torch.dtype) -> None:
    low, high = {"erfinv": (-0.999, 0.999), "erfcinv": (0.01, 1.99), "normcdfinv": (0.001, 0.999)}.get(
        name, (-9.0, 12.0)
    )
    x = torch.linspace(low, high, 256, dtype=dtype)
    out = torch.empty_like(x)
    kernels.special[(1,)](x, out, FUNCTION=name, N=256)
    expected = SPECIAL[name](x.double()).to(dtype)
    tight = {"rtol": 2e-7, "atol": 1e-7} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-13}
    # torch's own J and Y are exact to 4e-7 alone, in float64 too.
    loose = {"rtol": 1e-4, "atol": 1e-6}
    torch.testing.assert_close(out, expected, equal_nan=True, **(loose if name[0] in "jy" else tight))


def test_float8_saturates() -> None:
    x = torch.tensor([0.3, -0.001, 448.0, 1e6, -float("inf"), 17.0, 1e-9, -3.3])
    out = torch.empty(8)
    kernels.float8[(1,)](x, out, N=8)
    assert torch.equal(out, x.clamp(-448, 448).to(torch.float8_e4m3fn).float())


def test_float8_of_triton() -> None:
    """float8e4b15 is an f16 without one exponent bit and seven mantissa bits; magnitudes end at 1.75."""
    x = torch.tensor([0.0, -0.0, 1.0, 1.06, 1.0625, -1.5, 1.75, 3.0, 1e6, -1e-4, 2.0**-14, 2.0**-17, 2.0**-20])
    x = torch.cat([x, torch.zeros(3)])
    bits, out = torch.empty(16, dtype=torch.uint8), torch.empty(16)
    kernels.float8_of_triton[(1,)](x, bits, out, N=16)
    expected = [0, -0.0, 1.0, 1.0, 1.125, -1.5, 1.75, 1.75, 1.75, -(2.0**-17) * 13, 2.0**-14, 2.0**-17, 0, 0, 0, 0]
    assert out.tolist() == expected
    assert bits[:3].tolist() == [0, 0x80, 0x78]


@pytest.mark.skipif(not hasattr(triton.language, "atomic_poll"), reason="an older Triton")
@pytest.mark.parametrize("held", [3, 4])
def test_poll(held: int) -> None:
    flag, out = torch.tensor([held]), torch.empty(1, dtype=torch.bool)
    kernels.poll[(1,)](flag, out, 1000)
    assert out.item() == (held == 3)
    assert flag.item() == held


@pytest.mark.skipif(not hasattr(triton.language, "atomic_poll"), reason="an older Triton")
def test_programs_wait_for_lower_ones() -> None:
    flags, out = torch.zeros(300, dtype=torch.int32), torch.zeros(300, dtype=torch.int32)
    kernels.wait_for_lower[(300,)](flags, out)
    assert out.tolist() == list(range(1, 301))


@pytest.mark.parametrize(("shape", "axis"), [((1, 1024), 1), ((4, 16), 1), ((512, 4), 0)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_sums_of_narrow_floats(shape: tuple[int, int], axis: int, dtype: torch.dtype) -> None:
    """One rounding per element, not one per step."""
    x = torch.rand(shape).to(dtype)
    out = torch.empty_like(x)
    kernels.running_sum[(1,)](x, out, M=shape[0], N=shape[1], AXIS=axis)
    torch.testing.assert_close(out, x.double().cumsum(axis).to(dtype), rtol=torch.finfo(dtype).eps, atol=0)


def test_device_print_of_floats_in_hex() -> None:
    script = """
        import torch
        from tests.triton import kernels
        kernels.show_hex[(1,)](torch.tensor([0.0, 1.5, -3.25, 1e-3], dtype=torch.float64), N=4)
    """
    values = [float.fromhex(line.rsplit(" ", 1)[1]) for line in run_python(script).splitlines() if line]
    assert values == [0.0, 1.5, -3.25, 1e-3]


def test_what_is_not_supported_names_the_line() -> None:
    with pytest.raises(UnsupportedError, match=r"kernels\.py:\d+: inline assembly is for GPUs"):
        kernels.assembly[(1,)](torch.zeros(32, dtype=torch.int32), N=32)


def test_options_for_gpus_are_ignored() -> None:
    x, y, out = torch.randn(64), torch.randn(64), torch.empty(64)
    kernels.add[(1,)](x, y, out, 64, BLOCK=64, num_warps=8, num_stages=3, maxnreg=64)
    assert torch.equal(out, x + y)


def test_stages_are_at_hand() -> None:
    x, y, out = torch.randn(64), torch.randn(64), torch.empty(64)
    compiled = kernels.add[(1,)](x, y, out, 64, BLOCK=64)
    assert "tile.kernel @add" in compiled.asm["tile"]
    assert "tt.func" in compiled.asm["ttir"]
    assert "define i32" in compiled.asm["llir"]


def test_wrong_device_is_named() -> None:
    x = torch.randn(64)
    with pytest.raises(ValueError, match="expected a tensor in CPU memory"):
        kernels.add[(1,)](x.to("meta"), x, x.clone(), 64, BLOCK=64)


def test_autotune_and_heuristics() -> None:
    tuned = triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 256)], key=["n"])(kernels.add)
    x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000)
    assert torch.equal(out, x + y)
    guided = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(kernels.add)
    out.zero_()
    guided[(1,)](x, y, out, 1000)
    assert torch.equal(out, x + y)


def test_library_rounds_as_asked() -> None:
    """The exact results are those of tests/language/test_rounding.py; here they come through Triton."""
    x, y = torch.randn(64), torch.randn(64)
    out, exact = torch.empty(6, 64), torch.empty(6, 64, dtype=torch.float64)
    kernels.rounded_by_library[(1,)](x, y, out, N=64)
    a, b = x.double(), y.double()
    for k, value in enumerate((a + b, a / b, a * b, a * b + a, a.abs().sqrt(), (x.long() * 1234567891011).double())):
        exact[k] = value
    below, above = out.double() <= exact, out.double() >= exact
    assert below[0].all() and above[1].all() and below[3].all() and above[4].all()
    assert (out[2].double().abs() <= exact[2].abs()).all() and (out[5].double().abs() <= exact[5].abs()).all()
    assert (below & ~above).any() and (above & ~below).any()
    torch.testing.assert_close(out, exact.float(), rtol=2e-7, atol=1e-7)


def test_library_functions_that_are_kernels() -> None:
    x, n = torch.rand(64) * 9 + 0.5, torch.arange(64, dtype=torch.int32) % 7
    out = torch.empty(8, 64)
    kernels.special_of_library[(1,)](x, n, out, N=64)
    first, second = torch.special.bessel_j0(x), torch.special.bessel_y0(x)
    torch.testing.assert_close(out[0][n == 0], first[n == 0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out[1][n == 0], second[n == 0], rtol=1e-5, atol=1e-5)
    # J(n) Y(n + 1) - J(n + 1) Y(n) = -2 / (pi x), here for one x.
    same = torch.full((64,), 2.5)
    kernels.special_of_library[(1,)](same, n, out, N=64)
    j, y = out[0, :7], out[1, :7]
    torch.testing.assert_close(j[:-1] * y[1:] - j[1:] * y[:-1], torch.full((6,), -2 / (torch.pi * 2.5)))
    kernels.special_of_library[(1,)](x, n, out, N=64)
    torch.testing.assert_close(out[2], torch.lgamma(x).exp(), rtol=1e-4, atol=0)
    assert torch.equal(out[3], torch.nextafter(x, -x))
    rest = (x * 7).double() - ((x * 7).double() / (x + 1).double()).round() * (x + 1).double()
    torch.testing.assert_close(out[4], rest.float(), rtol=1e-5, atol=1e-5)
    assert torch.equal(out[5], 2 * x.log2().floor())
    torch.testing.assert_close(out[6], torch.ones(64))
    assert torch.equal(out[7], x.floor() + x.ceil())


def test_library_functions_of_bits() -> None:
    x = torch.arange(16, dtype=torch.int32) * 77777
    out = torch.empty(5, 16, dtype=torch.int32)
    kernels.bits_of_library[(1,)](x, out, N=16)
    turned = [int(f"{v & 0xFFFFFFFF:032b}"[::-1], 2) + 1 for v in x.tolist()]
    assert [v & 0xFFFFFFFF for v in out[0].tolist()] == [int(f"{v & 0xFFFFFFFF:032b}"[::-1], 2) for v in turned]
    both = [(v & 0xFFFFFFFF) | ((~v & 0xFFFFFFFF) << 32) for v in x.tolist()]
    chosen = [sum(((v >> (8 * place)) & 0xFF) << (8 * k) for k, place in enumerate((1, 3, 5, 7))) for v in both]
    assert [v & 0xFFFFFFFF for v in out[1].tolist()] == chosen
    assert torch.equal(out[2], x * x)
    assert torch.equal(out[3], 2 * x.abs() + x)
    assert (out[4] == 3).all()


def test_profiler_shows_shapes_and_dtypes() -> None:
    """As of kernels of graphs."""
    x, y = torch.randn(100), torch.randn(100, dtype=torch.float64)
    out = torch.empty(100)
    kernels.add[(1,)](x, y, out, 100, BLOCK=128)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        kernels.add[(1,)](x, y, out, 100, BLOCK=128)
    (event,) = [event for event in profile.events() if event.name == "add"]
    assert event.input_shapes == [[100], [100], [100]]
    (raw,) = [event for event in profile.profiler.kineto_results.events() if event.name() == "add"]
    assert raw.dtypes() == ["float", "double", "float"]
