"""An include or import against the layers is an error that names both files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[1] / ".ci" / "check_layers.py"


def check(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(CHECK), str(tree)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("csrc/support/A.h", '#include "artifact/B.h"', "csrc/support/A.h: must not include csrc/artifact/B.h"),
        ("csrc/compiler/graph/ir/A.cpp", "#include <ATen/ATen.h>", "must not include <ATen/ATen.h>"),
        ("csrc/runtime/fx/A.cpp", '#include "mlir/IR/Value.h"', "must not include <mlir/IR/Value.h>"),
        ("csrc/runtime/fx/A.cpp", '#include "compiler/driver/D.h"', "must not include csrc/compiler/driver/D.h"),
        ("csrc/elsewhere/A.cpp", "", "csrc/elsewhere/A.cpp: expected a folder listed"),
        ("torch_tile/debug/a.py", "from ..backend import tile", "must not import torch_tile/backend"),
        ("torch_tile/backend.py", "import torch._inductor.compile_fx", "must not import torch._inductor.compile_fx"),
    ],
)
def test_wrong_edge_is_named(tmp_path: Path, file: str, content: str, message: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(content + "\n")
    result = check(tmp_path)
    assert result.returncode == 1
    assert message in result.stdout


def test_allowed_edges_pass(tmp_path: Path) -> None:
    for file, content in {
        "csrc/runtime/fx/A.cpp": '#include "compiler/c_api.h"\n#include <torch/torch.h>\n',
        "csrc/compiler/fusion/A.cpp": '#include "compiler/graph/ir/GraphOps.h"\n#include "mlir/IR/Value.h"\n',
        "torch_tile/backend.py": "from torch_tile import config\nfrom .frontend import partition\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    result = check(tmp_path)
    assert result.returncode == 0, result.stdout
