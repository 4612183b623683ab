"""Simulations on a CUDA device: particles, stencils, particles to grids and back. As suite gpu_programs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from harness import Row

from suites.gpu_kernels import GpuCase, run_cases
from suites.inputs import MB, arange, chosen, integers, mostly, normal, permutation, uniform, zeros

# Of a lattice in the plane: rest, four neighbours, four diagonals; the opposite of each; weights.
DIRECTIONS = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]
WEIGHTS = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4


def coulomb_energy(position, charge):
    offset = position[:, None] - position[None]
    distance = torch.sqrt(offset.square().sum(-1) + 1e-4)
    return torch.triu(charge[:, None] * charge[None] / distance, 1).sum()


def lennard_jones(position, side):
    """Energy and force of each particle in a periodic cube, cut at 2.5."""
    offset = position[:, None] - position[None]
    offset = offset - side * torch.round(offset / side)
    square = offset.square().sum(-1)
    is_near = (square < 2.5**2) & (square > 0)
    inverse = torch.where(is_near, 1 / square.clamp(min=1e-3), 0.0)
    sixth = inverse**3
    energy = 4 * (sixth * sixth - sixth) - is_near * 4 * (2.5**-12 - 2.5**-6)
    force = ((48 * sixth * sixth - 24 * sixth) * inverse)[..., None] * offset
    return energy.sum(1) / 2, force.sum(1)


def wave_steps(before, now, speed):
    """Two steps of the wave equation, fourth order in space; still edges."""
    rows, columns = now.shape
    for _ in range(2):
        p = F.pad(now, (2, 2, 2, 2))
        across = -p[2:-2, :columns] + 16 * p[2:-2, 1:-3] - 30 * now + 16 * p[2:-2, 3:-1] - p[2:-2, 4:]
        down = -p[:rows, 2:-2] + 16 * p[1:-3, 2:-2] - 30 * now + 16 * p[3:-1, 2:-2] - p[4:, 2:-2]
        before, now = now, 2 * now - before + (0.3 * speed).square() * (across + down) / 12
    return before, now


def heat_in_matter(temperature, conductivity, source):
    """A step in a solid whose conductivity differs from cell to cell: the flux through a face uses the mean of two."""
    change = source
    for dim in range(3):
        size = temperature.shape[dim] - 1
        left, right = conductivity.narrow(dim, 0, size), conductivity.narrow(dim, 1, size)
        flux = 2 * left * right / (left + right) * torch.diff(temperature, dim=dim)
        sides = [0, 0] * (2 - dim)
        change = change + F.pad(flux, [*sides, 0, 1]) - F.pad(flux, [*sides, 1, 0])
    return temperature + 0.1 * change


def lattice_boltzmann(f, is_solid):
    density = f.sum(0)
    across = (f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / density
    down = (f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / density
    square = across * across + down * down
    moved = []
    for k, (x, y) in enumerate(DIRECTIONS):
        along = x * across + y * down
        rest = WEIGHTS[k] * density * (1 + 3 * along + 4.5 * along * along - 1.5 * square)
        moved.append((f[k] + (rest - f[k]) / 0.6).roll((x, y), (0, 1)))
    moved = torch.stack(moved)
    return torch.where(is_solid, moved[OPPOSITE], moved)


def particles_to_grid(position, velocity, mass, grid):
    """Mass and momentum, shared among the four cells around each particle."""
    rows, columns = grid.shape
    scaled = position * torch.tensor([rows, columns], device=position.device)
    corner = scaled.floor()
    part, corner = scaled - corner, corner.long()
    total, momentum = grid.flatten(), torch.stack([grid.flatten()] * 2, 1)
    for i in (0, 1):
        for j in (0, 1):
            share = (part[:, 0] if i else 1 - part[:, 0]) * (part[:, 1] if j else 1 - part[:, 1]) * mass
            cell = (corner[:, 0] + i) % rows * columns + (corner[:, 1] + j) % columns
            total = total.index_add(0, cell, share)
            momentum = momentum.index_add(0, cell, share[:, None] * velocity)
    return total.view(rows, columns), (momentum / (total[:, None] + 1e-3)).view(rows, columns, 2)


def follow_flow(position, field):
    """Particles moved with a velocity field by the midpoint rule; the field is periodic."""

    def velocity(where):
        rows, columns = field.shape[1:]
        corner = where.floor()
        part, corner = where - corner, corner.long()
        top, left = corner[:, 0] % rows, corner[:, 1] % columns
        low, right = (top + 1) % rows, (left + 1) % columns
        above = torch.lerp(field[:, top, left], field[:, top, right], part[:, 1])
        below = torch.lerp(field[:, low, left], field[:, low, right], part[:, 1])
        return torch.lerp(above, below, part[:, 0]).t()

    return position + 0.5 * velocity(position + 0.25 * velocity(position))


def ising(spins, chance, coupling):
    """One sweep over both colours of a checkerboard."""
    rows = torch.arange(spins.shape[0], device=spins.device)
    colour = (rows[:, None] + torch.arange(spins.shape[1], device=spins.device)) % 2
    for k in (0, 1):
        around = spins.roll(1, 0) + spins.roll(-1, 0) + spins.roll(1, 1) + spins.roll(-1, 1)
        flips = (colour == k) & (chance[k] < torch.exp(-2 * coupling * (spins * around)))
        spins = torch.where(flips, -spins, spins)
    return spins, spins.sum(dtype=torch.int64)


def spline(q):
    """The cubic kernel of smoothed particles, support 2."""
    return torch.where(q < 1, 1 - 1.5 * q**2 + 0.75 * q**3, 0.25 * (2 - q).clamp(min=0) ** 3)


def smoothed_particles(position, velocity, neighbours):
    """Density from lists of neighbours, then acceleration by pressure and viscosity."""
    offset = position[:, None] - position[neighbours]
    distance = offset.square().sum(-1).add(1e-6).sqrt()
    density = spline(distance).sum(1) + 1
    pressure = 10 * (density - 2)
    term = pressure / density**2
    push = (term[:, None] + term[neighbours]) * (2 - distance).clamp(min=0) ** 2 / distance
    drag = spline(distance) / density[neighbours]
    slower = (velocity[neighbours] - velocity[:, None]) * drag[..., None]
    return density, (push[..., None] * offset).sum(1) + 0.1 * slower.sum(1)


def cloth_energy(position, stiffness):
    """Springs between neighbours, diagonals and second neighbours of a grid of points, and weight."""
    energy = 9.81 * position[..., 2].sum()
    for i, j in [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2)]:
        offset = position[i:, j:] - position[: position.shape[0] - i, : position.shape[1] - j]
        stretch = torch.linalg.vector_norm(offset, dim=-1) - (i * i + j * j) ** 0.5
        energy = energy + (stiffness[i:, j:] * stretch.square()).sum() / 2
    return energy


def burgers(u, v):
    """Upwind differences by the sign of the velocity, and diffusion."""
    for _ in range(2):
        results = []
        for w in (u, v):
            slope_x = torch.where(u > 0, w - w.roll(1, 1), w.roll(-1, 1) - w)
            slope_y = torch.where(v > 0, w - w.roll(1, 0), w.roll(-1, 0) - w)
            around = w.roll(1, 0) + w.roll(-1, 0) + w.roll(1, 1) + w.roll(-1, 1)
            results.append(w - 0.1 * (u * slope_x + v * slope_y) + 0.05 * (around - 4 * w))
        u, v = results
    return u, v


def shallow_water(state):
    """Height and both momenta by the fluxes of Rusanov, on an open grid whose outermost cells stay."""
    height, mx, my = state
    u, v = mx / height, my / height
    flux_x = torch.stack([mx, mx * u + 4.9 * height**2, mx * v])
    flux_y = torch.stack([my, my * u, my * v + 4.9 * height**2])
    fastest = torch.maximum(u.abs(), v.abs()) + torch.sqrt(9.81 * height)
    speed_x = torch.maximum(fastest[:, 1:], fastest[:, :-1])
    speed_y = torch.maximum(fastest[1:], fastest[:-1])
    face_x = (flux_x[:, :, 1:] + flux_x[:, :, :-1] - speed_x * (state[:, :, 1:] - state[:, :, :-1])) / 2
    face_y = (flux_y[:, 1:] + flux_y[:, :-1] - speed_y * (state[:, 1:] - state[:, :-1])) / 2
    change = face_x[:, 1:-1, 1:] - face_x[:, 1:-1, :-1] + face_y[:, 1:, 1:-1] - face_y[:, :-1, 1:-1]
    return state - 0.02 * F.pad(change, (1, 1, 1, 1))


def gray_scott(u, v):
    def spread(x):
        p = F.pad(x[None], (1, 1, 1, 1), mode="circular")[0]
        sides = p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1]
        return 0.2 * sides + 0.05 * (p[:-2, :-2] + p[:-2, 2:] + p[2:, :-2] + p[2:, 2:]) - x

    for _ in range(3):
        reaction = u * v * v
        u, v = u + 0.16 * spread(u) - reaction + 0.035 * (1 - u), v + 0.08 * spread(v) + reaction - 0.1 * v
    return u, v


def bonded_energy(position, bonds, angles, dihedrals):
    """Of molecules: lengths of bonds, cosines of angles, cosines of dihedrals; all atoms by index."""
    length = torch.linalg.vector_norm(position[bonds[0]] - position[bonds[1]], dim=-1)
    first = F.normalize(position[angles[0]] - position[angles[1]], dim=-1)
    second = F.normalize(position[angles[2]] - position[angles[1]], dim=-1)
    a, b, c, d = position[dihedrals].unbind(0)
    up, down = torch.linalg.cross(b - a, c - b), torch.linalg.cross(c - b, d - c)
    turn = (up * down).sum(-1) / torch.sqrt(up.square().sum(-1) * down.square().sum(-1) + 1)
    bend = (first * second).sum(-1) + 0.5
    return 100 * (length - 1).square().sum() + 10 * bend.square().sum() + (1 + 4 * turn**3 - 3 * turn).sum()


def contact_forces(position, velocity, radius):
    """Bodies of many small scenes: springs and dampers where spheres overlap."""
    offset = position[:, :, None] - position[:, None]
    distance = torch.sqrt(offset.square().sum(-1) + 1e-8)
    overlap = F.relu(radius[:, :, None] + radius[:, None] - distance)
    overlap = overlap.masked_fill(torch.eye(position.shape[1], dtype=torch.bool, device=position.device), 0)
    normal = offset / distance[..., None]
    closing = ((velocity[:, :, None] - velocity[:, None]) * normal).sum(-1)
    strength = 50 * overlap - 2 * closing * overlap
    return (strength[..., None] * normal).sum(2), (overlap > 0).sum(2)


def radial_distribution(position):
    """How many pairs are at each distance, in 128 shells of a periodic cube of side 1."""
    offset = position[:, None] - position[None]
    distance = torch.linalg.vector_norm(offset - torch.round(offset), dim=-1)
    shell = (distance * 256).long().clamp(max=128).flatten()
    counts = position.new_zeros(129).scatter_add(0, shell, torch.ones_like(distance).flatten())
    radius = torch.arange(128, device=position.device) + 0.5
    return counts[:128] / radius.square() / position.shape[0]


def maxwell(ez, hx, hy, permittivity):
    """Two steps on staggered grids; the edges are conductors."""
    for _ in range(2):
        hx = hx - 0.5 * torch.diff(ez, dim=0)
        hy = hy + 0.5 * torch.diff(ez, dim=1)
        curl = torch.diff(hy[1:-1], dim=1) - torch.diff(hx[:, 1:-1], dim=0)
        ez = ez + F.pad(0.5 / permittivity[1:-1, 1:-1] * curl, (1, 1, 1, 1))
    return ez, hx, hy


def advect(smoke, velocity):
    """Smoke carried back along the velocity (pixels a step), by bilinear samples."""
    rows, columns = smoke.shape[2:]
    y = torch.linspace(-1, 1, rows, device=smoke.device, dtype=smoke.dtype)[:, None]
    x = torch.linspace(-1, 1, columns, device=smoke.device, dtype=smoke.dtype)
    grid = torch.stack([x - velocity[:, 0] * 2 / (columns - 1), y - velocity[:, 1] * 2 / (rows - 1)], -1)
    return F.grid_sample(smoke, grid, padding_mode="border", align_corners=True) * 0.995


def cell_lists(position, velocity):
    """Particles in the order of their cells of a 128^3 grid, and where each plane of cells starts."""
    cell = (position * 128).long()
    key = (cell[:, 0] * 128 + cell[:, 1]) * 128 + cell[:, 2]
    key, order = torch.sort(key, stable=True)
    starts = torch.searchsorted(key, torch.arange(0, 128**3, 128 * 128, device=key.device))
    return position[order], velocity[order], starts


def pressure(divergence, is_solid):
    """Four steps of Jacobi; solid neighbours and edges have the pressure of the cell itself."""
    p = torch.zeros_like(divergence)
    solid = F.pad(is_solid, (1, 1, 1, 1), value=True)
    for _ in range(4):
        q = F.pad(p, (1, 1, 1, 1))
        total = -divergence
        for i, j in [(0, 1), (2, 1), (1, 0), (1, 2)]:
            rows, columns = slice(i, i + p.shape[0]), slice(j, j + p.shape[1])
            total = total + torch.where(solid[rows, columns], p, q[rows, columns])
        p = torch.where(is_solid, 0.0, total / 4)
    return p


def lattice(n: int) -> torch.Tensor:
    """n^3 places near those of a cubic lattice of spacing 1.1."""
    axis = 1.1 * arange(n)
    return torch.cartesian_prod(axis, axis, axis) + 0.1 * normal(n**3, 3).clamp(-2, 2)


def nearby(n: int, *shape: int) -> torch.Tensor:
    """For each of n things, others of similar number."""
    near = integers(200, n, *shape, low=1) * (2 * integers(2, n, *shape) - 1)
    return (arange(n).view(n, *[1] * len(shape)) + near) % n


def molecules(n: int) -> list[torch.Tensor]:
    chain = lambda first, length, step: (first + step * arange(length)[:, None]) % n  # noqa: E731
    return [2 * normal(n, 3), chain(arange(n), 2, 1), chain(permutation(n), 3, 1), chain(permutation(n), 4, 3)]


CASES = [
    GpuCase("energy of charges 8192", coulomb_energy, lambda n=8192: [uniform(n, 3), uniform(n)], 128 << 10),
    GpuCase(
        "forces of charges 8192",
        coulomb_energy,
        lambda n=8192: [uniform(n, 3), uniform(n)],
        224 << 10,
        is_training=True,
        atol=0.1,
    ),
    GpuCase("Lennard-Jones 20^3", lennard_jones, lambda n=20: [lattice(n), 1.1 * n], 219 << 10, atol=0.1),
    GpuCase(
        "wave 4096x4096, 2 steps", wave_steps, lambda n=4096: [normal(n, n), normal(n, n), uniform(n, n)], 320 * MB
    ),
    GpuCase(
        "heat in matter 256^3",
        heat_in_matter,
        lambda n=256: [normal(n, 256, 256), uniform(n, 256, 256) + 0.1, normal(n, 256, 256)],
        256 * MB,
    ),
    GpuCase(
        "lattice Boltzmann 9x2048x2048",
        lattice_boltzmann,
        lambda n=2048: [uniform(9, n, n, low=0.5), chosen(0.1, n, n)],
        292 * MB,
    ),
    GpuCase(
        "particles to grid 2^22",
        particles_to_grid,
        lambda n=1 << 22: [uniform(n, 2), normal(n, 2), uniform(n), zeros(1024, 1024)],
        96 * MB,
        check=mostly(particles_to_grid),
    ),
    GpuCase(
        "particles in a flow 2^22",
        follow_flow,
        lambda n=1 << 22: [uniform(n, 2, high=1024), normal(2, 1024, 1024)],
        72 * MB,
        atol=1e-2,
    ),
    GpuCase(
        "Ising 8192x8192",
        ising,
        lambda n=8192: [2 * integers(2, n, n, dtype=torch.int8) - 1, uniform(2, n, n), 0.44],
        640 * MB,
        check=mostly(ising),
    ),
    GpuCase(
        "smoothed particles 2^18x32",
        smoothed_particles,
        lambda n=1 << 18: [uniform(n, 3, high=2), normal(n, 3), nearby(n, 32)],
        74 * MB,
        atol=1e-2,
    ),
    GpuCase(
        "cloth 2048x2048, forces",
        cloth_energy,
        lambda n=2048: [normal(n, n, 3), uniform(n, n)],
        112 * MB,
        is_training=True,
        atol=1e-3,
    ),
    GpuCase("Burgers 4096x4096, 2 steps", burgers, lambda n=4096: [normal(n, n), normal(n, n)], 256 * MB),
    GpuCase("shallow water 4097x4097", shallow_water, lambda n=4097: [uniform(3, n, n) + 1], 384 * MB),
    GpuCase("Gray-Scott 2048x2048, 3 steps", gray_scott, lambda n=2048: [uniform(n, n), uniform(n, n)], 64 * MB),
    GpuCase(
        "forces of bonds 2^20",
        bonded_energy,
        lambda n=1 << 20: molecules(n),
        96 * MB,
        is_training=True,
        check=mostly(bonded_energy),
    ),
    GpuCase(
        "contacts 1024x100",
        contact_forces,
        lambda n=1024: [uniform(n, 100, 3), normal(n, 100, 3), uniform(n, 100) * 0.1],
        5 * MB,
        check=mostly(contact_forces),
    ),
    GpuCase(
        "radial distribution 4096", radial_distribution, lambda n=4096: [uniform(n, 3)], 48 << 10, rtol=1e-2, atol=1.0
    ),
    GpuCase(
        "Maxwell 3000x3001, 2 steps",
        maxwell,
        lambda n=3000: [normal(n, n + 1), normal(n - 1, n + 1), normal(n, n), uniform(n, n + 1) + 1],
        240 * MB,
    ),
    GpuCase(
        "smoke 16x4x512x512",
        advect,
        lambda n=16: [uniform(n, 4, 512, 512), 3 * normal(n, 2, 512, 512)],
        160 * MB,
        atol=1e-2,
    ),
    GpuCase("cell lists 2^22", cell_lists, lambda n=1 << 22: [uniform(n, 3), normal(n, 3)], 192 * MB),
    GpuCase("pressure 4096x4096, 4 steps", pressure, lambda n=4096: [normal(n, n), chosen(0.2, n, n)], 144 * MB),
]


def run(options: Any) -> list[Row]:
    return run_cases(options, "gpu_physics", CASES)
