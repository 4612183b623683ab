"""Small kernels of one instruction of PTX each, as LLVM's IR: what they read, and what they are to write, by the
documentation of PTX. Simulated (test_simulated_instructions.py), and run on a device (test_instructions.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

_BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
_ELEMENTS = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "s8": torch.int8,
    "tf32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}


@dataclasses.dataclass
class Case:
    name: str
    ir: str
    source: torch.Tensor  # bytes
    expected: torch.Tensor  # what the kernel writes
    tolerance: float = 0.0


def kernel(body: str, declarations: str, threads: int, shared: int = 16) -> str:
    return f"""target triple = "nvptx64-nvidia-cuda"
@shared = internal addrspace(3) global [{shared} x i8] undef, align 1024
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
{declarations}
define ptx_kernel void @tile_case(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {{
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
{body}
  ret void
}}
attributes #0 = {{ "nvvm.maxntid"="{threads}" }}
"""


def words(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor, as 32-bit words."""
    fresh = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    return fresh.view(torch.uint8).view(torch.int32)


def _load(name: str, type_: str, base: str, index: str, space: int = 1) -> str:
    pointer = f"ptr addrspace({space})"
    place = f"  %{name}.at = getelementptr {type_}, {pointer} {base}, i32 {index}\n"
    return f"{place}  %{name} = load {type_}, {pointer} %{name}.at, align {8 if type_ == 'double' else 4}\n"


def _store(name: str, value: str, type_: str, index: str) -> str:
    pointer = "ptr addrspace(1)"
    place = f"  %{name}.to = getelementptr {type_}, {pointer} %out, i32 {index}\n"
    return f"{place}  store {type_} {value}, {pointer} %{name}.to, align {8 if type_ == 'double' else 4}\n"


def _index(name: str, factor: int, offset: int) -> str:
    return f"  %{name}.m = mul i32 %t, {factor}\n  %{name} = add i32 %{name}.m, {offset}\n"


def _fill_shared(num_bytes: int, threads: int) -> str:
    """Each thread copies its part of the input."""
    assert num_bytes % (16 * threads) == 0
    text = ""
    for k in range(num_bytes // (16 * threads)):
        text += _index(f"fill{k}", 16, 16 * threads * k)
        text += f"""  %from{k} = getelementptr i8, ptr addrspace(1) %in, i32 %fill{k}
  %value{k} = load <4 x i32>, ptr addrspace(1) %from{k}, align 16
  %to{k} = getelementptr i8, ptr addrspace(3) @shared, i32 %fill{k}
  store <4 x i32> %value{k}, ptr addrspace(3) %to{k}, align 16
"""
    return text + _BARRIER


# --- mma.sync ---------------------------------------------------------------------------------------------------------


def _random(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    if dtype is torch.int8:
        return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
    if dtype is torch.float32:  # of tf32 the last 13 bits do not count
        return (torch.randn(shape, generator=generator).view(torch.int32) & -8192).view(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def mma(kind: str) -> Case:
    generator = torch.Generator().manual_seed(1)
    dtype = _ELEMENTS[kind]
    depth, each = 32 // dtype.itemsize, 4 // dtype.itemsize
    sums = torch.int32 if kind == "s8" else torch.float32
    a, b = _random((16, depth), dtype, generator), _random((depth, 8), dtype, generator)
    c = torch.randint(-1000, 1000, (16, 8), generator=generator).to(sums)
    registers = []
    for lane in range(32):
        group, place = lane // 4, lane % 4 * each
        left = [a[group + r, place + k : place + k + each] for k in (0, depth // 2) for r in (0, 8)]
        right = [b[place + k : place + k + each, group] for k in (0, depth // 2)]
        start = [c[group + r, lane % 4 * 2 : lane % 4 * 2 + 2] for r in (0, 8)]
        registers += [words(part) for part in (*left, *right, *start)]
    sum_type = "i32" if kind == "s8" else "float"
    operand = "<2 x half>" if kind == "f16" else "i32"
    name = {
        "f16": "m16n8k16.row.col.f32.f32",
        "bf16": "m16n8k16.row.col.bf16",
        "s8": "m16n8k32.row.col.s8",
        "tf32": "m16n8k8.row.col.tf32",
    }.get(kind)
    struct = f"{{ {', '.join([sum_type] * 4)} }}"
    types = [operand] * 6 + [sum_type] * 4
    body = "".join(_index(f"i{k}", 10, k) + _load(f"v{k}", t, "%in", f"%i{k}") for k, t in enumerate(types))
    arguments = ", ".join(f"{t} %v{k}" for k, t in enumerate(types))
    if name is None:  # no intrinsic of LLVM
        text = f"mma.sync.aligned.m16n8k32.row.col.f32.{kind}.{kind}.f32 {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, "
        text += "{$8, $9}, {$10, $11, $12, $13};"
        constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)
        body += f'  %d = call {struct} asm "{text}", "{constraints}"({arguments})\n'
    else:
        body += f"  %d = call {struct} @llvm.nvvm.mma.{name}({arguments})\n"
    for k in range(4):
        body += (
            f"  %d{k} = extractvalue {struct} %d, {k}\n"
            + _index(f"o{k}", 4, k)
            + _store(f"s{k}", f"%d{k}", sum_type, f"%o{k}")
        )
    full = (a.double() @ b.double() + c.double()).to(sums)
    expected = [full[lane // 4 + r, lane % 4 * 2 : lane % 4 * 2 + 2] for lane in range(32) for r in (0, 8)]
    ir = kernel(body, f"declare {struct} @llvm.nvvm.mma.{name}({', '.join(types)})" if name else "", 32)
    return Case(f"mma-{kind}", ir, torch.cat(registers), torch.cat(expected), 0.0 if kind == "s8" else 1e-4)


def mma_f64() -> Case:
    generator = torch.Generator().manual_seed(1)
    a, b, c = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((8, 4), (4, 8), (8, 8)))
    registers, expected, full = [], [], a @ b + c
    for lane in range(32):
        row, place = lane // 4, lane % 4 * 2
        registers += [a[row, lane % 4][None], b[lane % 4, row][None], c[row, place : place + 2]]
        expected.append(full[row, place : place + 2])
    struct, name = "{ double, double }", "llvm.nvvm.mma.m8n8k4.row.col.f64"
    body = "".join(_index(f"i{k}", 4, k) + _load(f"v{k}", "double", "%in", f"%i{k}") for k in range(4))
    body += f"  %d = call {struct} @{name}({', '.join(f'double %v{k}' for k in range(4))})\n"
    for k in range(2):
        body += f"  %d{k} = extractvalue {struct} %d, {k}\n" + _index(f"o{k}", 2, k)
        body += _store(f"s{k}", f"%d{k}", "double", f"%o{k}")
    ir = kernel(body, f"declare {struct} @{name}(double, double, double, double)", 32)
    return Case("mma-f64", ir, words(torch.cat(registers)), torch.cat(expected), 1e-12)


# --- ldmatrix ---------------------------------------------------------------------------------------------------------


def ldmatrix(count: int, is_transposed: bool) -> Case:
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(-(2**15), 2**15, (8 * 4, 8), generator=generator).to(torch.int16)
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if is_transposed else ''}.b16.p3"
    result = "i32" if count == 1 else f"{{ {', '.join(['i32'] * count)} }}"
    body = _fill_shared(512, 32) + _index("row", 16, 0)
    body += "  %p = getelementptr i8, ptr addrspace(3) @shared, i32 %row\n"
    body += f"  %d = call {result} @{name}(ptr addrspace(3) %p)\n"
    for k in range(count):
        part = "%d" if count == 1 else f"%d{k}"
        body += "" if count == 1 else f"  %d{k} = extractvalue {result} %d, {k}\n"
        body += _index(f"o{k}", count, k) + _store(f"s{k}", part, "i32", f"%o{k}")
    expected = []
    for lane in range(32):
        for matrix in source.view(4, 8, 8)[:count]:
            m = matrix.t() if is_transposed else matrix
            expected.append(m[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2])
    ir = kernel(body, f"declare {result} @{name}(ptr addrspace(3))", 32, 512)
    return Case(f"ldmatrix-x{count}{'-trans' if is_transposed else ''}", ir, words(source), words(torch.cat(expected)))


def stmatrix(count: int, is_transposed: bool) -> Case:
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(-(2**31), 2**31, (32, count), generator=generator).to(torch.int32)
    name = f"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{count}{'.trans' if is_transposed else ''}.b16.p3"
    body = "".join(_index(f"i{k}", count, k) + _load(f"v{k}", "i32", "%in", f"%i{k}") for k in range(count))
    body += _index("row", 16, 0) + "  %p = getelementptr i8, ptr addrspace(3) @shared, i32 %row\n"
    operands = ", ".join(f"i32 %v{k}" for k in range(count))
    body += f"  call void @{name}(ptr addrspace(3) %p, {operands})\n{_BARRIER}"
    for k in range(count):
        body += _index(f"o{k}", count, k) + _load(f"x{k}", "i32", "@shared", f"%o{k}", 3)
        body += _store(f"s{k}", f"%x{k}", "i32", f"%o{k}")
    stored = torch.zeros(count, 8, 8, dtype=torch.int16)
    for lane in range(32):
        for k in range(count):
            matrix = stored[k].t() if is_transposed else stored[k]
            matrix[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2] = source[lane, k : k + 1].view(torch.int16)
    ir = kernel(body, f"declare void @{name}(ptr addrspace(3), {', '.join(['i32'] * count)})", 32, 512)
    return Case(f"stmatrix-x{count}{'-trans' if is_transposed else ''}", ir, words(source), words(stored))


# --- cp.async ---------------------------------------------------------------------------------------------------------

_ASYNC = """declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3), ptr addrspace(1), i32)
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32 immarg)
declare void @llvm.nvvm.cp.async.wait.all()"""


def copies(wait: str, through_assembly: bool = False, name: str = "") -> Case:
    """Two groups: 16 bytes a thread, then 4 bytes of which the odd threads read none. Then `wait`, and the own copies
    are read."""
    source = torch.arange(1, 32 * 5 + 1, dtype=torch.int32)
    body = _index("a", 16, 0) + _index("b", 4, 512)
    body += """  %odd = and i32 %t, 1
  %even = xor i32 %odd, 1
  %size = shl i32 %even, 2
"""
    for name_, size in (("a", 16), ("b", 4)):
        body += f"""  %{name_}.from = getelementptr i8, ptr addrspace(1) %in, i32 %{name_}
  %{name_}.to = getelementptr i8, ptr addrspace(3) @shared, i32 %{name_}
"""
        if through_assembly:
            code = "cg.shared.global [$0], [$1], 16" if size == 16 else "ca.shared.global [$0], [$1], 4, $2"
            constraints, more = ("r,l", "") if size == 16 else ("r,l,r", ", i32 %size")
            arguments = f"i32 %{name_}.address, ptr addrspace(1) %{name_}.from{more}"
            body += f"""  %{name_}.address = ptrtoint ptr addrspace(3) %{name_}.to to i32
  call void asm sideeffect "cp.async.{code};", "{constraints}"({arguments})
  call void asm sideeffect "cp.async.commit_group;", ""()
"""
        else:
            call = "ca.shared.global.4.s" if size == 4 else "cg.shared.global.16"
            more = ", i32 %size" if size == 4 else ""
            arguments = f"ptr addrspace(3) %{name_}.to, ptr addrspace(1) %{name_}.from{more}"
            body += f"""  call void @llvm.nvvm.cp.async.{call}({arguments})
  call void @llvm.nvvm.cp.async.commit.group()
"""
    body += f"  {wait}\n" + _index("w", 4, 0) + _index("o", 5, 0)
    for k in range(4):
        body += f"  %r{k} = add i32 %w, {k}\n  %q{k} = add i32 %o, {k}\n"
        body += _load(f"x{k}", "i32", "@shared", f"%r{k}", 3) + _store(f"s{k}", f"%x{k}", "i32", f"%q{k}")
    body += "  %r4 = add i32 %t, 128\n  %q4 = add i32 %o, 4\n"
    body += _load("x4", "i32", "@shared", "%r4", 3) + _store("s4", "%x4", "i32", "%q4")
    second = torch.where(torch.arange(32) % 2 == 0, source[128:], 0)
    expected = torch.cat([source[:128].view(32, 4), second[:, None]], 1).flatten()
    return Case(f"cp-async-{name}", kernel(body, _ASYNC, 32, 640), source, expected)


WAIT_ALL, WAIT_ONE, WAIT_NONE = (
    "call void @llvm.nvvm.cp.async.wait.all()",
    "call void @llvm.nvvm.cp.async.wait.group(i32 1)",
    "",
)
WAIT_BY_ASSEMBLY = 'call void asm sideeffect "cp.async.wait_group 0;", ""()'

# --- wgmma ------------------------------------------------------------------------------------------------------------


def _place(matrix: torch.Tensor, swizzle: int, is_transposed: bool, start: int) -> tuple[torch.Tensor, int]:
    """Bytes of a matrix [outer, depth of 16] in shared memory from `start` on, and its descriptor without the address.

    `swizzle`: bytes of a row, 16 (none), 32, 64 or 128. Transposed: rows lie along `outer`.
    """
    outer, depth = matrix.shape
    elements = swizzle // 2  # of a row
    image = torch.zeros(16384, dtype=torch.int16)
    if is_transposed:
        groups = max(outer // elements, 1)  # of rows side by side
        # Without a swizzle the leading offset is that of the depth.
        along, across = (8 * swizzle, 8 * swizzle * groups)
        leading, stride = (across, along) if swizzle == 16 else (along, across)
    else:
        groups = max(depth // elements, 1)
        along, across = 8 * swizzle, 8 * swizzle * groups
        leading, stride = along, across
    for o in range(outer):
        for k in range(depth):
            u, v = (o, k) if is_transposed else (k, o)  # along a row, across rows
            offset = u // elements * along + v // 8 * across + v % 8 * swizzle + u % elements * 2
            address = start + offset
            bits = (address >> 7) & (swizzle // 16 - 1)
            image[((address ^ (bits << 4)) - start) // 2] = matrix.view(torch.int16)[o, k]
    mode = {16: 0, 128: 1, 64: 2, 32: 3}[swizzle]
    return image, (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


def _call_wgmma(kind: str, columns: int, transposed: tuple[bool, bool], in_registers: bool) -> str:
    """%d = %v0 .. %v3 or the matrix at %a.desc, times that at %b.desc, plus %v4 and so on."""
    sums = columns // 2
    struct, place = f"{{ {', '.join(['float'] * sums)} }}", 2 * sums
    results = ", ".join(f"${k}" for k in range(sums))
    left = "{" + ", ".join(f"${place + k}" for k in range(4)) + "}" if in_registers else f"${place}"
    right = place + (4 if in_registers else 1)
    flags = f"{int(transposed[1])}" if in_registers else f"{int(transposed[0])}, {int(transposed[1])}"
    text = f"{{ .reg .pred p; setp.ne.b32 p, ${right + 1}, 0; wgmma.mma_async.sync.aligned.m64n{columns}k16"
    text += f".f32.{kind}.{kind} {{{results}}}, {left}, ${right}, p, 1, 1, {flags}; }}"
    codes = ["=f"] * sums + [str(k) for k in range(sums)] + (["r"] * 4 if in_registers else ["l"]) + ["l", "r"]
    operands = [f"float %v{4 + k}" for k in range(sums)]
    operands += [f"i32 %v{k}" for k in range(4)] if in_registers else ["i64 %a.desc"]
    operands += ["i64 %b.desc", "i32 1"]
    return f'  %d = call {struct} asm sideeffect "{text}", "{",".join(codes)}"({", ".join(operands)})\n'


def wgmma(
    kind: str,
    columns: int,
    swizzle: int,
    transposed: tuple[bool, bool],
    in_registers: bool,
    wait: bool = True,
    fence: bool = True,
) -> Case:
    generator = torch.Generator().manual_seed(3)
    dtype = _ELEMENTS[kind]
    a, b = _random((64, 16), dtype, generator), _random((16, columns), dtype, generator)
    c = torch.randn(64, columns, generator=generator)
    (left, left_bits), (right, right_bits) = (
        _place(a, swizzle, transposed[0], 0),
        _place(b.t().contiguous(), swizzle, transposed[1], 0),
    )
    left, right = left[:4096], right[:8192]
    sums = columns // 2
    registers = []
    for thread in range(128):
        group, place = thread % 32 // 4, thread % 4 * 2
        row = 16 * (thread // 32) + group
        registers += [words(a[row + r, place + k : place + k + 2]) for k in (0, 8) for r in (0, 8)]
        registers += [
            c[row + r, 8 * j + place : 8 * j + place + 2].contiguous().view(torch.int32)
            for j in range(columns // 8)
            for r in (0, 8)
        ]
    source = torch.cat([words(left), words(right), *registers])
    total, each = 8192 + 16384, 4 + sums
    body = _fill_shared(total, 128)
    for k in range(each):
        type_ = "i32" if k < 4 else "float"
        body += _index(f"i{k}", each, total // 4 + k) + _load(f"v{k}", type_, "%in", f"%i{k}")
    body += f"""  %base = ptrtoint ptr addrspace(3) @shared to i32
  %low = and i32 %base, 262143
  %word = lshr i32 %low, 4
  %start = zext i32 %word to i64
  %a.desc = or i64 %start, {left_bits}
  %b.start = add i64 %start, 512
  %b.desc = or i64 %b.start, {right_bits}
"""
    if fence:
        body += f'  call void asm sideeffect "fence.proxy.async;", ""()\n{_BARRIER}'
        body += "  call void @llvm.nvvm.wgmma.fence.sync.aligned()\n"
    struct = f"{{ {', '.join(['float'] * sums)} }}"
    body += _call_wgmma(kind, columns, transposed, in_registers)
    body += "  call void @llvm.nvvm.wgmma.commit_group.sync.aligned()\n"
    if not wait:  # the operands are overwritten too early
        body += "  %again = getelementptr i8, ptr addrspace(3) @shared, i32 8192\n"
        body += "  store i32 0, ptr addrspace(3) %again, align 4\n"
    body += "  call void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64 0)\n"
    for k in range(sums):
        body += f"  %d{k} = extractvalue {struct} %d, {k}\n" + _index(f"o{k}", sums, k)
        body += _store(f"s{k}", f"%d{k}", "float", f"%o{k}")
    full = (a.double() @ b.double() + c.double()).float()
    expected = [
        full[16 * (t // 32) + t % 32 // 4 + r, 8 * j + t % 4 * 2 : 8 * j + t % 4 * 2 + 2]
        for t in range(128)
        for j in range(columns // 8)
        for r in (0, 8)
    ]
    declarations = """declare void @llvm.nvvm.wgmma.fence.sync.aligned()
declare void @llvm.nvvm.wgmma.commit_group.sync.aligned()
declare void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64 immarg)"""
    marks = f"{kind}-n{columns}-{swizzle}{'-at' * transposed[0]}{'-bt' * transposed[1]}{'-registers' * in_registers}"
    return Case(f"wgmma-{marks}", kernel(body, declarations, 128, total), source, torch.cat(expected), 1e-4)


def cases() -> Iterator[Case]:
    for kind in _ELEMENTS:
        yield mma(kind)
    yield mma_f64()
    for count in (1, 2, 4):
        for is_transposed in (False, True):
            yield ldmatrix(count, is_transposed)
            yield stmatrix(count, is_transposed)
    yield copies(WAIT_ALL, name="wait-all")
    yield copies(WAIT_BY_ASSEMBLY, through_assembly=True, name="assembly")
    for swizzle in (128, 64, 32, 16):
        yield wgmma("bf16", 64, swizzle, (False, False), False)
    for transposed in ((True, False), (False, True), (True, True)):
        yield wgmma("f16", 64, 128, transposed, False)
    yield wgmma("bf16", 128, 128, (False, True), True)
    yield wgmma("f16", 8, 32, (False, False), True)
    yield wgmma("bf16", 64, 16, (True, True), False)
