"""Random programs: every line is run in eager mode when it is drawn, and kept only if eager takes it."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
import warnings
from collections.abc import Callable

import torch

from tests.fuzz import families
from tests.fuzz.analysis import IS_EXACT, IS_UNKNOWN, Eager
from tests.fuzz.oracle import observe
from tests.fuzz.program import FLOATS, INTEGERS, Input, Line, Program

# What each kind of program draws its lines from, and how often.
PROFILES: dict[str, dict[str, int]] = {
    "pointwise": {"arith": 5, "exact": 3, "choice": 2, "cast": 2, "integer": 2, "round": 1, "view": 1},
    "views": {"view": 8, "moves": 3, "arith": 3, "sums": 1, "writes": 1},
    "writes": {"view": 4, "writes": 5, "arith": 2, "exact": 1, "moves": 1, "sums": 1, "cast": 1},
    "aliases": {"view": 3, "writes": 4, "arith": 3, "sums": 1, "calls": 1},
    "calls": {"calls": 4, "view": 3, "writes": 2, "arith": 3, "sums": 1, "cast": 1},
    "scatter": {"scatter": 4, "gather": 3, "view": 2, "arith": 2, "writes": 1, "integer": 1},
    "reductions": {"sums": 4, "extrema": 3, "arith": 3, "view": 2, "round": 1, "exact": 1},
    "low": {"arith": 4, "round": 3, "cast": 2, "sums": 2, "view": 2, "exact": 2, "extrema": 1, "writes": 1},
    "complex": {"complex": 5, "view": 2, "arith": 3, "writes": 1, "sums": 1},
    "smooth": {"round": 5, "arith": 3, "view": 2, "sums": 2},
    "special": {"exact": 3, "choice": 3, "arith": 3, "cast": 1, "extrema": 3, "moves": 1},
    "everything": dict.fromkeys(families.FAMILIES, 1),
}
SIZES = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 8, 16, 17, 31, 33, 64, 130]
MAX_ELEMENTS = 1 << 13
LAYOUTS = ["contiguous"] * 5 + ["permuted", "permuted", "stepped", "offset", "expanded", "overlapping", "negative"]


IN_PLACE_VIEW = re.compile(r"\.(squeeze_|unsqueeze_|transpose_|t_)\(")


def overlaps(t: torch.Tensor) -> bool:
    """Whether two of its elements may lie in one place: what a write into it does is not defined."""
    extent = 1
    for stride, size in sorted((s, n) for n, s in zip(t.shape, t.stride(), strict=True) if n > 1):
        if stride < extent:
            return True
        extent += stride * (size - 1)
    return False


class Drawing:
    """A program under way."""

    def __init__(self, rng: random.Random, program: Program) -> None:
        self.rng = rng
        self.eager = Eager(program.make_inputs(), program.emulate)
        self.lines: list[Line] = []
        self.training = program.training
        self.limit = MAX_ELEMENTS * (16 if program.profile == "reductions" else 1)

    # What families ask for.

    def tensor(self, name: str) -> torch.Tensor:
        return self.eager.values[name]

    def pick(self, accept: Callable[[torch.Tensor], bool] = lambda t: True, exact: bool = False) -> str | None:
        names = list(self.eager.values)
        found = [n for n in names if accept(self.tensor(n)) and (not exact or self.eager.status_of(n) == IS_EXACT)]
        if not found:
            return None
        return self.rng.choice(found[-4:] if self.rng.random() < 0.6 else found)

    def other(self, name: str, accept: Callable[[torch.Tensor], bool] = lambda t: True, exact: bool = False) -> str:
        """A tensor that broadcasts with that one, at worst itself."""
        shape = self.tensor(name).shape

        def fits(t: torch.Tensor) -> bool:
            with contextlib.suppress(RuntimeError):
                return accept(t) and torch.broadcast_shapes(shape, t.shape).numel() <= self.limit
            return False

        return self.pick(fits, exact) or name

    def dim(self, name: str) -> int:
        rank = self.tensor(name).dim()
        return self.rng.randrange(-rank, rank) if rank else 0

    def size(self, name: str, dim: int) -> int:
        return self.tensor(name).shape[dim] if self.tensor(name).dim() else 1

    # Growing.

    def add(self, text: str, rule: str) -> bool:
        """Runs the line; what eager refuses, what is too large, or what has no judge is left out."""
        text = text.replace("{t}", f"v{len(self.lines)}").replace("{u}", f"v{len(self.lines) + 100}")
        line, eager = Line(text, rule), self.eager
        if IN_PLACE_VIEW.search(text) and line.operands[0][0] == "x":  # Dynamo breaks the graph there
            return False
        if (line.writes or "_(" in text) and any(overlaps(eager.values[n]) for n in line.operands[:1]):
            return False
        kept = dict(eager.values), dict(eager.status), set(eager.pinned)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                eager.run(line)
            new = line.targets or line.operands[:1]
            fits = all(eager.values[n].numel() <= self.limit and eager.values[n].dim() <= 6 for n in new)
            unknown = any(status == IS_UNKNOWN for status in eager.status.values())
            if fits and not unknown:
                self.lines.append(line)
                return True
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AttributeError):
            pass
        eager.values, eager.status, eager.pinned = kept[0], kept[1], kept[2]
        return False


def _inputs(rng: random.Random, profile: str, mode: str, training: bool) -> tuple[Input, ...]:
    count = rng.choice([1, 2, 2, 3, 3])
    result: list[Input] = []
    common = tuple(rng.choice("ABC") for _ in range(rng.choice([0, 1, 2, 2, 2, 3, 3, 4])))
    dtypes = [*FLOATS, torch.float32, torch.float32, *INTEGERS, torch.bool]
    if profile in ("low", "reductions", "smooth") or training:
        dtypes = [torch.float32, torch.float32, torch.bfloat16, torch.bfloat16, torch.float16, torch.float64]
    elif profile == "pointwise":
        dtypes = [*FLOATS, *INTEGERS, torch.bool]
    main = rng.choice(dtypes)
    for i in range(count):
        shared_first = [k for k in range(i) if result[k].shape and result[k].layout not in ("negative", "conjugated")]
        likely = 0.8 if profile == "aliases" else 0.1 if mode == "static" else 0.0
        if shared_first and rng.random() < likely:
            first = result[shared_first[0]]
            layout = rng.choice(["same", "tail", "transposed", "stepped", "flat", "head"])
            result.append(Input(first.dtype, first.shape, layout, first.values, first.seed, shared_first[0], False))
            continue
        dtype = rng.choice([main, main, rng.choice(dtypes)])
        if profile == "complex" and rng.random() < 0.5:
            dtype = rng.choice([torch.complex64, torch.complex128])
        shape = common if rng.random() < 0.6 else common[rng.randrange(len(common) + 1) :]
        if rng.random() < 0.1:
            shape = tuple(rng.choice("ABC") for _ in range(rng.randrange(4)))
        elif shape and rng.random() < 0.15:
            k = rng.randrange(len(shape))
            shape = (*shape[:k], "1", *shape[k + 1 :])
        layout = rng.choice(LAYOUTS) if profile != "complex" else rng.choice(["contiguous", "permuted", "conjugated"])
        values = rng.choice(["integers", "integers", "eighths", "uniform"])
        if profile == "special" or (rng.random() < 0.1 and not training):
            values = "special"
        floating = dtype.is_floating_point or dtype.is_complex
        gradient = training and floating and not any(x.shares == i for x in result) and rng.random() < 0.9
        result.append(Input(dtype, shape, layout, values, rng.randrange(10000), None, gradient))
    shared = {x.shares for x in result}
    if training:  # leaves that share memory with others are not written
        result = [
            x if i not in shared else Input(x.dtype, x.shape, x.layout, x.values, x.seed) for i, x in enumerate(result)
        ]
    return tuple(result)


def _sizes(rng: random.Random, profile: str, mode: str, inputs: tuple[Input, ...]) -> tuple[dict[str, int], ...]:
    while True:
        sizes = {name: rng.choice(SIZES) for name in "ABC"}
        if profile == "reductions" and rng.random() < 0.3:
            sizes[rng.choice("ABC")] = rng.choice([512, 1000, 4097, 20000])
        if mode != "static" and rng.random() < 0.8:
            sizes = {name: max(size, 2) for name, size in sizes.items()}
        limit = MAX_ELEMENTS * (16 if profile == "reductions" else 1)
        if all(_count(x, sizes) <= limit for x in inputs):
            break
    grow = [lambda n: n, lambda n: 2 * n, lambda n: n + 2, lambda n: n + 1, lambda n: 3 * n, lambda n: max(n - 1, 0)]
    return sizes, {name: rng.choice(grow)(size) for name, size in sizes.items()}


def _count(x: Input, sizes: dict[str, int]) -> int:
    count = 1
    for s in x.shape:
        count *= int(s) if s.isdigit() else sizes[s]
    return count


def generate(seed: str, profile: str | None = None, raises: bool = True) -> Program:
    """The program of a seed: the same on every machine with the same torch.

    Some have an index out of range, if `raises`: on a GPU that ends the process's context.
    """
    rng = random.Random(seed)
    profile = profile or rng.choice(list(PROFILES))
    mode = rng.choice(["static"] * 5 + ["dynamic", "marked"])
    training = rng.random() < 0.25 and profile not in ("special", "complex")
    emulate, retain = rng.random() < 0.4, rng.random() < 0.5
    torch.manual_seed(0)
    while True:
        inputs = _inputs(rng, profile, mode, training)
        sizes, other = _sizes(rng, profile, mode, inputs)
        program = Program(profile, inputs, (), (), sizes, other, mode, training, emulate, retain)
        try:
            drawing = Drawing(rng, program)
            break
        except RuntimeError:  # sizes that an input's layout does not go with
            continue
    wanted, tries = rng.choice([2, 3, 4, 5, 6, 8, 10, 14, 20]), 0
    names, weights = zip(*PROFILES[profile].items(), strict=True)
    while len(drawing.lines) < wanted and tries < 40 * wanted:
        tries += 1
        family = rng.choices(names, weights)[0]
        made = rng.choice(families.FAMILIES[family])(drawing)
        if made is not None:
            drawing.add(*made)
    if rng.random() < 0.03 and mode == "static" and not training and raises:
        _add_raising(drawing)
    outputs = _outputs(rng, drawing)
    program = Program(profile, inputs, tuple(drawing.lines), outputs, sizes, other, mode, training, emulate, retain)
    return _without_gradients(program) if training and not _has_gradients(program) else program


def _add_raising(drawing: Drawing) -> None:
    """A last line with an index out of range, whose value is used."""
    x = drawing.pick(lambda t: t.dim() > 0 and t.numel() > 0 and not t.is_complex())
    text = drawing.rng.choice(
        ["{x}[torch.arange(2) + {x}.shape[0]]", "{x}.index_select(0, torch.arange(2) + {x}.shape[0])",
         "{x}.gather(0, torch.arange({x}.numel()).reshape({x}.shape) + {x}.shape[0])",
         "torch.arange({x}.shape[0] + 1) // torch.arange({x}.shape[0] + 1)"]
    )  # fmt: skip
    if x is not None:
        drawing.lines.append(Line(f"v{len(drawing.lines)} = " + text.replace("{x}", x), families.EXACT))
        drawing.eager.values[f"v{len(drawing.lines) - 1}"] = drawing.tensor(x)


def _without_gradients(program: Program) -> Program:
    inputs = tuple(dataclasses.replace(x, requires_grad=False) for x in program.inputs)
    return dataclasses.replace(program, inputs=inputs, training=False)


def _has_gradients(program: Program) -> bool:
    """Not where a write takes what eager's backward needs."""
    seen = observe(program.function(), program.make_inputs(), True)
    return seen.error is None and any(g is not None for g in seen.gradients)


def _outputs(rng: random.Random, drawing: Drawing) -> tuple[str, ...]:
    """The last values, some earlier ones, sometimes an argument, sometimes one twice."""
    values = [n for n in drawing.eager.values if n[0] == "v"]
    chosen = values[-rng.choice([1, 2, 3]) :]
    chosen += [n for n in values[:-3] if rng.random() < 0.2]
    if rng.random() < 0.15 or not chosen:
        chosen.append(rng.choice([n for n in drawing.eager.values if n[0] == "x"]))
    if rng.random() < 0.1:
        chosen.append(chosen[0])
    rng.shuffle(chosen)
    return tuple(chosen)
