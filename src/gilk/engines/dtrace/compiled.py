# SPDX-License-Identifier: LGPL-2.1-or-later
"""The compilation of the texts of D programs to what is known before they are enabled, or to an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from gilk.lang.d import tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import Options
from gilk.lang.d.passes import order
from gilk.lang.d.passes.state import Invocation
from gilk.lang.d.passes.values import DoesNotCompile as DoesNotCompile
from gilk.lang.d.passes.values import ProgramText as ProgramText
from gilk.lang.d.passes.values import Unread
from gilk.lang.d.passes.values import Wrong as Wrong
from gilk.lang.syntax.source import Source
from gilk.values import dataclass


@dataclass(frozen=True)
class Compiled:
    """Compiled programs. ``origins``: for each clause, the text that has it. ``argument_types``: returns the names of
    the types of args[] at a description.

    ``left_out``: by name of a library, the thing that it depends on and that does not exist here.
    """

    program: tree.Program
    origins: tuple[ProgramText, ...]
    argument_types: Callable[[str], tuple[str, ...]]
    left_out: dict[str, str] = field(default_factory=dict)

    def clauses(self, text: ProgramText) -> list[tree.Clause]:
        """The clauses of one of the texts."""
        return [clause for clause, origin in zip(self.program.clauses, self.origins, strict=True) if origin is text]


def compile_programs(
    texts: Sequence[ProgramText],
    macros: Macros,
    options: Options,
    world: World | None = None,
    libraries: Sequence[Source] = (),
) -> Compiled:
    """Compile programs together. Their pragmas set ``options``, all of them before anything is laid out. Raises
    DoesNotCompile."""
    unread = Unread(tuple(ProgramText("library", source) for source in libraries), tuple(texts))
    program, origins, symbols = order.run(unread, Invocation(macros, options), world)
    return Compiled(program, origins, symbols.expressions.arguments.types, symbols.pragmas.left_out)
