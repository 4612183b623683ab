"""Tensors of every kind as arguments: eager's answer, or a message that names the argument and says what to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.masked import masked_tensor
from torch.testing._internal.two_tensor import TwoTensor

from tests.compiling import assert_same, compiled, count, fresh, tile_only
from torch_tile import _C

pytestmark = tile_only


class Traced(torch.Tensor):
    """A subclass that Python sees in `__torch_function__` alone."""


def make(kind: str) -> torch.Tensor:
    plain = torch.linspace(-1, 1, 16).reshape(4, 4)
    makers: dict[str, Callable[[], torch.Tensor]] = {
        "sparse_coo": plain.to_sparse,
        "sparse_csr": plain.to_sparse_csr,
        "meta": lambda: plain.to("meta"),
        "jagged": lambda: torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged),
        "quantized": lambda: torch.quantize_per_tensor(plain, 0.1, 0, torch.qint8),
        "mkldnn": plain.to_mkldnn,
        "requires_grad": lambda: plain.clone().requires_grad_(),
        "subclass": lambda: plain.as_subclass(Traced),
        "masked": lambda: masked_tensor(plain, plain > 0),
        "two_tensors": lambda: TwoTensor(plain, plain * 2),
        "conjugate": lambda: torch.complex(plain, plain).conj(),
        "negative": lambda: torch.complex(plain, plain).conj().imag,
        "zero": lambda: torch._efficientzerotensor((4, 4)),
        "inference": lambda: torch.ones(4, 4).add_(1),
    }
    if kind == "inference":
        with torch.inference_mode():
            return makers[kind]()
    return makers[kind]()


KINDS = (
    *("sparse_coo", "sparse_csr", "meta", "jagged", "quantized", "mkldnn", "requires_grad", "subclass", "masked"),
    *("two_tensors", "conjugate", "negative", "zero", "inference"),
)
FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "twice": lambda x, m: m * 2,
    "sum": lambda x, m: m.sum(),
    "add": lambda x, m: x * 2 + m,
    "product": lambda x, m: x @ m,
}


def outcome(function: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    try:
        return "result", function(*arguments)
    except Exception as error:
        return "error", error


def as_dense(value: torch.Tensor) -> Any:
    if isinstance(value, TwoTensor):
        return value.a.detach(), value.b.detach()
    if type(value).__name__ == "MaskedTensor":
        return value.get_data(), value.get_mask()
    if value.is_nested:
        return value.values()
    if value.layout is not torch.strided:
        return value.to_dense()
    if value.device.type == "meta":
        return value.shape
    return value.dequantize() if value.is_quantized else value.detach().as_subclass(torch.Tensor).resolve_neg().clone()


@pytest.mark.parametrize("after_plain", [False, True], ids=["first", "after plain ones"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str, name: str, after_plain: bool) -> None:
    fresh()
    function, x = FUNCTIONS[name], torch.ones(4, 4)
    what, expected = outcome(function, x, make(kind))
    call = torch.compile(function, backend="tile")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if after_plain:
            call(x, torch.ones(4, 4))
        found, result = outcome(call, x, make(kind))
    if kind == "meta" and name in ("add", "product"):
        assert found == "error" and "meta" in str(result)  # Dynamo refuses two devices, where eager gives some answers
        return
    assert found == what, result
    if what == "error":
        assert type(result) is type(expected) or "RuntimeError" in str(type(result))
        return
    assert type(result) is type(expected)
    assert_same(as_dense(result), as_dense(expected), check_stride=False)


def test_a_refused_argument_is_named() -> None:
    function = torch.compile(lambda x, mask: x + mask * 2, backend="tile")
    x, mask = torch.ones(4, 4), torch.ones(4, 4).to_mkldnn()
    said = r"argument `mask` \(input \d\) is an MKL-DNN tensor; .*call \.to_dense\(\)"
    with pytest.warns(UserWarning, match=said), pytest.raises(RuntimeError):
        function(x, mask)  # eager adds no such tensors either
    assert count("fallbacks") == 1
    with pytest.raises(Exception, match=said):
        compiled(lambda x, mask: x + mask * 2)(x, mask)


def program_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """The program that calls of the function end in."""
    made: list[Any] = []
    original = _C.compile_graph

    def keep(*args: Any, **kwargs: Any) -> Any:
        made.append(original(*args, **kwargs))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_C, "compile_graph", keep)
        compiled(function)(*arguments)
    return made[-1]


SAID = {
    "sparse_coo": r"is a sparse tensor; torch-tile takes dense tensors: call \.to_dense\(\)",
    "sparse_csr": r"is a sparse tensor; torch-tile takes dense tensors: call \.to_dense\(\)",
    "mkldnn": r"is an MKL-DNN tensor; .*call \.to_dense\(\)",
    "quantized": r"is a quantized tensor; .*call \.dequantize\(\)",
    "nested": r"is a nested tensor; .*call \.to_padded_tensor\(\)",
    "meta": "is on the meta device, where tensors have no values",
    "two_tensors": "is of a class that computes by itself",
}


@pytest.mark.parametrize("kind", SAID)
def test_what_guards_let_through_is_named(kind: str) -> None:
    """The program looks at what it is given, whatever was promised."""
    x, mask = torch.ones(4, 4), torch.ones(4, 4)
    program = program_of(lambda x, mask: torch.exp(x) * mask, x, mask)
    given = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) if kind == "nested" else make(kind)
    with pytest.raises(RuntimeError, match=rf"argument `mask` \(input 1 of \w+\) {SAID[kind]}"):
        program([x, given])
    with pytest.raises(
        RuntimeError, match=r"argument `x` \(input 0 of \w+\) expected float32 \[4, 4\].*, got .* \[5\]"
    ):
        program([torch.ones(5), mask])
    assert_same(program([x, mask])[0], torch.exp(x))
