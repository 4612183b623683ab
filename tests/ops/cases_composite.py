"""Normalisation, losses, and the operators that are called through the dispatcher, alone and between kernels."""

# ruff: noqa: E501  (tables: a case is a row)

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.ops.case import OpCase
from tests.ops.cases_reductions import SUM
from tests.ops.inputs import FLOATS, POSITIVE, UNIT

_norm = SUM | {"tolerances": SUM["tolerances"] | {torch.float64: (1e-10, 1e-10)}}
_f32_bf16 = (torch.float32, torch.bfloat16)


def _batch_norm_train(x, weight, bias, mean, var):
    mean, var = mean.clone(), var.clone()
    y = F.batch_norm(x, mean, var, weight, bias, training=True, momentum=0.1)
    return y, mean, var


def _swiglu(x, y):
    return F.silu(x) * y


NORMS = [
    OpCase("layer_norm", lambda x, w, b: F.layer_norm(x, (19,), w, b), lambda m: [(m.tensor(m.size(5), 7, 19), m.tensor(19), m.tensor(19))], **_norm),
    OpCase("layer_norm_plain", lambda x: F.layer_norm(x, (19,)), lambda m: [(m.tensor(m.size(5), 7, 19),)], **_norm),
    OpCase("layer_norm_two_axes", lambda x: F.layer_norm(x, (7, 19)), lambda m: [(m.tensor(m.size(5), 7, 19),)], (torch.float32,), **_norm),
    OpCase("layer_norm_residual", lambda x, y, w: F.layer_norm(x + y, (19,), w) + y, lambda m: [(m.tensor(m.size(5), 19), m.tensor(m.size(5), 19), m.tensor(19))], **_norm),
    OpCase("rms_norm", lambda x, w: F.rms_norm(x, (19,), w, 1e-6), lambda m: [(m.tensor(m.size(5), 7, 19), m.tensor(19))], **_norm),
    OpCase("rms_norm_llama", lambda x, w: w * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype),
           lambda m: [(m.tensor(m.size(5), 7, 19), m.tensor(19))], (torch.float32, torch.bfloat16, torch.float16), **_norm),
    OpCase("batch_norm_eval", lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, training=False),
           lambda m: [(m.tensor(m.size(4), 6, 5, 5), m.tensor(6), m.tensor(6), m.tensor(6), m.tensor(6, domain=POSITIVE))], (torch.float32, torch.float64), constants=(3, 4), generated=False, **_norm),
    OpCase("batch_norm_train", _batch_norm_train,
           lambda m: [(m.tensor(m.size(4), 6, 5, 5), m.tensor(6), m.tensor(6), m.tensor(6), m.tensor(6, domain=POSITIVE))], (torch.float32, torch.float64), constants=(3, 4), generated=False, **_norm),
    OpCase("batch_norm_train_2d", _batch_norm_train,
           lambda m: [(m.tensor(m.size(33), 6), m.tensor(6), m.tensor(6), m.tensor(6), m.tensor(6, domain=POSITIVE))], (torch.float32,), constants=(3, 4), generated=False, **_norm),
    OpCase("batch_norm_relu", lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)), lambda m: [(m.tensor(m.size(4), 6, 5, 5), m.tensor(6), m.tensor(6))],
           (torch.float32,), generated=False, **_norm),
    OpCase("group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), lambda m: [(m.tensor(m.size(4), 6, 5, 5), m.tensor(6), m.tensor(6))], (torch.float32, torch.float64), generated=False, **_norm),
    OpCase("instance_norm", lambda x: F.instance_norm(x), lambda m: [(m.tensor(m.size(4), 6, 5, 5),)], (torch.float32,), generated=False, **_norm),
    OpCase("normalize", lambda x: F.normalize(x, dim=-1), lambda m: [(m.tensor(m.size(4), 19),)], (torch.float32,), generated=False, **_norm),
    OpCase("cosine_similarity", lambda x, y: F.cosine_similarity(x, y), lambda m: [(m.tensor(m.size(4), 19), m.tensor(m.size(4), 19))], (torch.float32,), generated=False, **_norm),
    OpCase("swiglu", _swiglu, lambda m: [(m.tensor(m.size(5), 19), m.tensor(m.size(5), 19))], tolerances=SUM["tolerances"], reason="eager rounds between the two operators"),
    OpCase("glu", lambda x: F.glu(x, -1), lambda m: [(m.tensor(m.size(5), 18),)], (torch.float32,), generated=False),
    OpCase("prelu", lambda x, w: F.prelu(x, w), lambda m: [(m.tensor(m.size(4), 6, 5), m.tensor(6))], (torch.float32,), generated=False),
]  # fmt: skip


def _logits_and_labels(m, rows: int = 9, classes: int = 13):
    labels = m.index(m.size(rows), below=classes)
    labels[1] = -100
    return [(m.tensor(m.size(rows), classes), labels)]


LOSSES = [
    OpCase("cross_entropy", lambda x, y: F.cross_entropy(x, y), _logits_and_labels, generated=False, **_norm),
    OpCase("cross_entropy_sum", lambda x, y: F.cross_entropy(x, y, reduction="sum"), _logits_and_labels, _f32_bf16, generated=False, **_norm),
    OpCase("cross_entropy_none", lambda x, y: F.cross_entropy(x, y, reduction="none"), _logits_and_labels, _f32_bf16, generated=False, **_norm),
    OpCase("cross_entropy_smoothing", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), _logits_and_labels, (torch.float32,), generated=False, **_norm),
    OpCase("cross_entropy_weight", lambda x, y: F.cross_entropy(x, y, weight=torch.arange(1, 14, device=x.device).to(x.dtype)), _logits_and_labels, (torch.float32,), generated=False, **_norm),
    OpCase("cross_entropy_probabilities", lambda x, y: F.cross_entropy(x, y.softmax(-1)), lambda m: [(m.tensor(m.size(9), 13), m.tensor(m.size(9), 13))], (torch.float32,), **_norm),
    OpCase("cross_entropy_image", lambda x, y: F.cross_entropy(x, y), lambda m: [(m.tensor(m.size(2), 5, 3, 4), m.index(m.size(2), 3, 4, below=5))], (torch.float32,), generated=False, **_norm),
    OpCase("cross_entropy_long_rows", lambda x, y: F.cross_entropy(x.float(), y), lambda m: _logits_and_labels(m, 3, 8191), _f32_bf16, generated=False, **_norm),
    OpCase("nll_loss", lambda x, y: F.nll_loss(x, y), _logits_and_labels, (torch.float32,), generated=False, **_norm),
    OpCase("mse_loss", lambda x, y: (F.mse_loss(x, y), F.mse_loss(x, y, reduction="none")), lambda m: [(m.tensor(m.size(9), 13), m.tensor(m.size(9), 13))], **_norm),
    OpCase("l1_losses", lambda x, y: (F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y)), lambda m: [(m.tensor(m.size(9), 13), m.tensor(m.size(9), 13))], (torch.float32,), **_norm),
    OpCase("bce_with_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), lambda m: [(m.tensor(m.size(9), 13), m.tensor(m.size(9), 13))], (torch.float32,), **_norm),
    OpCase("kl_div", lambda x, y: F.kl_div(x.log_softmax(-1), y.log_softmax(-1), log_target=True, reduction="batchmean"), lambda m: [(m.tensor(m.size(9), 13), m.tensor(m.size(9), 13))],
           (torch.float32,), generated=False, **_norm),
]  # fmt: skip

_q = lambda m: m.tensor(2, 3, m.size(7), 8, domain=UNIT)  # noqa: E731

EXTERN = [
    OpCase("mm", lambda x, y: F.relu(x @ y + 1), lambda m: [(m.tensor(m.size(5), 7), m.tensor(7, 9))], FLOATS, generated=False, **_norm),
    OpCase("bmm", lambda x, y: (x * 2) @ y.transpose(1, 2), lambda m: [(m.tensor(2, m.size(5), 7), m.tensor(2, 9, 7))], (torch.float32,), generated=False, **_norm),
    OpCase("linear", lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda m: [(m.tensor(m.size(5), 3, 7), m.tensor(9, 7), m.tensor(9))], (torch.float32,), generated=False, **_norm),
    OpCase("conv2d", lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)), lambda m: [(m.tensor(m.size(2), 3, 8, 8), m.tensor(4, 3, 3, 3), m.tensor(4))], (torch.float32,), generated=False, **_norm),
    OpCase("conv_transpose", lambda x, w: F.conv_transpose2d(x * 2, w, stride=2), lambda m: [(m.tensor(m.size(2), 3, 4, 4), m.tensor(3, 4, 3, 3))], (torch.float32,), generated=False, **_norm),
    OpCase("pooling", lambda x: (F.max_pool2d(x * 2, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)), lambda m: [(m.tensor(m.size(2), 3, 8, 8),)], (torch.float32,), generated=False),
    OpCase("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v) + 1, lambda m: [(_q(m), _q(m), _q(m))], (torch.float32,), generated=False, **_norm),
    OpCase("attention_causal", lambda q, k, v: F.scaled_dot_product_attention(q * 2, k, v, is_causal=True), lambda m: [(_q(m), _q(m), _q(m))], (torch.float32,), generated=False, **_norm),
    OpCase("attention_by_hand", lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v, lambda m: [(_q(m), _q(m), _q(m))], (torch.float32,), generated=False, **_norm),
    OpCase("sort", lambda x: tuple(torch.sort(x + 1, dim=-1)), lambda m: [(m.permutation(m.size(5), 7),)], (torch.float32, torch.int64), generated=False),
    OpCase("topk", lambda x: tuple(torch.topk(x * 2, 3)), lambda m: [(m.permutation(m.size(5), 7),)], (torch.float32,), generated=False),
    OpCase("einsum", lambda x, y: torch.einsum("bij,bkj->bik", x, y).sum(1), lambda m: [(m.tensor(2, m.size(5), 7), m.tensor(2, 9, 7))], (torch.float32,), generated=False, **_norm),
    OpCase("interpolate", lambda x: F.interpolate(x * 2, scale_factor=2.0, mode="nearest"), lambda m: [(m.tensor(2, 3, 4, 5),)], (torch.float32,), dynamic=False, generated=False),
    OpCase("complex", lambda x: torch.view_as_real(torch.view_as_complex(x) * 2) + 1, lambda m: [(m.tensor(m.size(5), 7, 2),)], (torch.float32,), grad=False, generated=False),
    OpCase("fft", lambda x: torch.fft.rfft(x * 2).abs() + 1, lambda m: [(m.tensor(m.size(5), 16),)], (torch.float32,), grad=False, generated=False, **_norm),
    OpCase("searchsorted", lambda x: torch.searchsorted(torch.arange(5.0, device=x.device), x) + 1, lambda m: [(m.tensor(m.size(5), 7),)], (torch.float32,), grad=False, generated=False),
]  # fmt: skip

CASES: list[OpCase] = [*NORMS, *LOSSES, *EXTERN]
