"""Work on audio and other signals on a CUDA device. As suite gpu_programs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites.gpu_kernels import GpuCase, run_cases
from suites.inputs import LOW, MB, bf16, f16, integers, mostly, normal, uniform


def frame_energy(audio, window):
    """Decibels of windowed frames after pre-emphasis, 400 samples each 160, less the mean of the clip."""
    emphasised = audio - 0.97 * F.pad(audio[:, :-1], (1, 0))
    frames = emphasised.unfold(1, 400, 160)
    frames = (frames - frames.mean(2, keepdim=True)) * window
    level = 10 * torch.log10(frames.square().sum(2) + 1e-6)
    return level - level.mean(1, keepdim=True)


def zero_crossings(samples):
    """The share of changes of sign, and the mean size, in frames of 16-bit samples."""
    is_negative = samples < 0
    changes = (is_negative[:, 1:] != is_negative[:, :-1]).float()
    return changes.unfold(1, 512, 256).mean(2), samples.float().abs().unfold(1, 512, 256).mean(2) / 32768


def companding(audio):
    """The mu law with 256 levels: codes, what they decode to, and the error in decibels."""
    x = audio.clamp(-1, 1)
    squeezed = torch.sign(x) * torch.log1p(255 * x.abs()) / math.log(256)
    codes = ((squeezed + 1) * 127.5 + 0.5).floor().to(torch.uint8)
    y = codes.to(audio.dtype) / 127.5 - 1
    decoded = torch.sign(y) * (256 ** y.abs() - 1) / 255
    error = (decoded - x).square().mean(1)
    return codes, decoded, 10 * torch.log10(x.square().mean(1) / error)


def echo(audio, gains):
    """Four delayed copies, added and softly clipped; both channels cross over."""
    total = audio
    for k, delay in enumerate((1051, 2203, 3607, 5003)):
        late = F.pad(audio, (delay, 0))[..., : audio.shape[-1]]
        total = total + gains[k] * (late.flip(1) if k % 2 else late)
    return torch.tanh(total * 1.2) / 1.2


def deltas(features, lengths):
    """First and second differences over five frames, and mean and variance made equal over valid frames."""

    def slope(x):
        p = F.pad(x.transpose(1, 2), (2, 2), mode="replicate").transpose(1, 2)
        return (p[:, 3:-1] - p[:, 1:-3] + 2 * (p[:, 4:] - p[:, :-4])) / 10

    first = slope(features)
    x = torch.cat([features, first, slope(first)], 2)
    valid = (torch.arange(x.shape[1], device=x.device) < lengths[:, None])[..., None]
    count = lengths[:, None, None]
    mean = (x * valid).sum(1, keepdim=True) / count
    variance = ((x - mean).square() * valid).sum(1, keepdim=True) / count
    return (x - mean) * torch.rsqrt(variance + 1e-5) * valid


def tones(frames, frequencies):
    """Power of eight frequencies in each frame (cycles a sample), and which one leads."""
    time = torch.arange(frames.shape[1], device=frames.device, dtype=frames.dtype)
    angle = 2 * math.pi * frequencies[:, None] * time
    real = (frames[:, None] * torch.cos(angle)).sum(2)
    imaginary = (frames[:, None] * torch.sin(angle)).sum(2)
    power = real.square() + imaginary.square()
    return power, power.argmax(1)


def biquad(x, coefficients):
    """A filter of second order over 16 samples of many signals; samples come first."""
    b0, b1, b2, a1, a2 = coefficients.unbind(0)
    first, second, outputs = torch.zeros_like(x[0]), torch.zeros_like(x[0]), []
    for sample in x:
        y = b0 * sample + first
        first, second = b1 * sample - a1 * y + second, b2 * sample - a2 * y
        outputs.append(y)
    return torch.stack(outputs)


def remove_clicks(audio):
    """A sample far from the median of five becomes that median."""
    windows = F.pad(audio, (2, 2), mode="reflect").unfold(1, 5, 1)
    middle = windows.median(2).values
    spread = (windows - middle[..., None]).abs().amax(2)
    is_click = (audio - middle).abs() >= 0.99 * spread
    return torch.where(is_click, middle, audio), is_click.sum(1)


def resample(audio, ratio):
    """Linear interpolation at a ratio of each clip; positions in float64."""
    length = audio.shape[1]
    place = torch.arange(length, device=audio.device, dtype=torch.float64) * ratio[:, None].double()
    left = place.long().clamp(max=length - 2)
    part = (place - left).clamp(max=1).to(audio.dtype)
    return torch.lerp(audio.gather(1, left), audio.gather(1, left + 1), part)


def upsample_by_four(audio, taps):
    """A filter of 4 x 8 taps in its four phases, whose outputs interleave."""
    windows = F.pad(audio, (4, 3)).unfold(1, 8, 1)
    return torch.stack([(windows * taps[k]).sum(2) for k in range(4)], -1).flatten(1)


def compressor(audio, threshold, ratio):
    """Stereo, by the level in windows of 257 samples; a soft knee of 6 dB."""
    power = F.avg_pool1d(audio.square().mean(1, keepdim=True), 257, 1, 128)
    over = 10 * torch.log10(power + 1e-8) - threshold
    bent = torch.where(over > 3, over, (over + 3).clamp(min=0).square() / 12)
    return audio * 10 ** (-bent * (1 - 1 / ratio) / 20)


def mask_spectrogram(x, time, frequency):
    """Two bands of time and two of frequency become the mean of the clip; start and width are given."""
    mean = x.float().mean((1, 2), keepdim=True).to(x.dtype)
    bins, frames = torch.arange(x.shape[1], device=x.device), torch.arange(x.shape[2], device=x.device)
    hidden = torch.zeros_like(x, dtype=torch.bool)
    for k in range(2):
        start, width = time[:, k, 0, None, None], time[:, k, 1, None, None]
        hidden = hidden | ((frames >= start) & (frames < start + width))
        start, width = frequency[:, k, 0, None, None], frequency[:, k, 1, None, None]
        hidden = hidden | ((bins[:, None] >= start) & (bins[:, None] < start + width))
    return torch.where(hidden, mean, x)


def loudness(audio):
    """Of stereo blocks that overlap by three quarters, gated by an absolute and by a relative level."""
    power = audio.square().unfold(2, 19200, 4800).mean(3).sum(1)
    level = -0.691 + 10 * torch.log10(power + 1e-12)
    mean_of = lambda mask: (power * mask).sum(1) / mask.sum(1).clamp(min=1)  # noqa: E731
    is_loud = level > -70
    relative = -10.691 + 10 * torch.log10(mean_of(is_loud) + 1e-12)
    return -0.691 + 10 * torch.log10(mean_of(is_loud & (level > relative[:, None])) + 1e-12)


def envelope_loss(output, target):
    """How far apart the energies of frames of three lengths are, in logarithms, and the samples themselves."""
    loss = (output - target).abs().sum()
    for size in (64, 256, 1024):
        ours, theirs = (x.unfold(1, size, size // 2).square().mean(2) + 1e-3 for x in (output, target))
        loss = loss + size * (torch.log(ours) - torch.log(theirs)).square().sum()
    return loss


def separation_loss(estimate, target):
    """Negative scale-invariant ratio of signal to distortion; the best of all orders of three speakers."""
    estimate, target = (x - x.mean(2, keepdim=True) for x in (estimate, target))
    dot = (estimate[:, :, None] * target[:, None]).sum(3)
    along = dot.square() / target.square().sum(2)[:, None]
    ratio = 10 * torch.log10(along / (estimate.square().sum(2)[:, :, None] - along + 1e-8))
    orders = torch.tensor(list(itertools.permutations(range(3))), device=estimate.device)
    each = ratio[:, torch.arange(3, device=estimate.device), orders].mean(2)
    return -each.max(1).values.sum() * 1000


def pitch(frames):
    """Normalised autocorrelation at lags 20 to 83; the height of the peak, refined by a parabola."""
    size = frames.shape[1] - 84
    head = frames[:, :size]
    energy = head.square().sum(1)
    found = []
    for lag in range(20, 84):
        late = frames[:, lag : lag + size]
        found.append((head * late).sum(1) / torch.sqrt(energy * late.square().sum(1) + 1e-8))
    found = torch.stack(found, 1)
    peak = found[:, 1:-1].argmax(1, keepdim=True) + 1
    left, middle, right = (found.gather(1, peak + k)[:, 0] for k in (-1, 0, 1))
    shift = (left - right) / (2 * (left - 2 * middle + right)).clamp(max=-1e-4)
    return peak[:, 0] + 20 + shift, middle - (left - right) * shift / 4


def overlap_add(frames, window):
    """Frames of 512 samples, each 128 after the last, added and divided by the sum of the windows."""
    count, steps, size = frames.shape
    hop = size // 4
    length = (steps + 3) * hop
    total, weights = frames.new_zeros(count, length), frames.new_zeros(length)
    for k in range(4):
        part = slice(k * hop, (k + 1) * hop)
        place = (k * hop, length - (k + steps) * hop)
        total = total + F.pad((frames[:, :, part] * window[part]).flatten(1), place)
        weights = weights + F.pad(window[part].square().repeat(steps), place)
    return total / weights.clamp(min=1e-3)


def wavelet_denoise(audio):
    """Three levels of Haar's wavelet; details shrink by a threshold of each level's size."""
    smooth, details = audio, []
    for _ in range(3):
        even, odd = smooth[:, ::2], smooth[:, 1::2]
        smooth, detail = (even + odd) / math.sqrt(2), (even - odd) / math.sqrt(2)
        details.append(
            F.softshrink(detail / detail.abs().mean(1, keepdim=True), 1.0) * detail.abs().mean(1, keepdim=True)
        )
    for detail in reversed(details):
        smooth = torch.stack([smooth + detail, smooth - detail], 2).flatten(1) / math.sqrt(2)
    return smooth


def spectral_statistics(magnitude, frequencies):
    """Centroid, spread, skewness, flatness, flux and roll-off of spectra of odd length."""
    share = magnitude / magnitude.sum(2, keepdim=True).clamp(min=1e-6)
    centroid = (share * frequencies).sum(2)
    offset = frequencies - centroid[..., None]
    spread = (share * offset.square()).sum(2).sqrt()
    skewness = (share * offset**3).sum(2) / spread**3
    flatness = torch.exp(torch.log(magnitude + 1e-6).mean(2)) / magnitude.mean(2)
    flux = torch.linalg.vector_norm(torch.diff(share, dim=1, prepend=share[:, :1]), dim=2)
    rolloff = (share.cumsum(2) < 0.85).sum(2) / magnitude.shape[2]
    return torch.stack([centroid, spread, skewness, flatness, flux, rolloff], 2)


def beam(audio, delays, weights):
    """Microphones delayed by whole samples, weighted and added; and the power of the sum in blocks."""
    length = audio.shape[2]
    place = torch.arange(length, device=audio.device) - delays[..., None]
    aligned = audio.gather(2, place.clamp(min=0)).masked_fill(place < 0, 0)
    total = (aligned * weights[..., None]).sum(1)
    return total, total.unflatten(1, (-1, 256)).square().mean(2)


def smoothed_levels(frames, decay):
    """Automatic gain: the level of each frame follows its attack at once and falls slowly; 24 frames."""
    level, outputs = frames[:, 0].abs().amax(1), []
    for k in range(frames.shape[1]):
        now = frames[:, k].abs().amax(1)
        level = torch.where(now > level, now, decay * level + (1 - decay) * now)
        outputs.append(frames[:, k] / (level[:, None] + 1e-3))
    return torch.stack(outputs, 1)


def stft_mask_loss(mask, mixture, clean):
    """A mask of real and imaginary parts, bounded, times a mixture; compressed magnitudes are compared."""
    real, imaginary = torch.tanh(mask.float()).unbind(-1)
    a, b = mixture.float().unbind(-1)
    wanted = torch.sqrt(clean.float().square().sum(-1) + 1e-4)
    found = torch.sqrt((real * a - imaginary * b).square() + (real * b + imaginary * a).square() + 1e-4)
    return (found**0.3 - wanted**0.3).square().sum()


def clips(n: int, length: int = 1 << 18) -> torch.Tensor:
    return 0.3 * normal(n, length)


def speakers(n: int) -> list[torch.Tensor]:
    target = normal(n, 3, 32000)
    return [target.flip(1) + 0.5 * normal(n, 3, 32000), target]


CASES = [
    GpuCase(
        "energy of frames 128x160000", frame_energy, lambda n=128: [clips(n, 160000), uniform(400)], 79 * MB, atol=1e-2
    ),
    GpuCase(
        "zero crossings of int16",
        zero_crossings,
        lambda n=256: [integers(32768, n, 1 << 18, low=-32768, dtype=torch.int16)],
        130 * MB,
    ),
    GpuCase("companding", companding, lambda n=128: [clips(n)], 288 * MB, check=mostly(companding)),
    GpuCase(
        "echo f16", echo, lambda n=64: [0.3 * normal(n, 2, 480001, dtype=f16), normal(4, dtype=f16)], 234 * MB, **LOW
    ),
    GpuCase(
        "deltas 128x1500x80",
        deltas,
        lambda n=128: [normal(n, 1500, 80), integers(1500, n, low=500)],
        234 * MB,
        atol=1e-2,
    ),
    GpuCase(
        "tones 131072x256",
        tones,
        lambda n=131072: [normal(n, 256), uniform(8, high=0.5)],
        133 * MB,
        check=mostly(tones),
    ),
    GpuCase(
        "biquad, 16 samples of 2^20",
        biquad,
        lambda n=1 << 20: [normal(16, n), uniform(5, n, high=0.5)],
        148 * MB,
    ),
    GpuCase("remove clicks", remove_clicks, lambda n=64: [clips(n)], 128 * MB, check=mostly(remove_clicks)),
    GpuCase("resample 128x2^18", resample, lambda n=128: [clips(n), uniform(n, low=0.5)], 256 * MB),
    GpuCase("upsample by four", upsample_by_four, lambda n=64: [clips(n), normal(4, 8)], 320 * MB),
    GpuCase("compressor", compressor, lambda n=64: [normal(n, 2, 240000), -10.0, 4.0], 234 * MB, atol=1e-2),
    GpuCase(
        "mask spectrogram bf16",
        mask_spectrogram,
        lambda n=256: [normal(n, 80, 3000, dtype=bf16), integers(200, n, 2, 2), integers(20, n, 2, 2)],
        234 * MB,
        **LOW,
    ),
    GpuCase("loudness", loudness, lambda n=64: [0.1 * normal(n, 2, 480000)], 234 * MB, atol=1e-2),
    GpuCase(
        "envelope loss, gradient",
        envelope_loss,
        lambda n=128: [clips(n, 96000), clips(n, 96000)],
        141 * MB,
        is_training=True,
        atol=1e-3,
    ),
    GpuCase(
        "separation loss, gradient", separation_loss, lambda n=256: speakers(n), 281 * MB, is_training=True, atol=1e-3
    ),
    GpuCase(
        "pitch of frames 65536x512", pitch, lambda n=65536: [normal(n, 512)], 128 * MB, check=mostly(pitch, share=1e-2)
    ),
    GpuCase("overlap and add 64x1021x512", overlap_add, lambda n=64: [normal(n, 1021, 512), uniform(512)], 160 * MB),
    GpuCase("wavelet denoise", wavelet_denoise, lambda n=128: [clips(n)], 256 * MB),
    GpuCase(
        "spectral statistics 64x1000x257",
        spectral_statistics,
        lambda n=64: [normal(n, 257, 1000).abs().transpose(1, 2), uniform(257)],
        64 * MB,
        check=mostly(spectral_statistics),
    ),
    GpuCase(
        "beam of 8 microphones",
        beam,
        lambda n=32: [normal(n, 8, 1 << 17), integers(500, n, 8), normal(n, 8)],
        144 * MB,
    ),
    GpuCase("gain, 24 frames", smoothed_levels, lambda n=8192: [normal(n, 24, 256), 0.9], 384 * MB),
    GpuCase(
        "spectrogram mask, gradient bf16",
        stft_mask_loss,
        lambda n=64: [normal(n, 257, 500, 2, dtype=bf16) for _ in range(3)],
        125 * MB,
        is_training=True,
        **LOW,
    ),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_signals", CASES)
