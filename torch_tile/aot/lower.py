"""An exported program as text of the graph dialect, with what each input of the program is."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram, default_decompositions
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument, TensorArgument
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from torch_tile import _C
from torch_tile.aot.changed_forms import refuse_changed_forms
from torch_tile.aot.derived_sizes import Step, tell_sizes
from torch_tile.aot.equal_operators import use_operators_of_aten
from torch_tile.aot.refused_calls import refuse_calls
from torch_tile.aot.size_checks import add_checks
from torch_tile.aot.size_guards import guards_of
from torch_tile.aot.size_ranges import as_accepted, range_of
from torch_tile.aot.size_trials import least_sizes
from torch_tile.aot.viewed_inputs import is_read_by_strides, is_view, place_of, viewed_inputs, written_place
from torch_tile.config import Settings
from torch_tile.debug.failures import Sources
from torch_tile.errors import UnsupportedError
from torch_tile.frontend.channels_last import put_channels_last
from torch_tile.frontend.constant_folding import Constants, Report, fold, freeze_inputs, outside_of_tracing
from torch_tile.frontend.convolution_biases import separate_biases
from torch_tile.frontend.decompositions import decomposition_table
from torch_tile.frontend.decompositions.composites import as_by_aten
from torch_tile.frontend.definitions import runs_in_python
from torch_tile.frontend.epilogues import fuse_epilogues
from torch_tile.frontend.freezing import optimize, scale_weights
from torch_tile.frontend.fx_passes import run_passes
from torch_tile.frontend.higher_order import prepare_higher_order, remove_tokens
from torch_tile.frontend.language_kernels import replace_language_kernels
from torch_tile.frontend.part_writes.at_indices import write_at_indices
from torch_tile.frontend.part_writes.into_inputs import write_into_inputs
from torch_tile.frontend.pointwise_convolutions import are_products, replace_pointwise_convolutions
from torch_tile.frontend.pycalls import first_in_python
from torch_tile.frontend.sizes import without_guards
from torch_tile.frontend.sorts.replace import replace_sorts
from torch_tile.frontend.storage_views import refuse_views_beyond_writes
from torch_tile.frontend.triton_kernels import replace_triton_kernels
from torch_tile.package_file import ELEMENT_TYPES, Argument

aten = torch.ops.aten
_FROM_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclasses.dataclass
class Constant:
    """A tensor that the program takes, with the name it has in the model."""

    name: str
    tensor: torch.Tensor
    is_written: bool = False
    is_packable: bool = False


@dataclasses.dataclass
class Lowered:
    """A graph ready to be compiled for any target of one kind of device."""

    text: str
    arguments: list[Argument]
    """Of a call, those that are tensors or integers not known before."""
    inputs: list[int | Constant]
    """Of the program, in order: the number of an argument, or a constant."""
    literals: dict[int, Any]
    """Values that arguments must have, by place among all of them."""
    literal_names: dict[int, str]
    outputs: list[Any]
    """For each result ["program", number] or ["literal", value]."""
    sources: dict[int, tuple[str, str, bool]]
    """Of the text's lines, for errors at run time (torch_tile.debug.failures.Sources)."""
    steps: list[Step]
    guards: list[str]
    """Of sizes (torch_tile.aot.size_guards)."""
    written: list[int]
    """Arguments that the program writes."""


def _unsupported(text: str) -> UnsupportedError:
    return UnsupportedError("package", text)


def _decompositions(device: str) -> dict[Any, Any]:
    """What export keeps whole unless told otherwise, and this package's own table."""
    from torch._export.utils import _is_cia_op

    composite = {op: rule for op, rule in default_decompositions().items() if _is_cia_op(op)}  # type: ignore[no-untyped-call]
    if device == "cuda":  # torch chooses a kernel where the tensors are
        composite.pop(aten.scaled_dot_product_attention.default, None)
    return as_by_aten({**composite, **decomposition_table(False, False)}, device)


def _decomposed(exported: ExportedProgram, device: str) -> ExportedProgram:
    try:
        with torch.no_grad(), without_guards(), warnings.catch_warnings():
            # torch copies structures in a way that it has deprecated itself.
            warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\)", FutureWarning)
            decomposed: ExportedProgram = exported.run_decompositions(_decompositions(device))
            return decomposed
    except Exception as error:
        if shared := _sharing({**exported.state_dict, **exported.constants}):
            remedy = "make them one buffer"
        elif shared := _sharing(_examples(exported)):
            remedy = "export the model with a tensor for each argument"
        else:
            raise
        raise _unsupported(
            f"{', '.join(shared)} share memory, and torch does not take a program apart that writes one of them; "
            + remedy
        ) from error


def _examples(exported: ExportedProgram) -> dict[str, Any]:
    """The arguments that the model was exported with."""
    names = exported.graph_signature.user_inputs
    values = pytree.tree_leaves(exported.example_inputs)
    return {str(name): value for name, value in zip(names, values, strict=False)}


def _sharing(tensors: dict[str, Any]) -> list[str]:
    """Names of the first that share memory."""
    places: dict[int, list[str]] = {}
    for name, value in tensors.items():
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            places.setdefault(value.untyped_storage().data_ptr(), []).append(name)
    return next((names for names in places.values() if len(names) > 1), [])


def _move(gm: GraphModule, device: str) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Says that all of the graph is on another device. No memory is moved, so the device need not be there.

    Returns:
        By identity the fake tensor that stands for a constant of the graph on that device, and the constant. Single
        numbers stay as they are: kernels have them as literals.
    """
    wanted = torch.device(device)

    def moved(value: FakeTensor) -> FakeTensor:
        meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        return FakeTensor(value.fake_mode, meta, wanted)

    graphs = [module.graph for module in gm.modules() if isinstance(module, GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes):
        node.args, node.kwargs = pytree.tree_map_only(torch.device, lambda _: wanted, (node.args, node.kwargs))
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map_only(FakeTensor, moved, node.meta["val"])
    stand_ins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for module in (module for module in gm.modules() if isinstance(module, GraphModule)):
        for node in module.graph.find_nodes(op="get_attr"):
            name, fake = str(node.target), node.meta.get("val")
            value = getattr(module, name, None)
            if isinstance(value, torch.Tensor) and isinstance(fake, FakeTensor) and value.dim() > 0:
                delattr(module, name)
                setattr(module, name, fake)
                stand_ins[id(fake)] = fake, value
    return stand_ins


def _make_mutation_explicit(
    given: ExportedProgram, exported: ExportedProgram, gm: GraphModule
) -> tuple[list[Any], set[str]]:
    """New values of buffers and arguments are written to them within the graph. The results of the user, and the
    placeholders written.

    Args:
        given: the program before it was decomposed; its graph may write in place, and tells which results view what.
        exported: the decomposed program.
        gm: its graph.
    """
    output = gm.graph.output_node()
    signature = exported.graph_signature
    # By what the signature calls them: a copied graph may have other names.
    placeholders = dict(zip(map(place_of, signature.input_specs), gm.graph.find_nodes(op="placeholder"), strict=True))
    results, values = list[Any](), dict[Node, Node]()
    for made, value in zip(signature.output_specs, output.args[0], strict=True):  # type: ignore[arg-type]
        if made.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
            place = placeholders[written_place(made)]
            if place is not value:
                values[place] = value
        elif made.kind is OutputKind.USER_OUTPUT:
            results.append(value)
        elif made.kind is OutputKind.TOKEN and isinstance(value, Node):
            if value.op != "placeholder":
                raise _unsupported(
                    f"{_effect_of(value)} has an effect that a program without Python cannot keep in order"
                )
        else:
            raise _unsupported(f"the exported program has an output of kind {made.kind.name}")
    nodes = dict.fromkeys(node for node in (*values.values(), *results) if isinstance(node, Node))
    old = {node: _before_writes(gm, node, values) for node in nodes}
    for place, value in values.items():
        with gm.graph.inserting_before(output):
            copied = gm.graph.call_function(aten.copy_.default, (place, old[value]))
        copied.meta["val"] = place.meta["val"]
    for number, (viewed, result) in enumerate(zip(viewed_inputs(given), results, strict=True)):
        place = placeholders.get(viewed) if viewed is not None else None
        found = _in_place(gm, result, values[place], place) if place in values else result
        results[number] = old.get(result, result) if found is result else found
    return results, {place.name for place in values}


def _before_writes(gm: GraphModule, node: Node, written: dict[Node, Node]) -> Node:
    """The value, or a copy of it if it lies in an input that the program writes at its end."""
    source = node
    while source not in written and is_view(source):
        source = source.args[0]  # type: ignore[assignment]
    if source not in written:
        return node
    with gm.graph.inserting_before(gm.graph.output_node()):
        copy = gm.graph.call_function(aten.clone.default, (node,))
    copy.meta.update(node.meta)
    return copy


def _in_place(gm: GraphModule, result: Any, value: Node, place: Node) -> Any:
    """A result that is a value, or a view of it, as the input that it was written to, or a view of that."""
    if result is value:
        return place
    if not isinstance(result, Node) or not is_view(result):
        return result
    base = _in_place(gm, result.args[0], value, place)
    if base is result.args[0] or not _has_form_of(base, result.args[0]):
        return result
    with gm.graph.inserting_before(gm.graph.output_node()):
        view = gm.graph.call_function(result.target, (base, *result.args[1:]), result.kwargs)  # type: ignore[arg-type]
    view.meta.update(result.meta)
    return view


def _has_form_of(node: Node, other: Any) -> bool:
    """Whether a view of one is the same view of the other, told without a guard."""
    first, second = node.meta["val"], other.meta["val"]
    return not isinstance(first, torch.Tensor) or str([*first.shape, *first.stride()]) == str(
        [*second.shape, *second.stride()]
    )


def _effect_of(token: Node) -> str:
    """The operator that a token comes from."""
    source: Any = token.args[0] if token.args else token
    return str(source.args[1]) if isinstance(source, Node) and len(source.args) > 1 else str(token.target)


def _set_outputs(gm: GraphModule, results: list[Any]) -> list[Any]:
    """Leaves in the graph what it computes; what is known before goes into the package."""
    nodes, outputs = list[Node](), list[Any]()
    for value in results:
        if isinstance(value, Node):
            outputs.append(["program", len(nodes)])
            nodes.append(value)
        elif value is None or isinstance(value, (bool, int, float, str)):
            outputs.append(["literal", value])
        else:
            raise _unsupported(f"a result is of type {type(value).__name__}")
    gm.graph.output_node().args = (tuple(nodes),)
    return outputs


def _argument(name: str, node: Node, exported: ExportedProgram, least: dict[Any, int]) -> Argument:
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        if value.dtype not in ELEMENT_TYPES:
            raise _unsupported(f"argument `{name}` has dtype {value.dtype}")
        sizes = tuple(range_of(size, exported, least) for size in value.shape)
        return Argument(name, value.dtype, sizes, needs_strides=is_read_by_strides(node))
    if isinstance(value, torch.SymInt):
        return Argument(name, None, (range_of(value, exported, least),))
    raise _unsupported(f"argument `{name}` is of type {type(value).__name__}; tensors and integers are taken")


def _place_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What tells parameters apart from each other, and from what is computed from one, as its transpose."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _state(exported: ExportedProgram, spec: Any) -> torch.Tensor:
    value = exported.state_dict.get(spec.target)
    if value is None:
        value = exported.constants.get(spec.target)
    if not isinstance(value, torch.Tensor):
        raise _unsupported(f"{spec.target} is no tensor")
    return value


def lower(exported: ExportedProgram, settings: Settings, device: str) -> Lowered:
    """Decompose, make writes explicit, fold constants where `freezing` is set, and print.

    Args:
        exported: traced on the CPU, or on the device itself.
        settings: of this package.
        device: "cpu" or "cuda", where the program is to run.

    Raises:
        UnsupportedError: something that a program without Python cannot do; names it.
    """
    refuse_changed_forms(exported)
    refuse_calls(exported)
    given, exported = exported, _decomposed(exported, device)
    least = least_sizes([given, exported])
    gm = GraphModule(exported.graph_module, copy.deepcopy(exported.graph_module.graph))
    gm.meta.update(exported.graph_module.meta)
    use_operators_of_aten(gm, device)
    remove_tokens(gm)
    results, written = _make_mutation_explicit(given, exported, gm)
    outputs = _set_outputs(gm, results)

    arguments, literals, sources = list[Argument](), dict[int, Any](), dict[str, int | Constant]()
    literal_names = dict[int, str]()
    place, places = 0, dict[int, str]()
    placeholders = gm.graph.find_nodes(op="placeholder")
    for spec, node in zip(exported.graph_signature.input_specs, placeholders, strict=True):
        if spec.kind in _FROM_STATE:
            sources[node.name] = Constant(str(spec.target), _state(exported, spec), node.name in written)
        elif spec.kind is InputKind.TOKEN and not node.users:
            gm.graph.erase_node(node)
        elif spec.kind is not InputKind.USER_INPUT:
            raise _unsupported(f"the exported program has an input of kind {spec.kind.name}")
        elif isinstance(spec.arg, (TensorArgument, SymIntArgument)) and not isinstance(node.meta["val"], int):
            sources[node.name], places[place] = len(arguments), node.name
            arguments.append(_argument(spec.arg.name, node, exported, least))
            place += 1
        else:
            value = spec.arg.value if isinstance(spec.arg, ConstantArgument) else node.meta["val"]
            if node.users:
                raise _unsupported(f"argument `{spec.arg.name}` is {value!r}, which the graph reads")
            if value is not None and not isinstance(value, (int, float, str)):
                raise _unsupported(
                    f"argument `{spec.arg.name}` is of type {type(value).__name__}; tensors, numbers, strings and None "
                    "are taken"
                )
            literals[place], literal_names[place] = value, spec.arg.name
            place += 1
            gm.graph.erase_node(node)
    guards = guards_of(given)
    text, inputs, lines, steps = _print(gm, settings, sources, written, device, places, guards, least)
    of_caller = [place for name, place in sources.items() if isinstance(place, int) and name in written]
    return Lowered(text, arguments, inputs, literals, literal_names, outputs, lines, steps, guards, of_caller)


def _dynamic_sizes(gm: GraphModule) -> int:
    """How many sizes of inputs may change."""
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    sizes: list[Any] = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]
    return sum(isinstance(size, torch.SymInt) and not size.node.expr.is_number for size in sizes)


def _print(
    gm: GraphModule,
    settings: Settings,
    sources: dict[str, int | Constant],
    written: set[str],
    device: str,
    places: dict[int, str],
    guards: list[str],
    least: dict[Any, int],
) -> tuple[str, list[int | Constant], dict[int, tuple[str, str, bool]], list[Step]]:
    run_passes(gm, settings)
    constants, report = Constants(gm), Report()
    sizes_before = _dynamic_sizes(gm)
    known = [sources[node.name] for node in gm.graph.find_nodes(op="placeholder")]
    names = {}
    with outside_of_tracing():
        for source in known:
            if isinstance(source, Constant):
                source.tensor = source.tensor.detach()
        freeze_inputs(constants, [s.tensor if isinstance(s, Constant) else None for s in known], report)
        for source in known:
            if isinstance(source, Constant):
                names[_place_of(source.tensor)] = source.name
        # Orders of channels compare strides, which fixes sizes that may change.
        if settings["freezing"] and device == "cpu" and not sizes_before:
            optimize(constants, report, settings)
            fuse_epilogues(gm, settings, constants.value, constants.add)
        elif settings["freezing"]:
            fold(constants, report)
            scale_weights(constants, report)
            if device == "cpu":
                fuse_epilogues(gm, settings, constants.value, constants.add)
        elif device == "cpu":
            if settings["fusion"] and not sizes_before:
                put_channels_last(Constants(gm), Report(), are_products=are_products(settings))
            fuse_epilogues(gm, settings)
            if not sizes_before and are_products(settings):
                replace_pointwise_convolutions(gm)  # those without an epilogue
    if _dynamic_sizes(gm) != sizes_before:
        raise _unsupported("a size that may change was fixed while the program was lowered")
    gm.graph.eliminate_dead_code()
    constants.remove_unused()
    gm.recompile()
    gm = prepare_higher_order(gm, lambda: decomposition_table(False, False))
    stand_ins = _move(gm, "cuda:0") if device == "cuda" else {}
    gm = separate_biases(gm, settings)
    refuse_views_beyond_writes(gm)
    write_at_indices(gm, settings)
    gm = replace_sorts(replace_language_kernels(replace_triton_kernels(gm, settings)), settings)
    gm = write_into_inputs(gm, settings)
    with as_accepted(gm, least):
        steps = tell_sizes(gm, sources, written)
        placeholders = {node.name: node for node in gm.graph.find_nodes(op="placeholder")}
        add_checks(gm, guards, lambda number: placeholders.get(places.get(number, "")))
        graph = _C.print_graph(gm)
    if graph.pycalls:
        raise _unsupported(f"the model calls an operator through Python: {first_in_python(gm, graph)}")
    for _, operator, _ in graph.externs:
        if runs_in_python(operator, device):
            raise _unsupported(
                f"the operator {operator} is defined in Python, which a program without Python cannot call; "
                "define its kernel in C++, or export the model with a decomposition for it"
            )
    for number, kind in (*graph.number_inputs, *graph.number_outputs):
        raise _unsupported(f"argument or result {number} is a {kind} known at run time only")
    inputs: list[int | Constant] = [sources[node.name] for node in gm.graph.find_nodes(op="placeholder")]
    for number, tensor in enumerate(graph.constants):
        tensor = stand_ins[id(tensor)][1] if id(tensor) in stand_ins else tensor
        name = names.get(_place_of(tensor), f"computed_{number}")
        inputs.append(Constant(name, tensor, is_packable=settings["freezing"]))
    return graph.text, inputs, Sources.of(gm, graph).rows(), steps
