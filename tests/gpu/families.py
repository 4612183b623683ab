"""One kernel of every family, run once on a CUDA device and compared with eager: what the sanitizers look at.

    compute-sanitizer --tool memcheck python -m tests.gpu.families [substring of a family's name]

Run it once without a sanitizer before: the kernels then come from the disk cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Family = tuple[str, Callable[..., Any], tuple[torch.Tensor, ...], float]  # the last is the largest absolute difference


def families() -> list[Family]:
    def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*shape).to("cuda", dtype)

    def indices(limit: int, *shape: int) -> torch.Tensor:
        return torch.randint(limit, shape).cuda()

    bf16 = torch.bfloat16
    return [
        ("pointwise", lambda x, y: F.gelu(x) + y, (rand(300, 1003), rand(300, 1003)), 1e-5),
        ("pointwise_bf16", lambda x, y: F.silu(x) * y, (rand(64, 512, dtype=bf16), rand(64, 512, dtype=bf16)), 2e-2),
        ("transpose", lambda x, y: x.t() + y, (rand(130, 257), rand(257, 130)), 1e-5),
        ("row_sum", lambda x: x.sum(-1), (rand(77, 1003),), 1e-3),
        ("short_rows", lambda x: x.mean(-1), (rand(5000, 13),), 1e-4),
        ("column_sum", lambda x: x.sum(0), (rand(1003, 77),), 1e-3),
        ("full_sum", lambda x: x.sum(), (rand(300, 1003),), 5e-2),
        ("softmax", lambda x: x.softmax(-1), (rand(70, 1000),), 1e-5),
        ("long_softmax", lambda x: x.softmax(-1), (rand(3, 40000, dtype=bf16),), 2e-2),
        ("odd_softmax", lambda x: x.softmax(-1), (rand(33, 50257, dtype=bf16),), 2e-2),
        ("odd_slices", lambda x, w: x[:, 3:] * w + x[:, :-3], (rand(77, 1006), rand(1003)), 1e-5),
        ("odd_attention", lambda x: x.softmax(-1), (rand(3, 197, 197, dtype=bf16),), 2e-2),
        ("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:]), (rand(70, 768),), 1e-4),
        ("batch_norm", lambda x: F.batch_norm(x, None, None, training=True), (rand(8, 12, 20, 20),), 1e-4),
        ("argmax", lambda x: x.argmax(-1), (rand(70, 3000),), 0.0),
        ("cumsum", lambda x: x.cumsum(-1), (rand(70, 300),), 1e-3),
        ("gather", lambda x, i: x.gather(1, i), (rand(70, 300), indices(300, 70, 50)), 0.0),
        ("embedding", lambda w, i: F.embedding(i, w), (rand(100, 64), indices(100, 500)), 0.0),
        ("scatter_add", lambda x, i, y: x.scatter_add(0, i, y), (rand(5, 40), indices(5, 90, 40), rand(90, 40)), 1e-4),
        ("index_put", lambda x, i, y: x.index_put((i,), y, True), (rand(50, 40), indices(50, 90), rand(90, 40)), 1e-4),
        ("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), (rand(4, 8, 30, 30),), 0.0),
        ("bilinear", lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (rand(2, 4, 15, 17),), 1e-4),
        ("cat", lambda x, y: torch.cat([x, y], 1).relu(), (rand(30, 50), rand(30, 77)), 0.0),
        ("int64", lambda x: (x * 3) // 7 % 5, (indices(1000, 3000),), 0.0),
        ("cross_entropy", F.cross_entropy, (rand(100, 3000), indices(3000, 100)), 1e-4),
    ]  # fmt: skip


def main() -> int:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    torch.manual_seed(0)
    wrong = 0
    for name, function, arguments, limit in families():
        if wanted not in name:
            continue
        with torch.no_grad():
            result = torch.compile(function, backend="tile", dynamic=False)(*arguments)
            expected = function(*arguments)
        torch.cuda.synchronize()
        error = (result.double() - expected.double()).abs().max().item()
        wrong += not error <= limit
        print(f"{name}: largest difference {error:.1e}{'' if error <= limit else ' WRONG'}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
