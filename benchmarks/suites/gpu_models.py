"""Transformers of 12 layers and width 1024 in bfloat16 on a CUDA device, batch 16: inference and a training step."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from harness import Row, compiled

from suites.gpu_kernels import device_seconds

BATCH, LENGTH, VOCABULARY = 16, 512, 32000


def _tokens() -> torch.Tensor:
    return torch.randint(VOCABULARY, (BATCH, LENGTH), device="cuda")


def bert() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=1024, num_hidden_layers=12, num_attention_heads=16, intermediate_size=4096,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertModel(config), {"input_ids": _tokens()}


def gpt2() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=1024, n_layer=12, n_head=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        use_cache=False,
    )  # fmt: skip
    return GPT2Model(config), {"input_ids": _tokens()}


def llama() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=1024, num_hidden_layers=12, num_attention_heads=16, num_key_value_heads=16,
        intermediate_size=2816, use_cache=False,
    )  # fmt: skip
    return LlamaModel(config), {"input_ids": _tokens()}


def vit() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=1024, num_hidden_layers=12, num_attention_heads=16, intermediate_size=4096, image_size=224,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return ViTModel(config), {"pixel_values": torch.randn(BATCH, 3, 224, 224, device="cuda", dtype=torch.bfloat16)}


MODELS = {"BERT": bert, "GPT-2": gpt2, "Llama": llama, "ViT": vit}


def make_call(
    model: torch.nn.Module, inputs: dict[str, torch.Tensor], backend: str, training: bool
) -> Callable[[], torch.Tensor]:
    model = copy.deepcopy(model)
    function = compiled(model, backend, dynamic=False)

    def infer() -> torch.Tensor:
        with torch.no_grad():
            return function(**inputs).last_hidden_state

    def train() -> torch.Tensor:
        for parameter in model.parameters():
            parameter.grad = None
        output = function(**inputs).last_hidden_state
        # Weighted: the mean square of what a layer norm gives hardly has a gradient.
        weights = torch.linspace(-1, 1, output.shape[-1], device=output.device)
        (output.float() * weights).mean().backward()
        return next(p.grad for p in model.parameters() if p.grad is not None and p.dim() == 2)

    return train if training else infer


def run(options: Any) -> list[Row]:
    rows = []
    for name, make in MODELS.items():
        for way in ("inference", "training"):
            title = f"{name} {way} bf16"
            if not options.selects(title):
                continue
            torch.manual_seed(0)
            model, inputs = make()
            model = model.to("cuda", torch.bfloat16).train(way == "training")
            group, expected = [], None
            for backend in options.backends:
                torch.compiler.reset()
                torch.cuda.empty_cache()
                row = Row("gpu_models", title, backend)
                group.append(row)
                try:
                    call = make_call(model, inputs, backend, way == "training")
                    start = time.perf_counter()
                    result = call().detach().float()
                    torch.cuda.synchronize()
                    row.first_call = time.perf_counter() - start
                    expected = result if expected is None else expected
                    error = ((result - expected).norm() / expected.norm()).item()
                    row.note_info = f"first {row.first_call:.1f} s, differs by {error:.1e}"
                    seconds = device_seconds(call, seconds=0.4)
                    row.best, row.median, row.rounds = min(seconds), statistics.median(seconds), len(seconds)
                except Exception as error:  # the other backends go on
                    row.note = f"{type(error).__name__}: {error}".split("\n")[0][:160]
                    if "CUDA error" in str(error):
                        options.report(group)
                        return rows + group
            rows += options.report(group)
    return rows
