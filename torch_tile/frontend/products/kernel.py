"""The kernel of a region: a block of one product or two, and what follows from it point by point."""

from __future__ import annotations

import torch_tile
import torch_tile.language as tl


@torch_tile.jit
def fused_product(values, C: tl.constexpr):
    """One block of rows and columns of one matrix of the batch. `C` is an `expressions.Constants`.

    Programs whose blocks have neighbouring rows and the same columns are neighbours, so that they share the right
    operand in the second-level cache.
    """
    program = tl.program_id(0)
    split = 0
    if C.SPLITS > 1:
        split, program = program % C.SPLITS, program // C.SPLITS
    batch = 0
    if C.BATCH > 1:
        batch, program = program // (C.ROW_BLOCKS * C.COLUMN_BLOCKS), program % (C.ROW_BLOCKS * C.COLUMN_BLOCKS)
    in_group = C.GROUP * C.COLUMN_BLOCKS
    first_of_group = program // in_group * C.GROUP
    group = tl.minimum(C.ROW_BLOCKS - first_of_group, C.GROUP)
    row_block = first_of_group + program % in_group % group
    column_block = program % in_group // group
    rows = row_block * C.BLOCK_ROWS + tl.arange(0, C.BLOCK_ROWS)
    columns = column_block * C.BLOCK_COLUMNS + tl.arange(0, C.BLOCK_COLUMNS)
    # Rows and columns outside of the matrices repeat others, and are not stored.
    read_rows = rows if C.EVEN_ROWS else rows % C.ROWS
    read_columns = columns if C.EVEN_COLUMNS else columns % C.COLUMNS
    terms = tl.arange(0, C.BLOCK_DEPTH)
    total = tl.zeros((C.BLOCK_ROWS, C.BLOCK_COLUMNS), tl.float32)
    second = total
    first_step = 0 if C.SPLITS == 1 else split * C.STEPS // C.SPLITS
    end_step = C.STEPS if C.SPLITS == 1 else (split + 1) * C.STEPS // C.SPLITS
    for step in range(first_step, end_step):
        depth = step * C.BLOCK_DEPTH + terms
        left = C.left(values, batch, read_rows, depth)
        total = tl.dot(left, C.right(0, values, batch, depth, read_columns), total, input_precision=C.PRECISION)
        if C.PRODUCTS == 2:
            second = tl.dot(left, C.right(1, values, batch, depth, read_columns), second, input_precision=C.PRECISION)
    C.finish(values, total, second, batch, rows, columns, split)
