"""Views that calls outside make, results that must be new memory, negative and conjugate bits, reads that leave a
storage: values, shared memory and what is written, as in eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.compiling import IS_TILE, assert_same, compiled, count, fresh, run_python, tile_only

aten = torch.ops.aten
Tensors = list[torch.Tensor]
Function = Callable[[torch.Tensor], Any]


def tensors(tree: Any) -> Tensors:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def shared(results: Any, inputs: Any) -> list[Any]:
    """For each result the first tensor whose memory it shares, and where it begins in that of an input."""
    given, made = tensors(inputs), tensors(results)
    everything = [*given, *made]
    places = []
    for x in made:
        first = next(i for i, y in enumerate(everything) if y.untyped_storage()._cdata == x.untyped_storage()._cdata)
        places.append((first, x.storage_offset() if first < len(given) else 0, x.is_conj()))
    return places


def seeded(make: Callable[[], Any]) -> list[Any]:
    torch.manual_seed(0)
    return list(make())


def check(function: Callable[..., Any], make: Callable[[], Any], *, dynamic: bool = False, **options: Any) -> None:
    """Twice, on fresh inputs that `make` gives: results, inputs afterwards, and what shares memory with what."""
    fresh()
    program = compiled(function, dynamic=dynamic, **options)
    for _ in range(2):
        given, expected_given = seeded(make), seeded(make)
        expected = function(*expected_given)
        result = program(*given)
        assert_same(result, expected, check_stride=False)
        assert_same(given, expected_given)
        assert shared(result, given) == shared(expected, expected_given)
        # Outside the graph, too: what is written to an input shows in the results that are views of it.
        for mine, eager in zip(tensors(given), tensors(expected_given), strict=True):
            if not any(s == 0 and n > 1 for n, s in zip(mine.shape, mine.stride(), strict=True)):
                mine.copy_(mine.logical_not() if mine.dtype == torch.bool else mine + 1)
                eager.copy_(eager.logical_not() if eager.dtype == torch.bool else eager + 1)
        assert_same(result, expected, check_stride=False)


# ===-- views by calls ----------------------------------------------------------------------------------------------===


@pytest.fixture
def undeclared_views(set_config: Any) -> None:
    """torch raises for operators whose results are views that their schemas do not declare where it finds CI in the
    environment, and warns elsewhere. What these tests are about is the result where it does not raise."""
    if hasattr(torch._functorch.config, "error_on_custom_op_aliasing"):
        set_config(torch._functorch.config, "error_on_custom_op_aliasing", False)


@pytest.fixture(scope="module")
def operators() -> Iterator[Any]:
    """Custom operators that return views, without saying so, or write."""
    library = torch.library.Library("alias_tests", "FRAGMENT")
    library.define("tail(Tensor x) -> Tensor")
    library.define("halves(Tensor x) -> Tensor[]")
    library.define("flipped(Tensor x) -> Tensor")
    library.define("scale_(Tensor(a!) x, float factor) -> ()")
    library.define("add_into(Tensor x, Tensor(a!) out) -> Tensor")
    library.define("second(Tensor x, Tensor y) -> Tensor")
    implementations: dict[str, Callable[..., Any]] = {
        "tail": lambda x: x[1:],
        "halves": lambda x: list(x.chunk(2)),
        "flipped": lambda x: x.flip(0),
        "scale_": _scale,
        "add_into": lambda x, out: out.add_(x) * 2,
        "second": lambda x, y: y.view(-1),
    }
    for name, function in implementations.items():
        library.impl(name, function, "CPU")
        library.impl(name, function, "Meta")
    yield torch.ops.alias_tests
    library._destroy()


def _scale(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


def test_view_of_another_dtype_is_read_before_a_write() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        bits = x.view(torch.int32)
        result = bits.flip(0).float() + x * 2
        x.mul_(2)
        return result

    check(function, lambda: [torch.randn(8)])


def test_overlapping_inputs_are_read_before_a_write() -> None:
    def function(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        v.transpose(0, 0)
        y = x + 1
        x[2:] = 9
        w.abs_()
        return y * w

    def make() -> Tensors:
        base = torch.arange(4.0)
        return [base, base[:2], -torch.ones(1)]

    check(function, make)


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "int32": lambda x: x.view(torch.int32),
    "int16": lambda x: x.view(torch.int16),
    "complex": lambda x: torch.view_as_complex(x.view(-1, 2)),
    "conjugate": lambda x: torch.view_as_complex(x.view(-1, 2)).conj(),
    "real": lambda x: torch.view_as_complex(x.view(-1, 2)).real,
    "imag": lambda x: torch.view_as_complex(x.view(-1, 2)).imag,
    "conj_imag": lambda x: torch.view_as_complex(x.view(-1, 2)).conj().imag,
    "there_and_back": lambda x: torch.view_as_real(torch.view_as_complex(x.view(-1, 2))),
    "negative": torch._neg_view,
    "as_strided": lambda x: x.as_strided((3, 2), (2, 3), 1),
    "as_strided_overlapping": lambda x: x.as_strided((4, 4), (1, 2), 0),
    "unfold": lambda x: x.unfold(0, 3, 2),
    "diagonal": lambda x: x.view(2, 6).diagonal(1),
    "alias": lambda x: aten.alias.default(x),
    "detach": lambda x: x.detach(),
    "reshape_alias": lambda x: aten._reshape_alias.default(x, [3, 4], [4, 1]),
    "split": lambda x: x.split(5)[2],
    "split_of_bits": lambda x: x.view(torch.int32).split(4)[1],
    "chunk_of_complex": lambda x: torch.view_as_complex(x.view(-1, 2)).chunk(3)[1],
    "unbind_of_bits": lambda x: x.view(torch.uint8).view(-1, 4).unbind(1)[3],
    "expand": lambda x: x[:1].expand(4),
    "chain": lambda x: x.view(torch.int32).view(4, 3).t().view(torch.float32)[1:].view(torch.int32),
}


def numbers(x: torch.Tensor) -> torch.Tensor:
    """Something computed of a view, by a kernel where there is one for the dtype."""
    return x * 2 if x.is_complex() else x.flip(0) + 1


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_around_writes(name: str, dynamic: bool) -> None:
    """Read before and after a write through the base and through the view, and given back."""
    view = VIEWS[name]

    def read(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        v = view(x)
        first, other = numbers(v), x + 1
        x.mul_(3)
        return first, other, numbers(v), numbers(view(x)), view(x)

    def write(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = x * 2
        v = view(x)
        v.copy_(v.flip(0))
        return before, x + 1, numbers(v), x

    base = 0 if name.startswith("as_strided") else 4  # whose place is that in the storage
    check(read, lambda: [torch.randn(12 + base)[base:]], dynamic=dynamic)
    if name not in ("as_strided_overlapping", "expand", "unfold"):
        check(write, lambda: [torch.randn(12)], dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_a_computed_value(name: str, dynamic: bool) -> None:
    view = VIEWS[name]

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        v = view(y)
        first = numbers(v)
        y.mul_(3)
        return first, numbers(view(y)), y, view(y), y[2:]

    check(function, lambda: [torch.randn(12)], dynamic=dynamic)


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_a_slice_that_is_an_input(name: str) -> None:
    view = VIEWS[name]

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = numbers(view(x))
        y.add_(1)
        return first, numbers(view(x)), x + y

    def make() -> Tensors:
        base = torch.randn(40)
        return [base[4:16], base[8:20]]

    check(function, make)


@pytest.mark.usefixtures("undeclared_views")
def test_custom_operators_with_views(operators: Any) -> None:
    """AOTAutograd takes none whose schema declares a view; these views are undeclared."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        tail, (low, high) = operators.tail(y), operators.halves(y)
        second = operators.second(x, y)
        first = tail + 1, low.flip(0), high * 2, second - 1
        x.copy_(y + 5)
        return *first, tail, low, high, x + 1

    check(function, lambda: [torch.randn(8)])


def test_custom_operators_that_write(operators: Any) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = x + y
        operators.scale_(y, 2.0)
        view = x[2:6]
        operators.scale_(view, 3.0)
        made = operators.add_into(x, y)
        z = torch.full((8,), 2.0)
        bits = z.view(torch.int32)
        operators.scale_(z, 2.0)
        return first, made, x + y, operators.flipped(view), bits.view(torch.float32) + x, z + 1

    check(function, lambda: [torch.randn(8), torch.randn(8)])


@pytest.mark.usefixtures("undeclared_views")
def test_custom_operator_that_gives_back_its_argument() -> None:
    """Against its schema, and seen by nobody: the result is read before the argument changes."""
    library = torch.library.Library("alias_tests_wrong", "FRAGMENT")
    library.define("same(Tensor x) -> Tensor")
    library.impl("same", lambda x: x, "CPU")
    library.impl("same", lambda x: torch.empty_like(x), "Meta")
    same = torch.ops.alias_tests_wrong.same

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = same(x)
        z = y + 1
        x.mul_(2)
        w.abs_()
        return z * w

    check(function, lambda: [torch.randn(8), torch.randn(1)])
    library._destroy()


def test_the_same_tensor_twice() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = y.view(torch.int32) + 1
        x.mul_(2)
        return before, y + 1, x, y

    def make() -> Tensors:
        x = torch.randn(6)
        return [x, x]

    check(function, make)


def test_inputs_that_overlap_in_one_call_only() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(10)
        return y * 2

    program = compiled(function)
    for offset in (6, 3, 6, 0, 3):
        base, expected = torch.arange(16.0), torch.arange(16.0)
        result = program(base[:6], base[offset : offset + 6])
        assert_same(result, function(expected[:6], expected[offset : offset + 6]))
        assert_same(base, expected, exact=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_over_a_longer_storage_that_are_no_views(dynamic: bool) -> None:
    """AOTAutograd passes the whole storage, whose length no guard holds."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = y * 2
        x.add_(1)
        return z, y * 3

    def over_one_storage(length: int) -> Tensors:
        storage = torch.arange(float(length)).untyped_storage()
        return [torch.empty(0).set_(storage, 0, (8,), (1,)), torch.empty(0).set_(storage, 4, (4,), (1,))]

    check(function, lambda: over_one_storage(40), dynamic=dynamic)
    program = compiled(function, dynamic=dynamic)
    for length in (40, 64, 8):
        given, expected_given = over_one_storage(length), over_one_storage(length)
        assert_same(program(*given), function(*expected_given))
        assert_same(given, expected_given)


@tile_only
def test_views_of_a_base_of_other_strides() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y[1:].mul_(3)
        return x + 1

    def views(strides: tuple[int, ...]) -> list[torch.Tensor]:
        base = torch.empty_strided((2, 3, 4, 4), strides).copy_(torch.arange(96.0).view(2, 3, 4, 4))
        return [base.as_strided((5,), (1,), 3), base.as_strided((6,), (2,), 4)]

    fresh()
    program = torch.compile(function, backend="tile")
    for strides in ((48, 16, 4, 1), (48, 1, 12, 3), (48, 16, 4, 1)):
        given, expected = views(strides), views(strides)
        assert_same(program(*given), function(*expected))
        assert_same(given, expected)


def test_results_that_view_written_arguments_of_one_storage() -> None:
    """torch's replay of such views ends the process, or raises, with other backends."""
    code = """
    import torch, torch_tile

    def chunks(x, y):
        y[y > 1] = -1
        return x * 2, y.chunk(2, 1)[-1]

    def rows(x, y):
        x.add_(1)
        return y.unbind(0)[0], x.t(), y * 2

    def strided():
        x = torch.arange(48.0).view(16, 3)[..., 1::2]
        return x, x.transpose(0, -1)

    def overlapping():
        whole = torch.arange(24.0).view(4, 6)
        return whole[:3], whole[1:]

    for function in (chunks, rows):
        for inputs in (strided, overlapping):
            torch.compiler.reset()
            given, expected = inputs(), inputs()
            results, wanted = torch.compile(function, backend="tile")(*given), function(*expected)
            for a, b in zip([*results, *given], [*wanted, *expected]):
                assert torch.equal(a, b) and a.stride() == b.stride()
            owner = lambda x: x.untyped_storage()._cdata
            assert [owner(x) == owner(given[0]) for x in results] == [owner(x) == owner(expected[0]) for x in wanted]
    """
    run_python(code)


@tile_only
@pytest.mark.parametrize("make", [lambda n: torch.arange(n), lambda n: torch.arange(3 * n).view(n, 3)])
def test_views_of_bases_of_other_sizes(make: Callable[[int], torch.Tensor]) -> None:
    """AOTAutograd gives a program the base of arguments that share memory, and no guard holds its sizes."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y[1:].mul_(3)
        return x + 1

    def views(length: int) -> list[torch.Tensor]:
        whole = make(length)
        inputs = [whole[1:], whole[1:].as_strided((length - 2,), (1,), 2)]
        for x in inputs:
            torch._dynamo.maybe_mark_dynamic(x, 0)
        return inputs

    fresh()
    program = torch.compile(function, backend="tile")
    for length in (5, 4, 9, 5):
        given, expected = views(length), views(length)
        assert_same(program(*given), function(*expected))
        assert_same(given, expected)


def test_expanded_and_strided_inputs() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = x.sum(0) + y.sum(0)
        z.mul_(2)
        return total, x + 1, y.flip(0), z + 1

    def make() -> Tensors:
        base = torch.randn(3, 8)
        return [base[:1].expand(4, 8), base.as_strided((4, 8), (1, 2), 1), base[2]]

    check(function, make)


# ===-- results that are new memory ---------------------------------------------------------------------------------===


@pytest.mark.parametrize(
    "reduction",
    [
        torch.amax, torch.amin, torch.sum, torch.mean, torch.prod, torch.max, torch.min, torch.all, torch.any,
        torch.var, torch.logsumexp, torch.median, torch.cumsum, torch.cumprod, torch.logcumsumexp,
        torch.linalg.vector_norm,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_reduction_of_one_element(reduction: Callable[..., Any]) -> None:
    scans = (torch.cumsum, torch.cumprod, torch.logcumsumexp)
    arguments = (0,) if reduction in scans or reduction is torch.logsumexp else ()

    def function(x: torch.Tensor) -> Any:
        m = reduction(x, *arguments)
        x.copy_(x * 2)
        return m

    dtype = torch.bool if reduction in (torch.all, torch.any) else torch.float32
    for value in (torch.tensor(1.5), torch.tensor([1.5])):
        check(function, lambda value=value: [value.to(dtype, copy=True)])
    if not arguments and dtype == torch.float32:
        check(lambda x: function(x.squeeze(0)), lambda: [torch.tensor([1.5])])


class _Buffers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * self.scale, self.scale.amax(), self.scale.to(torch.float32)


def test_module_keeps_its_buffer() -> None:
    module = _Buffers()
    _, largest, same = compiled(module)(torch.randn(3))
    largest.add_(1)
    assert module.scale.item() == 2.0
    assert same is module.scale or same.data_ptr() == module.scale.data_ptr()


def test_equal_results_are_tensors_of_their_own() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return (
            x * 2, x * 2, y, x.clone(), x.clone(), torch.zeros(3), torch.zeros(3), x.sum(), x.sum(),
            y + 0, y.view(-1), y.view(-1), torch.arange(3), torch.arange(3),
        )  # fmt: skip

    check(function, lambda: [torch.randn(2, 3)])


# ===-- negative and conjugate bits ---------------------------------------------------------------------------------===


def _complex() -> Tensors:
    return [torch.tensor([1 + 2j, 3 - 4j])]


BITS: dict[str, Callable[[torch.Tensor], Any]] = {
    "imag_of_conjugate": lambda z: z.conj().imag + 1,
    "negative_view": lambda z: torch._neg_view(z.real) + 1,
    "given_back": lambda z: (z.conj().imag, torch._neg_view(z.real), z.conj()),
    "view_of_it": lambda z: (z.conj().imag[1:] * 2, z.conj().imag.view(1, 2), z.conj().imag.sum()),
    "twice": lambda z: torch._neg_view(torch._neg_view(z.real)) + z.conj().conj().imag,
    "through_calls": lambda z: (torch.sort(z.conj().imag)[0], torch.linalg.vector_norm(z.conj()), z.conj().abs()),
    "written": lambda z: (z.conj().imag.mul_(3), z * 1),
    "conjugate_written": lambda z: (z.conj().add_(2 + 1j), z + 0),
    "conjugate_read": lambda z: (z.conj() * z, torch.view_as_real(z.conj().resolve_conj()) + 1, z.conj()[1:].clone()),
    "written_behind": lambda z: (lambda v: (z.mul_(2), v + 1))(z.conj().imag),
    "imaginary_zeroed": lambda z: (z.imag.zero_(), z.exp()),
    "imaginary_zeroed_through_a_conjugate": lambda z: (z.conj().imag.zero_(), z.conj().sum(0)),
    "parts_written": lambda z: (z.real.mul_(2), z.imag[1:].add_(1), z * 1),
    "sum_with_a_part": lambda z: (lambda w: w.conj() * w)(torch.add(z, z.imag)),
    "divided": lambda z: (
        torch._neg_view(z.real) / 3,
        torch._neg_view(z.imag).flip(0),
        torch._neg_view(z.real).cumsum(0),
    ),
    "complex_of_negatives": lambda z: torch.complex(torch._neg_view(z.real), torch._neg_view(z.imag)),
    "passed_to_an_operator": lambda z: torch.ops.alias_tests.second(z.imag, torch._neg_view(z.real)),
}


@pytest.mark.usefixtures("operators", "undeclared_views")
@pytest.mark.parametrize("name", BITS)
def test_bits_of_results_of_calls(name: str) -> None:
    check(BITS[name], _complex)


@pytest.mark.usefixtures("operators", "undeclared_views")
@pytest.mark.parametrize("name", [name for name in BITS if name != "written_behind"])  # AOTAutograd refuses that
def test_bits_of_inputs(name: str) -> None:
    """The argument is a conjugate itself."""
    check(BITS[name], lambda: [_complex()[0].conj()])


def test_bits_saved_for_the_backward() -> None:
    def function(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        negative = (z * 1).conj().imag
        return (x * negative + torch.sin(x) * negative).sum() + (z.conj() * z).real.sum()

    gradients = []
    for run in (function, compiled(function)):
        z, x = _complex()[0].requires_grad_(), torch.tensor([0.5, -2.0], requires_grad=True)
        gradients.append(torch.autograd.grad(run(z, x), (z, x)))
    assert_same(gradients[1], gradients[0])


def test_bits_passed_to_a_second_graph() -> None:
    first, second = compiled(lambda z: (z.conj(), z.conj().imag)), compiled(lambda c, i: (c * 2, i + 1, c.imag - i))
    assert_same(second(*first(*_complex())), (lambda z: (z.conj() * 2, z.conj().imag + 1, 0 * z.real))(*_complex()))


# ===-- reads stay inside storages ----------------------------------------------------------------------------------===


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.as_strided((8,), (1,)),
        lambda x: x.as_strided((2, 2), (5, 2)),
        lambda x: x.as_strided((4,), (1,), 4),
    ],
    ids=["longer", "strided", "offset"],
)  # fmt: skip
def test_read_beyond_a_storage_raises(view: Function, dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return view(x) + 1

    program = compiled(function, dynamic=dynamic)
    large, small = torch.arange(8.0)[:4], torch.arange(4.0)
    assert_same(program(large), function(large))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of bounds for storage"):
            program(small)
    assert_same(program(large), function(large))


@tile_only
def test_views_within_bounds_run_as_kernels() -> None:
    program = compiled(lambda x: x.as_strided((3, 2), (2, 1)) + x[:3, None])
    assert_same(program(torch.arange(6.0)), torch.arange(6.0).view(3, 2) + torch.arange(3.0)[:, None])
    if IS_TILE:
        assert count("externs") == 0
