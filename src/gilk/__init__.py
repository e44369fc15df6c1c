# SPDX-License-Identifier: LGPL-2.1-or-later
"""gilk: put code of your choice anywhere in a running program, and take it out again.

    import gilk

    target = gilk.attach(pid)
    with target.session() as session:
        session.insert("main:hot:entry", gilk.count)

Users import what is here; it is defined in the modules of :mod:`gilk.api`. It is
loaded on first use: the command line imports this package too, and ``gilk
--help`` should not wait for numpy. Modules of the package never import from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gilk.errors import CompileError, GilkError, ImageError, StoreError, TargetError, UsageError
from gilk.version import VERSION as __version__

if TYPE_CHECKING:
    from gilk import lab
    from gilk.api.advice import Advice, AdvisedSession, advice
    from gilk.api.aspects import aspect, weave
    from gilk.api.dtrace import DtraceSession, dtrace, dtrace_events, events
    from gilk.api.dtrace import values as dtrace_values
    from gilk.api.experiments import Experiment, Staged, load_experiment, prepare_experiment
    from gilk.api.kernels import Kernel, KernelSession, kernel
    from gilk.api.machines import driver
    from gilk.api.processes import BlockView, FunctionView, Loaded, Place, Probe, Target, attach, launch, restore
    from gilk.api.processes import ClientSession as Session
    from gilk.api.runs import (
        CFunction,
        Progress,
        Request,
        Result,
        Run,
        RunReport,
        args,
        c,
        count,
        parse_request,
        prepare_run,
        regs,
        report,
        stamp,
        time,
    )
    from gilk.api.samples import calls, read
    from gilk.api.scans import Graph, Survey, cfg, scan
    from gilk.api.traces import Tracing, prepare_trace, trace_report
    from gilk.api.woven import Woven

#: The module of gilk.api that defines each name; behind a colon stands the name that it has there, if it differs.
_PLACES = {
    **dict.fromkeys(("Advice", "AdvisedSession", "advice"), "advice"),
    **dict.fromkeys(("aspect", "weave"), "aspects"),
    **dict.fromkeys(("DtraceSession", "dtrace", "dtrace_events", "events"), "dtrace"),
    "dtrace_values": "dtrace:values",
    **dict.fromkeys(("Experiment", "Staged", "load_experiment", "prepare_experiment"), "experiments"),
    **dict.fromkeys(("Kernel", "KernelSession", "kernel"), "kernels"),
    **dict.fromkeys(("driver", "lab"), "machines"),
    **dict.fromkeys(("BlockView", "FunctionView", "Loaded", "Place", "Probe", "Target"), "processes"),
    **dict.fromkeys(("attach", "launch", "restore"), "processes"),
    "Session": "processes:ClientSession",
    **dict.fromkeys(("CFunction", "Progress", "Request", "Result", "Run", "RunReport"), "runs"),
    **dict.fromkeys(("args", "c", "count", "parse_request", "prepare_run", "regs", "report"), "runs"),
    **dict.fromkeys(("stamp", "time"), "runs"),
    **dict.fromkeys(("calls", "read"), "samples"),
    **dict.fromkeys(("Graph", "Survey", "cfg", "scan"), "scans"),
    **dict.fromkeys(("Tracing", "prepare_trace", "trace_report"), "traces"),
    "Woven": "woven",
}

__all__ = [
    "CompileError", "GilkError", "ImageError", "StoreError", "TargetError", "UsageError", "__version__",
    "Advice", "AdvisedSession", "advice",
    "BlockView", "CFunction", "DtraceSession", "Experiment", "FunctionView", "Graph", "Kernel", "KernelSession",
    "Loaded", "Place", "Probe", "Progress", "Request", "Result", "Run", "RunReport", "Session", "Staged", "Survey",
    "Target", "Tracing", "Woven", "args", "aspect", "attach", "c", "calls", "cfg", "count", "driver", "dtrace",
    "dtrace_events", "dtrace_values", "events", "kernel", "lab", "launch", "load_experiment", "parse_request",
    "prepare_experiment", "prepare_run", "prepare_trace", "read", "regs", "report", "restore", "scan", "stamp", "time",
    "trace_report", "weave",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, other = _PLACES[name].partition(":")
    value = globals()[name] = getattr(importlib.import_module(f"gilk.api.{module}"), other or name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
