"""One process using the disk cache: prints what happened as JSON.

Arguments: extension, stand-in compiler, cache folder, text file, options.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import torch


def main() -> None:
    extension, compiler, cache_dir, texts, repeat, start_at = sys.argv[1:7]
    spec = importlib.util.spec_from_file_location("runtime_under_test._C", extension)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.set_compiler_library(compiler)
    x = torch.arange(16, dtype=torch.float32)
    outcome: dict[str, object] = {"loaded_from": [], "pid": os.getpid()}
    time.sleep(max(0.0, float(start_at) - time.time()))
    for _ in range(int(repeat)):
        for text in Path(texts).read_text().split():
            program = module.compile_graph(text, {}, cache_dir, 1 << 30, None, [])
            assert torch.equal(program([x, x])[0], x + x)
            outcome["loaded_from"].append(program.loaded_from)  # type: ignore[attr-defined]
            del program  # so that the next one is linked anew
        module.flush_disk_cache()
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
