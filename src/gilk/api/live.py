# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs whose results are shown while they go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from gilk.api.processes import hold
from gilk.errors import UsageError
from gilk.runs import clause_request, strategy
from gilk.runs.live import LiveRun
from gilk.runs.strategy import Chosen
from gilk.session.request import Builtin, CFunction, Request
from gilk.trace.latencies import Latencies
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.api.watched_kernel import WatchedKernel
    from gilk.runs.experiment.items import Item
    from gilk.targets.kernel.channel import Sink

__all__ = ["Chosen", "Latencies", "LiveRequest", "LiveRun", "parse_live", "prepare_kernel_live", "prepare_live"]


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """An instrument of a run that is watched, ``POINTS=INSTRUMENT`` or ``FUNCTIONS=@STRATEGY``.

    ``start``, ``stop``: seconds after the beginning when it is put in and taken out; ``stop`` None is the end.
    ``texts``: by the names that C files have in requests, their contents; no other C is taken.
    """

    text: str
    start: float = 0.0
    stop: float | None = None
    texts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_timed(self) -> bool:
        return self.start > 0 or self.stop is not None

    def wanted(self) -> Request | Chosen:
        """The points and the instrument, with its C text. Raises UsageError."""
        wanted = parse_live(self.text)
        return replace(wanted, instrument=_instrument(wanted, self.texts))


def parse_live(text: str) -> Request | Chosen:
    """Read a request of a run that is watched. Nothing of the user's is read or executed for it. Raises UsageError."""
    if clause_request.parse(text) is not None:
        what = "a run that is watched takes no stacks, no conditions, and neither usdt: nor syscall:"
        raise UsageError("no-clause-there", what, "gilk run takes them")
    return strategy.parse(text, own_code=False)


def prepare_live(requests: Sequence[LiveRequest], pids: Sequence[int]) -> LiveRun:
    """Attach to processes for a run that is watched; no probe is in yet. Raises GilkError; then all processes are let
    go."""
    wanted = [each.wanted() for each in requests]
    if any(each.of_kernel for each in wanted):
        raise UsageError("kernel-not-live", "a run that is watched is one of processes", "gilk run takes the kernel")
    if not _come_and_go(requests, wanted):
        return LiveRun(hold(pids, ()), _plain(wanted))
    from gilk.runs.experiment.live import StagedLiveRun  # imported here: few runs have strategies

    return StagedLiveRun(hold(pids, ()), [], items=_items(requests, wanted))


def prepare_kernel_live(
    requests: Sequence[LiveRequest], kernel: WatchedKernel, command: Sequence[str], take: Sink
) -> LiveRun:
    """The same in a kernel, which may run a command meanwhile (WatchedKernel.live). Raises GilkError."""
    wanted = [each.wanted() for each in requests]
    if not all(each.of_kernel for each in wanted):
        raise UsageError("remote-kernel-only", "in a kernel, points are kernel:FUNCTION:WHERE")
    items = _items(requests, wanted) if _come_and_go(requests, wanted) else []
    return kernel.live([] if items else _plain(wanted), command, take, items)


def _come_and_go(requests: Sequence[LiveRequest], wanted: Iterable[Request | Chosen]) -> bool:
    """Whether some instruments are not in from the beginning to the end, or are chosen by a strategy."""
    return any(each.is_timed for each in requests) or any(isinstance(each, Chosen) for each in wanted)


def _plain(wanted: Iterable[Request | Chosen]) -> list[Request]:
    return [each for each in wanted if isinstance(each, Request)]


def _items(requests: Sequence[LiveRequest], wanted: Sequence[Request | Chosen]) -> list[Item]:
    from gilk.runs.experiment.items import Item  # imported here, as above

    return [Item(one, each.text, each.start, each.stop) for each, one in zip(requests, wanted, strict=True)]


def _instrument(wanted: Request | Chosen, texts: Mapping[str, str]) -> Builtin | CFunction:
    """The instrument of a request, with its C text. Raises UsageError `c-not-live`."""
    if isinstance(wanted.instrument, Builtin):
        return wanted.instrument
    text = texts.get(str(wanted.instrument.source))
    if text is None:
        known = f"C from {', '.join(texts)}" if texts else "no C"
        raise UsageError(
            "c-not-live", f"a run that is watched takes built-in instruments, and {known}", "gilk run takes C"
        )
    return replace(wanted.instrument, text=text)
