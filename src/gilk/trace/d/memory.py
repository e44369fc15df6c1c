# SPDX-License-Identifier: LGPL-2.1-or-later
"""The memory object of a D program: planned from its options, initialised, and given names."""

from __future__ import annotations

from typing import Any

import numpy as np

from gilk.trace.d.layout import (
    BANKS,
    BUFFER,
    CONTROL,
    DROPS,
    EXITED,
    GRANULE,
    LAYOUT_FIELDS,
    MAGIC,
    PAGE,
    SLOT_MEMBER,
    SLOT_VERSION,
    TABLE,
    THREAD_TID,
    VARIABLE,
    VERSION,
    Array,
    Layout,
    Policy,
    Sizes,
    State,
    power_of_two,
)
from gilk.trace.live import which_are_set
from gilk.trace.threads import Gone, thread_is_gone
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What a program asks for; the names are D's. Sizes in bytes, of each buffer, table or speculation.

    `largest_variable`: of a dynamic variable, what its key, in whole words, and its value take. `processors`: how many
    there are; buffers are shared when there are more than 64 of them, and tables when more than 8.
    """

    processors: int
    bufsize: int = 4 << 20
    policy: Policy = Policy.SWITCH
    aggsize: int = 4 << 20
    dynvarsize: int = 1 << 20
    largest_variable: int = 16
    nspec: int = 1
    specsize: int = 4 << 20
    strsize: int = 256
    globals_size: int = 0
    aggregations: int = 0
    scratches: int = 256
    scratchsize: int = 0  # 0: room for 16 strings, and a page
    unwind_size: int = 0

    def sizes(self) -> Sizes:
        stride = (VARIABLE.itemsize + self.largest_variable + 7) & -8
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
            dynamic_slots=power_of_two(2 * max(self.dynvarsize // stride, 1)) if self.dynvarsize else 0,
            dynamic_stride=stride,
            speculations=self.nspec,
            speculation_size=min(self.specsize // GRANULE * GRANULE, ((1 << 24) - 1) * GRANULE),
            scratches=power_of_two(self.scratches),
            scratch_size=(scratch + 7) & -8,
            unwind_size=self.unwind_size,
        )

    def layout(self) -> Layout:
        return Layout.place(self.sizes())


class Memory:
    """Names for the parts of a writable buffer laid out by `layout`.

    Making one touches no page. A mapped buffer cannot be closed while one of these lives.
    """

    def __init__(self, layout: Layout, buffer: Any) -> None:
        self.layout = layout
        self._buffer = buffer
        self.control: Array = np.ndarray((), CONTROL, buffer)
        self.drops: Array = np.ndarray((layout.buffers, DROPS), "<u8", buffer, layout.drops)
        self.generations: Array = np.ndarray((layout.aggregations,), "<u4", buffer, layout.generations)
        self.heads: Array = np.ndarray((layout.buffers,), BUFFER, buffer, layout.buffer_first, (layout.buffer_stride,))
        self.scratch_owners: Array = np.ndarray((layout.scratches,), "<u4", buffer, layout.scratch_owner)

    def initialise(self) -> None:
        """Make zeroed memory ready. The magic number goes in last."""
        self.heads["limit"] = self.layout.buffer_size
        for bank in range(BANKS):
            for shard in range(self.layout.shards):
                self.table(bank, shard)["used"] = GRANULE
        for name in LAYOUT_FIELDS:
            self.control["layout"][name] = getattr(self.layout, name)
        self.control["version"] = VERSION
        self.control["magic"] = MAGIC

    @property
    def state(self) -> State:
        """INACTIVE when what is there is no state."""
        value = int(self.control["state"])
        return State(value) if value in list(State) else State.INACTIVE

    @state.setter
    def state(self, state: State) -> None:
        self.control["state"] = state

    @property
    def exit_status(self) -> int | None:
        """Of exit(), when it has been called."""
        value = int(self.control["exit_status"])
        return value & ~EXITED if value & EXITED else None

    def globals(self) -> memoryview:
        """The bytes of the global variables, writable."""
        whole = memoryview(self._buffer).cast("B")
        return whole[self.layout.globals : self.layout.globals + self.layout.globals_size]

    def unwind(self) -> memoryview:
        """The bytes for unwind tables, writable."""
        whole = memoryview(self._buffer).cast("B")
        return whole[self.layout.unwind : self.layout.unwind + self.layout.unwind_size]

    def marks(self, buffer: int) -> Array:
        at = self.layout.buffer_first + buffer * self.layout.buffer_stride + self.layout.buffer_marks
        return np.ndarray((self.layout.buffer_size // GRANULE,), "<u8", self._buffer, at)

    def data(self, buffer: int) -> Array:
        at = self.layout.buffer_first + buffer * self.layout.buffer_stride + self.layout.buffer_data
        return np.ndarray((self.layout.buffer_size,), "u1", self._buffer, at)

    def table(self, bank: int, shard: int) -> Array:
        return np.ndarray((), TABLE, self._buffer, self._table_at(bank, shard))

    def direct(self, bank: int, shard: int) -> Array:
        at = self._table_at(bank, shard) + self.layout.table_direct
        return np.ndarray((self.layout.aggregations,), "<u4", self._buffer, at)

    def slots(self, bank: int, shard: int) -> Array:
        at = self._table_at(bank, shard) + self.layout.table_slot
        return np.ndarray((self.layout.table_slots,), "<u8", self._buffer, at)

    def heap(self, bank: int, shard: int) -> Array:
        """As 64-bit words."""
        at = self._table_at(bank, shard) + self.layout.table_heap
        return np.ndarray((self.layout.heap_size // 8,), "<u8", self._buffer, at)

    def _table_at(self, bank: int, shard: int) -> int:
        return self.layout.table_first + (bank * self.layout.shards + shard) * self.layout.table_stride

    def forget(self, gone: Gone = thread_is_gone) -> int:
        """Free the thread-local variables of threads that have gone, whose slots no one else changes. How many."""
        layout = self.layout
        words: Array = np.ndarray((layout.dynamic_slots,), "<u8", self._buffer, layout.dynamic_words)
        members = np.flatnonzero((words & np.uint64(7)) == SLOT_MEMBER)
        strides = (layout.dynamic_stride,)
        variables: Array = np.ndarray((layout.dynamic_slots,), VARIABLE, self._buffer, layout.dynamic_first, strides)
        owners = variables["thread"][members]
        dead = [int(owner) for owner in np.unique(owners) if owner and gone(int(owner) & THREAD_TID)]
        freed = members[np.isin(owners, np.array(dead, np.uint64))]
        words[freed] = ((words[freed] >> np.uint64(SLOT_VERSION)) + np.uint64(1)) << np.uint64(SLOT_VERSION)
        return len(freed)

    def reap(self, gone: Gone = thread_is_gone) -> int:
        """Free the scratch memory of threads that died in a clause. Returns how many had some."""
        owners, freed = self.scratch_owners, 0
        for slot in which_are_set(owners):
            tid = int(owners[slot])
            if tid and gone(tid) and owners[slot] == tid:  # still: what it gave back is another's now
                owners[slot] = 0
                freed += 1
        return freed
