# SPDX-License-Identifier: LGPL-2.1-or-later
"""A function as text: a numbered listing, and a graph in the language of Graphviz.

Blocks carry the numbers that points use (``@3:pre``), instructions the offset
from the function's start (``+0x1c``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iced_x86 import Formatter, FormatterSyntax, Instruction

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import FLAGS_LIVE, Block, End, Function
from gilk.arch import decode as x86

REGISTERS: Final = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))

_ENDS: Final = {
    End.FALL: "falls through",
    End.JUMP: "jumps",
    End.BRANCH: "branches",
    End.TAIL: "tail call",
    End.TABLE: "jump table",
    End.INDIRECT: "indirect jump, targets unknown",
    End.TAIL_INDIRECT: "indirect tail call",
    End.RETURN: "returns",
    End.NORETURN: "does not return",
    End.STOP: "stops",
}


def live_names(mask: int) -> list[str]:
    """The names of the registers in a live mask, ``flags`` last."""
    names = [name for number, name in enumerate(REGISTERS) if mask >> number & 1]
    return [*names, "flags"] if mask & FLAGS_LIVE else names


def listing(function: Function, analysis: Analysis) -> str:
    """The blocks in address order, each with its instructions, its edges, and the registers that are dead before it."""
    lines = [_title(function)]
    for block in function.blocks:
        lines += ["", _heading(function, block, analysis)]
        lines += [f"    {text}" for text in _instructions(function, block, analysis)]
        lines.append(f"    {_way_out(function, block, analysis)}")
    return "\n".join(lines) + "\n"


def to_dot(function: Function, analysis: Analysis) -> str:
    """The function in the language of Graphviz: one node a block, one edge a successor, dashed where control falls
    through.
    """
    lines = [
        f"digraph {_quoted(function.name)} {{",
        '    node [shape=box, fontname="monospace", fontsize=10];',
        f"    label={_quoted(_title(function))};",
    ]
    for block in function.blocks:
        text = [f"@{block.index}", *_instructions(function, block, analysis)]
        label = "\\l".join(_escaped(line) for line in text) + "\\l"
        style = ', style="rounded"' if block.landing_pad else ""
        lines.append(f'    b{block.index} [label="{label}"{style}];')
    lines += [f"    {edge}" for block in function.blocks for edge in _edges(function, block, analysis)]
    return "\n".join([*lines, "}"]) + "\n"


def _title(function: Function) -> str:
    aliases = f" ({', '.join(function.aliases)})" if function.aliases else ""
    size = function.end - function.start
    return f"{function.name}{aliases} at {function.start:#x}, {size} bytes, {len(function.blocks)} blocks"


def _heading(function: Function, block: Block, analysis: Analysis) -> str:
    notes = [f"dead: {', '.join(_dead(function, block, analysis)) or 'nothing'}"]
    if block.start == function.start:
        notes.insert(0, "entry")
    if block.landing_pad:
        notes.insert(0, "landing pad")
    return f"@{block.index}  {block.start:#x}  +{block.start - function.start:#x}  {'; '.join(notes)}"


def _dead(function: Function, block: Block, analysis: Analysis) -> list[str]:
    return live_names(~analysis.steps(function, block)[0].live & (FLAGS_LIVE * 2 - 1))


def _instructions(function: Function, block: Block, analysis: Analysis) -> Iterator[str]:
    formatter = Formatter(FormatterSyntax.INTEL)
    formatter.hex_prefix, formatter.hex_suffix = "0x", ""
    formatter.branch_leading_zeros = False
    code = function.code[block.start - function.start : block.end - function.start]
    for instruction in x86.decode(code, block.start):
        name = _refers_to(instruction, analysis)
        text = f"+{instruction.ip - function.start:<#6x} {formatter.format(instruction)}"
        yield f"{text}  ; {name}" if name else text


def _refers_to(instruction: Instruction, analysis: Analysis) -> str:
    """The name of the address that an instruction calls, jumps to or uses; '' if it has none."""
    image = analysis.image
    if instruction.is_ip_rel_memory_operand:
        return image.got.get(instruction.ip_rel_memory_address, "")
    return _name(instruction.near_branch_target, analysis)


def _name(address: int, analysis: Analysis) -> str:
    imported = analysis.image.plt.get(address)
    if imported is not None:
        return f"{imported}@plt"
    span = analysis.image.span_at(address) if address else None
    if span is None or span.start == address:
        return span.name if span else ""
    return f"{span.name}+{address - span.start:#x}"


def _way_out(function: Function, block: Block, analysis: Analysis) -> str:
    ways = [f"@{_number(function, successor)}" for successor in block.successors]
    if block.target:
        ways.append(_name(block.target, analysis) or f"{block.target:#x}")
    return f"{_ENDS[block.how]}{' -> ' if ways else ''}{', '.join(ways)}"


def _edges(function: Function, block: Block, analysis: Analysis) -> Iterator[str]:
    for successor in block.successors:
        style = " [style=dashed]" if successor == block.end and block.how in (End.FALL, End.BRANCH) else ""
        yield f"b{block.index} -> b{_number(function, successor)}{style};"
    if block.target:
        outside = _quoted(_name(block.target, analysis) or f"{block.target:#x}")
        yield f"{outside} [shape=plaintext];"
        yield f"b{block.index} -> {outside};"


def _number(function: Function, start: int) -> int:
    block = function.block_at(start)
    assert block is not None
    return block.index


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'
