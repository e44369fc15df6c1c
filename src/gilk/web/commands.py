# SPDX-License-Identifier: LGPL-2.1-or-later
"""The command lines, and the code in Python, that do the same as sessions of the window."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, Final

from gilk.values import dataclass

C_FILE: Final = "mine.c"  # the name of the C text in requests, `POINTS=mine.c:FUNCTION`
TIMES_FILE: Final = "times.toml"  # the name of the experiment that has the times of instruments
_IMPORT: Final = "import gilk\n\n"
_PAUSE: Final = (
    "    # session.deactivate(session.probes)  pauses it",
    "    # session.activate(session.probes)  lets it go on",
)
_PYTHON: Final = _IMPORT + "with gilk.attach({}) as target, target.session() as session:"


@dataclass(frozen=True, slots=True)
class PaneRequest:
    """An instrument that was asked for, ``POINTS=INSTRUMENT`` or ``FUNCTIONS=@STRATEGY``; ``start`` and ``stop`` are
    the seconds after the session's beginning when it is put in and taken out, ``stop`` None for the end.
    """

    text: str
    start: float = 0.0
    stop: float | None = None

    @property
    def is_timed(self) -> bool:
        return self.start > 0 or self.stop is not None

    @property
    def is_plain(self) -> bool:
        """Whether it has points of its own, and is in all the time."""
        return not self.is_timed and "=@" not in self.text


def values(requests: Sequence[PaneRequest]) -> list[list[Any]]:
    """The requests as JSON values for a child."""
    return [[each.text, each.start, each.stop] for each in requests]


def run_command(pid: str, requests: Sequence[PaneRequest], text: str = "") -> str:
    """The command line of a session in a process; if a C text is given, it writes that into its file first."""
    if _are_timed(requests):
        return _with_c(text, _experiment_command(f'targets = ["pid:{pid}"]\n', requests))
    return _with_c(text, shlex.join(["gilk", "run", "-p", pid, *_options(requests)]))


def machine_command(machine: str, requests: Sequence[PaneRequest], workload: str, text: str = "") -> str:
    """The command line of a session in the kernel of a machine; with a C text as `run_command`."""
    if _are_timed(requests):
        return _with_c(text, _experiment_command(_machine_head(machine, workload), requests))
    words = ["gilk", "run", "--on", machine, *_options(requests)]
    return _with_c(text, shlex.join([*words, "--", "sh", "-c", workload] if workload else words))


def _with_c(text: str, command: str) -> str:
    """A command line that writes the C text into its file first, if there is one."""
    return f"printf %s {shlex.quote(text)} > {C_FILE} && {command}" if text else command


def run_python(pid: str, requests: Sequence[PaneRequest]) -> str:
    """The code in Python that does the same; a C text, and the times of instruments, are in their files."""
    if _are_timed(requests):
        return _staged_python(f"gilk.prepare_experiment(gilk.load_experiment({TIMES_FILE!r}))")
    if not _are_plain(requests):
        return _staged_python(f"gilk.prepare_run({_parsed(requests)}, [{pid}], [])")
    lines = [f"    session.insert({points!r}, {_instrument(what)})" for points, what in _pairs(requests)]
    return "\n".join([_PYTHON.format(pid), *lines, *_PAUSE, "    print(session.counts())"])


def machine_python(machine: str, requests: Sequence[PaneRequest], workload: str) -> str:
    """The code in Python that does the same in the kernel of a machine."""
    if _are_timed(requests):
        return _staged_python(f"gilk.prepare_experiment(gilk.load_experiment({TIMES_FILE!r}))")
    command = ["sh", "-c", workload] if workload else []
    if not _are_plain(requests):
        return _staged_python(f"gilk.prepare_run({_parsed(requests)}, [], {command!r}, machine={_quoted(machine)})")
    lines = ["import gilk\n", f"with gilk.kernel({_quoted(machine)}) as kernel, kernel.session() as session:"]
    lines += [f"    session.insert({points!r}, {_instrument(what)})" for points, what in _pairs(requests)]
    lines += _PAUSE
    if command:
        lines.append(f"    kernel.start({command!r})")
        lines += ["    while kernel.status is None:", "        session.poll()"]
    return "\n".join([*lines, "    print(session.counts())"])


def _are_timed(requests: Sequence[PaneRequest]) -> bool:
    return any(each.is_timed for each in requests)


def _are_plain(requests: Sequence[PaneRequest]) -> bool:
    return all(each.is_plain for each in requests)


def _options(requests: Sequence[PaneRequest]) -> list[str]:
    return [word for each in requests for word in ("-i", each.text)]


def _pairs(requests: Sequence[PaneRequest]) -> list[tuple[str, str]]:
    """Points and instrument of each request."""
    return [(points, what) for points, _, what in (each.text.rpartition("=") for each in requests)]


def _instrument(what: str) -> str:
    """An instrument in Python."""
    c = f"{C_FILE}:"
    return f"gilk.c({C_FILE!r}, {what.removeprefix(c)!r})" if what.startswith(c) else repr(what)


def _parsed(requests: Sequence[PaneRequest]) -> str:
    return f"[{', '.join(f'gilk.parse_request({each.text!r})' for each in requests)}]"


def _staged_python(prepared: str) -> str:
    """Code that carries out a run: it ends when nothing of it is in any more, or at Ctrl-C."""
    return (
        f"{_IMPORT}running = {prepared}\nrunning.begin()\n"
        "try:\n    running.wait(None, lambda: False, lambda progress: None)\n"
        "finally:\n    print(running.finish().counts)"
    )


def _experiment_command(head: str, requests: Sequence[PaneRequest]) -> str:
    """A command line that writes the experiment with these instruments, and runs it."""
    text = head + "".join(f"\n[[instrument]]\n{_keys(each)}" for each in requests)
    return f"printf %s {shlex.quote(text)} > {TIMES_FILE} && gilk experiment run {TIMES_FILE}"


def _quoted(text: str) -> str:
    """A string in Python, in double quotes."""
    return json.dumps(text)


def _machine_head(machine: str, workload: str) -> str:
    command = f"\n[workload]\ncommand = {_toml(workload)}\n" if workload else ""
    return f'machine = {_toml(machine)}\ntargets = ["kernel"]\n{command}'


def _keys(asked: PaneRequest) -> str:
    """The lines of an instrument in the file of an experiment (docs/experiments.md)."""
    functions, strategy, chosen = asked.text.partition("=@")
    if strategy:
        name, _, instrument = chosen.partition(":")
        found = {"functions": functions, "strategy": name, **({"instrument": instrument} if instrument else {})}
    else:
        points, _, instrument = asked.text.rpartition("=")
        found = {"points": points, "instrument": instrument}
    lines = [f"{key} = {_toml(value)}\n" for key, value in found.items()]
    lines += [f"start = {_number(asked.start)}\n"] if asked.start else []
    lines += [f"stop = {_number(asked.stop)}\n"] if asked.stop is not None else []
    return "".join(lines)


def _number(value: float) -> str:
    return str(int(value) if value == int(value) else value)


def _toml(text: str) -> str:
    """A string as TOML. JSON's strings are TOML's, except that TOML wants DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def d_commands(pid: int | None, text: str, workload: str = "", machine: str = "") -> dict[str, str]:
    """The command line, and the code in Python, that run the D program ``text`` as the page does: in process ``pid``,
    or in the kernel of a machine, while the shell there runs ``workload``, if that is not ''.
    """
    written = f'r"""{text}"""' if "\n" in text and '"""' not in f"{text} " and text[-1] not in '"\\' else repr(text)
    command = ["sh", "-c", workload] if workload else []
    where = (
        f"pid={pid}"
        if pid is not None
        else f"machine={_quoted(machine)}" + (f", command={command!r}" if command else "")
    )
    python = f"import gilk\n\nwith gilk.dtrace({written}, {where}) as session:\n    for event in session: print(event)"
    words = (
        ["-p", str(pid)] if pid is not None else ["--on", machine, *(["-c", shlex.join(command)] if command else [])]
    )
    return {"command": shlex.join(["gilk", "dtrace", *words, "-n", text]), "python": python}
