# SPDX-License-Identifier: LGPL-2.1-or-later
"""gdb runs this: prints the variables of function ``work`` before each of its instructions, or before each that has an
offset in the variable AT of the environment; one in a line: the offset, the name, the value."""

from __future__ import annotations

import os

import gdb  # type: ignore[import-not-found]


class _Stop(gdb.Breakpoint):
    def __init__(self, address: int, start: int) -> None:
        super().__init__(f"*{address:#x}", internal=True)
        self.offset = address - start

    def stop(self) -> bool:
        frame = gdb.newest_frame()
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        cfa, sp, bp = (
            int(each) for each in (frame.older().read_register("rsp"), *map(frame.read_register, ("rsp", "rbp")))
        )
        print(f"frame {self.offset:x} {cfa - sp} {cfa - bp}")
        shown: set[str] = set()
        block = frame.block()
        while True:
            for symbol in block:
                if (symbol.is_variable or symbol.is_argument) and symbol.name not in shown:
                    shown.add(symbol.name)
                    self._show(symbol.name, symbol.value(frame))
            if block.function is not None:
                return False
            block = block.superblock

    def _show(self, name: str, value: gdb.Value) -> None:
        kind = value.type.strip_typedefs()
        if kind.code == gdb.TYPE_CODE_STRUCT:
            return self._show(f"{name}.n", value["n"])
        if kind.code == gdb.TYPE_CODE_ARRAY:
            return self._show(f"{name}[1]", value[1])
        if kind.code == gdb.TYPE_CODE_INT and not value.is_optimized_out:
            try:
                print(f"at {self.offset:x} {name} {int(value)}")
            except gdb.error:
                pass
        return None


gdb.execute("set pagination off")
gdb.execute("set print entry-values no")
gdb.execute("tbreak main")  # its place may be in a loop
gdb.execute("run > /dev/null")
start = int(gdb.parse_and_eval("(unsigned long)&work"))
code = gdb.selected_frame().architecture().disassemble(start, gdb.block_for_pc(start).end - 1)
chosen = os.environ.get("AT", "").split()
for each in code:
    if not chosen or f"{each['addr'] - start:x}" in chosen:
        _Stop(each["addr"], start)
gdb.execute("continue")
