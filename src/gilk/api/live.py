# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs whose results are shown while they go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from gilk.api.processes import hold
from gilk.errors import UsageError
from gilk.runs.clause_request import ClauseRequest
from gilk.runs.live import LiveRun
from gilk.runs.strategy import Chosen
from gilk.session.request import Builtin, CFunction, Request
from gilk.trace.latencies import Latencies

if TYPE_CHECKING:
    from gilk.api.watched_kernel import WatchedKernel
    from gilk.targets.kernel.channel import Sink

__all__ = ["Latencies", "LiveRun", "prepare_kernel_live", "prepare_live"]


def prepare_live(
    requests: Sequence[Request | Chosen | ClauseRequest],
    pids: Sequence[int],
    texts: Mapping[str, str] = MappingProxyType({}),
) -> LiveRun:
    """Attach to processes for a run that is watched; no probe is in yet. ``texts``: by the names that C files have in
    requests, their contents; no other C is taken. Raises GilkError; then all processes are let go."""
    plain = _watchable(requests, texts)
    if any(request.of_kernel for request in plain):
        raise UsageError("kernel-not-live", "a run that is watched is one of processes", "gilk run takes the kernel")
    return LiveRun(hold(pids, ()), plain)


def prepare_kernel_live(
    requests: Sequence[Request | Chosen | ClauseRequest], kernel: WatchedKernel, command: Sequence[str], take: Sink
) -> LiveRun:
    """The same in a kernel, which may run a command meanwhile (WatchedKernel.live). Raises GilkError."""
    plain = _watchable(requests)
    if not all(request.of_kernel for request in plain):
        raise UsageError("remote-kernel-only", "in a kernel, points are kernel:FUNCTION:WHERE")
    return kernel.live(plain, command, take)


def _watchable(
    requests: Sequence[Request | Chosen | ClauseRequest], texts: Mapping[str, str] = MappingProxyType({})
) -> list[Request]:
    """The requests, if a run that is watched takes all of them. Raises UsageError."""
    if any(isinstance(request, ClauseRequest) for request in requests):
        what = "a run that is watched takes no stacks, no conditions, and neither usdt: nor syscall:"
        raise UsageError("no-clause-there", what, "gilk run takes them")
    plain = [request for request in requests if isinstance(request, Request)]
    if len(plain) < len(requests):
        raise UsageError("strategy-not-live", "a run that is watched takes points, not strategies", "gilk run has them")
    return [replace(request, instrument=_instrument(request, texts)) for request in plain]


def _instrument(request: Request, texts: Mapping[str, str]) -> Builtin | CFunction:
    """The instrument of a request, with its C text. Raises UsageError `c-not-live`."""
    if isinstance(request.instrument, Builtin):
        return request.instrument
    text = texts.get(str(request.instrument.source))
    if text is None:
        known = f"C from {', '.join(texts)}" if texts else "no C"
        raise UsageError(
            "c-not-live", f"a run that is watched takes built-in instruments, and {known}", "gilk run takes C"
        )
    return replace(request.instrument, text=text)
