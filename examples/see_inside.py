"""See inside: what a function compiles to, and the files of every stage.

`explain` says in ten lines what matters. With `verbose=True` it lists kernels with their source lines, each fusion
decision with its reason, operators called through PyTorch, and graph breaks. With the option `debug` every stage of a
compile is written to a folder.

Run: python examples/see_inside.py
"""

import tempfile
from pathlib import Path

import torch

import torch_tile


def attention_scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return torch.softmax(scores, -1)


def main() -> None:
    q, k = torch.randn(2, 16, 32), torch.randn(2, 16, 32)
    report = torch_tile.explain(attention_scores, q, k, verbose=True)
    print(report)
    assert report.num_kernels >= 1 and not report.graph_breaks

    torch.compiler.reset()
    with tempfile.TemporaryDirectory() as folder:
        with torch._dynamo.config.patch(debug_dir_root=folder):
            torch.compile(attention_scores, backend="tile", options={"debug": True})(q, k)
        files = sorted(file.name for file in Path(folder).rglob("*") if file.is_file())
        print("\nstages:", ", ".join(files))
        assert "00-fx.py" in files and "90-run.py" in files
    print("fallbacks:", int(torch_tile.counters["fallbacks"]))


if __name__ == "__main__":
    main()
