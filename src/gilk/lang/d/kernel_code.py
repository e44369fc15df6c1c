# SPDX-License-Identifier: LGPL-2.1-or-later
"""A whole program for the kernel: the code of its groups, and the tables that helpers use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gilk.lang import ir
from gilk.lang.d import narrowed_keys, tree
from gilk.lang.data import Aggregation
from gilk.lang.nulls import Nulls
from gilk.lang.to_c.functions import RecordPart
from gilk.lang.to_kernel import data
from gilk.lang.to_kernel.clauses import ClausePrinter, PrintedClause, frame_of, preamble
from gilk.lang.to_kernel.forms import EXIT, form_at
from gilk.lang.to_kernel.printing import Printing, Texts
from gilk.lang.to_kernel.refused import NotInKernel
from gilk.values import dataclass

ProbeName = tuple[str, str, str, str]


@dataclass(frozen=True)
class KernelCode:
    """The code of a program. ``entries``: the offset of each group. ``clauses``: the offset and the number of each
    clause in a group. ``names``: the offsets in ``constants`` of the four texts of each probe, from probe 0 on.
    """

    code: bytes
    frame: int
    entries: tuple[int, ...]
    clauses: tuple[tuple[int, int], ...]
    parts: tuple[RecordPart, ...]
    aggregations: tuple[Aggregation, ...]
    constants: bytes
    names: tuple[int, ...]

    def clause_at(self, where: int) -> int:
        """The number of the clause that contains offset ``where`` of the code; 0 if none does."""
        return next((number for start, number in reversed(self.clauses) if start <= where), 0)

    def listing(self) -> str:
        """The instructions, a line each: offset, form and operands. A line precedes each group and each clause."""
        heads = {entry: f"group {number}:\n" for number, entry in enumerate(self.entries)}
        for start, number in self.clauses:
            heads[start] = heads.get(start, "") + f"clause {number}:\n"
        lines, at = [], 0
        while (form := form_at(self.code, at)) is not None:
            operand = self.code[at + len(form.code) : at + form.size].hex(" ")
            lines.append(f"{heads.get(at, '')}\t{at:06x}  {form.name}  {operand}".rstrip())
            at += form.size
        return "\n".join(lines) + "\n"


class ProgramPrinter:
    """A printer of programs. ``probes``: names by number, from 1. ``whole_keys``: strings take as many bytes in keys as
    they do elsewhere.
    """

    def __init__(self, program: tree.Program, probes: Sequence[ProbeName], whole_keys: bool = False) -> None:
        self._texts = Texts()
        self._nulls = Nulls(clause.function for clause in program.clauses)
        named = [("", "", "", ""), *probes]
        self._names = tuple(self._texts.place(text.encode("utf-8", "surrogateescape")) for row in named for text in row)
        sizes = [max(len(row[part].encode("utf-8", "surrogateescape")) + 1 for row in named) for part in range(4)]
        self._longest = (sizes[0], sizes[1], sizes[2], sizes[3])
        self._strsize = program.strsize
        self._this_size = program.this_size
        longest = partial(data.longest, self._printing())
        self._program = program if whole_keys else narrowed_keys.narrowed(program, longest)

    def printed(self, groups: Sequence[tuple[int, ...]], givens: Sequence[ir.Given | None] = ()) -> KernelCode:
        """The code of the groups. ``givens``: for each group, what its place gives to its probes; None if that is what
        the frame has. Raises NotInKernel, with the clause.
        """
        clauses = self._clauses({number for group in groups for number in group})
        entries: list[int] = []
        places: list[tuple[int, int]] = []
        code = bytearray()
        before = [self._given(given) for given in givens] or [(b"", 0)] * len(groups)
        for group, (first, _) in zip(groups, before, strict=True):
            entries.append(len(code))
            code += first + self._locals()
            for number in group:
                places.append((len(code), number))
                code += clauses[number].code
            code += EXIT
        parts = tuple(part for number in sorted(clauses) for part in clauses[number].parts)
        frames = (*(clause.frame for clause in clauses.values()), *(most for _, most in before))
        frame = max(frames, default=self._printing().frame.most)
        frame = max(frame, self._printing().frame.most)
        return KernelCode(
            bytes(code), frame, tuple(entries), tuple(places), parts, self._program.aggregations,
            bytes(self._texts.data), self._names,
        )  # fmt: skip

    def _printing(self) -> Printing:
        frame, this = frame_of(self._this_size)
        return Printing(self._strsize, self._nulls, self._texts, self._longest, this, frame)

    def _given(self, given: ir.Given | None) -> tuple[bytes, int]:
        """Code that leaves if the condition is not met, and otherwise puts the arguments in place; and the size of its
        frame.
        """
        if given is None:
            return b"", 0
        printing = self._printing()
        preamble(printing, given)
        return bytes(printing.code), printing.frame.most

    def _clauses(self, wanted: set[int]) -> dict[int, PrintedClause]:
        found: dict[int, PrintedClause] = {}
        epid = 1
        for clause in self._program.clauses:
            if clause.number in wanted:
                found[clause.number] = self._clause(clause.function, epid)
                epid += len(found[clause.number].parts)
        return found

    def _clause(self, function: ir.Function, epid: int) -> PrintedClause:
        try:
            return ClausePrinter(self._printing(), epid).clause(function)
        except NotInKernel as refused:
            raise NotInKernel(refused.what, function.number) from None

    def _locals(self) -> bytes:
        """Code that sets clause-local variables to 0."""
        if not self._this_size:
            return b""
        printing = self._printing()
        printing.code.call("zero", printing.this, self._this_size + 7 & -8)
        return bytes(printing.code)
