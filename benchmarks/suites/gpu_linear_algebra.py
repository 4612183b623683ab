"""Many small matrices, rotations and cameras on a CUDA device. As suite gpu_programs."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites.gpu_kernels import GpuCase, run_cases
from suites.inputs import MB, bf16, integers, mostly, normal, uniform


def invert_3x3(a):
    """Inverse by cofactors, and the determinant."""
    r0, r1, r2 = a.unbind(-2)
    columns = torch.stack([torch.linalg.cross(r1, r2), torch.linalg.cross(r2, r0), torch.linalg.cross(r0, r1)], -1)
    determinant = (r0 * columns[..., 0]).sum(-1)
    return columns / determinant[..., None, None], determinant


def solve_4x4(a, b):
    """Symmetric positive systems by Cholesky's factors, written out; the logarithm of the determinant."""
    factor = [[None] * 4 for _ in range(4)]
    for i in range(4):
        for j in range(i + 1):
            left = a[:, i, j] - sum(factor[i][k] * factor[j][k] for k in range(j))
            factor[i][j] = torch.sqrt(left) if i == j else left / factor[j][j]
    x = []
    for i in range(4):
        x.append((b[:, i] - sum(factor[i][k] * x[k] for k in range(i))) / factor[i][i])
    for i in reversed(range(4)):
        x[i] = (x[i] - sum(factor[k][i] * x[k] for k in range(i + 1, 4))) / factor[i][i]
    return torch.stack(x, 1), 2 * sum(torch.log(factor[i][i]) for i in range(4))


def slerp(a, b, share):
    """Between two unit quaternions along the shorter arc; linear where they nearly agree."""
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    dot = (a * b).sum(1)
    b = torch.where((dot < 0)[:, None], -b, b)
    dot = dot.abs().clamp(max=1)
    angle = torch.acos(dot.clamp(max=0.9995))
    is_near = dot > 0.9995
    first = torch.where(is_near, 1 - share, torch.sin((1 - share) * angle) / torch.sin(angle))
    second = torch.where(is_near, share, torch.sin(share * angle) / torch.sin(angle))
    return F.normalize(first[:, None] * a + second[:, None] * b, dim=1)


def rotation_error(turns, points, target):
    """Rodrigues' formula for vectors of axis and angle, by a series near zero; distance to targets."""
    square = turns.square().sum(1, keepdim=True)
    angle = torch.sqrt(square.clamp(min=1e-6))
    is_small = square < 1e-6
    sine = torch.where(is_small, 1 - square / 6, torch.sin(angle) / angle)
    cosine = torch.where(is_small, 0.5 - square / 24, (1 - torch.cos(angle)) / angle.square())
    across = torch.linalg.cross(turns, points)
    turned = points + sine * across + cosine * torch.linalg.cross(turns, across)
    return F.huber_loss(turned, target, reduction="sum")


def six_numbers_loss(x, target):
    """Rotations from two vectors by Gram and Schmidt; one minus the cosine of the angle to the target."""
    first = F.normalize(x[:, :3], dim=1)
    second = F.normalize(x[:, 3:] - (first * x[:, 3:]).sum(1, keepdim=True) * first, dim=1)
    rotation = torch.stack([first, second, torch.linalg.cross(first, second)], 1)
    trace = (rotation * target).sum((1, 2))
    return (3 - trace).sum() / 2


def kalman(state, covariance, measured, noise):
    """Constant velocity in the plane: predict, then correct by a measured position; all matrices 4 x 4 or smaller."""
    move = torch.eye(4, device=state.device, dtype=state.dtype)
    move[0, 2] = move[1, 3] = 0.1
    state = state @ move.t()
    covariance = move @ covariance @ move.t() + 0.01 * torch.eye(4, device=state.device, dtype=state.dtype)
    spread = covariance[:, :2, :2]
    a, b, c = spread[:, 0, 0] + noise, spread[:, 0, 1], spread[:, 1, 1] + noise
    determinant = a * c - b * b
    inverse = torch.stack([torch.stack([c, -b], 1), torch.stack([-b, a], 1)], 1) / determinant[:, None, None]
    gain = covariance[:, :, :2] @ inverse
    error = measured - state[:, :2]
    state = state + (gain @ error[..., None])[..., 0]
    covariance = covariance - gain @ covariance[:, :2]
    distance = (error[:, None] @ inverse @ error[..., None])[:, 0, 0]
    return state, (covariance + covariance.transpose(1, 2)) / 2, distance


def rigid_bodies(quaternion, spin, torque, inertia):
    """One step of rotation: Euler's equations, then the quaternion by its derivative."""
    momentum = inertia * spin
    spin = spin + 0.01 * (torque - torch.linalg.cross(spin, momentum)) / inertia
    w, v = quaternion[:, :1], quaternion[:, 1:]
    change = torch.cat([-(v * spin).sum(1, keepdim=True), w * spin + torch.linalg.cross(v, spin)], 1)
    return F.normalize(quaternion + 0.005 * change, dim=1), spin, (spin * momentum).sum(1) / 2


def interactions(features, dense):
    """Products of all pairs of 27 vectors of a sample, the lower triangle beside the dense features."""
    gram = features @ features.transpose(1, 2)
    rows, columns = torch.tril_indices(27, 27, -1, device=features.device)
    return torch.cat([dense, gram[:, rows, columns]], 1)


def power_iteration(a):
    """The largest eigenvalue of symmetric matrices in eight steps, and its vector's share of the first axis."""
    x = torch.ones_like(a[:, 0]) / math.sqrt(a.shape[1])
    for _ in range(8):
        x = F.normalize((a * x[:, None]).sum(2), dim=1)
    return ((a * x[:, None]).sum(2) * x).sum(1), x[:, 0].square()


def eigenvalues_3x3(xx, xy, xz, yy, yz, zz):
    """Of symmetric matrices by the cosine of a third of an angle; fractional anisotropy, as of diffusion tensors."""
    mean = (xx + yy + zz) / 3
    a, b, c = xx - mean, yy - mean, zz - mean
    size = torch.sqrt((a * a + b * b + c * c + 2 * (xy * xy + xz * xz + yz * yz)) / 6 + 1e-12)
    determinant = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
    angle = torch.acos((determinant / (2 * size**3)).clamp(-1 + 1e-6, 1 - 1e-6)) / 3
    largest = mean + 2 * size * torch.cos(angle)
    smallest = mean + 2 * size * torch.cos(angle + 2 * math.pi / 3)
    values = torch.stack([largest, 3 * mean - largest - smallest, smallest], -1)
    apart = (values - mean[..., None]).square().sum(-1)
    return values, torch.sqrt(1.5 * apart / (values.square().sum(-1) + 1e-6))


def nearest_rotation(a):
    """Five steps of Newton and Schulz towards the orthogonal part of each matrix."""
    x = a / torch.linalg.matrix_norm(a, keepdim=True)
    for _ in range(5):
        x = 1.5 * x - 0.5 * x @ (x.transpose(1, 2) @ x)
    return x


def first_hits(origin, direction, triangles):
    """Rays against triangles (Moeller and Trumbore): the nearest distance, infinite without a hit, and which."""
    corner, edge1, edge2 = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    across = torch.linalg.cross(direction[:, None], edge2[None])
    determinant = (across * edge1).sum(-1)
    offset = origin[:, None] - corner
    u = (offset * across).sum(-1) / determinant
    other = torch.linalg.cross(offset, edge1[None].expand_as(offset))
    v = (direction[:, None] * other).sum(-1) / determinant
    distance = (edge2 * other).sum(-1) / determinant
    is_hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (distance > 1e-4)
    nearest, which = torch.where(is_hit, distance, math.inf).min(1)
    return nearest, torch.where(nearest.isfinite(), which, -1)


def gaussian_likelihood(x, mean, factor):
    """Of six dimensions under each sample's own triangular factor, by forward substitution."""
    offset, y = x - mean, []
    for i in range(6):
        diagonal = F.softplus(factor[:, i, i]) + 0.1
        y.append((offset[:, i] - sum(factor[:, i, k] * y[k] for k in range(i))) / diagonal)
    diagonal = torch.diagonal(factor, dim1=1, dim2=2)
    return (torch.stack(y, 1).square().sum(1) / 2 + torch.log(F.softplus(diagonal) + 0.1).sum(1)).sum()


def bundle_error(points, cameras, camera, point, observed):
    """Points seen by cameras (position, turn, focal length, distortion) against observed pixels, robustly."""
    pose = cameras[camera]
    offset = points[point] - pose[:, :3]
    turned = offset + 2 * torch.linalg.cross(pose[:, 3:6], torch.linalg.cross(pose[:, 3:6], offset) + offset)
    flat = turned[:, :2] / (turned[:, 2:].abs() + 1)
    square = flat.square().sum(1, keepdim=True)
    pixel = pose[:, 6:7] * flat * (1 + pose[:, 7:8] * square + pose[:, 8:9] * square.square())
    return torch.log1p((pixel - observed).square().sum(1)).sum()


def reprojection_loss(depth, near, far, pose, focal):
    """Depth judged by how well it predicts one camera's image from another's."""
    rows, columns = depth.shape[2:]
    y = (torch.arange(rows, device=depth.device) - rows / 2)[:, None] / focal
    x = (torch.arange(columns, device=depth.device) - columns / 2) / focal
    distance = 1 + F.softplus(depth[:, 0])
    point = torch.stack([x * distance, y * distance, distance], 1)
    moved = torch.einsum("bij,bjhw->bihw", pose[:, :, :3], point) + pose[:, :, 3, None, None]
    z = moved[:, 2].clamp(min=0.1)
    grid = torch.stack([moved[:, 0] / z * focal * 2 / columns, moved[:, 1] / z * focal * 2 / rows], -1)
    predicted = F.grid_sample(far, grid, padding_mode="border", align_corners=False)
    is_seen = (grid.abs() < 1).all(-1)[:, None]
    return (F.smooth_l1_loss(predicted, near, reduction="none") * is_seen).sum()


def harmonics_colour(coefficients, directions):
    """Colours of splats by spherical harmonics of degree two, seen from a direction; brightness squared."""
    x, y, z = F.normalize(directions, dim=1).unbind(1)
    basis = [0.2821 * torch.ones_like(x), -0.4886 * y, 0.4886 * z, -0.4886 * x]
    basis += [1.0925 * x * y, -1.0925 * y * z, 0.3154 * (3 * z * z - 1), -1.0925 * x * z, 0.5463 * (x * x - y * y)]
    colour = (torch.stack(basis, 1)[..., None] * coefficients).sum(1) + 0.5
    return F.relu(colour).square().sum()


def splat_shapes(scale, quaternion, jacobian):
    """Covariances of Gaussians in space, and on the screen: inverse, and the radius of three deviations."""
    w, x, y, z = F.normalize(quaternion, dim=1).unbind(1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    rows += [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    rows += [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    axes = torch.stack(rows, 1).unflatten(1, (3, 3)) * torch.exp(scale)[:, None]
    seen = (jacobian[..., None] * axes[:, None]).sum(2)
    a, b, c = seen[:, 0].square().sum(1) + 0.3, (seen[:, 0] * seen[:, 1]).sum(1), seen[:, 1].square().sum(1) + 0.3
    determinant = a * c - b * b
    middle = (a + c) / 2
    radius = 3 * torch.sqrt(middle + torch.sqrt((middle * middle - determinant).clamp(min=0.1)))
    return torch.stack([c, -b, a], 1) / determinant[:, None], radius.ceil().int()


def tridiagonal(lower, middle, upper, right):
    """Thomas' algorithm for systems of 16 unknowns, which come first."""
    c, d = [upper[0] / middle[0]], [right[0] / middle[0]]
    for k in range(1, 16):
        factor = 1 / (middle[k] - lower[k] * c[-1])
        c.append(upper[k] * factor)
        d.append((right[k] - lower[k] * d[-1]) * factor)
    x = [d[-1]]
    for k in reversed(range(15)):
        x.append(d[k] - c[k] * x[-1])
    return torch.stack(x[::-1])


def arm_error(angles, lengths, goal):
    """The tip of an arm of six joints, which turn about z and x in turn, against a goal."""
    position = torch.zeros_like(goal)
    x, y, z = torch.eye(3, device=angles.device, dtype=angles.dtype)[:, None].expand(3, *goal.shape)
    for k in range(6):
        cos, sin = torch.cos(angles[:, k, None]), torch.sin(angles[:, k, None])
        if k % 2:
            y, z = cos * y + sin * z, cos * z - sin * y
        else:
            x, y = cos * x + sin * y, cos * y - sin * x
        position = position + lengths[k] * x + 0.1 * z
    return (position - goal).square().sum() + 0.01 * angles.square().sum()


def hadamard(x, signs):
    """Walsh's transform of rows of 256 in eight stages, after random signs."""
    x = x * signs
    for stage in range(8):
        even, odd = x.unflatten(1, (-1, 2, 1 << stage)).unbind(2)
        x = torch.stack([even + odd, even - odd], 2).flatten(1)
    return (x / 16).to(bf16)


def positive(n: int, size: int) -> torch.Tensor:
    a = normal(n, size, size)
    return a @ a.transpose(1, 2) / size + torch.diag_embed(normal(n, size).abs() + 1)


def rotations(n: int) -> torch.Tensor:
    first, second = F.normalize(normal(n, 3), dim=1), normal(n, 3)
    second = F.normalize(torch.linalg.cross(first, second), dim=1)
    return torch.stack([first, second, torch.linalg.cross(first, second)], 1)


def cameras(n: int) -> list[torch.Tensor]:
    return [normal(n, 3), 0.3 * normal(n // 64, 9), integers(n // 64, 4 * n), integers(n, 4 * n), normal(4 * n, 2)]


def poses(n: int) -> torch.Tensor:
    return torch.eye(3, 4, device=normal(1).device) + 0.02 * normal(n, 3, 4)


def diagonals(n: int) -> list[torch.Tensor]:
    return [normal(16, n).clamp(-2, 2), uniform(16, n) + 5, normal(16, n).clamp(-2, 2), normal(16, n)]


def training(name: str, function: Any, make: Any, size: int) -> GpuCase:
    return GpuCase(f"{name}, gradient", function, make, size, is_training=True, check=mostly(function))


M2, M4 = 1 << 21, 1 << 22
CASES = [
    GpuCase("inverse 3x3, 2^21", invert_3x3, lambda n=M2: [positive(n, 3)], 152 * MB),
    GpuCase("solve 4x4, 2^20", solve_4x4, lambda n=MB: [positive(n, 4), normal(n, 4)], 100 * MB),
    GpuCase("slerp 2^22", slerp, lambda n=M4: [normal(n, 4), normal(n, 4), uniform(n)], 208 * MB, check=mostly(slerp)),
    training("rotated points 2^21", rotation_error, lambda n=M2: [normal(n, 3) for _ in range(3)], 96 * MB),
    training("rotations of six numbers 2^21", six_numbers_loss, lambda n=M2: [normal(n, 6), rotations(n)], 168 * MB),
    GpuCase(
        "Kalman filters 2^19",
        kalman,
        lambda n=1 << 19: [normal(n, 4), positive(n, 4), normal(n, 2), uniform(n) + 0.1],
        88 * MB,
    ),
    GpuCase(
        "rigid bodies 2^21",
        rigid_bodies,
        lambda n=M2: [normal(n, 4), normal(n, 3), normal(n, 3), uniform(n, 3) + 0.5],
        168 * MB,
        check=mostly(rigid_bodies),
    ),
    GpuCase(
        "interactions bf16 65536x27x32",
        interactions,
        lambda n=65536: [normal(n, 27, 32, dtype=bf16), normal(n, 64, dtype=bf16)],
        168 * MB,
        rtol=2e-2,
        atol=5e-2,
    ),
    GpuCase("power iteration 65536x20x20", power_iteration, lambda n=65536: [positive(n, 20)], 100 * MB),
    GpuCase(
        "eigenvalues 3x3, 2^22",
        eigenvalues_3x3,
        lambda n=M4: list(normal(6, n)),
        160 * MB,
        check=mostly(eigenvalues_3x3),
    ),
    GpuCase("nearest rotation 2^20", nearest_rotation, lambda n=MB: [normal(n, 3, 3)], 72 * MB, atol=1e-2),
    GpuCase(
        "first hits 32768x500",
        first_hits,
        lambda n=32768: [normal(n, 3), normal(n, 3), normal(500, 3, 3)],
        1170 << 10,
        check=mostly(first_hits),
    ),
    training(
        "Gaussian likelihood 2^20",
        gaussian_likelihood,
        lambda n=MB: [normal(n, 6), normal(6), normal(n, 6, 6)],
        192 * MB,
    ),
    training("bundle of 2^22 observations", bundle_error, lambda n=MB: cameras(n), 121 * MB),
    training(
        "reprojection",
        reprojection_loss,
        lambda n=32: [normal(n, 1, 384, 640), uniform(n, 3, 384, 640), uniform(n, 3, 384, 640), poses(n), 500.0],
        240 * MB,
    ),
    training("colours of harmonics 2^20", harmonics_colour, lambda n=MB: [normal(n, 9, 3), normal(n, 3)], 228 * MB),
    GpuCase(
        "shapes of splats 2^21",
        splat_shapes,
        lambda n=M2: [normal(n, 3), normal(n, 4), normal(n, 2, 3)],
        136 * MB,
        check=mostly(splat_shapes, rtol=1e-2, atol=1e-2),
    ),
    GpuCase("tridiagonal 16 of 2^20", tridiagonal, lambda n=MB: diagonals(n), 320 * MB),
    training("arms of six joints 2^21", arm_error, lambda n=M2: [normal(n, 6), uniform(6), normal(n, 3)], 120 * MB),
    GpuCase(
        "Hadamard bf16 2^18x256",
        hadamard,
        lambda n=1 << 18: [normal(n, 256, dtype=bf16), normal(256).sign().to(bf16)],
        256 * MB,
        rtol=2e-2,
        atol=5e-2,
    ),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_linear_algebra", CASES)
