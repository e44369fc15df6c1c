# SPDX-License-Identifier: LGPL-2.1-or-later
"""The data that clauses leave behind: their layout in records and in the keys of aggregations, and the cells of
aggregations.

The contract between the compiler, which lays records out, the runtime, which fills them, and the consumer, which
takes them apart and prints them.
"""

from __future__ import annotations

from enum import StrEnum

from gilk.values import dataclass


class Kind(StrEnum):
    """The kind of a datum, which also decides how it is printed."""

    INT = "int"  # 1, 2, 4 or 8 bytes, little-endian
    STRING = "string"  # NUL-terminated within its size
    FLOAT = "float"  # 4 or 8 bytes
    BYTES = "bytes"  # a struct, an array, tracemem()
    USTACK = "ustack"  # u64 pid, then as many u64 addresses as there are, the rest 0
    STACK = "stack"  # the same, of the kernel
    USYM = "usym"  # u64 pid, u64 address: symbol, module and address of user code
    UMOD = "umod"
    UADDR = "uaddr"
    SYM = "sym"  # u64 address: the kernel's
    MOD = "mod"


@dataclass(frozen=True, slots=True)
class Datum:
    """``size`` bytes at ``offset`` of a record's data or of a key. ``pointer``: an INT that is an address."""

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

    lquantize: ``low``, ``high``, ``step``. llquantize: ``factor``, from ``factor ** low`` to ``factor ** high``
    inclusive, each order of magnitude in ``steps``.
    """

    function: Function
    low: int = 0
    high: int = 0
    step: int = 1
    factor: int = 0
    steps: int = 0

    @property
    def cells(self) -> int:
        """How many u64 the value takes. Distributions: one for each bucket.

        avg: count, sum. stddev: count, sum, and the sum of squares in two (low, high). quantize: 127, the middle one
        of zero. lquantize: one below, (high - low) / step rounded down, one above. llquantize: the middle one of
        what is nearer to 0 than the first edge, upwards from there those of each edge, downwards the same of
        negative values.
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
        """llquantize: where its buckets begin on the positive side, the last one that of all that is larger.

        From ``factor ** m`` to ``factor ** (m + 1)`` they are ``factor ** (m + 1) / steps`` wide, and at least 1.
        """
        found: list[int] = []
        for magnitude in range(self.low, self.high + 1):
            start, end = self.factor**magnitude, self.factor ** (magnitude + 1)
            width = max(end // self.steps, 1)
            found += (start, *range(width * (start // width + 1), end, width))
        return (*found, self.factor ** (self.high + 1))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """``@name[keys] = function()``. ``number`` from 1 in order of first use; ``key_size`` in bytes.

    ``processor``: with the option aggpercpu, where the processor is that the probe fired on, before the keys.
    """

    number: int
    name: str
    what: Aggregating
    keys: tuple[Datum, ...]
    key_size: int
    processor: Datum | None = None

    @property
    def recorded(self) -> tuple[Datum, ...]:
        """All that a key is made of."""
        return self.keys if self.processor is None else (self.processor, *self.keys)
