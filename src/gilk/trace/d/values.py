# SPDX-License-Identifier: LGPL-2.1-or-later
"""Decodes data of records and keys into values. The caller's resolver, not this module, looks up names of addresses."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from gilk.lang.data import Aggregating, Datum, Kind
from gilk.lang.types import Type, signed
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Integer:
    """A number. ``value`` may be outside of the range of ``size`` bytes; it is taken modulo."""

    value: int
    size: int = 8
    signed: bool = True

    @property
    def as_unsigned(self) -> int:
        return self.value & ((1 << 8 * self.size) - 1)

    @property
    def as_signed(self) -> int:
        return signed(self.value, self.size)

    @property
    def as_typed(self) -> int:
        return self.as_signed if self.signed else self.as_unsigned


@dataclass(frozen=True, slots=True)
class Floating:
    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A string, without its terminating NUL."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Bytes:
    """A struct, an array, or the data of tracemem(), complete."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Dump:
    """The bytes of a string, a struct or an array, to be shown as numbers: with the option rawbytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes at ``address``, of the type ``type``: a value of print()."""

    address: int
    type: Type
    data: bytes


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet of the network that pcap() has recorded ``time`` ns after 1970. ``link`` is the kind of its outermost
    header, a PCAP_ constant of D. ``data`` has its first bytes, and ``length`` is how many it has.
    """

    time: int
    link: int
    length: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of an address: ``libc.so.6`malloc+0x10``."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack: a line for each frame, the innermost first."""

    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """The counts of quantize() and similar functions: signed, by cell of ``what``. ``normal`` is the factor of
    normalize().
    """

    what: Aggregating
    counts: tuple[int, ...]
    normal: int = 1


Value: TypeAlias = Integer | Floating | Text | Bytes | Dump | Memory | Packet | Symbol | Stack | Distribution

#: Names addresses of a process, or of the kernel if the pid is 0: a line each, or more if calls were inlined.
Resolver: TypeAlias = Callable[[Kind, int, tuple[int, ...]], tuple[bytes, ...]]


def decode(datum: Datum, data: bytes, resolve: Resolver) -> Value:
    """The value that ``datum`` describes in ``data``, the data of a record, or a key."""
    part = data[datum.offset : datum.offset + datum.size]
    match datum.kind:
        case Kind.INT:
            return Integer(int.from_bytes(part, "little"), datum.size, datum.signed)
        case Kind.STRING:
            return Text(c_string(part))
        case Kind.FLOAT:
            return Floating(struct.unpack("<f" if datum.size == 4 else "<d", part)[0])
        case Kind.BYTES:
            return Bytes(part)
    words = tuple(int.from_bytes(part[at : at + 8], "little") for at in range(0, len(part), 8))
    if datum.kind in (Kind.SYM, Kind.MOD):
        words = (0, *words)
    pid, addresses = words[0], words[1:]
    if datum.kind in (Kind.USTACK, Kind.STACK):
        frames = addresses[: addresses.index(0)] if 0 in addresses else addresses
        return Stack(resolve(datum.kind, pid, frames))
    return Symbol(resolve(datum.kind, pid, addresses[:1])[0])


def raw(datum: Datum, data: bytes) -> Dump:
    """The bytes that ``datum`` describes in ``data``: used instead of `decode` with the option rawbytes."""
    return Dump(data[datum.offset : datum.offset + datum.size])


def c_string(data: bytes) -> bytes:
    """The bytes up to the first NUL."""
    return data.partition(b"\0")[0]


def encoded(text: str) -> bytes:
    """The bytes of a name: those that it was decoded from, valid UTF-8 or not."""
    return text.encode(errors="surrogateescape")
