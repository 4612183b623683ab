"""Instructions of PTX that the simulator computes (tests/gpu/simulator_matrix.c): intrinsics of LLVM and inline
assembly become functions that store their operands, call the simulator, and load its results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Elements of operands, as simulator_matrix.c numbers them.
_ELEMENTS = {"f16": 0, "bf16": 1, "s8": 2, "u8": 3, "tf32": 4, "e4m3": 5, "e5m2": 6}
_COUNT = {"x1": 1, "x2": 2, "x4": 4}

Call = tuple[str, list[int]]  # function of the simulator, and what it is told beside the operands


def _intrinsic(name: str) -> Call | None:
    """What computes an intrinsic, by its name without "llvm.nvvm."."""
    if found := re.fullmatch(r"mma\.m16n8k(?:8|16|32)\.row\.col\.(f32|bf16|s8|u8|tf32)(?:\.(f32|s8|u8))?", name):
        left = "f16" if found[1] == "f32" else found[1]
        return "sim_mma", [_ELEMENTS[left], _ELEMENTS.get(found[2] or "", _ELEMENTS[left])]
    if name == "mma.m8n8k4.row.col.f64":
        return "sim_mma_f64", []
    if found := re.fullmatch(r"(ld|st)matrix\.sync\.aligned\.m8n8\.(x\d)(\.trans)?\.b16\.p[03]", name):
        return f"sim_{found[1]}matrix", [_COUNT[found[2]], int(found[3] is not None)]
    if found := re.fullmatch(r"cp\.async\.(c[ag])\.shared\.global\.(4|8|16)(\.s)?", name):
        return "sim_cp_async", [int(found[2]), int(found[3] is not None)]
    if found := re.fullmatch(r"ff\.to\.(e4m3|e5m2)x2\.rn", name):
        return "sim_to_float8", [_ELEMENTS[found[1]]]
    if found := re.fullmatch(r"(e4m3|e5m2)x2\.to\.f16x2\.rn", name):
        return "sim_from_float8", [_ELEMENTS[found[1]]]
    return {
        "cp.async.commit.group": ("sim_cp_async_commit", []),
        "cp.async.wait.group": ("sim_cp_async_wait", []),
        "cp.async.wait.all": ("sim_cp_async_wait_all", []),
        "wgmma.fence.sync.aligned": ("sim_wgmma_fence", []),
        "wgmma.commit_group.sync.aligned": ("sim_wgmma_commit", []),
        "wgmma.wait_group.sync.aligned": ("sim_wgmma_wait", []),
    }.get(name)


def split(text: str) -> list[str]:
    """Parts between commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _type_of(text: str) -> str:
    """The type that a parameter or an argument begins with."""
    found = re.match(r"<[^>]*>|\{[^}]*\}|\[[^\]]*\]|\w+", text)
    assert found is not None, text
    return found[0]


def _wrapper(
    name: str, result: str, types: list[str], sources: list[str], call: Call, kept: dict[int, int] | None = None
) -> str:
    """A function `name` that gives `sources` (values %a0, %a1 .. of `types`, or integers) to the simulator. With `kept`
    its results are the arguments of these numbers."""
    lines = [f"define internal {result} {name}({', '.join(f'{t} %a{k}' for k, t in enumerate(types))}) noinline {{"]
    results = split(result[1:-1]) if result.startswith("{") else [] if result == "void" else [result]
    lines.append(f"  %in = alloca [{max(len(sources), 1)} x i64]\n  %out = alloca [{max(len(results), 1)} x i64]")
    for k, source in enumerate(sources):
        at = f"getelementptr i64, ptr %in, i64 {k}"
        lines.append(f"  %i{k} = {at}\n  store i64 {source if source[0] != '%' else 0}, ptr %i{k}")
        if source[0] == "%":
            lines.append(f"  store {types[int(source[2:])]} {source}, ptr %i{k}")
    numbers = ", ".join(f"i32 {n}" for n in [*call[1], 0, 0, 0, 0][:4])
    lines.append(f"  call void @{call[0]}(ptr %in, ptr %out, {numbers})")
    for k, each in enumerate(results):
        place = f"%o{k} = getelementptr i64, ptr %out, i64 {k}"
        value = f"load {each}, ptr %o{k}" if kept is None else f"freeze {each} %a{kept[k]}"
        lines.append(f"  {place}\n  %v{k} = {value}")
    if not results:
        lines.append("  ret void")
    elif not result.startswith("{"):
        lines.append(f"  ret {result} %v0")
    else:
        for k, each in enumerate(results):
            before = f"%r{k - 1}" if k else "poison"
            lines.append(f"  %r{k} = insertvalue {result} {before}, {each} %v{k}, {k}")
        lines.append(f"  ret {result} %r{len(results) - 1}")
    return "\n".join([*lines, "}\n"])


def replace_intrinsics(ir: str) -> tuple[str, set[str]]:
    """The text with intrinsics as functions, and which functions of the simulator they call."""
    called: set[str] = set()

    def define(found: re.Match[str]) -> str:
        call = _intrinsic(found["name"])
        if call is None:
            return found[0]
        called.add(call[0])
        types = [_type_of(p) for p in split(found["parameters"])]
        sources = [f"%a{k}" for k in range(len(types))]
        return _wrapper(f"@sim.{found['name']}", found["result"], types, sources, call)

    declaration = (
        r"^declare (?:noundef )?(?P<result>\{.*?\}|<[^>]*>|\w+) @llvm\.nvvm\.(?P<name>[\w.]+)\((?P<parameters>.*)\).*$"
    )
    result = re.sub(declaration, define, ir, flags=re.M)
    return re.sub(
        r"@llvm\.nvvm\.([\w.]+)\(", lambda m: m[0].replace("llvm.nvvm", "sim") if _intrinsic(m[1]) else m[0], result
    ), called


# --- inline assembly --------------------------------------------------------------------------------------------------


class _Assembly:
    """Operands of inline assembly: results come first, then what it is given; a number ties one to a result."""

    def __init__(self, constraints: str, arguments: str) -> None:
        codes = [c for c in constraints.split(",") if not c.startswith("~")]
        self.num_results = sum(c.startswith("=") for c in codes)
        inputs = codes[self.num_results :]
        self.tied = {int(c): k for k, c in enumerate(inputs) if c.isdigit()}
        self.arguments = split(arguments)

    def literal(self, text: str) -> int:
        """A number of the text, or one that is given as an operand."""
        source = self.source(text)
        return int(self.arguments[int(source[2:])].split()[-1] if source.startswith("%a") else source)

    def source(self, text: str) -> str:
        """An operand of the text, "$3" or a number, as a value of the wrapper."""
        text = text.strip(" \t\n%[]")
        if not text.startswith("$"):
            return str(int(text, 0))
        number = int(text[1:].strip("{}").split(":")[0])
        if number < self.num_results and number not in self.tied:
            return "0"  # a register that is only written
        return f"%a{self.tied[number] if number < self.num_results else number - self.num_results}"

    def sources(self, text: str) -> list[str]:
        return [self.source(part) for part in split(text.strip().strip("{}"))]


_ADDRESSES = r"\[\s*(?P<target>[^\]]+?)\s*\]\s*,\s*\[\s*(?P<source>[^\]]+?)\s*\]\s*,\s*"
_WGMMA = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k\d+\.(?:f32|s32)\.(?P<a>\w+)\.(?P<b>\w+)\s*"
    r"\{(?P<sums>[^}]*)\}\s*,\s*(?P<left>\{[^}]*\}|[^,]+),\s*(?P<right>[^,]+),\s*(?P<predicate>[^,;]+)(?P<rest>[^;]*);"
)
_MMA = re.compile(
    r"mma\.sync\.aligned\.m16n8k\d+\.row\.col\.\w+\.(?P<a>\w+)\.(?P<b>\w+)\.\w+\s*"
    r"\{[^}]*\}\s*,\s*\{(?P<left>[^}]*)\}\s*,\s*\{(?P<right>[^}]*)\}\s*,\s*\{(?P<sums>[^}]*)\}"
)


def _compared(predicate: str, text: str) -> str:
    """The operand that a predicate's comparison with 0 is of, or "1" for 0 == 0."""
    compared = re.search(rf"setp\.(ne|eq)\.\w+\s+{re.escape(predicate)}\s*,\s*([^,]+?)\s*,\s*0\s*;", text)
    assert compared is not None and (compared[1] == "ne" or compared[2] == "0"), text
    return compared[2] if compared[1] == "ne" else "1"


def _wgmma(found: re.Match[str], assembly: _Assembly, text: str) -> tuple[Call, list[str]]:
    left = assembly.sources(found["left"])
    predicate = found["predicate"].strip()
    if not predicate.startswith("$") and not predicate.isdigit():
        predicate = _compared(predicate, text)
    is_in_registers = len(left) > 1
    rest = [assembly.literal(x) for x in split(found["rest"])]
    signs, transposes = [*rest[:2], 1, 1][:2], rest[2:]  # products of bytes have neither
    if is_in_registers:
        transposes = [0, *transposes]
    transposes = [*transposes, 0, 0][:2]
    flags = int(is_in_registers) | transposes[0] << 1 | transposes[1] << 2
    flags |= int(signs[0] < 0) << 3 | int(signs[1] < 0) << 4
    sources = [*assembly.sources(found["sums"]), *left, assembly.source(found["right"]), assembly.source(predicate)]
    return ("sim_wgmma", [int(found["n"]), _ELEMENTS[found["a"]], _ELEMENTS[found["b"]], flags]), sources


def _assembled(text: str, assembly: _Assembly) -> tuple[Call, list[str]] | None:
    """What computes inline assembly, and its operands."""
    if found := _WGMMA.search(text):
        return _wgmma(found, assembly, text)
    if found := _MMA.search(text):
        sources = [s for part in ("left", "right", "sums") for s in assembly.sources(found[part])]
        return ("sim_mma", [_ELEMENTS[found["a"]], _ELEMENTS[found["b"]]]), sources
    if found := re.search(
        rf"cp\.async\.(c[ag])\.shared\.global[\w.:]*\s+{_ADDRESSES}(\d+|\$\d+)(?:\s*,\s*(\$\d+))?", text
    ):
        sources = [assembly.source(found["target"]), assembly.source(found["source"])]
        sources += [assembly.source(found[5])] if found[5] else []
        predicate = re.search(r"@(!?)([%\w]+)\s+cp\.async", text)
        if predicate:
            assert not predicate[1], text
            sources.append(assembly.source(_compared(predicate[2], text)))
        return ("sim_cp_async", [assembly.literal(found[4]), int(bool(found[5])), int(bool(predicate))]), sources
    if found := re.search(r"(cp\.async|wgmma)\.wait_group(?:\.sync\.aligned)?\s+(\d+|\$\d+)", text):
        return ("sim_cp_async_wait" if found[1] == "cp.async" else "sim_wgmma_wait", []), [assembly.source(found[2])]
    if found := re.search(
        r"red\.relaxed\.gpu\.global\.add\.v(\d)\.f32\s*\[(?P<target>[^\]]+)\]\s*,\s*(?P<values>\{[^}]*\})", text
    ):
        return ("sim_red", [int(found[1])]), [assembly.source(found["target"]), *assembly.sources(found["values"])]
    for pattern, function in (
        (r"cp\.async\.commit_group", "sim_cp_async_commit"),
        (r"cp\.async\.wait_all", "sim_cp_async_wait_all"),
        (r"wgmma\.fence", "sim_wgmma_fence"),
        (r"wgmma\.commit_group", "sim_wgmma_commit"),
        (r"fence\.proxy\.async", "sim_fence_proxy"),
    ):
        if re.search(pattern, text):
            return (function, []), []
    return None


def _calls_of_assembly(ir: str) -> Iterator[tuple[int, int, str, str, str, str]]:
    """(start, end, result, text, constraints, arguments) of each call of inline assembly."""
    pattern = r'call (?P<result>\{[^}]*\}|\w+) (?P<asm>asm (?:\w+ )*"(?P<text>[^"]*)", "(?P<constraints>[^"]*)")\('
    for found in re.finditer(pattern, ir):
        depth, end = 1, found.end()
        while depth:
            depth += (ir[end] == "(") - (ir[end] == ")")
            end += 1
        yield (
            found.start("asm"),
            found.end("asm"),
            found["result"],
            found["text"],
            found["constraints"],
            ir[found.end() : end - 1],
        )


def replace_assembly(ir: str) -> tuple[str, set[str]]:
    """The text with inline assembly as functions, and which functions of the simulator they call."""
    called: set[str] = set()
    pieces, wrappers, last = [], [], 0
    for start, end, result, raw, constraints, arguments in _calls_of_assembly(ir):
        text = re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), raw)
        assembly = _Assembly(constraints, arguments)
        made = _assembled(text, assembly)
        if made is None:
            continue
        call, sources = made
        called.add(call[0])
        name = f"@sim.asm.{len(wrappers)}"
        types = [_type_of(a) for a in split(arguments)]
        # Registers that an instruction says it changes, and does not: a wait orders what comes behind it.
        kept = None if call[0] in ("sim_wgmma", "sim_mma") else assembly.tied
        wrappers.append(_wrapper(name, result, types, sources, call, kept))
        pieces += [ir[last:start], name]
        last = end
    return "".join([*pieces, ir[last:], "\n", *wrappers]), called
