"""What a launch says beside its arguments: how a kernel is compiled for a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

# Names that a launch takes beside those of the kernel's parameters.
HINTS = frozenset(
    [
        "num_warps",
        "num_stages",
        "num_ctas",
        "maxnreg",
        "enable_fp_fusion",
        "launch_cooperative_grid",
        "launch_pdl",
        "debug",
        "warmup",
        "grid",
        "stream",
        "waves_per_eu",
        "matrix_instr_nonkdim",
        "kpack",
        "allow_flush_denorm",
        "sanitize_overflow",
        "cluster_dims",
    ]
)


class LaunchOptions(NamedTuple):
    """Choices that a kernel for a GPU is compiled with; None leaves one to the compiler.

    Attributes:
        num_warps: warps of a program, if they can hold its tiles.
        num_stages: iterations of a loop, less one, that operands of products are loaded ahead; 3 unless given.
        maxnreg: registers of a thread, at most; what does not fit goes to local memory.
    """

    num_warps: int | None = None
    num_stages: int | None = None
    maxnreg: int | None = None

    def check(self, kernel: str) -> None:
        """Raises AssertionError, the class that Triton raises, for what no kernel can be compiled with."""
        for name, value in zip(self._fields, self, strict=True):
            least = 0 if name == "num_stages" else 1  # no stages: nothing is loaded ahead
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise AssertionError(f"kernel {kernel}: {name} expected an integer from {least} on, got {value!r}")
        if self.num_warps is not None and self.num_warps & (self.num_warps - 1):
            raise AssertionError(f"kernel {kernel}: num_warps must be a power of 2, got {self.num_warps}")
        if self.maxnreg is not None and self.maxnreg > 255:
            raise AssertionError(f"kernel {kernel}: maxnreg expected at most 255 registers, got {self.maxnreg}")


NONE = LaunchOptions()


def options_of(kwargs: dict[str, Any]) -> LaunchOptions:
    """The options among the named arguments of a launch."""
    get = kwargs.get
    return LaunchOptions(get("num_warps"), get("num_stages"), get("maxnreg"))


def hints_of(kwargs: dict[str, Any], parameters: Any) -> dict[str, Any]:
    """Named arguments of a launch that are none of the kernel's parameters, but for where it runs."""
    left_out = ("grid", "warmup", "stream")
    return {k: v for k, v in kwargs.items() if k in HINTS and k not in parameters and k not in left_out}
