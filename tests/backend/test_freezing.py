"""Frozen parameters: the same results, whatever becomes of the parameters afterwards."""

from __future__ import annotations

import ctypes
import gc
import os
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import torch_tile
from tests.compiling import fresh, tile_only
from torch_tile import config
from torch_tile.counters import counters
from torch_tile.frontend import channels_last
from torch_tile.frontend.freezing.calls import _Programs

pytestmark = tile_only


def frozen(function: Any, **options: Any) -> Any:
    fresh()
    return torch.compile(function, backend="tile", options={"freezing": True, "strict": True, **options})


def explained(function: Any, *args: Any) -> Any:
    with config.patch(freezing=True, strict=True):
        return torch_tile.explain(function, *args)


def check(model: nn.Module, *inputs: torch.Tensor, bound: float = 1e-5, call: Any = None) -> Any:
    """Against float64; nothing is as wrong as a value that was computed too early."""
    import copy

    call = call or frozen(model)
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(*(x.double() if x.is_floating_point() else x for x in inputs))
        eager = model(*inputs)
        for _ in range(2):
            result = call(*inputs)
            assert result.dtype is eager.dtype and result.stride() == eager.stride()
            error, own = (((r.double() - expected).abs().max()).item() for r in (result, eager))
            assert error <= bound * max(1.0, expected.abs().max().item()) + 2 * own, (error, own)
    return call


def mlp(bias: bool = True, inner: int = 256) -> nn.Module:
    return nn.Sequential(nn.Linear(64, inner, bias), nn.GELU(), nn.Linear(inner, 32, bias)).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("rows", [1, 3, 300])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers(dtype: torch.dtype, rows: int, bias: bool) -> None:
    check(mlp(bias).to(dtype), torch.randn(rows, 64, dtype=dtype))
    check(mlp(bias).to(dtype), torch.randn(2, rows, 64, dtype=dtype))


@pytest.mark.parametrize("library", ["auto", "aten", "onednn"])
def test_matmul_library(library: str) -> None:
    model, x = mlp(), torch.randn(300, 64)
    check(model, x, call=frozen(model, matmul_library=library))


class Uses(nn.Module):
    """A matrix in the ways that programs store matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Parameter(torch.randn(96, 128))
        self.turned = nn.Parameter(torch.randn(128, 96).t())
        self.part = nn.Parameter(torch.randn(96, 300)[:, 100:228])
        self.register_buffer("scale", torch.rand(128))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sums = x @ self.plain + x @ self.turned + x @ self.part + x @ (self.plain * self.scale)
        bias = self.scale.unsqueeze(0).expand(x.shape[0], -1)
        return torch.addmm(self.scale, x, self.plain) + torch.addmm(bias, x, self.part, beta=0.5, alpha=2) + sums


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ways_of_storing(dtype: torch.dtype) -> None:
    for x in (torch.randn(40, 96), torch.randn(96, 40).t(), torch.randn(40, 200)[:, 3:99]):
        check(Uses().to(dtype), x.to(dtype), bound=1e-5)


def test_what_is_folded_and_packed() -> None:
    report = explained(Uses(), torch.randn(40, 96)).graphs
    with torch.no_grad():
        report = explained(Uses(), torch.randn(40, 96)).graphs[0].freezing
    assert report.num_frozen == 4 and report.num_folded >= 1 and not report.kept
    assert "frozen: 4 parameters" in report.lines()[0]


def test_packs_weights() -> None:
    programs: list[Any] = []
    original = torch_tile._C.freeze_program

    def recording(*args: Any) -> Any:
        programs.append(original(*args))
        return programs[-1]

    torch_tile._C.freeze_program = recording  # type: ignore[assignment]
    try:
        model, x = mlp().bfloat16(), torch.randn(64, 64, dtype=torch.bfloat16)
        check(model, x)
    finally:
        torch_tile._C.freeze_program = original
    supported = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    assert [program.num_packed for program in programs] == [2 if supported else 0]


def test_dynamic_rows() -> None:
    model = mlp()
    fresh()
    call = torch.compile(model, backend="tile", dynamic=True, options={"freezing": True, "strict": True})
    for rows in (5, 64, 300, 2, 1024):
        check(model, torch.randn(rows, 64), call=call)


def test_parameters_that_change() -> None:
    model, x = mlp(), torch.randn(20, 64)
    call = check(model, x)
    with torch.no_grad():
        model[0].weight.mul_(2)
    check(model, x, call=call)
    model.load_state_dict({name: value + 0.25 for name, value in model.state_dict().items()})
    check(model, x, call=call)
    model[0].weight = nn.Parameter(torch.randn(256, 64))
    check(model, x, call=call)
    model[0].bias.data = torch.randn(256)
    check(model, x, call=call)


def write_from_another_process(tensor: torch.Tensor) -> None:
    child = os.fork()
    if child == 0:
        ctypes.memset(tensor.data_ptr(), 0, tensor.numel() * tensor.element_size())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def normed() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.1)).eval()


def test_statistics_that_eager_training_writes() -> None:
    """Kernels of batch norm do not count their writes."""
    model, x = normed(), torch.randn(2, 3, 8, 8)
    call = check(model, x)
    for shift in (3, -2):
        version = model[1].running_mean._version
        model.train()(x + shift)
        assert model[1].running_mean._version == version
        check(model.eval(), x, call=call)


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad])
def test_parameters_that_a_fused_optimizer_writes(optimizer: Any) -> None:
    model, x = normed(), torch.randn(2, 3, 8, 8)
    call = check(model, x)
    steps = optimizer(model.parameters(), lr=0.1, fused=True)
    other = nn.Linear(3, 4)
    others = optimizer(other.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        model(x).pow(2).mean().backward()
        steps.step()
        steps.zero_grad()
        check(model, x, call=call)
    version = other.weight._version
    other(torch.ones(2, 3)).sum().backward()
    others.step()
    assert other.weight._version == version  # nobody has frozen it


def test_compiled_optimizers_beside_frozen_parameters() -> None:
    model, x = normed(), torch.randn(2, 3, 8, 8)
    call = check(model, x)
    steps = torch.optim.Adam(model.parameters(), lr=0.1)
    model(x).pow(2).mean().backward()
    torch.compile(steps.step, backend="tile")()
    check(model, x, call=call)


def test_parameters_in_shared_memory_stay_inputs() -> None:
    """Another process that trains writes them, which no counter of this one tells."""
    model, x = mlp(), torch.randn(20, 64)
    call = check(model, x)
    model.share_memory()  # after the first call
    check(model, x, call=call)
    write_from_another_process(model[0].weight)
    assert not model[0].weight.any()
    check(model, x, call=call)
    with torch.no_grad():
        report = explained(model, x).graphs[0].freezing
    assert report.num_frozen == 0
    assert {reason for _, reason in report.kept} == {"it is in shared memory, where other processes write unnoticed"}


def test_inference_tensors_stay_inputs() -> None:
    """torch counts no writes to them."""
    with torch.inference_mode():
        model = mlp()
        x = torch.randn(20, 64)
        call = frozen(model)
        for _ in range(3):
            torch.testing.assert_close(call(x), model(x))
            model[0].weight.mul_(2)
            model[2].bias.add_(1)


def test_parameters_that_change_all_the_time() -> None:
    model, x = mlp(inner=16), torch.randn(20, 64)
    call = frozen(model)
    for _ in range(12):
        with torch.no_grad():
            model[0].weight.add_(0.125)
        check(model, x, call=call)


def test_two_modules_share_code() -> None:
    # Dynamo compiles the function once for both.
    def run(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(layer(x))

    call = frozen(run)
    layers, x = [nn.Linear(64, 64) for _ in range(3)], torch.randn(40, 64)
    with torch.no_grad():
        for _ in range(2):
            for layer in layers:
                torch.testing.assert_close(call(layer, x), run(layer, x))


def test_parameters_die_with_their_owner() -> None:
    model = mlp()
    call, known = check(model, torch.randn(3, 64)), weakref.ref(model[0].weight)
    del model, call
    gc.collect()
    assert known() is None


def test_the_present_parameters_are_called_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, searched = list[Any](), list[int]()
    freeze, find = torch_tile._C.freeze_program, _Programs.find

    def freezing(*args: Any) -> Any:
        programs.append(freeze(*args))
        return programs[-1]

    def finding(self: _Programs, arguments: list[Any]) -> Any:
        searched.append(1)
        return find(self, arguments)

    monkeypatch.setattr(torch_tile._C, "freeze_program", freezing)
    monkeypatch.setattr(_Programs, "find", finding)
    model, x = mlp(inner=16).bfloat16(), torch.randn(4, 64, dtype=torch.bfloat16)
    call = check(model, x)
    for changes in range(1, 4):
        with torch.no_grad():
            model[0].weight.mul_(2)
        check(model, x, call=call)
        assert len(searched) == changes and len(programs) == changes + 1


def test_memory_that_is_used_again_is_not_mistaken() -> None:
    # Its cast is what the program keeps, so the parameter's own memory is free for the next value.
    model, x = nn.Linear(64, 64), torch.randn(4, 64)
    call = frozen(model)
    for _ in range(5):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(call(x), model(x), rtol=2e-2, atol=2e-2)
        for _ in range(4):
            model.weight.data = torch.randn(64, 64)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x @ self.weight + self.count


def test_written_buffers_stay_inputs() -> None:
    model, x = Counting(), torch.randn(3, 4)
    call = frozen(model)
    with torch.no_grad():
        for i in range(3):
            expected = x @ model.weight + i + 1
            torch.testing.assert_close(call(x), expected)
            assert model.count.tolist() == [i + 1] * 4
        (report,) = [g.freezing for g in explained(Counting(), x).graphs]
    assert report.num_frozen == 1
    assert [reason for _, reason in report.kept] == ["the graph writes to it"]


class Returning(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x @ self.weight, self.weight, self.weight.t()


def test_returned_parameters_are_themselves() -> None:
    model, x = Returning(), torch.randn(3, 4)
    with torch.no_grad():
        product, weight, turned = frozen(model)(x)
    assert weight is model.weight or weight.data_ptr() == model.weight.data_ptr()
    assert turned.data_ptr() == model.weight.data_ptr()
    torch.testing.assert_close(product, x @ model.weight)


def test_folded_results_are_not_shared() -> None:
    # The program's own constant must not leave it, or a caller's write would show in the next call.
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, self.weight * 2

    model, x = Constant(), torch.randn(4)
    call = frozen(model)
    with torch.no_grad():
        for _ in range(3):
            result = call(x)[1]
            assert result.tolist() == [2.0] * 4
            result.add_(5)


def test_random_parts_stay_random() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.rand_like(self.weight) + torch.nn.functional.dropout(self.weight, 0.5, training=True)

    call = frozen(Noisy())
    with torch.no_grad():
        assert not torch.equal(call(torch.zeros(64)), call(torch.zeros(64)))


def test_gradients_are_not_frozen() -> None:
    model, x = mlp(), torch.randn(20, 64)
    call = frozen(model)
    call(x).sum().backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for a, p in zip(got, model.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad)
    check(model, x, call=call)  # a second graph, which is
    assert explained(lambda x: model(x).sum(), x).graphs[0].freezing is None


def test_inference_mode_and_autocast() -> None:
    model, x = mlp(), torch.randn(20, 64)
    call = frozen(model)
    with torch.inference_mode():
        torch.testing.assert_close(call(x), model(x))
        torch.testing.assert_close(call(x), model(x))
    call = frozen(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(call(x), model(x), rtol=1.6e-2, atol=1e-2)  # gelu before the product is rounded
        report = explained(model, x).graphs[0].freezing
    assert report.num_folded >= 4  # casts of weights and biases


def test_large_results_are_computed_in_each_call() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (nn.Parameter(torch.randn(2000)) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.a[:, None] * self.b[None, :]

    model, x = Outer(), torch.randn(2000, 2000)
    check(model, x)
    with torch.no_grad():
        assert explained(model, x).num_kernels == 1


def test_off_by_default() -> None:
    model, x = mlp(), torch.randn(4, 64)
    fresh()
    with torch.no_grad():
        assert torch_tile.explain(model, x).graphs[0].freezing is None
    assert counters["fallbacks"] == 0


def normalized(channels: int, *convolutions: nn.Module) -> nn.Module:
    """Convolutions, each followed by a batch norm in eval mode with statistics of its own."""
    layers: list[nn.Module] = []
    for convolution in convolutions:
        norm = nn.BatchNorm2d(channels)
        with torch.no_grad():
            for value in (norm.weight, norm.bias, norm.running_mean):
                value.normal_()  # type: ignore[union-attr]
            norm.running_var.uniform_(0.25, 4)  # type: ignore[union-attr]
        layers += [convolution, norm, nn.ReLU()]
    return nn.Sequential(*layers).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_batch_norm_goes_into_convolutions(dtype: torch.dtype, memory_format: torch.memory_format) -> None:
    model = normalized(
        16,
        nn.Conv2d(8, 16, 3, padding=1),
        nn.Conv2d(16, 16, 3, stride=2, bias=False),
        nn.Conv2d(16, 16, 1, groups=4),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=16),
    ).to(dtype)
    x = torch.randn(2, 8, 20, 20, dtype=dtype).to(memory_format=memory_format)
    check(model, x)
    with torch.no_grad():
        explanation = explained(model, x)
    assert explanation.graphs[0].freezing.num_scaled == 4


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.free = nn.Linear(32, 48), nn.Linear(32, 48, bias=False)
        self.scale, self.shift = (nn.Parameter(torch.rand(48) + 0.5) for _ in range(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = (self.linear(x) * self.scale - self.shift) / 4
        b = 2 - self.free(x) * self.shift
        c = self.free(x)
        d = (c + 1) * c  # read twice: stays
        e = self.linear(x) + self.scale.view(1, -1).expand(x.shape[-2], -1)
        return a, b, d, e


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scales_go_into_products(dtype: torch.dtype) -> None:
    model = Scaled().to(dtype)
    for sizes in ((6, 32), (3, 5, 32)):
        x = torch.randn(sizes, dtype=dtype)
        fresh()
        exact = Scaled().double()
        exact.load_state_dict(model.state_dict())
        with torch.no_grad():
            results, own = frozen(model)(x), model(x)
            for result, mine, expected in zip(results, own, exact(x.double()), strict=True):
                assert result.dtype is mine.dtype and result.stride() == mine.stride()
                errors = [(r.double() - expected).abs().max() for r in (result, mine)]
                assert errors[0] <= 2 * errors[1] + 1e-5
            assert explained(model, x).graphs[0].freezing.num_scaled >= 2


def test_scales_that_are_not_finite_stay() -> None:
    class Infinite(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 4))
            self.scale = nn.Parameter(torch.tensor([1.0, 0.0, -1.0, 2.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ self.weight) / self.scale

    model, x = Infinite(), torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(frozen(model)(x), model(x), equal_nan=True)


class Images(nn.Module):
    """What is done to images between convolutions: views, joins, pooling, an explicit stride, several results."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 1)
        self.third = nn.Conv2d(16, 4, 3, stride=2)
        self.linear = nn.Linear(4 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.relu(self.first(x))
        b = self.second(a) + a
        joined = torch.cat([a, b], 1)
        c = torch.nn.functional.max_pool2d(joined, 3, stride=1, padding=1)
        d = self.third(c)
        strided = torch.as_strided(a, (4, 4), (2, 1))
        shuffled = b.view(b.shape[0], 2, 4, *b.shape[2:]).transpose(1, 2).reshape(b.shape)
        return self.linear(d.flatten(1)), a, strided * 2, shuffled.softmax(1), d.mean((2, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("freezing", [False, True])
def test_images(
    dtype: torch.dtype, memory_format: torch.memory_format, dynamic: bool, freezing: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(channels_last, "_is_worth_it", lambda *args: True)
    model = Images().eval().to(dtype)
    exact = Images().eval().double()
    exact.load_state_dict(model.state_dict())
    fresh()
    call = torch.compile(model, backend="tile", dynamic=dynamic, options={"freezing": freezing, "strict": True})
    with torch.no_grad():
        for count in (2, 5):
            x = torch.randn(count, 3, 16, 16, dtype=dtype).to(memory_format=memory_format)
            for result, own, expected in zip(call(x), model(x), exact(x.double()), strict=True):
                if memory_format is torch.contiguous_format:
                    assert result.stride() == own.stride()
                if expected.dim() == 2 and expected.shape == (4, 4) and memory_format is torch.channels_last:
                    expected = own.double()  # other elements than those of a copy in float64
                error, mine = ((r.double() - expected).abs().max().item() for r in (result, own))
                assert error <= 2 * mine + 1e-5, (error, mine)
        has_code = dtype is torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported()
        assert explained(model, x).graphs[0].freezing.num_channels_last == (3 if has_code else 0)


def test_channels_last_where_convolutions_gain_more_than_copies_take() -> None:
    """Filters of one point gain nothing. A chain of convolutions copies its first image and its last alone."""
    one = nn.Sequential(nn.Conv2d(16, 32, 1), nn.SiLU()).eval()
    chain = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3, groups=32), nn.Conv2d(32, 8, 1), nn.ReLU()
    ).eval()
    for model, expected in ((one, 0), (chain, 3)):
        x = torch.randn(2, model[0].in_channels, 20, 20)
        fresh()
        check(model, x, bound=1e-4)
        with torch.no_grad():
            assert frozen(model)(x).stride() == model(x).stride()
            assert explained(model, x).graphs[0].freezing.num_channels_last == expected


def test_a_weight_that_cannot_be_computed_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails while a graph is compiled is left to the call."""
    from torch_tile.frontend.freezing import scaling

    def refuse(*args: Any) -> Any:
        raise NotImplementedError("no kernel for this type")

    monkeypatch.setattr(scaling, "_scale", refuse)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    check(model, torch.randn(2, 3, 9, 9), bound=1e-4)
