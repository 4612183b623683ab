"""Programs with frozen parameters, and recompiles after a parameter has changed."""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.logging_utils import get_aot_graph_name
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule

from torch_tile import _C
from torch_tile.config import Settings
from torch_tile.debug import faults, limits
from torch_tile.frontend import containment
from torch_tile.frontend.channels_last import put_channels_last
from torch_tile.frontend.compile import Binding, compile_graph, without_frozen
from torch_tile.frontend.constant_folding import Constants, Report, fold, freeze_inputs, outside_of_tracing
from torch_tile.frontend.epilogues import fuse_epilogues
from torch_tile.frontend.freezing.prologue import Prologue, Recorder, UnfitError
from torch_tile.frontend.freezing.scaling import scale_weights
from torch_tile.frontend.freezing.writes import FrozenTensors, state_of
from torch_tile.frontend.input_views import view_inputs
from torch_tile.frontend.language_kernels import replace_language_kernels
from torch_tile.frontend.reload import compile_text, names_of, recorded_as
from torch_tile.frontend.triton_kernels import replace_triton_kernels

log = logging.getLogger(__name__)

# Parameters change between calls in training, where freezing makes no sense.
_MOST_PROGRAMS = 8


def parameters_of(gm: Any, inputs: Sequence[Any]) -> list[torch.Tensor | None]:
    """For each input of the graph that AOTAutograd makes of Dynamo's, the parameter or buffer behind it, if any."""
    if not isinstance(gm, GraphModule):
        return []
    lifted = [*gm.named_parameters(remove_duplicate=False), *gm.named_buffers(remove_duplicate=False)]
    found: list[torch.Tensor | None] = list(dict(lifted).values())
    for node, value in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=False):
        is_static = bool(node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type"))
        is_parameter = isinstance(value, torch.nn.Parameter)
        found.append(value if isinstance(value, torch.Tensor) and (is_static or is_parameter) else None)
    return found


@dataclasses.dataclass(eq=False)
class _Frozen:
    """A program, and the parameters it was made for."""

    states: dict[int, _C.TensorState]
    call: Callable[..., Any]
    tensors: FrozenTensors

    def takes(self, arguments: list[Any]) -> bool:
        return all(state.is_same(arguments[place]) for place, state in self.states.items())

    def is_stale(self, arguments: list[Any]) -> bool:
        """Whether no call can be for those parameters any more: they are gone, or these arguments show that one of
        them has been written."""
        return any(
            state.is_expired or (state.is_of(arguments[place]) and not state.is_same(arguments[place]))
            for place, state in self.states.items()
        )


_all_programs: weakref.WeakSet[Any] = weakref.WeakSet()


def _renew_locks() -> None:
    for programs in list(_all_programs):
        programs.lock = threading.RLock()


# A thread that a forked child does not have may have held a lock.
os.register_at_fork(after_in_child=_renew_locks)


class _Programs:
    """The programs of one graph: one for each set of parameters, and one that freezes none.

    Calls come to the first one that was made; when its parameters have changed it is bound to those of the present.
    """

    def __init__(self, gm: GraphModule, inputs: Sequence[Any], settings: Settings) -> None:
        self.gm = gm
        self.inputs = inputs
        self.settings = settings
        self.is_static: list[bool] = []
        self.programs: list[_Frozen] = []
        self.first: Callable[..., Any] | None = None
        self.num_compiled = 0
        self.unfrozen: Callable[..., Any] | None = None
        self.lock = threading.RLock()
        self.name = get_aot_graph_name()
        _all_programs.add(self)

    def compile(self, sources: Sequence[torch.Tensor | None]) -> Callable[..., Any]:
        self.is_static = [value is not None for value in sources]
        gm = GraphModule(self.gm, copy.deepcopy(self.gm.graph))
        gm.meta.update(self.gm.meta)
        constants, report = Constants(gm), Report()
        recorder = Recorder(sources)
        with outside_of_tracing(), recorder:
            frozen = freeze_inputs(constants, sources, report)
            if frozen:
                optimize(constants, report, self.settings)
            if limits.is_on(self.settings, "epilogues"):
                fuse_epilogues(gm, self.settings, constants.value, constants.add)
            constants.read_numbers()
        faults.point("freezing")
        gm.graph.eliminate_dead_code()
        constants.remove_unused()
        gm.recompile()
        for name, reason in report.kept:
            log.info("%s is not frozen: %s", name, reason)
        states = {place: state_of(tensor) for place, tensor in frozen.items()}
        binding = Binding(states, [id(t) for t in constants.tensors()], self, report)
        if self.num_compiled == 0:
            binding.entry = functools.partial(self._entry, recorder, list(frozen))
        inputs = [x for i, x in enumerate(self.inputs) if i not in frozen]
        program = compile_graph(gm, inputs, "inference", self.settings, binding)
        self.num_compiled += 1
        self.programs.append(_Frozen(states, program, FrozenTensors(frozen.values())))
        if self.first is None:
            self.first = program
        return program

    def _entry(self, recorder: Recorder, frozen: list[int], constants: Sequence[torch.Tensor]) -> dict[str, Any] | None:
        """What another process makes these programs of; None where it cannot."""
        prologue = recorder.finish(constants, frozen)
        if prologue is None:
            return None
        # For parameters that the prologue does not fit: the graph as it was before anything was frozen.
        plain = GraphModule(self.gm, copy.deepcopy(self.gm.graph))
        plain.meta.update(self.gm.meta)
        graph = _C.print_graph(replace_language_kernels(replace_triton_kernels(plain, self.settings)))
        if graph.constants or graph.pycalls or graph.number_inputs or graph.number_outputs:
            return None
        return {"prologue": prologue.dumps(), "plain": graph.text, "frozen": frozen}

    def __call__(self, arguments: list[Any]) -> Any:
        """A call for which the program at hand is not made."""
        with self.lock:
            try:
                program = self.find(arguments)
            except Exception as error:
                if containment.is_passed_on(error, self.settings):
                    raise
                containment.fall_back(self.name, "inference", error, self.gm)
                program = self.give_up()
        return program(arguments)

    def give_up(self) -> Callable[..., Any]:
        """All later calls run in eager mode, with the parameters as inputs."""
        self.unfrozen = make_boxed_func(self.gm.forward)
        self.num_compiled = _MOST_PROGRAMS
        self.programs.clear()
        self.rebind_first(None)
        return self.unfrozen

    def find(self, arguments: list[Any]) -> Callable[..., Any]:
        for known in self.programs:
            if known.takes(arguments):
                return known.call
        stale = [known for known in self.programs if known.is_stale(arguments)]
        self.programs = [known for known in self.programs if known not in stale]
        if any(known.call is self.first for known in stale):
            self.rebind_first(None)
        if self.num_compiled >= _MOST_PROGRAMS:
            if self.unfrozen is None:
                log.warning("parameters changed %d times since they were frozen; they are inputs now", _MOST_PROGRAMS)
                self.unfrozen = self.compile_unfrozen()
                self.programs.clear()
                self.rebind_first(None)
            return self.unfrozen
        log.info("frozen parameters have changed; the graph is compiled again")
        pairs = zip(self.is_static, arguments, strict=True)
        program = self.compile([value if is_static else None for is_static, value in pairs])
        if self.programs and all(known.call is not self.first for known in self.programs):
            self.rebind_first(self.programs[-1])
        return program

    def compile_unfrozen(self) -> Callable[..., Any]:
        """The graph with parameters as inputs."""
        return compile_graph(self.gm, self.inputs, "inference", self.settings, Binding({}, [], None, None))

    def rebind_first(self, known: _Frozen | None) -> None:
        """What the first program was made of is of no use any more; calls in which nothing changes should not come to
        Python."""
        # A program that freezes nothing takes other arguments: calls come to it by way of `__call__`.
        call = None if known is None or not known.states else known.call
        if not isinstance(self.first, _C.Program) or not (call is None or isinstance(call, _C.Program)):
            return
        _C.rebind_program(self.first, call)
        if known is not None and call is not None:
            known.call = self.first


class _Replayed(_Programs):
    """The same from an entry of the disk cache: there is no graph, but text of it and a prologue."""

    def __init__(self, payload: dict[str, Any], settings: Settings) -> None:
        super().__init__(GraphModule({}, torch.fx.Graph()), (), settings)
        self.payload = payload
        self.takes_any = False
        """Parameters that do not fit are inputs from the first call on."""
        self.name = payload["name"]
        self.prologue = Prologue.loads(payload["frozen"]["prologue"])
        self.frozen: list[int] = payload["frozen"]["frozen"]
        self.program = compile_text(payload["text"], payload, settings)

    def compile(self, sources: Sequence[torch.Tensor | None]) -> Callable[..., Any]:
        self.is_static = [value is not None for value in sources]
        try:
            constants = self.prologue.run(sources)
        except UnfitError as reason:
            if self.first is None and not self.takes_any:
                raise
            log.info("%s: parameters are inputs now: %s", self.name, reason)
            return self.give_up()
        tensors = {place: tensor for place in self.frozen if (tensor := sources[place]) is not None}
        states = {place: state_of(tensor) for place, tensor in tensors.items()}
        program = self.bound(states, constants)
        self.num_compiled += 1
        self.programs.append(_Frozen(states, program, FrozenTensors(tensors.values())))
        if self.first is None:
            self.first = program
        return program

    def bound(self, states: dict[int, _C.TensorState], constants: list[torch.Tensor]) -> Callable[..., Any]:
        """The program with constants, for calls whose parameters have these states."""
        if "recording" in self.payload:

            def call(inputs: list[Any]) -> Any:
                inputs.extend(constants)
                return self.program(inputs)

            return without_frozen(recorded_as(self.payload, self.program, call), Binding(states, [], self, None))
        packable = self.payload["frozen"]["packable"]
        program = _C.freeze_program(self.program, list(states.items()), constants, packable, self)
        program.__name__ = self.name
        program._note_step = self.program._note_step
        return program

    def give_up(self) -> Callable[..., Any]:
        self.unfrozen = self.compile_unfrozen()
        self.num_compiled = _MOST_PROGRAMS
        self.programs.clear()
        self.rebind_first(None)
        return self.unfrozen

    def compile_unfrozen(self) -> Callable[..., Any]:
        return compile_text(self.payload["frozen"]["plain"], self.payload, self.settings)


def reload_frozen(
    payload: dict[str, Any], settings: Settings, sources: Sequence[torch.Tensor | None]
) -> Callable[..., Any]:
    """The program of a frozen graph again, for the parameters of this process.

    Raises:
        UnfitError: they are of another kind than those it was made for.
    """
    if len(sources) <= max(payload["frozen"]["frozen"], default=-1):
        raise UnfitError(f"expected parameters {payload['frozen']['frozen']}, got {len(sources)} inputs")
    program = _Replayed(payload, settings).compile(sources)
    if isinstance(program, _C.Program):
        program._input_names = names_of(payload.get("inputs", ()), settings)
    return program


def load_frozen(payload: dict[str, Any], settings: Settings) -> Callable[..., Any]:
    """The same where parameters come with the first call."""
    programs = _Replayed(payload, settings)
    programs.takes_any = True
    programs.settings = settings.after_loading or settings
    static = {*programs.prologue.parameters, *programs.frozen}

    def call(arguments: list[Any]) -> Any:
        if programs.first is not None:
            return programs.first(arguments)
        programs.is_static = [place in static for place in range(len(arguments))]
        return programs(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def optimize(constants: Constants, report: Report, settings: Settings) -> None:
    """Everything that constants make possible."""
    if limits.is_on(settings, "fold"):
        fold(constants, report)
    if limits.is_on(settings, "scale_weights"):
        scale_weights(constants, report)
    if limits.is_on(settings, "channels_last"):
        put_channels_last(constants, report)


def compile_frozen(
    gm: GraphModule, inputs: Sequence[Any], sources: Sequence[torch.Tensor | None], settings: Settings
) -> Callable[..., Any]:
    """As `compile_graph`, with parameters as constants.

    A call in which a parameter is another tensor, or has been written since, compiles the graph again.

    Args:
        gm: an inference graph of AOTAutograd.
        inputs: fake inputs.
        sources: for each input the parameter or buffer behind it, if it is one.
        settings: of this torch.compile call.
    """
    view_inputs(gm)  # which goes by positions of inputs
    return _Programs(gm, inputs, settings).compile(sources)
