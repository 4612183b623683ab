"""The stages of a kernel's compilation: as text on request, and as files where dumps are on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from torch_tile import config, targets
from torch_tile.language.launch_options import NONE, LaunchOptions

log = logging.getLogger(__name__)

# Names under which stages are asked for -> what the compiler calls its files.
_FILES = {"tile": "30-tile.mlir", "mlir": "40-llvm.mlir", "llir": "50-kernel.ll", "asm": "60-kernel.s"}
_GPU_FILES = {**_FILES, "asm": "60-kernel.ptx", "ptx": "60-kernel.ptx"}


# An instruction of four warps leaves up to 128 results in each thread, beside which operands and addresses need room.
# Kernels with fewer registers are compiled for an architecture without it.
_GROUP_REGISTERS = 168


def compiler_options(device: torch.device | str | None, launch: LaunchOptions = NONE) -> dict[str, str]:
    """Options of the compiler library for one kernel, without those that depend on the arguments' places.

    Args:
        device: of the tensors, or a target like "sm_90"; None for the CPU.
        launch: what the launch says.
    """
    if device is None:
        return {"target": str(config.get("target"))}
    options = targets.compiler_options(str(device))
    if launch.num_warps is not None:
        options["program_threads"] = str(32 * launch.num_warps)
    if launch.num_stages is not None:
        options["num_stages"] = str(max(1, launch.num_stages))  # 0: nothing is loaded ahead, as with 1
    if launch.maxnreg is not None:
        options["max_registers"] = str(launch.maxnreg)
        if options["target"].endswith("a") and launch.maxnreg < _GROUP_REGISTERS:
            options["target"] = options["target"].removesuffix("a")
    return options


class Stages(Mapping[str, str]):
    """Texts of a kernel by stage. All but the first are made when one of them is first asked for."""

    def __init__(self, name: str, text: str, options: dict[str, str]) -> None:
        self.name = name
        self._texts = {"tile": text}
        self._options = options
        self._files = _GPU_FILES if options["target"].startswith("sm_") else _FILES

    def __getitem__(self, stage: str) -> str:
        if stage not in self._texts:
            if stage not in self._files:
                raise KeyError(f"{stage!r}: a kernel of the tile language has the stages {', '.join(self._files)}")
            self._compile()
        return self._texts[stage]

    def _compile(self) -> None:
        from torch_tile import _C

        files: dict[str, str] = {}
        compile_text: Any = _C.compile_kernel
        compile_text(self._texts["tile"], {**self._options, "distinct_arguments": "true"}, files.__setitem__)
        for stage, file in self._files.items():
            self._texts.setdefault(stage, files.get(file, ""))

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def dump_to(name: str) -> Callable[[str, str], None] | None:
    """A function that writes stages of a kernel to a folder of its own, or None unless dumps are on."""
    if not config.get("debug"):
        return None
    from torch._dynamo.utils import get_debug_dir

    base = Path(get_debug_dir()) / "torch_tile"
    number = 0
    while (base / f"kernel_{name}.{number}").exists():
        number += 1
    folder = base / f"kernel_{name}.{number}"

    def write(file: str, text: str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
        except OSError as error:
            log.warning("%s of kernel %s is not written: %s", file, name, error)

    log.info("kernel %s: stages are written to %s", name, folder)
    return write
