# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes of a D program in libraries that a process opens while it is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gilk.engines.dtrace.compiled import DoesNotCompile
from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.renamed import Renamed
from gilk.engines.dtrace.tracing import Engine
from gilk.errors import UsageError
from gilk.lang.d import tree
from gilk.lang.d.probes import Description, DProbe, described
from gilk.session.among import among
from gilk.spec.image import is_glob
from gilk.targets.base import Loaded
from gilk.targets.process import Process

_NOT_IN_LIBRARIES = ("dtrace", "profile", "proc", "syscall")


def patterns(program: tree.Program, process: Process, renamed: Renamed) -> list[str]:
    """The patterns of images in descriptions whose probes may be in libraries that are opened later.

    System calls are not among them: they are traced only in code that is mapped at the beginning.
    """
    found = (renamed.there(described(text)) for clause in program.clauses for text in clause.probes)
    return [one.module or "*" for one in found if _may_be_in_libraries(one, process.pid)]


def _may_be_in_libraries(description: Description, pid: int) -> bool:
    provider = description.provider
    if description.number or not provider or provider in _NOT_IN_LIBRARIES or description.function == "-":
        return False
    return provider.endswith(str(pid)) or is_glob(provider)


class LaterDProbes:
    """Puts a D program's probes into libraries of one process, for OpenedLibraries (HasProbes).

    ``number``: of the process's program in a tree. ``compile_for``: compiles the program for a process, and enables it
    in some of its images.
    """

    def __init__(
        self, engine: Engine, number: int, process: Process,
        compile_for: Callable[[Process, Process], tuple[tree.Program, Enabled]],
    ) -> None:  # fmt: skip
        self._engine, self._number, self._process, self._compile_for = engine, number, process, compile_for

    def put_in(self, images: Sequence[Loaded]) -> list[str] | None:
        """Put probes into the libraries; see HasProbes.put_in."""
        try:
            program, enabled = self._compile_for(self._process, among(self._process, images))
        except DoesNotCompile as error:
            raise UsageError("types-differ", f"the D program does not compile with it: {error}") from None
        if not enabled.in_process:
            return None
        return _said(self._engine.put_later(self._number, program, enabled))

    def has_points(self, loaded: Loaded) -> bool:
        """Whether the library has points that are meant; see HasProbes.has_points."""
        return bool(self._compile_for(self._process, among(self._process, [loaded]))[1].in_process)

    def regain(self, loaded: Loaded) -> list[str] | None:
        """Put probes into a library that is opened again; see HasProbes.regain."""
        refused = self._engine.regain(self._number, loaded)
        return None if refused is None else _said(refused)

    def lose(self, loaded: Loaded) -> None:
        """Note that a library was closed; see HasProbes.lose."""
        self._engine.lose(self._number, loaded)

    def forget(self, loaded: Loaded) -> None:
        """Forget the probes of a closed library; see HasProbes.forget."""
        self._engine.forget_image(self._number, loaded)


def _said(refused: list[tuple[DProbe, str]]) -> list[str]:
    return [f"{probe}: {why}" for probe, why in refused]
