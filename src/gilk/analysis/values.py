# SPDX-License-Identifier: LGPL-2.1-or-later
"""Symbolic values, as far as jump tables need them: a constant plus multiples of unknown values."""

from __future__ import annotations

from typing import Final, NamedTuple


class Unknown(NamedTuple):
    """The value of a register after the instruction at ``point``. A negative point stands for the start of a block, or
    for a place where several ways meet.
    """

    register: int
    point: int


class Load(NamedTuple):
    """The value of ``size`` bytes of memory at ``address``."""

    size: int
    signed: bool
    address: Value


class Narrow(NamedTuple):
    """A value that movzx, and, or shr have cut so that it is below ``limit``."""

    limit: int
    shift: int
    value: Value


Atom = Unknown | Load | Narrow


class Value(NamedTuple):
    """The sum of ``const`` and of coefficient * atom; coefficients are never 0. Widths below 64 bits are not
    modelled.
    """

    const: int
    terms: tuple[tuple[Atom, int], ...] = ()

    def plus(self, other: Value, times: int = 1) -> Value:
        """``self + other * times``."""
        terms = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + factor * times
        kept = sorted(((atom, factor) for atom, factor in terms.items() if factor), key=_order)
        return Value(self.const + other.const * times, tuple(kept))

    def scaled(self, factor: int) -> Value:
        return ZERO.plus(self, factor)

    @property
    def atom(self) -> Atom | None:
        """The atom, if the value consists of one alone; None otherwise."""
        if self.const == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def signed(self) -> Value:
        """The value sign-extended from 32 bits."""
        if isinstance(self.atom, Load) and self.atom.size == 4:
            return of(self.atom._replace(signed=True))
        return self


ZERO: Final = Value(0)


def of(atom: Atom) -> Value:
    return Value(0, ((atom, 1),))


def narrowed(value: Value, limit: int, shift: int = 0) -> Value:
    """``(value >> shift) % limit``, for a limit that is a power of two, or below it otherwise."""
    atom = value.atom
    if shift == 0 and atom is not None and limit_of(atom) <= limit:
        return value
    return of(Narrow(limit, shift, value))


def limit_of(atom: Atom) -> int:
    """A number that every value of the atom is below."""
    if isinstance(atom, Narrow):
        return atom.limit
    if isinstance(atom, Load) and not atom.signed:
        return int(256**atom.size)
    return 1 << 64


def _order(term: tuple[Atom, int]) -> str:
    return repr(term)
