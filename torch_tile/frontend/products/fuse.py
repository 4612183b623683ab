"""The pass: products of a graph, with what surrounds them, become kernels where those are faster than the library."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node

from torch_tile import _C, targets
from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.debug.record import TUNING_NOTES
from torch_tile.errors import TileError
from torch_tile.frontend.launches.embed_kernels import GivenKernel, own_copy
from torch_tile.frontend.launches.options import matmul_precision
from torch_tile.frontend.products import blocks
from torch_tile.frontend.products.launch import activated_by_library
from torch_tile.frontend.products.prologue import inlined_operands
from torch_tile.frontend.products.region import PRODUCTS, Product, Region, find_regions
from torch_tile.frontend.products.tune import ACTIVATED, SUMMED, Candidate, Tuner, put
from torch_tile.frontend.tile_operators import UnsupportedFunctionError

log = logging.getLogger(__name__)


def fuse_products(
    gm: GraphModule, settings: Settings, compile_with: Callable[[GraphModule], tuple[_C.GraphText, _C.Program]]
) -> GraphModule:
    """The graph with kernels for products that are faster so; as it is where there are none.

    Args:
        settings: of this torch.compile call; without `max_autotune` nothing is done.
        compile_with: makes the program of a graph, and its text, without this pass.
    """
    if not settings["max_autotune"] or _asks_for_eager_bits(settings):
        return gm
    if not any(node.target in PRODUCTS for node in gm.graph.nodes):
        return gm
    gm = own_copy(gm)
    tuner = Tuner(compile_with, settings)
    kernels: dict[str, GivenKernel] = {}
    count = 0
    notes = gm.meta[TUNING_NOTES] = []
    for region in list(find_regions(gm.graph)):
        inlined = inlined_operands(region)
        candidates = candidates_for(region, inlined)
        if not candidates:
            continue
        name = region.products[0].node.name
        try:
            choice = tuner.choose(region, inlined, candidates)
            if choice is None:
                log.info("%s is the library's: autotune_seconds are over", name)
                continue
            notes.append(f"max_autotune, {name} with {len(region.inner) - 1} operators: {choice.table()}")
            if choice.fastest is not None:
                put(gm, region, inlined, choice.fastest, kernels)
                count += 1
        except Exception as reason:  # the call of the library is right, too
            if settings["strict"]:
                raise
            log.warning("%s is a call of the library, since timing kernels for it failed: %r", name, reason)
    if count:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return gm


def fuse_narrow_products(gm: GraphModule, settings: Settings) -> tuple[GraphModule, int]:
    """Products on GPU whose right operand is computed from fewer bytes, like weights kept in 8 bits: kernels that
    compute it on the way where that is predicted to be faster. The graph, and how many there are."""
    if settings["max_autotune"] or _asks_for_eager_bits(settings) or not limits.is_on(settings, "narrow_products"):
        return gm, 0
    if not _holds_bytes_on_gpu(gm) or not any(_narrow_blocks(region) for region in find_regions(gm.graph)):
        return gm, 0
    gm = own_copy(gm)
    kernels: dict[str, GivenKernel] = {}
    count = 0
    for region in list(find_regions(gm.graph)):
        chosen = _narrow_blocks(region)
        if chosen is None:
            continue
        try:
            put(gm, region, inlined_operands(region), chosen, kernels)
            count += 1
        except (UnsupportedFunctionError, TileError) as reason:
            log.info("%s is a call of the library: %s", region.products[0].node.name, reason)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm, count


def _holds_bytes_on_gpu(gm: GraphModule) -> bool:
    """Whether there is a tensor of numbers of 8 bits: most graphs have none, and need no search for regions."""
    values = (node.meta.get("val") for node in gm.graph.nodes)
    tensors = (value for value in values if isinstance(value, torch.Tensor) and value.device.type == "cuda")
    return any(value.dtype.itemsize == 1 and value.dtype is not torch.bool for value in tensors)


def _narrow_blocks(region: Region) -> blocks.Blocks | None:
    first = region.products[0]
    inlined = inlined_operands(region)
    if first.value.device.type != "cuda" or first.value.dtype not in (torch.float16, torch.bfloat16):
        return None
    if not all(product.right in inlined for product in region.products) or first.left in inlined:
        return None
    if not all(_has_whole_rows(node) for node in region.inputs(inlined) if _is_read_by(node, inlined)):
        return None
    candidates = _blocks_for(region, inlined)
    problem, gpu = _problem_of(region, inlined), _gpu_of(first.value.device)
    if not candidates or problem.right_bytes >= problem.operand_bytes:
        return None
    return candidates[0] if blocks.is_predicted_faster(problem, candidates[0], gpu) else None


def _is_read_by(node: Node, inlined: list[Node]) -> bool:
    return any(user in inlined for user in node.users)


def _has_whole_rows(node: Node) -> bool:
    """Whether rows begin at multiples of 16 bytes, which is how many a thread loads at once."""
    value = node.meta["val"]
    return value.dim() < 2 or all(stride == 1 or stride * value.dtype.itemsize % 16 == 0 for stride in value.stride())


def _asks_for_eager_bits(settings: Settings) -> bool:
    """Whether roundings or the order of sums matter; what is fastest may differ from run to run."""
    is_eager = (
        settings["matmul_library"] == "aten"
        or settings["deterministic"]
        or torch.are_deterministic_algorithms_enabled()
    )
    return bool(is_eager or settings.compiler_options().get("emulate_precision_casts"))


def candidates_for(region: Region, inlined: list[Node]) -> list[Candidate]:
    """What is worth trying; nothing where the library cannot be beaten."""
    found: list[Candidate] = [*_blocks_for(region, inlined)]
    if found and activated_by_library(region) is not None:
        found.insert(0, ACTIVATED)
    if found and all(_is_one_row(product) for product in region.products):
        found.insert(0, SUMMED)
    return found


def _is_one_row(product: Product) -> bool:
    is_plain = product.alpha == 1 and product.beta == 1 and product.value.dim() == 2
    return is_plain and product.value.shape[0] == 1


def _blocks_for(region: Region, inlined: list[Node]) -> list[blocks.Blocks]:
    value = region.products[0].value
    if value.device.type == "cuda" and value.dtype is torch.float32 and matmul_precision() == "ieee":
        return []  # no matrix instructions
    problem = _problem_of(region, inlined)
    return blocks.on_cpu(problem) if value.device.type == "cpu" else blocks.on_gpu(problem, _gpu_of(value.device))


def _problem_of(region: Region, inlined: list[Node]) -> blocks.Problem:
    first = region.products[0]
    rows, columns, depth = region.sizes
    return blocks.Problem(
        region.batch, rows, columns, depth, len(region.products), _bytes_read(first.left, inlined),
        _bytes_read(first.right, inlined), first.value.dtype.itemsize,
    )  # fmt: skip


def _gpu_of(device: torch.device) -> blocks.Gpu:
    properties = torch.cuda.get_device_properties(device)
    return blocks.Gpu(properties.multi_processor_count, targets.shared_bytes(str(device)))


def _bytes_read(operand: Node, inlined: list[Node]) -> int:
    """Of an element of an operand, in memory."""
    if operand not in inlined:
        return int(operand.meta["val"].dtype.itemsize)
    read = [n for node in inlined for n in node.all_input_nodes if n not in inlined]
    return max((int(n.meta["val"].dtype.itemsize) for n in read if n.meta["val"].dim() > 1), default=1)
