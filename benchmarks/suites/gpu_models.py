"""Transformers of 12 layers and width 1024 in bfloat16 on a CUDA device, batch 16: inference and a training step."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from backends import compiled, enter
from harness import Row, failure

from suites.gpu_kernels import in_rounds

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


def _error(result: torch.Tensor, expected: torch.Tensor) -> float:
    return ((result.detach().double() - expected).norm() / expected.norm()).item()


def expected_of(model: torch.nn.Module, inputs: dict[str, torch.Tensor], training: bool) -> tuple[torch.Tensor, float]:
    """The result in float64, and by how much eager mode's in bfloat16 differs from it."""
    wide = {name: x.double() if x.is_floating_point() else x for name, x in inputs.items()}
    expected = make_call(copy.deepcopy(model).double(), wide, "eager", training)().detach()
    torch.cuda.empty_cache()
    return expected, _error(make_call(model, inputs, "eager", training)(), expected)


def run(options: Any) -> list[Row]:
    rows = []
    for name, make in MODELS.items():
        for way in ("inference", "training"):
            title = f"{name} {way} bf16"
            if options.selects(title):
                rows += options.report(run_one(title, make, options, way == "training"))
    return rows


def run_one(
    title: str, make: Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]], options: Any, training: bool
) -> list[Row]:
    """One model on all backends, in turn. What is further from float64 than twice eager mode has a note and no time."""
    torch.manual_seed(0)
    torch.compiler.reset()
    torch.cuda.empty_cache()
    model, inputs = make()
    model = model.to("cuda", torch.bfloat16).train(training)
    expected, eagers = expected_of(model, inputs, training)
    rows, calls = {}, {}
    for backend in options.backends:
        row = rows[backend] = Row("gpu_models", title, backend)
        enter(backend)
        try:
            call = make_call(model, inputs, backend, training)
            start = time.perf_counter()
            result = call()
            torch.cuda.synchronize()
        except Exception as error:  # the other backends go on
            row.note = failure(error)
            if "CUDA error" in str(error):
                return list(rows.values())
            continue
        row.first_call = time.perf_counter() - start
        error = _error(result, expected)
        row.note_info = f"first {row.first_call:.1f} s, off by {error:.1e}, eager by {eagers:.1e}"
        if error <= 2 * eagers + 1e-6:
            calls[backend] = call
        else:
            row.note = f"wrong result: off by {error:.2g}, eager by {eagers:.2g}"
    for backend, seconds in in_rounds(calls, seconds=1.0).items():
        row = rows[backend]
        row.best, row.median, row.rounds = min(seconds), statistics.median(seconds), len(seconds)
    return list(rows.values())
