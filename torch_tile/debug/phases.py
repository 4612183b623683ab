"""Phases of a compile in torch's own accounts: `dynamo_timed`, the timeline of tlparse, CompilationMetrics.

All of that is private to torch. Where it is not as expected, phases go unrecorded and the compile goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

log = logging.getLogger(__name__)


class timed:
    """A context manager: the block is a phase `name`.

    Args:
        name: as it is shown.
        column: the field of CompilationMetrics that its microseconds are added to.
    """

    def __init__(self, name: str, column: str | None = None) -> None:
        self._context: Any = None
        self._name, self._column = name, column

    def __enter__(self) -> None:
        try:
            from torch._dynamo.utils import dynamo_timed

            context = dynamo_timed(self._name, dynamo_compile_column_us=self._column)
            context.__enter__()
            self._context = context
        except Exception:
            log.debug("phase %s is not recorded", self._name, exc_info=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._context is not None:
            try:
                self._context.__exit__(kind, error, traceback)
            except Exception as other:
                if other is error:
                    raise
                log.debug("phase %s is not recorded", self._name, exc_info=True)


def is_traced() -> bool:
    """Whether anything receives structured entries (TORCH_TRACE)."""
    try:
        from torch._logging._internal import trace_log

        return bool(trace_log.handlers)
    except Exception:
        return False


def cache_event(cache: str, state: str, field: str | None = None, **facts: Any) -> None:
    """A hit, a miss or a bypass of one of our caches: on the timeline, in tlparse, in CompilationMetrics.

    Args:
        cache: `graph` or `autograd`.
        state: `hit`, `miss` or `bypass`.
        field: of CompilationMetrics, which counts it.
        facts: what else is shown.
    """
    try:
        from torch._dynamo.utils import CompileEventLogger
        from torch._logging._internal import trace_structured

        name = f"tile_{cache}_cache_{state}"
        if is_traced():
            CompileEventLogger.instant(name, dict(facts))
            trace_structured(
                "artifact", metadata_fn=lambda: {"name": name, "encoding": "json"}, payload_fn=lambda: dict(facts)
            )
        if field is not None:
            CompileEventLogger.try_(CompileEventLogger.increment_toplevel, field)
    except Exception:
        log.debug("an event of the cache is not recorded", exc_info=True)


def stages(name: str, stages_ms: Mapping[str, float], end_ns: int) -> None:
    """Puts stages that are over onto the timeline, one after the other; the last ended at `end_ns`."""
    if not is_traced():
        return
    try:
        from torch._dynamo.utils import get_chromium_event_logger

        logger = get_chromium_event_logger()
        begin = end_ns - int(sum(stages_ms.values()) * 1e6)
        for stage, ms in stages_ms.items():
            end = begin + int(ms * 1e6)
            title = f"torch_tile.{stage}"
            logger.log_event_start(title, begin, {"graph": name})
            logger.log_event_end(title, end, {}, begin, False)
            begin = end
    except Exception:
        log.debug("stages of %s are not recorded", name, exc_info=True)


def now_ns() -> int:
    """The clock of the timeline."""
    return time.time_ns()


def emit(entries: Sequence[tuple[str, str, Any]]) -> None:
    """Structured entries of kind `artifact`: name, encoding (`string` or `json`), content."""
    from torch._logging._internal import trace_structured

    for name, encoding, content in entries:
        trace_structured(
            "artifact",
            metadata_fn=lambda name=name, encoding=encoding: {"name": name, "encoding": encoding},  # type: ignore[misc]
            payload_fn=lambda content=content: content,  # type: ignore[misc]
        )
