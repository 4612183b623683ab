"""Work on images and boxes on a CUDA device. As suite gpu_programs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites.gpu_kernels import GpuCase, run_cases
from suites.inputs import LOW, MB, bf16, channels_last, chosen, f16, integers, mostly, normal, permutation, uniform


def undistort(image, k1, k2):
    """Radial distortion of a lens taken back."""
    rows, columns = image.shape[2:]
    y = torch.linspace(-1, 1, rows, device=image.device, dtype=image.dtype)[:, None]
    x = torch.linspace(-1, 1, columns, device=image.device, dtype=image.dtype)
    square = x * x + y * y
    factor = 1 + k1[:, None, None] * square + k2[:, None, None] * square * square
    return F.grid_sample(image, torch.stack([x * factor, y * factor], -1), align_corners=False)


def rotate_bytes(image, degrees):
    radians = degrees * (math.pi / 180)
    cos, sin = torch.cos(radians), torch.sin(radians)
    zero = torch.zeros_like(cos)
    theta = torch.stack([torch.stack([cos, -sin, zero], -1), torch.stack([sin, cos, zero], -1)], 1)
    grid = F.affine_grid(theta, list(image.shape), align_corners=False)
    turned = F.grid_sample(image.to(theta.dtype), grid, padding_mode="reflection", align_corners=False)
    return turned.round().clamp(0, 255).to(torch.uint8)


def morphology(image):
    """Opening, closing, the gradient and the top hat by squares of 5."""
    erode = lambda x: -F.max_pool2d(-x, 5, 1, 2)  # noqa: E731
    dilate = lambda x: F.max_pool2d(x, 5, 1, 2)  # noqa: E731
    small, large = erode(image), dilate(image)
    opened = dilate(small)
    return opened, erode(large), large - small, image - opened


def equalise(image):
    """Each channel's histogram made flat."""
    flat = image.flatten(2).long()
    counts = torch.zeros(*flat.shape[:2], 256, device=image.device).scatter_add(
        2, flat, torch.ones(flat.shape, device=image.device)
    )
    share = counts.cumsum(2) / flat.shape[2]
    return share.mul(255).round().to(torch.uint8).gather(2, flat).view_as(image)


def colour_jitter(image, turn, saturation, brightness):
    """RGB to hue, saturation and value, changed by factors of each image, and back."""
    value, low = image.amax(1), image.amin(1)
    spread = value - low
    safe = spread.clamp(min=1e-3)
    red, green, blue = image.unbind(1)
    hue = torch.where(value == red, (green - blue) / safe, 2 + (blue - red) / safe)
    hue = torch.where((value == blue) & (value != red), 4 + (red - green) / safe, hue) / 6
    of_image = lambda x: x[:, None, None]  # noqa: E731
    hue = torch.remainder(hue + of_image(turn), 1)
    spread = spread / value.clamp(min=1e-3) * of_image(saturation)
    value = value * of_image(brightness)
    channels = []
    for offset in (5, 3, 1):
        k = torch.remainder(offset + 6 * hue, 6)
        channels.append(value - value * spread * torch.minimum(k, 4 - k).clamp(0, 1))
    return torch.stack(channels, 1).clamp(0, 1)


def lab(image):
    linear = torch.where(image > 0.04045, ((image.clamp(min=0.04) + 0.055) / 1.055) ** 2.4, image / 12.92)
    red, green, blue = linear.unbind(-1)
    x = (0.4125 * red + 0.3576 * green + 0.1804 * blue) / 0.9505
    y = 0.2127 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9503 * blue) / 1.0888
    root = lambda t: torch.where(t > 0.008856, t.clamp(min=0.008) ** (1 / 3), 7.787 * t + 16 / 116)  # noqa: E731
    return torch.stack([116 * root(y) - 16, 500 * (root(x) - root(y)), 200 * (root(y) - root(z))], -1)


def colour_distance(a, b):
    return torch.sqrt((lab(a) - lab(b)).square().sum(-1) + 1e-4).sum()


def bilateral(image):
    """Windows of 5 x 5; weights fall with distance and with difference of colour."""
    rows, columns = image.shape[2:]
    padded = F.pad(image, (2, 2, 2, 2), mode="reflect")
    total, weights = torch.zeros_like(image), torch.zeros_like(image[:, :1])
    for i in range(5):
        for j in range(5):
            shifted = padded[:, :, i : i + rows, j : j + columns]
            unlike = (shifted - image).square().sum(1, keepdim=True)
            weight = torch.exp(-unlike / 0.1 - ((i - 2) ** 2 + (j - 2) ** 2) / 4.5)
            total, weights = total + weight * shifted, weights + weight
    return total / weights


def local_threshold(image):
    """Mean and deviation of windows of 15 x 15 by integral images (Sauvola)."""

    def box(x):
        table = F.pad(x.cumsum(1).cumsum(2), (1, 0, 1, 0))
        return (table[:, 15:, 15:] - table[:, :-15, 15:] - table[:, 15:, :-15] + table[:, :-15, :-15]) / 225

    mean = box(image)
    deviation = (box(image * image) - mean * mean).clamp(min=0).sqrt()
    level = mean * (1 + 0.2 * (deviation / 0.5 - 1))
    return torch.sigmoid((image[:, 7:-7, 7:-7] - level) * 8), level


def pyramid_loss(image, target):
    """Absolute differences of the levels of Laplacian pyramids."""
    loss = 0
    difference = image - target
    for level in range(3):
        smaller = F.avg_pool2d(difference, 2)
        larger = F.interpolate(smaller, scale_factor=2.0, mode="bilinear", align_corners=False)
        loss = loss + 2**level * (difference - larger).abs().sum()
        difference = smaller
    return loss + difference.abs().sum()


def demosaic(raw, gains):
    """Bayer's pattern RGGB of 10 bits to RGB in steps of two pixels, with white balance and gamma."""
    x = F.pad((raw.to(gains.dtype) - 64)[:, None] / 959, (2, 2, 2, 2), mode="reflect")[:, 0]
    p = lambda i, j: x[:, 2 + i : x.shape[1] - 2 + i : 2, 2 + j : x.shape[2] - 2 + j : 2]  # noqa: E731
    cross = lambda i, j: (p(i - 1, j) + p(i + 1, j) + p(i, j - 1) + p(i, j + 1)) / 4  # noqa: E731
    corners = lambda i, j: (p(i - 1, j - 1) + p(i - 1, j + 1) + p(i + 1, j - 1) + p(i + 1, j + 1)) / 4  # noqa: E731
    across = lambda i, j: (p(i, j - 1) + p(i, j + 1)) / 2  # noqa: E731
    down = lambda i, j: (p(i - 1, j) + p(i + 1, j)) / 2  # noqa: E731
    red = [p(0, 0), across(0, 1), down(1, 0), corners(1, 1)]
    green = [cross(0, 0), p(0, 1), p(1, 0), cross(1, 1)]
    blue = [corners(0, 0), down(0, 1), across(1, 0), p(1, 1)]
    four = torch.stack([torch.stack(c, -1) for c in (red, green, blue)], -1) * gains
    four = four.clamp(1e-4, 1) ** (1 / 2.2)
    return four.unflatten(3, (2, 2)).permute(0, 1, 3, 2, 4, 5).flatten(1, 2).flatten(2, 3)


def area(box):
    return (box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1])


def overlaps(a, b):
    """Intersection over union of all pairs of [..., m, 4] and [..., n, 4]."""
    low = torch.maximum(a[..., :, None, :2], b[..., None, :, :2])
    high = torch.minimum(a[..., :, None, 2:], b[..., None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    return shared / (area(a)[..., :, None] + area(b)[..., None, :] - shared)


def matrix_suppression(corners, scores, labels):
    """Scores that decay with the overlap with better boxes of the class (SOLOv2's matrix NMS)."""
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    corners, labels = corners.gather(1, order[..., None].expand(-1, -1, 4)), labels.gather(1, order)
    overlap = torch.triu(overlaps(corners, corners) * (labels[:, :, None] == labels[:, None]), 1)
    most = overlap.amax(1)
    decay = torch.exp(-2 * (overlap.square() - most.square()[:, :, None])).amin(1)
    return corners, scores * decay.clamp(max=1), labels


def assign_anchors(anchors, corners, labels):
    """The box and the label of each anchor, and the offsets to learn: background below 0.4, ignored to 0.5."""
    overlap, best = overlaps(anchors, corners).max(-1)
    wanted = corners.gather(1, best[..., None].expand(-1, -1, 4))
    label = labels.gather(1, best).masked_fill(overlap < 0.5, -1).masked_fill(overlap < 0.4, 0)
    size = anchors[:, 2:] - anchors[:, :2]
    move = ((wanted[..., :2] + wanted[..., 2:]) - (anchors[:, :2] + anchors[:, 2:])) / (2 * size)
    return label, torch.cat([move, torch.log((wanted[..., 2:] - wanted[..., :2]) / size)], -1)


def spread_labels(mask):
    """Eight rounds of connected components: a pixel takes the largest label of its neighbours within the mask."""
    rows, columns = mask.shape[1:]
    label = torch.arange(1, rows * columns + 1, device=mask.device, dtype=torch.int32).view(rows, columns) * mask
    for _ in range(8):
        p = F.pad(label, (1, 1, 1, 1))
        most = torch.maximum(
            torch.maximum(p[:, :-2, 1:-1], p[:, 2:, 1:-1]), torch.maximum(p[:, 1:-1, :-2], p[:, 1:-1, 2:])
        )
        label = torch.where(mask, torch.maximum(label, most), 0)
    return label


def thin_edges(image):
    """Gradients after Scharr, kept where they are largest along their own direction."""
    rows, columns = image.shape[-2:]
    p = F.pad(image, (1, 1, 1, 1), mode="replicate")
    part = lambda x, i, j: x[..., i : i + rows, j : j + columns]  # noqa: E731
    dx = 3 * (part(p, 0, 2) - part(p, 0, 0) + part(p, 2, 2) - part(p, 2, 0)) + 10 * (part(p, 1, 2) - part(p, 1, 0))
    dy = 3 * (part(p, 2, 0) - part(p, 0, 0) + part(p, 2, 2) - part(p, 0, 2)) + 10 * (part(p, 2, 1) - part(p, 0, 1))
    size = torch.hypot(dx, dy)
    sector = torch.round(torch.atan2(dy, dx) / (math.pi / 4)).long() % 4
    q = F.pad(size, (1, 1, 1, 1))
    kept = torch.zeros_like(size)
    for k, (i, j) in enumerate([(0, 1), (1, 1), (1, 0), (1, -1)]):
        is_peak = (size >= part(q, 1 + i, 1 + j)) & (size >= part(q, 1 - i, 1 - j))
        kept = torch.where((sector == k) & is_peak, size, kept)
    return kept


def local_contrast(image):
    mean = F.avg_pool2d(image, 9, 1, 4, count_include_pad=False)
    centred = image - mean
    deviation = F.avg_pool2d(centred.square(), 9, 1, 4, count_include_pad=False).mean(1, keepdim=True).sqrt()
    return centred / torch.maximum(deviation, deviation.mean((2, 3), keepdim=True))


def mosaic(images, order, top, left):
    """Four images side by side, of which each sample takes a window of its own; bytes to bfloat16."""
    four = images[order]
    canvas = torch.cat([torch.cat([four[:, 0], four[:, 1]], 3), torch.cat([four[:, 2], four[:, 3]], 3)], 2)
    rows, columns = (torch.arange(size, device=images.device) for size in images.shape[2:])
    number = torch.arange(order.shape[0], device=images.device)[:, None, None]
    window = canvas[number, :, (top[:, None] + rows)[:, :, None], (left[:, None] + columns)[:, None]]
    return window.permute(0, 3, 1, 2).to(bf16) / 127.5 - 1


def cut_mix(images, labels, order, box):
    """A rectangle of each image comes from another; labels are shared by area."""
    rows, columns = images.shape[2:]
    y, x = torch.arange(rows, device=images.device), torch.arange(columns, device=images.device)
    top, left, height, width = (box[:, k, None] for k in range(4))
    inside_y, inside_x = (y >= top) & (y < top + height), (x >= left) & (x < left + width)
    inside = inside_y[:, None, :, None] & inside_x[:, None, None]
    share = inside.float().mean((1, 2, 3))[:, None]
    wanted = F.one_hot(labels, 1000)
    return torch.where(inside, images[order], images), wanted * (1 - share) + wanted[order] * share


def correlation_volume(a, b):
    """Products of features with those of 9 x 9 shifts, mean over channels."""
    rows, columns = a.shape[2:]
    padded = F.pad(b, (4, 4, 4, 4))
    shifted = [padded[:, :, i : i + rows, j : j + columns] for i in range(9) for j in range(9)]
    return F.leaky_relu(torch.stack([(a * other).mean(1) for other in shifted], 1), 0.1)


def census_cost(left, right):
    """Bits that tell which of 24 neighbours are darker; how many differ at 16 disparities."""

    def census(image):
        p = F.pad(image, (2, 2, 2, 2))
        bits = torch.zeros(image.shape, dtype=torch.int32, device=image.device)
        for k in range(24):
            i, j = divmod(k + (k >= 12), 5)
            bits = bits | ((p[:, i : i + image.shape[1], j : j + image.shape[2]] < image).int() << k)
        return bits

    a, b, costs = census(left), F.pad(census(right), (15, 0)), []
    for shift in range(16):
        x = a ^ b[:, :, 15 - shift : b.shape[2] - shift]
        x = x - ((x >> 1) & 0x55555555)
        x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
        x = (x + (x >> 4)) & 0x0F0F0F0F
        costs.append((x + (x >> 8) + (x >> 16)) & 0x3F)
    return torch.stack(costs, 1).to(torch.uint8)


def unsharp(image, strength):
    """Depthwise Gauss of 7 in both directions; what it takes away is added again."""
    channels = image.shape[1]
    x = torch.arange(-3, 4, device=image.device, dtype=image.dtype)
    weight = torch.softmax(-x * x / 4, 0).expand(channels, 1, 7)
    blurred = F.conv2d(image, weight[:, :, None], padding=(0, 3), groups=channels)
    blurred = F.conv2d(blurred, weight[..., None], padding=(3, 0), groups=channels)
    detail = image - blurred
    return (image + strength * torch.where(detail.abs() > 0.02, detail, 0.0)).clamp(0, 1)


def cosine_blocks(image, table):
    """Blocks of 8 x 8 through the cosine transform, rounding by a table, and back, as in JPEG."""
    k = torch.arange(8, device=image.device, dtype=image.dtype)
    basis = torch.cos(math.pi / 8 * k[:, None] * (k + 0.5)) / 2
    basis = torch.cat([basis[:1] / math.sqrt(2), basis[1:]])
    blocks = (image * 255 - 128).unflatten(1, (-1, 8)).unflatten(3, (-1, 8)).transpose(2, 3)
    levels = torch.round(basis @ blocks @ basis.t() / table)
    decoded = (basis.t() @ (levels * table) @ basis).transpose(2, 3).flatten(3).flatten(1, 2)
    return ((decoded + 128) / 255).clamp(0, 1), (levels != 0).sum((1, 2, 3, 4))


def corners_of(*shape: int) -> torch.Tensor:
    corner = uniform(*shape, 2, high=500)
    return torch.cat([corner, corner + uniform(*shape, 2, low=10, high=110)], -1)


def pictures(n: int, size: int = 512) -> torch.Tensor:
    return uniform(n, 3, size, size)


def picture_bytes(n: int, size: int = 512) -> torch.Tensor:
    return integers(256, n, 3, size, size, dtype=torch.uint8)


CASES = [
    GpuCase(
        "lens distortion", undistort, lambda n=48: [pictures(n), 0.1 * normal(n), 0.01 * normal(n)], 288 * MB, atol=1e-2
    ),
    GpuCase("rotate bytes", rotate_bytes, lambda n=64: [picture_bytes(n), uniform(n, high=360)], 96 * MB, atol=1.0),
    GpuCase("morphology bf16", morphology, lambda n=1024: [normal(32, 1, n, 1000, dtype=bf16)], 312 * MB, **LOW),
    GpuCase("equalise histograms", equalise, lambda n=64: [picture_bytes(n)], 96 * MB, atol=1.0),
    GpuCase(
        "colour jitter f16",
        colour_jitter,
        lambda n=64: [pictures(n).to(f16), *(uniform(n, low=0.3, dtype=f16) for _ in range(3))],
        192 * MB,
        check=mostly(colour_jitter, rtol=2e-2, atol=2e-2, share=1e-2),
    ),
    GpuCase(
        "colour distance, gradient",
        colour_distance,
        lambda n=16: [uniform(n, 512, 512, 3), uniform(n, 512, 512, 3)],
        144 * MB,
        is_training=True,
        check=mostly(colour_distance),
    ),
    GpuCase("bilateral filter", bilateral, lambda n=32: [pictures(n)], 192 * MB),
    GpuCase(
        "local threshold 16x1600x1599", local_threshold, lambda n=1600: [uniform(16, n, n - 1)], 464 * MB, atol=5e-2
    ),
    GpuCase(
        "pyramid loss, gradient",
        pyramid_loss,
        lambda n=32: [pictures(n), pictures(n)],
        288 * MB,
        is_training=True,
        check=mostly(pyramid_loss),
    ),
    GpuCase(
        "demosaic", demosaic, lambda n=16: [integers(1023, n, 1536, 1024, dtype=torch.int16), uniform(3) + 1], 336 * MB
    ),
    GpuCase(
        "matrix suppression 64x500",
        matrix_suppression,
        lambda n=64: [corners_of(n, 500), uniform(n, 500), integers(10, n, 500)],
        1750 << 10,
    ),
    GpuCase(
        "assign anchors 32x25200x50",
        assign_anchors,
        lambda n=32: [corners_of(25200), corners_of(n, 50), integers(80, n, 50) + 1],
        19 * MB,
        check=mostly(assign_anchors),
    ),
    GpuCase("spread labels, 8 rounds", spread_labels, lambda n=16: [chosen(0.6, n, 1024, 1024)], 80 * MB),
    GpuCase("thin edges", thin_edges, lambda n=32: [uniform(n, 1, 1024, 1024)], 256 * MB, check=mostly(thin_edges)),
    GpuCase("local contrast, channels last", local_contrast, lambda n=48: [channels_last(pictures(n))], 288 * MB),
    GpuCase(
        "mosaic of bytes",
        mosaic,
        lambda n=64: [picture_bytes(n), integers(n, n, 4), integers(512, n), integers(512, n)],
        144 * MB,
        **LOW,
    ),
    GpuCase(
        "cut and mix bf16, channels last",
        cut_mix,
        lambda n=256: [
            channels_last(normal(n, 3, 224, 224, dtype=bf16)),
            integers(1000, n),
            permutation(n),
            integers(112, n, 4),
        ],
        148 * MB,
    ),
    GpuCase(
        "correlation volume 16x64x96x128",
        correlation_volume,
        lambda n=16: [normal(n, 64, 96, 128) for _ in "ab"],
        157 * MB,
    ),
    GpuCase("census cost 8x540x960", census_cost, lambda n=540: [uniform(8, n, 960), uniform(8, n, 960)], 95 * MB),
    GpuCase("unsharp mask", unsharp, lambda n=32: [pictures(n), 0.7], 192 * MB, check=mostly(unsharp)),
    GpuCase(
        "cosine blocks",
        cosine_blocks,
        lambda n=64: [uniform(n, 512, 768), integers(80, 8, 8, low=10).float()],
        192 * MB,
        check=mostly(cosine_blocks, atol=1e-2),
    ),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_images", CASES)
