"""The five models that the demo, the benchmarks and the model tests share: random weights, no downloads, dropout off.

Each is a `transformers` model (or built like one): called with its batch it returns an output with `.logits`, and with
`.loss` when the batch holds `labels`.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Batch = dict[str, torch.Tensor]

LAYERS = 4
WIDTH = 256
HEADS = 8
VOCABULARY = 8192
POSITIONS = 512
CLASSES = 100


@dataclasses.dataclass(frozen=True)
class Entry:
    """How to make one model and its batches."""

    name: str
    make: Callable[[int], nn.Module]  # of the number of layers
    make_batch: Callable[[int, int], Batch]  # of batch size and sequence length (or image size)
    batch: int
    length: int
    has_sequence: bool  # the length may vary from call to call

    def build(self, seed: int = 0, layers: int = LAYERS) -> nn.Module:
        torch.manual_seed(seed)
        return self.make(layers)

    def inputs(self, seed: int = 0, batch: int | None = None, length: int | None = None) -> Batch:
        """A training batch: the model's inputs and `labels`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make_batch(batch or self.batch, length or self.length)

    def inference_inputs(self, seed: int = 0, batch: int | None = None, length: int | None = None) -> Batch:
        inputs = self.inputs(seed, batch, length)
        del inputs["labels"]
        return inputs


def _bert(layers: int) -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=layers,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            max_position_embeddings=POSITIONS,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def _gpt2(layers: int) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=WIDTH,
            n_layer=layers,
            n_head=HEADS,
            n_positions=POSITIONS,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
        )
    )
    model.loss_type = "ForCausalLM"  # unset, it is guessed with a warning that breaks the graph
    return model


def _llama(layers: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            num_hidden_layers=layers,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS // 4,
            intermediate_size=704,
            max_position_embeddings=POSITIONS,
            attention_dropout=0.0,
            use_cache=False,
        )
    )


def _vit(layers: int) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            image_size=64,
            patch_size=8,
            hidden_size=WIDTH,
            num_hidden_layers=layers,
            num_attention_heads=HEADS,
            intermediate_size=4 * WIDTH,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=CLASSES,
            problem_type="single_label_classification",  # unset, the first call sets it, which compiles again
        )
    )


class ConvNet(nn.Module):
    """Convolution, batch norm and relu, `layers` times, in channels_last."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        widths = [3, *(min(32 << i, WIDTH) for i in range(layers))]
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(a, b, 3, stride=1 if i == 0 else 2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()
            )
            for i, (a, b) in enumerate(itertools.pairwise(widths))
        )
        self.head = nn.Linear(widths[-1], CLASSES)
        self.to(memory_format=torch.channels_last)

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor | None = None):
        from transformers.modeling_outputs import ImageClassifierOutput

        x = pixel_values
        for block in self.blocks:
            x = block(x)
        logits = self.head(x.mean((2, 3)))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return ImageClassifierOutput(loss=loss, logits=logits)


def _masked_tokens(batch: int, length: int) -> Batch:
    ids = torch.randint(VOCABULARY, (batch, length))
    # A token in seven is asked for; the others carry the label that cross entropy ignores. Rows end in padding of
    # different lengths.
    labels = torch.where(torch.rand(batch, length) < 1 / 7, ids, -100)
    labels[:, 0] = ids[:, 0]
    lengths = length - torch.arange(batch) % 4
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask.bool(), labels, -100)}


def _next_tokens(batch: int, length: int) -> Batch:
    ids = torch.randint(VOCABULARY, (batch, length))
    return {"input_ids": ids, "labels": ids.clone()}


def _images(batch: int, size: int) -> Batch:
    return {"pixel_values": torch.randn(batch, 3, size, size), "labels": torch.randint(CLASSES, (batch,))}


def _images_channels_last(batch: int, size: int) -> Batch:
    inputs = _images(batch, size)
    return {**inputs, "pixel_values": inputs["pixel_values"].to(memory_format=torch.channels_last)}


ENTRIES = [
    Entry("bert", _bert, _masked_tokens, batch=4, length=128, has_sequence=True),
    Entry("gpt2", _gpt2, _next_tokens, batch=4, length=128, has_sequence=True),
    Entry("llama", _llama, _next_tokens, batch=4, length=128, has_sequence=True),
    Entry("vit", _vit, _images, batch=4, length=64, has_sequence=False),
    Entry("convnet", ConvNet, _images_channels_last, batch=8, length=32, has_sequence=False),
]
BY_NAME = {entry.name: entry for entry in ENTRIES}


def cast(model: nn.Module, inputs: Batch, dtype: torch.dtype) -> tuple[nn.Module, Batch]:
    """Model and batch with floating-point data in `dtype`."""
    return model.to(dtype), {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}


@dataclasses.dataclass
class Run:
    """What a training run shows: the loss and the duration of every step."""

    losses: list[float]
    seconds: list[float]


def train(model: nn.Module, step: Callable[..., Any], batches: list[Batch], lr: float = 1e-3) -> Run:
    """One AdamW step per batch; `step` is the model or its compiled form."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    run = Run([], [])
    for batch in batches:
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = step(**batch).loss
        loss.backward()
        optimizer.step()
        run.losses.append(loss.item())
        run.seconds.append(time.perf_counter() - start)
    return run


def decode_state(prompt: int = 16, seed: int = 0) -> tuple[nn.Module, Batch, Callable[[], Any]]:
    """A Llama before a decode step: model, the step's inputs, and a function that gives a filled static KV cache.

    Each step writes one token into the cache and moves its position on; there is room for `prompt` of them.
    """
    from transformers import StaticCache

    entry = BY_NAME["llama"]
    model = entry.build(seed).eval()
    ids = entry.inference_inputs(seed, batch=2, length=prompt)["input_ids"]

    def filled_cache() -> Any:
        cache = StaticCache(config=model.config, max_cache_len=2 * prompt)
        with torch.no_grad():
            model(input_ids=ids, past_key_values=cache, use_cache=True)
        return cache

    return model, {"input_ids": torch.full((2, 1), 7)}, filled_cache


def cache_tensors(cache: Any) -> list[torch.Tensor]:
    """The keys and values of all layers."""
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
