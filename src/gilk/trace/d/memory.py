# SPDX-License-Identifier: LGPL-2.1-or-later
"""The memory object of a D program: planned from the program's options, initialised, and given names for its parts."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Literal

from gilk.targets.threads import Gone, thread_is_gone
from gilk.trace.d.layout import (
    BANKS,
    DROPS,
    EXITED,
    GRANULE,
    LAYOUT_FIELDS,
    MAGIC,
    PAGE,
    SLOT_LOST,
    SLOT_MEMBER,
    SLOT_VERSION,
    THREAD_TID,
    VERSION,
    Buffer,
    BufferPolicy,
    Control,
    MemoryLayout,
    Sizes,
    State,
    TableHead,
    VariableHead,
    power_of_two,
)
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """The options of a program that fix its memory; the names are D's. Sizes are those of each buffer, table or
    speculation, in bytes.

    `largest_variable` is the greatest size that the key, in whole words, and the value of a dynamic variable have
    together. `few_variables`: how many there is room for, if that is to be exact; 0: as many as dynvarsize holds with
    what is kept beside each. `processors` is their number; buffers are shared if there are more than 64 processors,
    tables if there are more than 8.
    """

    processors: int
    bufsize: int = 4 << 20
    policy: BufferPolicy = BufferPolicy.SWITCH
    aggsize: int = 4 << 20
    dynvarsize: int = 1 << 20
    largest_variable: int = 16
    few_variables: int = 0
    nspec: int = 1
    specsize: int = 4 << 20
    strsize: int = 256
    globals_size: int = 0
    aggregations: int = 0
    scratches: int = 256
    scratchsize: int = 0  # 0: room for 16 strings, and a page
    unwind_size: int = 0

    def sizes(self) -> Sizes:
        stride = (ctypes.sizeof(VariableHead) + self.largest_variable + 7) & -8
        heap = (max(self.aggsize, PAGE) + 7) & -8
        scratch = self.scratchsize or PAGE + 16 * self.strsize
        return Sizes(
            policy=self.policy,
            strsize=self.strsize,
            globals_size=self.globals_size,
            buffers=min(power_of_two(self.processors), 64),
            buffer_size=power_of_two(max(self.bufsize, PAGE)),
            aggregations=self.aggregations + 1,
            shards=min(power_of_two(self.processors), 8),
            table_slots=power_of_two(heap // 16),  # twice as many as the smallest entries that fit
            heap_size=heap,
            # Twice as many as fit, for a short way to each; pages that are not used take no memory.
            dynamic_slots=power_of_two(self.few_variables or 2 * max(self.dynvarsize // stride, 1))
            if self.dynvarsize
            else 0,
            dynamic_stride=stride,
            speculations=self.nspec,
            speculation_size=min(self.specsize // GRANULE * GRANULE, ((1 << 24) - 1) * GRANULE),
            scratches=power_of_two(self.scratches) if self.scratches else 0,
            scratch_size=(scratch + 7) & -8,
            unwind_size=self.unwind_size,
        )

    def layout(self) -> MemoryLayout:
        return MemoryLayout.place(self.sizes())


class ProgramMemory:
    """Names for the parts of a writable buffer with the layout `layout`.

    To make one touches no page. A mapped buffer cannot be closed while one of these exists.
    """

    def __init__(self, layout: MemoryLayout, buffer: Any) -> None:
        self.layout = layout
        self._bytes = memoryview(buffer).cast("B")
        self.control = Control.from_buffer(buffer)
        self.drops = self._part("Q", layout.drops, layout.buffers * DROPS)  # a counter for each buffer and each kind
        self.generations = self._part("I", layout.generations, layout.aggregations)
        heads = (layout.buffer_first + buffer * layout.buffer_stride for buffer in range(layout.buffers))
        self.heads = [Buffer.from_buffer(buffer, at) for at in heads]
        self.scratch_owners = self._part("I", layout.scratch_owner, layout.scratches)

    def _part(self, form: Literal["I", "Q"], at: int, count: int) -> memoryview:
        """The ``count`` numbers at ``at``, in a format of the struct module."""
        size = struct.calcsize(form)
        return self._bytes[at : at + count * size].cast(form)

    def initialise(self) -> None:
        """Make zeroed memory ready for use. The magic number is written last."""
        for head in self.heads:
            head.limit = self.layout.buffer_size
        for bank in range(BANKS):
            for shard in range(self.layout.shards):
                self.table(bank, shard).used = GRANULE
        for name in LAYOUT_FIELDS:
            setattr(self.control.layout, name, getattr(self.layout, name))
        self.control.version = VERSION
        self.control.magic = MAGIC

    def withhold(self, variables: int) -> None:
        """Have room for that many dynamic variables only, of as many as there are slots."""
        at, count = self.layout.dynamic_words, self.layout.dynamic_slots
        for slot in range(variables, count):
            self._part("Q", at, count)[slot] = SLOT_LOST

    # If the memory is elsewhere, a subclass keeps a copy of it (trace/d/copied.py); shared memory needs none of these.

    def look(self) -> None:
        """Bring the control page, the drops and the heads of buffers in the copy up to date."""

    def fetch(self, buffer: int, start: int, end: int) -> None:
        """Bring the records of a buffer between two positions up to date."""

    def fetch_table(self, bank: int, shard: int) -> None:
        """Bring a table up to date."""

    def settle(self) -> None:
        """Send the owner of the memory the consumer's changes: limits, generations, the bank."""

    def settle_tables(self) -> None:
        """Send the owner of the memory the consumer's changes of cells in tables."""

    @property
    def state(self) -> State:
        """The state of the program; INACTIVE if the memory holds an impossible value."""
        value = self.control.state
        return State(value) if value in list(State) else State.INACTIVE

    @state.setter
    def state(self, state: State) -> None:
        self.control.state = state

    @property
    def exit_status(self) -> int | None:
        """The argument of exit(); None until it is called."""
        value = self.control.exit_status
        return value & ~EXITED if value & EXITED else None

    def globals(self) -> memoryview:
        """The bytes of the global variables, writable."""
        return self._bytes[self.layout.globals : self.layout.globals + self.layout.globals_size]

    def unwind(self) -> memoryview:
        """The bytes for unwind tables, writable."""
        return self._bytes[self.layout.unwind : self.layout.unwind + self.layout.unwind_size]

    def marks(self, buffer: int) -> memoryview:
        """The marks of a buffer, 64 bits each, one for each granule."""
        at = self.layout.buffer_first + buffer * self.layout.buffer_stride + self.layout.buffer_marks
        return self._part("Q", at, self.layout.buffer_size // GRANULE)

    def data(self, buffer: int) -> memoryview:
        """The bytes of a buffer."""
        at = self.layout.buffer_first + buffer * self.layout.buffer_stride + self.layout.buffer_data
        return self._bytes[at : at + self.layout.buffer_size]

    def table(self, bank: int, shard: int) -> TableHead:
        return TableHead.from_buffer(self._bytes, self._table_at(bank, shard))

    def direct(self, bank: int, shard: int) -> memoryview:
        """The places of a table's entries that have an empty key, 32 bits each, by number of the aggregation.

        A place is a number of words from the start of the heap; 0: no entry.
        """
        return self._part("I", self._table_at(bank, shard) + self.layout.table_direct, self.layout.aggregations)

    def slots(self, bank: int, shard: int) -> memoryview:
        """The slots of a table, 64 bits each."""
        return self._part("Q", self._table_at(bank, shard) + self.layout.table_slot, self.layout.table_slots)

    def heap(self, bank: int, shard: int) -> memoryview:
        """The words of a table's heap, in which its entries lie, 64 bits each."""
        return self._part("Q", self._table_at(bank, shard) + self.layout.table_heap, self.layout.heap_size // 8)

    def _table_at(self, bank: int, shard: int) -> int:
        return self.layout.table_first + (bank * self.layout.shards + shard) * self.layout.table_stride

    def forget(self, gone: Gone = thread_is_gone) -> int:
        """Free the thread-local variables of threads that have gone, whose slots nothing else changes. Returns their
        number.
        """
        layout = self.layout
        if not layout.dynamic_slots:
            return 0
        import numpy as np  # imported here: programs without such variables need not wait for it

        words = np.ndarray((layout.dynamic_slots,), "<u8", self._bytes, layout.dynamic_words)
        members = np.flatnonzero((words & np.uint64(7)) == SLOT_MEMBER)
        at = layout.dynamic_first + VariableHead.thread.offset
        threads = np.ndarray((layout.dynamic_slots,), "<u8", self._bytes, at, (layout.dynamic_stride,))
        owners = threads[members]
        dead = [int(owner) for owner in np.unique(owners) if owner and gone(int(owner) & THREAD_TID)]
        freed = members[np.isin(owners, np.array(dead, np.uint64))]
        words[freed] = ((words[freed] >> np.uint64(SLOT_VERSION)) + np.uint64(1)) << np.uint64(SLOT_VERSION)
        return len(freed)

    def reap(self, gone: Gone = thread_is_gone) -> int:
        """Free the scratch memory of threads that died in a clause. Returns the number of threads that had some."""
        owners, freed = self.scratch_owners, 0
        for slot, tid in enumerate(owners.tolist()):
            if tid and gone(tid) and owners[slot] == tid:  # still the same owner: another may have it now
                owners[slot] = 0
                freed += 1
        return freed
