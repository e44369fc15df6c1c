# SPDX-License-Identifier: LGPL-2.1-or-later
"""The data that clauses record: their layout in records and in the keys of aggregations, and the cells of aggregations.

This is the contract between the compiler, which lays out records, the runtime, which fills them, and the consumer,
which decodes and prints them.
"""

from __future__ import annotations

from enum import StrEnum

from gilk.values import dataclass

#: The bytes before those of a packet: how many there are, and how many the packet has, 4 bytes each.
PACKET_HEAD = 8


class Kind(StrEnum):
    """The kind of a datum, which also decides how it is printed."""

    INT = "int"  # 1, 2, 4 or 8 bytes, little-endian
    STRING = "string"  # NUL-terminated within its size
    FLOAT = "float"  # 4 or 8 bytes
    BYTES = "bytes"  # a struct, an array, the memory of tracemem(), or a packet behind its PACKET_HEAD
    USTACK = "ustack"  # u64 pid, then a u64 address for each frame, then zeros
    STACK = "stack"  # the same for the kernel's stack
    USYM = "usym"  # u64 pid, u64 address; printed as symbol, module or address of user code
    UMOD = "umod"
    UADDR = "uaddr"
    SYM = "sym"  # u64 address in the kernel
    MOD = "mod"


@dataclass(frozen=True, slots=True)
class Datum:
    """A value of ``size`` bytes at ``offset`` in a record's data or in a key. ``pointer``: the value is an INT that is
    an address.
    """

    kind: Kind
    offset: int
    size: int
    signed: bool = False
    pointer: bool = False


class Function(StrEnum):
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    STDDEV = "stddev"
    QUANTIZE = "quantize"
    LQUANTIZE = "lquantize"
    LLQUANTIZE = "llquantize"


@dataclass(frozen=True, slots=True)
class Aggregating:
    """An aggregating function with its parameters.

    lquantize has ``low``, ``high`` and ``step``. llquantize has ``factor`` and goes from ``factor ** low`` to
    ``factor ** high`` inclusive, with ``steps`` buckets in each order of magnitude.
    """

    function: Function
    low: int = 0
    high: int = 0
    step: int = 1
    factor: int = 0
    steps: int = 0

    @property
    def cells(self) -> int:
        """The number of u64 cells that a value of the aggregation takes; a distribution has one cell for each bucket.

        avg has two: count and sum. stddev has four: count, sum, and the low and high half of the sum of squares.
        quantize has 127, and the middle one counts zeros. lquantize has one for values below ``low``, (high - low) /
        step rounded down, and one for values above. llquantize has a middle cell for values nearer to 0 than the first
        edge, above it one cell for each edge, and below it the same for negative values.
        """
        match self.function:
            case Function.COUNT | Function.SUM | Function.MIN | Function.MAX:
                return 1
            case Function.AVG:
                return 2
            case Function.STDDEV:
                return 4
            case Function.QUANTIZE:
                return 127
            case Function.LQUANTIZE:
                return (self.high - self.low) // self.step + 2
            case Function.LLQUANTIZE:
                return 2 * len(self.edges) + 1

    @property
    def edges(self) -> tuple[int, ...]:
        """The lower bounds of llquantize's buckets on the positive side; the last bucket takes all larger values.

        Buckets from ``factor ** m`` to ``factor ** (m + 1)`` are ``factor ** (m + 1) / steps`` wide, but at least 1.
        """
        found: list[int] = []
        for magnitude in range(self.low, self.high + 1):
            start, end = self.factor**magnitude, self.factor ** (magnitude + 1)
            width = max(end // self.steps, 1)
            found += (start, *range(width * (start // width + 1), end, width))
        return (*found, self.factor ** (self.high + 1))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregation ``@name[keys] = function()``. ``number`` counts from 1 in order of first use; ``key_size`` is in
    bytes.

    ``processor``: with the option aggpercpu, the datum before the keys that holds the processor on which the probe
    fired; otherwise None.
    """

    number: int
    name: str
    what: Aggregating
    keys: tuple[Datum, ...]
    key_size: int
    processor: Datum | None = None

    @property
    def recorded(self) -> tuple[Datum, ...]:
        """All parts of a key: the processor, if it is part of the key, and then ``keys``."""
        return self.keys if self.processor is None else (self.processor, *self.keys)
