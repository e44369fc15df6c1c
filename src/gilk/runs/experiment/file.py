# SPDX-License-Identifier: LGPL-2.1-or-later
"""Experiments' files: what to put where and when, what runs meanwhile, and where the samples go.

docs/experiments.md describes the format. An error names the key, such as `instrument[2].start`, and its line if the
file has it.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from gilk.errors import GilkError, UsageError
from gilk.inputs import read_text
from gilk.runs import strategy
from gilk.runs.experiment.items import Item, title
from gilk.runs.experiment.workload import Setting
from gilk.runs.strategy import Chosen
from gilk.session import request
from gilk.session.request import CFunction, Request
from gilk.spec import duration
from gilk.values import dataclass

T = TypeVar("T")
_KEYS = ("name", "targets", "machine", "mode", "duration", "repetitions", "output", "workload", "instrument")
_WORKLOAD = ("command", "directory", "stdin", "stdout", "environment")
_INSTRUMENT = ("points", "functions", "instrument", "strategy", "start", "stop", "targets")
_MODES = ("drop", "flight")
_NO_FILE = {"null": "/dev/null"}


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment. ``duration``: seconds; None: until the workload, or the last target, ends.

    ``targets``: `workload`, `kernel`, `pid:N` and `name:GLOB`. ``machine``: the machine of the kernel and the workload,
    '' for this one. ``mode``: `flight` if full buffers in the kernel keep the newest records, `drop` if the oldest.
    """

    name: str
    targets: tuple[str, ...]
    items: tuple[Item, ...]
    workload: Setting | None
    duration: float | None
    repetitions: int
    output: Path | None
    machine: str = ""
    mode: str = "drop"

    def output_of(self, number: int) -> Path | None:
        """The output file of a repetition, None without one; if there are several, a.parquet becomes a-1.parquet."""
        if self.output is None or self.repetitions == 1:
            return self.output
        return self.output.with_name(f"{self.output.stem}-{number}{self.output.suffix}")


def load(path: Path) -> Experiment:
    """The experiment in a file. Raises UsageError `bad-experiment`, `too-long`, and the errors of points,
    instruments and strategies."""
    try:
        text = read_text(path)
        text.encode()
    except FileNotFoundError:
        raise UsageError("bad-experiment", f"there is no file {path}") from None
    except (OSError, UnicodeEncodeError) as error:
        raise UsageError("bad-experiment", f"{path}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    return parse(text, path)


def parse(text: str, path: Path, own_code: bool = True) -> Experiment:
    """The experiment that a file of this name and text describes. No file is read unless the text names one with the
    user's code.

    Without ``own_code``, that is refused: a Python file with a strategy is executed to know what it chooses. Raises as
    `load`, and UsageError `own-code`.
    """
    return _Reader(path, text, own_code).experiment(table_of(text, path))


def table_of(text: str, path: Path) -> dict[str, Any]:
    """The values in the file. Raises UsageError `bad-experiment`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError("bad-experiment", f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise UsageError("bad-experiment", f"{path}: its values are nested too deeply") from None


class _Reader:
    """Reads an experiment, and knows its text, to name the place of a mistake."""

    def __init__(self, path: Path, text: str, own_code: bool) -> None:
        self._path, self._own_code = path, own_code
        self._lines = text.splitlines()

    def experiment(self, table: dict[str, Any]) -> Experiment:
        self._known(table, "", _KEYS)
        workload = self._workload(table.get("workload"))
        instruments = self._get(table, "", "instrument", list, [])
        if not instruments:
            self._fail("instrument", "there is none", "an experiment has at least one [[instrument]]")
        items = tuple(self._instrument(f"instrument[{n}]", each) for n, each in enumerate(instruments, 1))
        targets = self._targets(table, workload is not None, any(item.of_kernel for item in items))
        if any(item.of_kernel for item in items) and "kernel" not in targets:
            targets = (*targets, "kernel")
        output, machine = (self._get(table, "", key, str, "") for key in ("output", "machine"))
        if machine and targets != ("kernel",):
            self._fail("machine", "on another machine, only the kernel can be a target")
        mode = self._get(table, "", "mode", str, "drop")
        if mode not in _MODES:
            self._fail("mode", f"{mode!r} is no mode", f"there are: {', '.join(_MODES)}")
        if mode == "flight" and "kernel" not in targets:
            self._fail("mode", "only buffers in the kernel can be a flight recorder's")
        return Experiment(
            self._get(table, "", "name", str, self._path.stem), targets, items, workload,
            self._seconds(table, "", "duration"), self._count(table), Path(output) if output else None, machine, mode,
        )  # fmt: skip

    def _targets(self, table: dict[str, Any], workload: bool, kernel: bool) -> tuple[str, ...]:
        default = ["workload"] if workload and not kernel else []
        targets = self._strings(table, "", "targets", default)
        for target in targets:
            if target not in ("workload", "kernel") and not re.fullmatch(r"pid:\d+|name:.+", target):
                self._fail("targets", f"{target!r} is no target", "it is workload, kernel, pid:NUMBER or name:GLOB")
        if "workload" in targets and not workload:
            self._fail("targets", "there is no [workload] to be a target")
        if not targets and not kernel:
            self._fail("targets", "there are none", "name targets, or a [workload]")
        return targets

    def _workload(self, table: Any) -> Setting | None:
        if table is None:
            return None
        if not isinstance(table, dict):
            self._fail("workload", "it is not a table")
        self._known(table, "workload", _WORKLOAD)
        command, directory, stdin, stdout = (
            self._get(table, "workload", key, str, "") for key in ("command", "directory", "stdin", "stdout")
        )
        if not command.strip():
            self._fail("workload.command", "it is missing")
        environment = self._get(table, "workload", "environment", dict, {})
        if not all(isinstance(value, str) for value in environment.values()):
            self._fail("workload.environment", "its values are strings")
        stdin, stdout = (_NO_FILE.get(name, name) for name in (stdin, stdout))
        return Setting(command, directory, stdin, stdout, tuple(environment.items()))

    def _instrument(self, where: str, table: Any) -> Item:
        if not isinstance(table, dict):
            self._fail(where, "it is not a table")
        self._known(table, where, _INSTRUMENT)
        wanted = self._wanted(where, table)
        start, stop = self._seconds(table, where, "start") or 0.0, self._seconds(table, where, "stop")
        if stop is not None and stop <= start:
            self._fail(f"{where}.stop", f"it stops after {stop:g} s, and starts after {start:g} s")
        only = self._strings(table, where, "targets", [])
        return Item(wanted, title(wanted), start, stop, only)

    def _wanted(self, where: str, table: dict[str, Any]) -> Request | Chosen:
        points, functions, instrument, chosen = (
            self._get(table, where, key, str, "") for key in ("points", "functions", "instrument", "strategy")
        )
        if not self._own_code and (":" in chosen or ":" in instrument):
            place = self._place(f"{where}.{'strategy' if ':' in chosen else 'instrument'}")
            hint = "gilk experiment run takes instruments in C and strategies in Python"
            raise UsageError("own-code", f"{place}: it names a file with code", hint)
        if chosen and functions and not points:
            choose = lambda: strategy.choose(functions, chosen, self._sources(instrument), self._path.parent)  # noqa: E731
            return self._named(f"{where}.strategy", choose)
        if points and instrument and not (chosen or functions):
            return self._named(f"{where}.points", lambda: self._at_home(request.parse(f"{points}={instrument}")))
        hint = 'points = "main:entry" with instrument = "count", or functions = "parse_*" with strategy = "path"'
        self._fail(where, "it needs points and an instrument, or functions and a strategy", hint)

    def _sources(self, instrument: str) -> str:
        """The instrument, with its C file relative to the experiment's directory."""
        source, separator, function = instrument.rpartition(":")
        return f"{self._path.parent / source}:{function}" if separator else instrument

    def _at_home(self, wanted: Request) -> Request:
        if isinstance(wanted.instrument, CFunction):
            found = CFunction(self._path.parent / wanted.instrument.source, wanted.instrument.function)
            return Request(wanted.spec, found)
        return wanted

    def _named(self, key: str, make: Callable[[], T]) -> T:
        """The value that ``make`` returns; an error that it raises gets the place of the key."""
        try:
            return make()
        except GilkError as error:
            raise type(error)(error.slug, f"{self._place(key)}: {error.message}", error.hint) from error

    def _seconds(self, table: dict[str, Any], where: str, key: str) -> float | None:
        value = table.get(key)
        if value is None:
            return None
        if isinstance(value, str) and (found := duration.seconds(value)) is not None:
            return found
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and math.isfinite(value):
            return float(value)
        self._fail(_join(where, key), f"{value!r} is not a time", 'write seconds, as 1.5, or "500ms", "2s", "3m"')

    def _count(self, table: dict[str, Any]) -> int:
        value = self._get(table, "", "repetitions", int, 1)
        if isinstance(value, bool) or value < 1:
            self._fail("repetitions", f"{value!r} is not 1 or more")
        return value

    def _strings(self, table: dict[str, Any], where: str, key: str, default: list[str]) -> tuple[str, ...]:
        value = self._get(table, where, key, list, default)
        if not all(isinstance(each, str) for each in value):
            self._fail(_join(where, key), "it is a list of strings")
        return tuple(value)

    def _get(self, table: dict[str, Any], where: str, key: str, kind: type[T], default: T) -> T:
        value = table.get(key, default)
        if not isinstance(value, kind):
            names = {str: "a string", list: "a list", dict: "a table", int: "a whole number"}
            self._fail(_join(where, key), f"it is not {names[kind]}")
        return value

    def _known(self, table: dict[str, Any], where: str, keys: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(keys)}"
                self._fail(_join(where, key), "there is no such key", hint)

    def _fail(self, key: str, message: str, hint: str = "") -> NoReturn:
        raise UsageError("bad-experiment", f"{self._place(key)}: {message}", hint)

    def _place(self, key: str) -> str:
        line = self._line(key)
        return f"{self._path}{f', line {line}' if line else ''}, {key}"

    def _line(self, key: str) -> int:
        """The line of a key, or of its table's header; 0 if the file has neither."""
        table, _, name = key.rpartition(".")
        match = re.fullmatch(r"(\w+)\[(\d+)\]", table or name)
        nth, inside = (int(match[2]), match[1]) if match else (1, table)
        current, seen, header = "", 0, 0
        for number, line in enumerate(self._lines, 1):
            if found := re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?", line):
                current = found[1]
                seen += current == inside
                header = number if current == inside and seen == nth else header
            elif current == inside and (not inside or seen == nth) and re.match(rf"\s*{re.escape(name)}\s*=", line):
                return number
        return header


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
