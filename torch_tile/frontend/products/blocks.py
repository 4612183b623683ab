"""Which blocks the kernels of products compute, for candidates that are timed."""

from __future__ import annotations

import dataclasses
import math

from torch_tile.language.launch_options import LaunchOptions


@dataclasses.dataclass(frozen=True)
class Blocks:
    """A candidate.

    Attributes:
        rows, columns: of the results of a program.
        depth: terms of its sums that a step reads.
        splits: programs that share the terms of one block; their sums are added by the graph.
        num_warps, num_stages: options of the launch on a GPU.
    """

    rows: int
    columns: int
    depth: int
    splits: int = 1
    num_warps: int = 4
    num_stages: int = 1

    def options(self) -> LaunchOptions:
        return LaunchOptions(num_warps=self.num_warps, num_stages=self.num_stages)

    def __str__(self) -> str:
        text = f"{self.rows}x{self.columns}x{self.depth}"
        text += f", {self.splits} splits" if self.splits > 1 else ""
        return f"{text}, {self.num_warps} warps, {self.num_stages} stages"


@dataclasses.dataclass(frozen=True)
class Problem:
    """What the choice depends on.

    Attributes:
        batch, rows, columns, depth: sizes of the products.
        products: how many have one left operand.
        left_bytes, right_bytes: of an element in memory.
        operand_bytes: of an element as the product takes it.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    products: int
    left_bytes: int
    right_bytes: int
    operand_bytes: int


@dataclasses.dataclass(frozen=True)
class Gpu:
    """What a device can do.

    Attributes:
        multiprocessors: how many there are.
        shared_bytes: that a program may use.
        operations: multiplications and additions of 16-bit numbers of a multiprocessor in a second.
        near_bytes: that a multiprocessor reads from the second-level cache in a second.
        far_bytes: that all read from memory in a second.
    """

    multiprocessors: int
    shared_bytes: int
    operations: float = 6e12
    near_bytes: float = 4e10
    far_bytes: float = 3e12


# Rows, columns, depth, warps of candidates.
_GPU_BLOCKS = (
    (128, 256, 64, 8),
    (256, 128, 64, 8),
    (128, 128, 64, 4),
    (128, 128, 64, 8),
    (64, 256, 64, 4),
    (64, 128, 64, 4),
    (128, 64, 64, 4),
    (64, 64, 64, 4),
    (64, 64, 128, 4),
    (32, 128, 64, 4),
    (32, 64, 128, 4),
    (16, 128, 64, 4),
    (16, 128, 128, 4),
    (16, 64, 128, 4),
    (16, 64, 256, 4),
    (16, 32, 256, 4),
    (16, 32, 128, 2),
)
_MOST_STAGES = 4
_MOST_SPLITS = 16
# As many are timed. Each takes some 0.2 s to compile.
MOST_CANDIDATES = 10
# Registers of a multiprocessor, and those that a thread needs beside its sums.
_REGISTERS, _OTHER_REGISTERS = 65536, 64
# Seconds until the first terms have come, and until the last results are on their way.
_START_SECONDS = 1.5e-6

# Kernels that convert an operand on the way take so many times what is predicted (int8, 4 to 256 rows, H100).
_CONVERTING = 1.9
# They replace the library's call below this share of its predicted time.
_WORTH = 0.85


def padded(size: int) -> int:
    """The least number of rows or columns of a block that holds them."""
    return max(16, 1 << (size - 1).bit_length())


def on_gpu(problem: Problem, gpu: Gpu) -> list[Blocks]:
    """Candidates, those first that the model expects to be fastest."""
    timed: dict[Blocks, float] = {}
    for rows, columns, depth, warps in _GPU_BLOCKS:
        if rows > padded(problem.rows) or columns > max(32, padded(problem.columns)):
            continue
        if rows * columns * problem.products > 128 * 256 or depth > max(32, padded(problem.depth)):
            continue
        stage = _stage_bytes(problem, rows, columns, depth)
        # As many stages as one program has room for, and as two have that share a multiprocessor.
        for together in (1, 2):
            stages = min(_MOST_STAGES, gpu.shared_bytes // (together * stage))
            if stages < 2 or _together(problem, Blocks(rows, columns, depth, 1, warps, stages), gpu) < together:
                continue
            programs = problem.batch * -(-problem.rows // rows) * -(-problem.columns // columns)
            for splits in _splits(problem, programs, depth, gpu):
                blocks = Blocks(rows, columns, depth, splits, warps, stages)
                timed[blocks] = _predicted(problem, blocks, gpu)
    return sorted(timed, key=timed.__getitem__)[:MOST_CANDIDATES]


def _stage_bytes(problem: Problem, rows: int, columns: int, depth: int) -> int:
    return (rows + columns * problem.products) * depth * problem.operand_bytes


def _splits(problem: Problem, programs: int, depth: int, gpu: Gpu) -> list[int]:
    """1, and what fills the device once and twice where blocks alone do not."""
    steps = -(-problem.depth // depth)
    if problem.products > 1 or programs >= gpu.multiprocessors or steps < 8:
        return [1]
    most = min(_MOST_SPLITS, steps // 4)
    wanted = {1 << int(math.log2(max(1, times * gpu.multiprocessors / programs))) for times in (1, 2)}
    return sorted({1} | {min(most, count) for count in wanted})


def _together(problem: Problem, blocks: Blocks, gpu: Gpu) -> int:
    """Programs that a multiprocessor runs at once."""
    stage = _stage_bytes(problem, blocks.rows, blocks.columns, blocks.depth)
    threads = 32 * blocks.num_warps
    registers = blocks.rows * blocks.columns * problem.products // threads + _OTHER_REGISTERS
    return max(1, min(gpu.shared_bytes // (stage * blocks.num_stages), _REGISTERS // (threads * registers)))


def _predicted(problem: Problem, blocks: Blocks, gpu: Gpu) -> float:
    """Seconds: the longest of arithmetic, reads through the cache, and reads from memory."""
    programs = problem.batch * -(-problem.rows // blocks.rows) * -(-problem.columns // blocks.columns) * blocks.splits
    terms = -(-problem.depth // blocks.splits)
    # `wgmma` takes 64 rows; narrower products leave part of the units idle.
    used = min(1.0, blocks.rows / 64) * min(1.0, blocks.columns / 128) ** 0.5
    work = 2 * blocks.rows * blocks.columns * problem.products * terms / (gpu.operations * used)
    read = blocks.rows * problem.left_bytes + blocks.columns * problem.products * problem.right_bytes
    near = read * terms / gpu.near_bytes
    together = _together(problem, blocks, gpu)
    on_one = -(-programs // gpu.multiprocessors)
    # Programs that run at once hide each other's beginnings and ends.
    begun = -(-on_one // together) * _START_SECONDS
    whole = problem.batch * problem.depth * (
        problem.rows * problem.left_bytes + problem.columns * problem.products * problem.right_bytes
    )  # fmt: skip
    partial = 8 * problem.batch * problem.rows * problem.columns * blocks.splits if blocks.splits > 1 else 0
    fraction = min(1.0, programs / gpu.multiprocessors)
    busy = on_one * max(work, near) + begun
    return float(max(busy, whole / (gpu.far_bytes * fraction)) + partial / gpu.far_bytes)


def is_predicted_faster(problem: Problem, blocks: Blocks, gpu: Gpu) -> bool:
    """Whether a kernel that computes an operand from fewer bytes is faster than writing that operand for the library,
    by more than predictions miss."""
    converted = problem.batch * problem.products * problem.columns * problem.depth
    converted_bytes = converted * (problem.right_bytes + problem.operand_bytes)
    product = problem.batch * problem.rows * problem.products * problem.columns * problem.depth
    moved = problem.operand_bytes * (converted + problem.batch * problem.rows * (problem.depth + problem.columns))
    library = max(2 * product / (gpu.operations * gpu.multiprocessors), moved / gpu.far_bytes)
    return _CONVERTING * _predicted(problem, blocks, gpu) < _WORTH * (library + converted_bytes / gpu.far_bytes)


def on_cpu(problem: Problem) -> list[Blocks]:
    """Blocks whose operands stay in the second-level cache beside the sums."""
    found = []
    for rows, columns, depth in ((64, 64, 256), (32, 128, 256), (128, 64, 128), (16, 256, 128)):
        size = (
            min(rows, padded(problem.rows)),
            min(columns, padded(problem.columns)),
            min(depth, padded(problem.depth)),
        )
        if (blocks := Blocks(*size)) not in found:
            found.append(blocks)
    return found
