"""Losses and metrics on a CUDA device, most of them with gradients. As suite gpu_programs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites.gpu_kernels import GpuCase, run_cases
from suites.inputs import LOW, MB, bf16, channels_last, chosen, f16, integers, mostly, normal, uniform


def dice_loss(logits, labels):
    """Soft Dice over classes; pixels labelled -1 do not count. Scaled by the number of pixels."""
    classes = logits.shape[1]
    valid = (labels >= 0)[:, None]
    chances = logits.float().softmax(1) * valid
    wanted = F.one_hot(labels.clamp(min=0), classes).permute(0, 3, 1, 2) * valid
    shared = (chances * wanted).sum((2, 3))
    total = chances.sum((2, 3)) + wanted.sum((2, 3))
    return (1 - (2 * shared + 1) / (total + 1)).mean() * labels.numel()


def lovasz_hinge(logits, labels):
    """The Lovasz extension of the Jaccard loss: errors in falling order, weighted by the steps of the index."""
    wanted = labels.to(logits.dtype)
    errors, order = torch.sort(1 - logits * (2 * wanted - 1), dim=1, descending=True)
    wanted = wanted.gather(1, order)
    count = wanted.sum(1, keepdim=True)
    jaccard = 1 - (count - wanted.cumsum(1)) / (count + (1 - wanted).cumsum(1))
    steps = torch.cat([jaccard[:, :1], jaccard[:, 1:] - jaccard[:, :-1]], 1)
    return (F.relu(errors) * steps).sum() * logits.shape[1]


def calibration_error(logits, labels):
    """Expected and largest gap between confidence and accuracy, in 15 bins."""
    confidence, found = torch.softmax(logits, -1).max(-1)
    right = (found == labels).to(logits.dtype)
    place = (confidence * 15).long().clamp(max=14)
    sums = torch.zeros(15, 3, device=logits.device, dtype=logits.dtype)
    sums = sums.index_add(0, place, torch.stack([confidence, right, torch.ones_like(right)], 1))
    gap = (sums[:, 0] - sums[:, 1]).abs()
    return gap.sum() / labels.shape[0], (gap / sums[:, 2].clamp(min=1)).amax(), sums[:, 1].sum() / labels.shape[0]


def sliced_wasserstein(a, b):
    """Squared distance of the sorted projections."""
    return (a.sort(dim=1).values - b.sort(dim=1).values).square().sum() / 2


def supervised_contrast(x, labels):
    """Each sample against those of its label and all others."""
    x = F.normalize(x, dim=1)
    scores = x @ x.t() / 0.1
    itself = torch.eye(x.shape[0], dtype=torch.bool, device=x.device)
    scores = scores.masked_fill(itself, -math.inf)
    same = (labels[:, None] == labels) & ~itself
    likely = scores - torch.logsumexp(scores, 1, keepdim=True)
    return -(likely.masked_fill(~same, 0).sum(1) / same.sum(1).clamp(min=1)).sum()


def hardest_triplets(x, labels):
    square = x.square().sum(1)
    distance = (square[:, None] + square - 2 * x @ x.t()).clamp(min=1e-2).sqrt()
    same = labels[:, None] == labels
    furthest = distance.masked_fill(~same, -math.inf).amax(1)
    nearest = distance.masked_fill(same, math.inf).amin(1)
    return F.softplus(furthest - nearest).sum()


def lambda_rank(scores, grades, valid):
    """Pairs of documents of a query, weighted by what their exchange would change of the gain."""
    scores = scores.masked_fill(~valid, -1e4)
    rank = scores.argsort(dim=1, descending=True, stable=True).argsort(1) + 1
    discount = 1 / torch.log2(rank + 1.0)
    gain = (2.0**grades - 1) * valid
    change = ((gain[:, :, None] - gain[:, None]) * (discount[:, :, None] - discount[:, None])).abs()
    is_better = (grades[:, :, None] > grades[:, None]) & valid[:, :, None] & valid[:, None]
    loss = F.softplus(scores[:, None] - scores[:, :, None]) * change
    return loss.masked_fill(~is_better, 0).sum()


def ranking_metrics(scores, grades):
    """Normalised gain of the first ten, reciprocal rank and mean precision of each query."""
    found = grades.gather(1, scores.argsort(dim=1, descending=True, stable=True))
    best = grades.sort(1, descending=True).values
    place = torch.arange(1, scores.shape[1] + 1, device=scores.device)
    discount = 1 / torch.log2(place[:10] + 1.0)
    gain = ((2.0 ** found[:, :10] - 1) * discount).sum(1) / ((2.0 ** best[:, :10] - 1) * discount).sum(1).clamp(
        min=1e-6
    )
    hit = found > 2
    reciprocal = (hit / place).amax(1)
    precision = (hit.cumsum(1) / place * hit).sum(1) / hit.sum(1).clamp(min=1)
    return gain, reciprocal, precision


def area_under_curve(scores, labels):
    """Of each row, by the ranks of the positives."""
    rank = scores.argsort(1).argsort(1) + 1
    positives = labels.sum(1)
    total = (rank * labels).sum(1) - positives * (positives + 1) // 2
    return total.double() / (positives * (labels.shape[1] - positives)).double()


def asymmetric_loss(logits, labels):
    """Of many labels: negatives count less, and not at all if they are unlikely."""
    chance = torch.sigmoid(logits.float())
    absent = (1 - chance + 0.05).clamp(max=1)
    likely = torch.where(labels, chance, absent)
    focus = torch.where(labels, 1 - likely, (1 - likely) ** 4)
    return -(focus.detach() * torch.log(likely.clamp(min=1e-6))).sum()


def mixture_density(output, target):
    """Likelihood under 16 Gaussians in two dimensions; logits, means and log-deviations in one tensor."""
    logits, mean, deviation = output.split([16, 32, 32], 1)
    deviation = deviation.clamp(-4, 4).unflatten(1, (16, 2))
    offset = (target[:, None] - mean.unflatten(1, (16, 2))) * torch.exp(-deviation)
    log_chance = -(offset.square() / 2 + deviation + math.log(2 * math.pi) / 2).sum(2)
    return -torch.logsumexp(F.log_softmax(logits, 1) + log_chance, 1).sum()


def variational_loss(output, x, prior):
    """Reconstruction under a learnt variance, and divergence to a prior of its own mean; three parts of one tensor."""
    mean, log_variance, reconstruction = output.chunk(3, dim=-1)
    log_variance = log_variance.clamp(-6, 6)
    divergence = (log_variance.exp() + (mean - prior).square() - 1 - log_variance) / 2
    free = divergence.sum(1).clamp(min=3.0)
    return F.binary_cross_entropy_with_logits(reconstruction, x, reduction="sum") + free.sum()


def chain_field(emissions, transitions, tags, lengths):
    """Likelihood of tags in a linear chain of 12 steps: the forward recurrence in logarithms, padded sequences."""
    score = emissions[:, 0]
    path = emissions[:, 0].gather(1, tags[:, :1])[:, 0]
    for t in range(1, 12):
        is_inside = t < lengths
        following = torch.logsumexp(score[:, :, None] + transitions, 1) + emissions[:, t]
        score = torch.where(is_inside[:, None], following, score)
        step = transitions[tags[:, t - 1], tags[:, t]] + emissions[:, t].gather(1, tags[:, t, None])[:, 0]
        path = path + step * is_inside
    return (torch.logsumexp(score, 1) - path).sum()


def language_loss(logits, tokens, lengths):
    """The next token of padded sequences, with a penalty on the size of the normaliser; an odd vocabulary."""
    scores, wanted = logits[:, :-1].float(), tokens[:, 1:]
    total = torch.logsumexp(scores, -1)
    loss = total - scores.gather(2, wanted[..., None])[..., 0] + 1e-4 * total.square()
    valid = torch.arange(wanted.shape[1], device=tokens.device) < lengths[:, None] - 1
    return (loss * valid).sum()


def preference_loss(logits, reference, tokens, is_answer):
    """Direct preference: chosen and rejected answers in turn, against what a frozen model says of them."""

    def likelihood(x):
        each = F.log_softmax(x[:, :-1].float(), -1).gather(2, tokens[:, 1:, None])[..., 0]
        return (each * is_answer[:, 1:]).sum(1)

    gain = likelihood(logits) - likelihood(reference)
    better, worse = gain[::2], gain[1::2]
    return -F.logsigmoid(0.01 * (better - worse)).sum() * 100


def quantile_loss(quantiles, targets):
    """Huber's loss between all pairs of quantiles of two distributions, weighted by side."""
    count = quantiles.shape[1]
    share = (torch.arange(count, device=quantiles.device) + 0.5) / count
    error = targets[:, None] - quantiles[:, :, None]
    huber = torch.where(error.abs() < 1, error.square() / 2, error.abs() - 0.5)
    return ((share[:, None] - (error.detach() < 0).to(error.dtype)).abs() * huber).mean(2).sum()


def project_distribution(chances, rewards, alive):
    """Bellman's update of a distribution on 51 values, shared between the two next values."""
    support = torch.linspace(-10, 10, 51, device=chances.device, dtype=chances.dtype)
    place = ((rewards[:, None] + 0.99 * alive[:, None] * support).clamp(-10, 10) + 10) * 2.5
    low = place.floor().clamp(max=49)
    part, low = place - low, low.long()
    result = torch.zeros_like(chances).scatter_add(1, low, chances * (1 - part))
    return result.scatter_add(1, low + 1, chances * part)


def sinkhorn_loss(cost):
    """Five rounds of entropic transport between uniform marginals, in logarithms; the cost of the plan."""
    kernel = -cost / 0.5
    u, v = torch.zeros_like(cost[:, :, 0]), torch.zeros_like(cost[:, 0])
    for _ in range(5):
        u = -torch.logsumexp(kernel + v[:, None], 2)
        v = -torch.logsumexp(kernel + u[:, :, None], 1)
    return (torch.exp(kernel + u[:, :, None] + v[:, None]) * cost).sum()


def chamfer(a, b):
    distance = (a[:, :, None] - b[:, None]).square().sum(-1)
    return distance.amin(2).sum() + distance.amin(1).sum()


def smooth_depth(disparity, image):
    """Slopes of disparity cost less where the image has edges; second order as well."""
    disparity = disparity / (disparity.mean((2, 3), keepdim=True) + 1e-3)
    loss = 0
    for dim in (2, 3):
        slope = torch.diff(disparity, dim=dim)
        edge = torch.diff(image, dim=dim).abs().mean(1, keepdim=True)
        bend = torch.diff(slope, dim=dim)
        loss = loss + (torch.sqrt(slope.square() + 1e-3) * torch.exp(-10 * edge)).sum() + bend.square().sum() / 2
    return loss


def box_loss(deltas, anchors, target):
    """Decoded boxes against targets: complete IoU, with centre distance and aspect ratio."""
    size = anchors[:, 2:] - anchors[:, :2]
    centre = (anchors[:, :2] + anchors[:, 2:]) / 2 + deltas[:, :2] * size
    half = size * torch.exp(deltas[:, 2:].clamp(max=4)) / 2
    low, high = centre - half, centre + half
    shared = (torch.minimum(high, target[:, 2:]) - torch.maximum(low, target[:, :2])).clamp(min=0).prod(1)
    wanted = target[:, 2:] - target[:, :2]
    overlap = shared / ((4 * half.prod(1)) + wanted.prod(1) - shared)
    hull = (torch.maximum(high, target[:, 2:]) - torch.minimum(low, target[:, :2])).square().sum(1)
    apart = (centre - (target[:, :2] + target[:, 2:]) / 2).square().sum(1)
    aspect = (torch.atan(wanted[:, 0] / wanted[:, 1]) - torch.atan(half[:, 0] / half[:, 1])).square() * 4 / math.pi**2
    share = (aspect / (1 - overlap + aspect + 1e-6)).detach()
    return (1 - overlap + apart / hull + share * aspect).sum()


def boxes(n: int) -> list[torch.Tensor]:
    corner, move = uniform(n, 2, high=500), normal(n, 2) * 10
    size = uniform(n, 2, low=20, high=100)
    return [
        0.2 * normal(n, 4),
        torch.cat([corner, corner + size], 1),
        torch.cat([corner + move, corner + size + move], 1),
    ]


def training(name: str, function: Any, make: Any, size: int, **options: Any) -> GpuCase:
    """A loss with the gradient of its first argument; kinks and choices may differ from float64."""
    return GpuCase(
        f"{name}, gradient", function, make, size, is_training=True, **{"check": mostly(function), **options}
    )


CASES = [
    training(
        "Dice bf16, channels last",
        dice_loss,
        lambda n=32: [channels_last(normal(n, 21, 256, 256, dtype=bf16)), integers(21, n, 256, 256, low=-1)],
        184 * MB,
        check=mostly(dice_loss, **LOW),
    ),
    training(
        "Lovasz hinge 64x65536",
        lovasz_hinge,
        lambda n=64: [normal(n, 65536), chosen(0.2, n, 65536)],
        36 * MB,
        # Steps of the index are differences of numbers near 1.
        check=mostly(lovasz_hinge, **LOW),
    ),
    GpuCase(
        "calibration error 262144x100", calibration_error, lambda n=262144: [normal(n, 100), integers(100, n)], 102 * MB
    ),
    training(
        "sliced Wasserstein 2048x4096", sliced_wasserstein, lambda n=2048: [normal(n, 4096) for _ in "ab"], 96 * MB
    ),
    training(
        "supervised contrast 4096", supervised_contrast, lambda n=4096: [normal(n, 128), integers(100, n)], 4 * MB
    ),
    training("hardest triplets 4096", hardest_triplets, lambda n=4096: [normal(n, 64), integers(100, n)], 2080 << 10),
    training(
        "pairs of a ranking 4096x80",
        lambda_rank,
        lambda n=4096: [normal(n, 80), integers(5, n, 80), chosen(0.9, n, 80)],
        5 * MB,
    ),
    GpuCase(
        "ranking metrics 65536x128", ranking_metrics, lambda n=65536: [normal(n, 128), integers(5, n, 128)], 97 * MB
    ),
    GpuCase(
        "area under the curve 256x65536",
        area_under_curve,
        lambda n=256: [normal(n, 65536), integers(2, n, 65536)],
        192 * MB,
    ),
    training(
        "asymmetric loss f16 16384x1203",
        asymmetric_loss,
        lambda n=16384: [normal(n, 1203, dtype=f16), chosen(0.01, n, 1203)],
        94 * MB,
        check=mostly(asymmetric_loss, **LOW),
    ),
    training("mixture density 2^18", mixture_density, lambda n=1 << 18: [normal(n, 80), normal(n, 2)], 162 * MB),
    training(
        "variational loss 65536x3x160",
        variational_loss,
        lambda n=65536: [normal(n, 480), uniform(n, 160), normal(160)],
        280 * MB,
    ),
    training(
        "chain of tags 65536x12x17",
        chain_field,
        lambda n=65536: [normal(n, 12, 17), normal(17, 17), integers(17, n, 12), integers(13, n, low=3)],
        109 * MB,
    ),
    training(
        "language loss bf16 vocabulary 32003",
        language_loss,
        lambda n=513: [normal(4, n, 32003, dtype=bf16), integers(32003, 4, n), integers(n + 1, 4, low=2)],
        251 * MB,
        check=mostly(language_loss, **LOW),
    ),
    training(
        "preference loss bf16",
        preference_loss,
        lambda n=200: [
            *(normal(8, n, 32000, dtype=bf16) for _ in range(2)),
            integers(32000, 8, n),
            chosen(0.5, 8, n),
        ],
        293 * MB,
        check=mostly(preference_loss, **LOW),
    ),
    training("quantiles 16384x51", quantile_loss, lambda n=16384: [normal(n, 51), normal(n, 51)], 10 * MB),
    GpuCase(
        "project a distribution 2^18x51",
        project_distribution,
        lambda n=1 << 18: [normal(n, 51).softmax(1), normal(n), chosen(0.9, n)],
        103 * MB,
    ),
    training("Sinkhorn 512x120x128", sinkhorn_loss, lambda n=512: [uniform(n, 120, 128)], 60 * MB),
    training("chamfer 16x2048x1900", chamfer, lambda n=16: [normal(n, 2048, 3), normal(n, 1900, 3)], 1124 << 10),
    training(
        "smooth depth 32x512x640",
        smooth_depth,
        lambda n=32: [uniform(n, 1, 512, 640), uniform(n, 3, 512, 640)],
        200 * MB,
    ),
    training("boxes 2^20", box_loss, lambda n=1 << 20: boxes(n), 64 * MB),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_losses", CASES)
