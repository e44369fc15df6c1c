# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compiles a user's advice, once, and finds out how the function that it is about is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from iced_x86 import Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register, RegisterExt

from gilk.arch.decode import decode
from gilk.cache.key import sources
from gilk.errors import CompileError, UsageError
from gilk.lang.c.advice import (
    INTEGERS,
    MEASURE,
    OF_RUNTIME,
    PASS,
    PRIVATE,
    PROCEED,
    PROCEED_WITH,
    RESULTS,
    SHARED,
    VECTORS,
    When,
    measured,
    wrapper,
)  # fmt: skip
from gilk.lang.c.signature import CSignature
from gilk.lang.c.wrapper import ENTRY, FORM, PLAIN
from gilk.toolchain import relocatable
from gilk.toolchain.compilers import NATIVE, compile_object, compiling, directory, flags, prune
from gilk.toolchain.instrument import CompiledObject, undefined
from gilk.values import dataclass

_NO_VECTORS = "-fno-tree-vectorize"  # saving the program's vector registers costs more than vector code gains
_SSE2 = "-msse2"  # after -mgeneral-regs-only, which it overrides
#: Mistakes that C permits, and that would break a program whose calls are replaced: a forgotten result, a number in the
#: place of a pointer. gcc 14 treats the latter as errors by itself.
_ERRORS = ("-Werror=return-type", "-Werror=int-conversion", "-Werror=incompatible-pointer-types")
_MORE = 64  # bytes of stack arguments of a variadic function that advice may read
_RETURN_ADDRESS = 8
_ARGUMENTS = (Register.RDI, Register.RSI, Register.RDX, Register.RCX, Register.R8, Register.R9)
_OURS = frozenset({*OF_RUNTIME, PRIVATE, SHARED})
_ERRNO = "__errno_location"  # used around all advice, since errno is kept
_XMMS = tuple(range(Register.XMM0, Register.XMM8))


@dataclass(frozen=True)
class Convention:
    """How a function is called: the bytes of arguments on the ``stack``, the numbers of ``integers`` and ``vectors``
    registers that hold the other arguments, and the registers of the ``results``, as in struct gilk_advice."""

    stack: int
    integers: int
    vectors: int
    results: int


@dataclass(frozen=True)
class CompiledAdvice:
    """Compiled advice. ``called``: how the function that it is about is called; ``more``: additional bytes of the stack
    for variadic ones; ``vectors``: whether it, or code that it calls, may change vector registers. ``proceeds``:
    whether it may call the function itself (proceed()); ``goes_on``: whether the call goes on after it returns.
    ``files``: the files that the compiler has read, without those that were written for it."""

    compiled: CompiledObject
    called: Convention
    more: int
    vectors: bool
    proceeds: bool
    goes_on: bool
    files: tuple[Path, ...] = ()

    @property
    def is_brief(self) -> bool:
        """Whether it returns before anything of the function runs."""
        return {PROCEED, PROCEED_WITH, PASS}.isdisjoint(self.compiled.undefined)

    @property
    def calls(self) -> tuple[str, ...]:
        """The names of the program and its libraries that the advice uses, sorted."""
        return tuple(sorted(set(self.compiled.undefined) - _OURS - {_ERRNO}))


def compile_advice(
    source: Path, text: str, function: str, signature: CSignature, when: When, declarations: str = ""
) -> CompiledAdvice:
    """Compile advice for one function. ``text``: the content of ``source``, which need not exist; ``declarations``: C
    in front of the signature.

    Raises UsageError `advice-abi`, `bad-signature`, CompileError `does-not-compile`.
    """
    if signature.is_long_double:
        raise UsageError("advice-abi", f"{signature.name} returns {signature.result}, which advice cannot keep")
    with directory() as place, _measuring(place, signature, declarations) as convention:
        user = place / "user" / source.name  # a directory of its own: the name may be that of one of our files
        user.parent.mkdir()
        user.write_text(text)
        try:
            content, names = _compile(place, source, wrapper(user, function, signature, when, declarations))
        finally:
            called = convention()  # what is wrong with the signature is told first
        files = _read_files(place)
    calls_out = bool(set(names) - _OURS)
    return CompiledAdvice(
        CompiledObject(source, f"{function}:{when}:{signature.declared}", content, names),
        called,
        _MORE if signature.variadic else 0,
        calls_out or _uses_vectors(content),
        not {PROCEED, PROCEED_WITH}.isdisjoint(names),
        when is When.BEFORE,
        files,
    )


def made_with() -> tuple[object, ...]:
    """Everything of gilk, besides the files that the compiler reads, on which compiled advice depends."""
    return flags(), _SSE2, _NO_VECTORS, _ERRORS, _MORE, sources("lang/c", "toolchain")


def _read_files(place: Path) -> tuple[Path, ...]:
    """The files outside of ``place`` that the compiler has read, sorted, by what it says in files for make."""
    rules = " ".join(one.read_text().replace("\\\n", " ").partition(":")[2] for one in place.glob("*.d"))
    words = set(rules.replace("\\ ", "\0").split())
    found = (Path(word.replace("\0", " ").replace("\\#", "#").replace("$$", "$")) for word in words)
    return tuple(sorted(one for one in found if not one.is_relative_to(place)))


def _compile(place: Path, source: Path, text: str) -> tuple[bytes, tuple[str, ...]]:
    """The object file, and the names that it needs. If it calls other code, which may change errno, it is compiled
    again so that errno is kept."""
    whole_source, whole, output = place / "advice.c", place / "whole.o", place / "advice.o"
    whole_source.write_text(text)
    include = ["-I", str(NATIVE / "include"), "-I", str(source.resolve().parent)]
    content, names = b"", tuple[str, ...]()
    for more in ([], ["-DGILK_KEEP_ERRNO"]):
        compile_object(whole_source, whole, [*include, "-fPIC", "-fno-plt", _SSE2, _NO_VECTORS, *_ERRORS, "-MD", *more])
        prune(whole, output, ENTRY, PLAIN, FORM)
        content = output.read_bytes()
        names = undefined(content)
        if not set(names) - _OURS:
            break
    return content, names


@contextmanager
def _measuring(place: Path, signature: CSignature, declarations: str) -> Iterator[Callable[[], Convention]]:
    """A context in which a compiler works. It yields a function that waits for the end, and returns how a function of
    this signature is called, taken from what the compiler makes of it; it raises UsageError `bad-signature`."""
    source, output = place / "measured.c", place / "measured.o"
    source.write_text(measured(signature, declarations))
    with compiling(source, output, ["-I", str(NATIVE / "include"), "-fPIC", _SSE2, "-MD"]) as finish:

        def convention() -> Convention:
            try:
                finish()
            except CompileError as error:
                raise UsageError(
                    "bad-signature", f"the compiler does not take the signature of {signature.name}: {error.message}",
                    "declare the types that it names",
                ) from None  # fmt: skip
            return _convention(relocatable.parse(output.read_bytes()))

        yield convention


def _convention(made: relocatable.Relocatable) -> Convention:
    return Convention(
        _behind(_first(made, MEASURE)),
        _taken(_first(made, INTEGERS), _ARGUMENTS),
        _taken(_first(made, VECTORS), _XMMS),
        made.content[made.symbols[RESULTS].offset],
    )


def _first(made: relocatable.Relocatable, name: str) -> Instruction:
    """The first instruction of a function other than endbr64."""
    symbol = made.symbols[name]
    content = made.content[symbol.offset :][: symbol.size]
    return next(one for one in decode(content, 0) if one.mnemonic != Mnemonic.ENDBR64)


def _taken(move: Instruction, registers: tuple[int, ...]) -> int:
    """The number of registers that come before the one that the instruction moves; all of them if it moves none."""
    if move.op_count == 2 and move.op1_kind == OpKind.REGISTER:
        return registers.index(move.op1_register)
    return len(registers)


def _behind(first: Instruction) -> int:
    """The number of bytes from behind the return address to the operand of ``lea``. Raises CompileError
    `does-not-compile`."""
    if first.mnemonic != Mnemonic.LEA or first.memory_base != Register.RSP:
        raise CompileError("does-not-compile", "the compiler does not say how the function is called")
    return int(first.memory_displacement) - _RETURN_ADDRESS


def _uses_vectors(content: bytes) -> bool:
    """Whether code that calls nothing but the runtime changes vector registers."""
    factory = InstructionInfoFactory()
    return any(
        RegisterExt.is_vector_register(used.register) or RegisterExt.is_mm(used.register)
        or RegisterExt.is_st(used.register)
        for code in relocatable.executable(content)
        for one in decode(code, 0)
        for used in factory.info(one).used_registers()
    )  # fmt: skip
