"""Packages a BERT for the C++ program beside this file, with an example of its input and result.

python export.py FOLDER [--layers 4] [--target host]
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

import torch_tile


class Encoder(torch.nn.Module):
    """The last hidden state as the only result."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--target", action="append", help="host if none is given")
    options = parser.parse_args()
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=options.layers,
        hidden_size=options.hidden,
        num_attention_heads=options.hidden // 64,
        intermediate_size=4 * options.hidden,
        vocab_size=1000,
    )
    model = Encoder(config).eval()
    ids = torch.randint(0, 1000, (2, 64))
    mask = torch.ones(2, 64, dtype=torch.int64)
    batch = torch.export.Dim("batch", min=1, max=64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(
            model, (ids, mask), dynamic_shapes={"ids": {0: batch}, "mask": {0: batch}}, strict=False
        )
        expected = model(ids, mask)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = torch_tile.aot.package(exported, options.folder / "bert.tile", targets=options.target or ["host"])
    (options.folder / "ids.bin").write_bytes(ids.numpy().tobytes())
    (options.folder / "mask.bin").write_bytes(mask.numpy().tobytes())
    (options.folder / "expected.bin").write_bytes(expected.numpy().tobytes())
    (options.folder / "loaded.bin").write_bytes(torch_tile.aot.load(path)(ids, mask).numpy().tobytes())
    print(path)


if __name__ == "__main__":
    main()
