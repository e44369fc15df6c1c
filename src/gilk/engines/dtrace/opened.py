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
    """The images that descriptions name, where their probes may be in libraries. System calls are those of the code
    that there is."""
    found = (renamed.there(described(text)) for clause in program.clauses for text in clause.probes)
    return [one.module or "*" for one in found if _may_be_in_libraries(one, process.pid)]


def _may_be_in_libraries(description: Description, pid: int) -> bool:
    provider = description.provider
    if description.number or not provider or provider in _NOT_IN_LIBRARIES or description.function == "-":
        return False
    return provider.endswith(str(pid)) or is_glob(provider)


class LaterDProbes:
    """``number``: of the process. ``compile_for``: the program, and what is enabled of it in some images."""

    def __init__(
        self, engine: Engine, number: int, process: Process,
        compile_for: Callable[[Process, Process], tuple[tree.Program, Enabled]],
    ) -> None:  # fmt: skip
        self._engine, self._number, self._process, self._compile_for = engine, number, process, compile_for

    def put_in(self, images: Sequence[Loaded]) -> list[str] | None:
        """As HasProbes says."""
        try:
            program, enabled = self._compile_for(self._process, among(self._process, images))
        except DoesNotCompile as error:
            raise UsageError("types-differ", f"the D program does not compile with it: {error}") from None
        if not enabled.in_process:
            return None
        return _said(self._engine.put_later(self._number, program, enabled))

    def has_points(self, loaded: Loaded) -> bool:
        """As HasProbes says."""
        return bool(self._compile_for(self._process, among(self._process, [loaded]))[1].in_process)

    def regain(self, loaded: Loaded) -> list[str] | None:
        """As HasProbes says."""
        refused = self._engine.regain(self._number, loaded)
        return None if refused is None else _said(refused)

    def lose(self, loaded: Loaded) -> None:
        """As HasProbes says."""
        self._engine.lose(self._number, loaded)

    def forget(self, loaded: Loaded) -> None:
        """As HasProbes says."""
        self._engine.forget_image(self._number, loaded)


def _said(refused: list[tuple[DProbe, str]]) -> list[str]:
    return [f"{probe}: {why}" for probe, why in refused]
