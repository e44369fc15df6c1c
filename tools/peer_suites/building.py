# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sets of compiler flags, each of which makes different code, and functions that build programs with them."""

from __future__ import annotations

from pathlib import Path

from .running import Ended, run
from .suites import Program

FLAG_SETS: dict[str, tuple[str, ...]] = {
    "O0": ("-O0",),
    "O1": ("-O1",),
    "O2": ("-O2",),
    "Os": ("-Os",),
    "cet": ("-O2", "-fcf-protection=full"),
    "native": ("-O3", "-march=native"),
    "dense": ("-O2", "-falign-functions=1", "-falign-jumps=1", "-falign-loops=1", "-falign-labels=1"),
    "parted": ("-O2", "-freorder-blocks-and-partition", "-fno-plt"),
    "no-pie": ("-O2", "-fno-pie", "-no-pie"),
    "static": ("-O2", "-static"),
}
_DEADLINE = 120.0
_INTEL = ("-Wa,-mmnemonic=intel", "-Wa,-msyntax=intel", "-Wa,-mnaked-reg")


def build(program: Program, flag_set: str, directory: Path, env: dict[str, str]) -> tuple[Path, Ended]:
    """Build the program. Returns the file ``prog`` in ``directory``, which exists if the status is 0, and how the
    compiler ended."""
    for name, text in program.texts:
        (directory / name).write_text(text)
    made = directory / "prog"
    flags = ["-w", *program.flags, *FLAG_SETS[flag_set]]
    sources = [str(source) for source in program.sources]
    for number, source in enumerate(program.assembled):
        ended = _assemble(program, source, directory / f"asm{number}.s", env)
        if ended.status:
            return made, ended
        sources.append(f"asm{number}.o")
    command = [program.compiler, *flags, *sources, "-o", str(made), *program.libraries]
    return made, run(command, directory, env, _DEADLINE)


def own_functions(program: Program, flag_set: str, directory: Path, env: dict[str, str]) -> frozenset[str]:
    """The names of the functions that the program's own sources define, without those of linked libraries."""
    flags = ["-w", *program.flags, *(flag for flag in FLAG_SETS[flag_set] if flag != "-static")]
    sources = [str(source) for source in program.sources]
    command = [program.compiler, *flags, "-r", "-nostdlib", *sources, "-o", "own.o"]
    run(command, directory, env, _DEADLINE)
    listed = run(["nm", "own.o"], directory, env, _DEADLINE).out.decode(errors="replace")
    rows = (line.split() for line in listed.splitlines())
    return frozenset(row[2] for row in rows if len(row) == 3 and row[1] in "tTwWu")


def _assemble(program: Program, source: Path, to: Path, env: dict[str, str]) -> Ended:
    """Assemble a source, in whose macros @N@ stands for the end of a line. Returns how the preprocessor or the
    assembler ended."""
    only = ["-DASM_CODE_ONLY", "-DASSEMBLE_WITH_GAS", "-x", "assembler-with-cpp"]
    ended = run(["gcc", "-E", "-P", *program.flags, *only, str(source)], to.parent, env, _DEADLINE)
    if ended.status:
        return ended
    to.write_bytes(ended.out.replace(b"@N@", b"\n"))
    return run(["gcc", "-c", *_INTEL, to.name, "-o", to.with_suffix(".o").name], to.parent, env, _DEADLINE)
