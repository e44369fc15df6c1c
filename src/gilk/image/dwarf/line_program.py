# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the programs of line tables (DWARF 5, section 6.2.5), which make a row for each change of the line."""

from __future__ import annotations

from typing import NamedTuple

from gilk.errors import ImageError
from gilk.image.encoding import sleb, uleb

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN = 1, 2, 3, 4, 5
_NEGATE_STATEMENT, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 6, 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2
_ADDRESSES = 1 << 64
_LINES = 1 << 31


class LineRow(NamedTuple):
    """Code from ``address`` on, up to the address of the next row, belongs to ``line`` of ``file``; with ``end`` to
    none. ``statement``: a debugger would stop there. ``column`` is 0 if it is not known.
    """

    address: int
    file: int
    line: int
    statement: bool
    end: bool
    column: int = 0


def run(
    program: bytes,
    least: int,
    default_statement: bool,
    line_base: int,
    line_range: int,
    lengths: tuple[int, ...],
    most: int,
) -> list[LineRow]:
    """The rows of a program, sequence after sequence. If the program is cut short, or has more than ``most`` rows, the
    first ones are returned.
    """
    rows: list[LineRow] = []
    first_special = len(lengths) + 1
    skipped = (255 - first_special) // line_range * least
    start = (0, 1, 1, default_statement, 0)
    address, file, line, statement, column = start
    at, end = 0, len(program)
    try:
        while at < end and len(rows) < most:
            code = program[at]
            at += 1
            if code >= first_special:
                code -= first_special
                address = (address + code // line_range * least) % _ADDRESSES
                line = (line + line_base + code % line_range) % _LINES
                rows.append(LineRow(address, file, line, statement, False, column))
            elif code == 0:
                size, at = uleb(program, at)
                what = program[at] if size else 0
                if what == _END_SEQUENCE:
                    rows.append(LineRow(address, file, line, False, True))
                    address, file, line, statement, column = start
                elif what == _SET_ADDRESS:
                    address = int.from_bytes(program[at + 1 : at + min(size, 9)], "little")
                at += size
            elif code == _COPY:
                rows.append(LineRow(address, file, line, statement, False, column))
            elif code == _ADVANCE_PC:
                amount, at = uleb(program, at)
                address = (address + amount * least) % _ADDRESSES
            elif code == _ADVANCE_LINE:
                amount, at = sleb(program, at)
                line = (line + amount) % _LINES
            elif code in (_SET_FILE, _SET_COLUMN):
                number, at = uleb(program, at)
                file, column = (number, column) if code == _SET_FILE else (file, number)
            elif code == _NEGATE_STATEMENT:
                statement = not statement
            elif code == _CONST_ADD_PC:
                address = (address + skipped) % _ADDRESSES
            elif code == _FIXED_ADVANCE_PC:
                address = (address + int.from_bytes(program[at : at + 2], "little")) % _ADDRESSES
                at += 2
            else:
                at = _behind(program, at, lengths[code - 1])
    except (IndexError, ImageError):
        pass
    return rows


def _behind(program: bytes, at: int, operands: int) -> int:
    """The offset behind ``operands`` LEB128 numbers. Raises IndexError, ImageError."""
    for _ in range(operands):
        _, at = uleb(program, at)
    return at
