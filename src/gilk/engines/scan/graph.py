# SPDX-License-Identifier: LGPL-2.1-or-later
"""The control-flow graph of one function, as values to be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from iced_x86 import Formatter, FormatterSyntax, Instruction

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import FLAGS_LIVE, Block, End, Function
from gilk.engines.scan.count import PROCESS, Planning, wants
from gilk.engines.scan.subject import KERNEL, subjects
from gilk.errors import UsageError
from gilk.image import lookup
from gilk.image.demangle import readable
from gilk.image.elf import load
from gilk.image.model import FunctionSpan, Image
from gilk.spec import functions
from gilk.splice import points
from gilk.splice.figures import POST, PRE
from gilk.splice.graph import Edge, Graph, GraphNode, ListingLine, PointOutcome
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import FunctionPlan
from gilk.targets.image import analyse
from gilk.targets.lines import source_lines
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.scan.kernel import KernelSubject
    from gilk.targets.kernel.link import Link

_REGISTERS: Final = (
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionContext:
    """The surroundings of a function: its image's name, the bias of its addresses, and how its points are planned."""

    name: str
    bias: int
    planning: Planning
    ground: Callable[[], PatchContext]


def cfg(target: str, function: str, link: Link | None = None, kernel: KernelSubject | None = None) -> Graph:
    """The graph of one function of ``target``: ``[IMAGE:]NAME``, or ``[IMAGE:]0xADDRESS`` of an address in it.

    ``link``: leads to another kernel than this machine's. ``kernel``: one that has been read already. Raises as scan
    does, and UsageError `ambiguous-function`, `no-code`.
    """
    if target == KERNEL:
        return _of_kernel(function, link, kernel)
    found, name = subjects(target, function)
    if len(found) > 1:
        several = ", ".join(subject.name for subject in found)
        raise UsageError("ambiguous-function", f"{function!r} is in several images", f"name one of: {several}")
    subject = found[0]
    image = load(subject.path)
    analysis = analyse(image)
    chosen = analysis.function(_span(image, name))
    if not chosen.blocks:
        raise UsageError("no-code", f"{chosen.name} has no code that can be reached")
    place = FunctionContext(subject.name, subject.bias(image), PROCESS, lambda: subject.ground(analysis))
    return graph(place, analysis, chosen)


def _span(image: Image, name: str) -> FunctionSpan:
    if name.startswith("0x"):
        return _span_at(image, name)
    return _only(lookup.spans(image, name), name)


def _only(found: list[FunctionSpan], name: str) -> FunctionSpan:
    exact = [span for span in found if name in (span.name, *span.aliases)]
    chosen = exact or found
    if len(chosen) > 1:
        places = ", ".join(f"{span.start:#x} ({readable(span.name)})" for span in chosen[:8])
        more = f" and {len(chosen) - 8} more" if len(chosen) > 8 else ""
        raise UsageError(
            "ambiguous-function", f"{len(chosen)} functions match {name!r}", f"name one by its address: {places}{more}"
        )
    return chosen[0]


def _span_at(image: Image, text: str) -> FunctionSpan:
    try:
        span = image.span_at(int(text, 16))
    except ValueError:
        span = None
    if span is None:
        raise UsageError("no-such-function", f"{image.name} has no function at {text}")
    return span


def _of_kernel(function: str, link: Link | None, kernel: KernelSubject | None) -> Graph:
    from gilk.engines.scan import kernel as survey_kernel

    subject = kernel or survey_kernel.KernelSubject(link or survey_kernel.LocalLink())
    spec = functions.parse(function)
    image = subject.kernel.image
    chosen = [_span_at(image, spec.function)] if spec.function.startswith("0x") else subject.spans(spec)
    found = subject.analysis.function(_only(chosen, spec.function))
    if not found.blocks:
        raise UsageError("no-code", f"{found.name} has no code that can be reached")
    name = survey_kernel.owner_at(image, found.start)
    return graph(FunctionContext(name, 0, survey_kernel.PLANNING, subject.ground), subject.analysis, found)


def graph(place: FunctionContext, analysis: Analysis, function: Function) -> Graph:
    sides = [
        place.planning.plan(place.ground(), [(function, wants(analysis, function, side, place.planning))]).functions[0]
        for side in (PRE, POST)
    ]
    names = _Names(analysis.image)
    return Graph(
        place.name,
        function.name,
        function.aliases,
        function.start,
        function.end,
        place.bias,
        function.parts,
        tuple(_node(analysis, function, block, sides, names) for block in function.blocks),
    )


def _node(analysis: Analysis, function: Function, block: Block, sides: list[FunctionPlan], names: _Names) -> GraphNode:
    steps = analysis.steps(function, block)
    where = points.post("", analysis, function, block)
    return GraphNode(
        index=block.index,
        start=block.start,
        end=block.end,
        how=block.how.name.lower().replace("_", "-"),
        landing_pad=block.landing_pad,
        live=_live(steps[0].live) if steps else (),
        lines=tuple(names.line(function, step.instruction) for step in steps),
        edges=tuple(_edges(function, block)),
        outside=names.of(block.target) if block.target else "",
        pre=_outcome(sides[PRE], block.index),
        post=_outcome(sides[POST], block.index),
        post_address=block.end if where.after else where.address,
    )


def _live(mask: int) -> tuple[str, ...]:
    names = [name for number, name in enumerate(_REGISTERS) if mask >> number & 1]
    return (*names, "flags") if mask & FLAGS_LIVE else tuple(names)


def _edges(function: Function, block: Block) -> Iterator[Edge]:
    for address in dict.fromkeys(block.successors):
        successor = function.block_at(address)
        if successor is not None:
            yield Edge(successor.index, _kind(block, address))


def _kind(block: Block, successor: int) -> str:
    if block.how is End.BRANCH:
        return "not-taken" if successor == block.end else "taken"
    return {End.FALL: "fall", End.JUMP: "jump"}.get(block.how, "table")


def _outcome(made: FunctionPlan, key: int) -> PointOutcome:
    tactic = made.tactics.get(key)
    return PointOutcome(str(tactic), False) if tactic else PointOutcome(str(made.refusals[key]), True)


class _Names:
    """The names of addresses in an image."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._formatter = _formatter()
        self._lines = source_lines(image.path)
        self._objects = {symbol.address: symbol.name for symbol in reversed(image.symbols) if symbol.name}

    def of(self, address: int) -> str:
        """The name of an address: a function, with an offset if need be, a stub, a slot or an object; '' if it has
        none."""
        stub = self._image.plt.get(address) or self._image.got.get(address)
        if stub:
            return f"{stub}@plt" if address in self._image.plt else f"{stub}@got"
        span = self._image.span_at(address)
        if span is not None:
            return span.name if address == span.start else f"{span.name}+{address - span.start:#x}"
        return self._objects.get(address, "")

    def line(self, function: Function, instruction: Instruction) -> ListingLine:
        begin = instruction.ip - function.start
        code = function.code[begin : begin + instruction.len]
        text, symbol = self._formatter.format(instruction), self._referred(function, instruction)
        return ListingLine(instruction.ip, code, text, symbol, self._source(instruction.ip))

    def _source(self, address: int) -> str:
        found = self._lines.at(address) if self._lines is not None else None
        return f"{found.file}:{found.line}" if found is not None else ""

    def _referred(self, function: Function, instruction: Instruction) -> str:
        target = instruction.near_branch_target
        block = function.block_at(target)
        if block is not None and block.start == target and target != function.start:
            return f"@{block.index}"
        if not target and instruction.is_ip_rel_memory_operand:
            target = instruction.ip_rel_memory_address
        return self.of(target) if target else ""


def _formatter() -> Formatter:
    formatter = Formatter(FormatterSyntax.INTEL)
    formatter.hex_prefix, formatter.hex_suffix = "0x", ""
    formatter.uppercase_hex = False
    formatter.branch_leading_zeros = False
    formatter.show_branch_size = False
    return formatter
