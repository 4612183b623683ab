"""A compiled kernel, as a launch returns it."""

from __future__ import annotations

import hashlib
import logging
from types import SimpleNamespace
from typing import Any

import torch

from torch_tile import _C
from torch_tile.language import arguments
from torch_tile.language.places import TracedKernel
from torch_tile.language.stages import Stages

log = logging.getLogger(__name__)


class CompiledKernel:
    """A kernel compiled for types of arguments and values of constants.

    Attributes:
        asm: text of its stages by name: "tile" (the tile dialect), "mlir", "llir" and "asm".
        metadata: name and the like, as scripts written for Triton ask for them.
    """

    __slots__ = ("_resources", "_stages", "device", "kernel", "launcher", "names", "options", "traced")

    def __init__(
        self,
        kernel: Any,
        traced: TracedKernel,
        names: list[str],
        launcher: Any,
        options: dict[str, str],
        device: torch.device | str | None = None,
    ) -> None:
        self.kernel, self.traced, self.names, self.launcher = kernel, traced, names, launcher
        self.options, self.device = options, device
        self._stages: Any = None
        self._resources: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return str(self.kernel.fn.__name__)

    def run(self, x: int, y: int, z: int, flat: list[Any]) -> None:
        try:
            self.launcher(x, y, z, *flat)
        except (ValueError, RuntimeError) as error:
            raise self._unreadable(flat) or self._misplaced(flat) or error from None

    def _unreadable(self, flat: list[Any]) -> ValueError | None:
        """What to say of a tensor whose memory a kernel cannot read as it is."""
        for name, value in zip(self.names, flat, strict=True):
            if isinstance(value, torch.Tensor) and (found := arguments.unreadable(name, value)) is not None:
                return ValueError(f"kernel {self.name} expected {found}")
        return None

    def _misplaced(self, flat: list[Any]) -> ValueError | None:
        """What to say of a tensor that is not where the kernel runs."""
        wanted = next((v.device for v in flat if isinstance(v, torch.Tensor) and v.is_cuda), torch.device("cpu"))
        for name, value in zip(self.names, flat, strict=True):
            if not isinstance(value, torch.Tensor) or value.device == wanted:
                continue
            if wanted.type == "cuda":
                hint = f"all tensors of a launch are on one device: pass `{name}.to({str(wanted)!r})`"
            else:
                hint = f"kernels of the tile language run on CPU and CUDA tensors: pass `{name}.cpu()`"
            where = "CPU tensors" if wanted.type == "cpu" else f"tensors on {wanted}"
            return ValueError(f"kernel {self.name} expected {where}, got `{name}` on {value.device}; {hint}")
        return None

    # --- what a multiprocessor gives to it ---------------------------------------------------------------------------

    def _resource(self, name: str, on_cpu: Any) -> Any:
        """What a block or a thread of the kernel needs. A kernel for the CPU needs nothing of a multiprocessor: the
        least number that scripts can divide by."""
        if self.device is None:
            return on_cpu
        if self._resources is None:
            number = -1
            if isinstance(self.device, torch.device):
                number = self.device.index if self.device.index is not None else torch.cuda.current_device()
            self._resources = dict(_C.kernel_resources(self.launcher, number))
        value = self._resources[name]
        if value is None:
            log.warning(
                "%s of kernel %s for %s is not known: a driver with a device, nvJitLink or ptxas would tell; this "
                "process assembles by: %s",
                name,
                self.name,
                self.device,
                _C.assembler(),
            )
        return value

    @property
    def n_regs(self) -> int | None:
        """Registers of a thread; 1 on the CPU, None where nobody has assembled the kernel."""
        registers: int | None = self._resource("num_registers", 1)
        return registers

    @property
    def n_spills(self) -> int | None:
        """Words of local memory of a thread: registers that it lacks, and arrays; None as for `n_regs`."""
        local_bytes: int | None = self._resource("local_bytes", 0)
        return None if local_bytes is None else local_bytes // 4

    @property
    def n_max_threads(self) -> int:
        """Threads that a block may have."""
        return int(self._resource("num_threads", 1024))

    @property
    def occupancy(self) -> int | None:
        """Programs that a multiprocessor of the device holds at once; None on the CPU, and without a device."""
        count: int | None = self._resource("blocks_per_multiprocessor", None)
        return count

    @property
    def metadata(self) -> Any:
        """Name and sizes, as Triton calls them. `num_warps` are those that the kernel has, which may be more than
        those asked for; `shared` are bytes of a block's shared memory."""
        hints = {
            "num_warps": self._resource("num_threads", 32) // 32,
            "num_ctas": 1,
            "num_stages": int(self.options.get("num_stages", "3")),
            "shared": self._resource("shared_bytes", 1),
            "maxnreg": int(self.options["max_registers"]) if "max_registers" in self.options else None,
            "cluster_dims": (1, 1, 1),
        }
        return SimpleNamespace(name=self.name, hash=hashlib.sha256(self.traced.text.encode()).hexdigest(), **hints)

    @property
    def asm(self) -> Any:
        if self._stages is None:
            self._stages = Stages(self.name, self.traced.located, self.options)
        return self._stages

    def _init_handles(self) -> None:
        """Loads the kernel, in Triton; it is loaded."""

    def __getitem__(self, grid: Any) -> Any:
        return self.kernel[grid]

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name})"
