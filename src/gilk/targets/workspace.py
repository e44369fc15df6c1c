# SPDX-License-Identifier: LGPL-2.1-or-later
"""gilk's workspace in a live process: shared memory, arenas with their runtime, linked instruments.

An arena serves all images within its reach; usually there is one for the program and one for its libraries.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import EVERYTHING
from gilk.errors import CompileError, MemoryTaken, TargetError
from gilk.lang.c.advice import PRIVATE
from gilk.splice.allocator import PAGE, REACH, Arena, OutOfSpace, PunPages
from gilk.splice.instrument import CallWithIid, CallWithRegisters, CallWithValues, Instrument
from gilk.splice.onward import CLIENTS, FUNCTIONS, SERIALS_AT, BeginsOnce, LooksForNotes, NotesJump
from gilk.splice.plan import Plan
from gilk.splice.planner import PatchContext
from gilk.splice.policy import BESIDE, PROCESS
from gilk.splice.template import Array, PlanTemplate, claim, conflicts, unclaim
from gilk.targets.arena_parameters import ArenaParameters, ArenaWord
from gilk.targets.arena_site import LINE, ArenaSite
from gilk.targets.base import Loaded, Target
from gilk.targets.batch import Batch, Byte, pack
from gilk.targets.held import ArenaMap
from gilk.targets.maps import find_room
from gilk.targets.places import VERSION, places_table
from gilk.targets.refusals import taken
from gilk.targets.symbols import Found, Resolver
from gilk.targets.templates import Placed, PlacedBatch, Shape, Spot, place, runtime_room
from gilk.toolchain.instrument import CompiledObject, Linked, link_instrument
from gilk.toolchain.runtime import runtime

ARENA_SIZE = 64 << 20
HELD_SIZE = 64 << 10  # writable data of instruments, below the key page
MOST_ARENAS = 8
_MOST_PUN_PAGES = 24_000  # vm.max_map_count is 65530 by default, and a page may split a gap in two
TABLES = MOST_ARENAS * ARENA_SIZE + _MOST_PUN_PAGES * PAGE
TABLE_SIZE = 64 << 20
_TRIES = 8  # attempts to map memory where the process maps some itself at the same time
CODE_SIZE = TABLES + 2 * TABLE_SIZE


class Workspace:
    """gilk's memory in one process, where plans are made and staged. Raises TargetError when the process refuses what
    is needed: `no-room`, `gs-in-use`, `refused-by-kernel`."""

    def __init__(
        self, process: Target, blocks: int, data_size: int, counters: int, rings: tuple[tuple[int, int], ...],
        private: int = 0, onward: int = 0,
    ) -> None:  # fmt: skip
        """Offsets in the data memory: ``private``, of what instruments know as ``gilk_private``, and ``onward``, of the
        notes of calls that go on in other functions."""
        self._process = process
        self._private, self._onward = private, onward
        self._given: dict[str, int] = {}
        self._blocks = blocks
        self.shape = Shape(counters, rings)
        try:
            name = f"{os.getpid()}-{os.urandom(4).hex()}"
            code_fd, data_fd = process.keeper.set_up(name, CODE_SIZE, data_size)
        except OSError as error:
            raise TargetError("refused-by-kernel", f"the process cannot map memory for gilk: {error}") from None
        try:
            self._code, self.data = mmap.mmap(code_fd, CODE_SIZE), mmap.mmap(data_fd, data_size)
        finally:
            os.close(code_fd)
            os.close(data_fd)
        self._sites: list[ArenaSite] = []
        self._grounds: dict[str, PatchContext] = {}
        self._loaded: dict[int, Loaded] = {}
        self._replaced: list[PatchContext] = []  # kept alive: callers may know things by their identity
        self._puns = PunPages(process.occupied(), MOST_ARENAS * ARENA_SIZE, _MOST_PUN_PAGES)
        self._mapped: set[int] = set()
        self._batch = 0
        self.restorers: dict[int, int] = {}  # by the keys of wants that have handlers led back there (signals.py)
        self._tables = 0  # given to the runtime so far
        self._code_address = 0
        self._placed: dict[str, list[tuple[PlanTemplate, Array, Array]]] = {}
        self._resolver = Resolver(process)
        self._parameters = ArenaParameters(process, self._resolver, self._code)

    def ground(self, loaded: Loaded, analysis: Analysis) -> PatchContext:
        """The context in which plans for one image are made; with a new arena when none is in reach."""
        key = _key(loaded)
        if key in self._grounds and not _is_same(self._grounds[key].analysis, analysis):
            self._replaced.append(self._grounds.pop(key))  # the path leads to another file by now
        if key not in self._grounds:
            if analysis.image.is_go:
                self._parameters.map_stacks(ArenaWord.SIDE, self._process.keeper.map_side, self._blocks)
            site = self._site_for(loaded)
            placed = self._placed.pop(key, [])
            policy = BESIDE if placed else PROCESS
            ground = self._grounds[key] = PatchContext(analysis, loaded.bias, site.arena, self._puns, site.host, policy)
            self._loaded[id(ground)] = loaded
            for template, new, units in placed:
                claim(ground, template, new, units)
        return self._grounds[key]

    def loaded(self, ground: PatchContext) -> Loaded:
        """The image that the ground belongs to."""
        return self._loaded[id(ground)]

    def _site_for(self, loaded: Loaded) -> ArenaSite:
        for site in self._sites:
            low, high = min(site.arena.base, loaded.start), max(site.arena.base + ARENA_SIZE, loaded.end)
            if high - low < REACH:
                return site
        return self._open(loaded)

    def _open(self, loaded: Loaded) -> ArenaSite:
        start, offset = self._map_near(loaded), len(self._sites) * ARENA_SIZE
        base, code = start + HELD_SIZE + PAGE, runtime()
        self._code[offset : offset + len(code.code)] = code.code
        self._parameters.begin(offset, base)
        site = ArenaSite(Arena(base, ARENA_SIZE, offset, runtime_room()), self.shape.host(base), start)
        self._sites.append(site)
        self._puns.avoid(self._process.occupied())
        return site

    def _map_near(self, loaded: Loaded) -> int:
        """Map an arena near an image; returns the address where its data begins. The process may map memory of its own
        in the chosen room at the same time, so this is tried several times."""
        below, offset = HELD_SIZE + PAGE, len(self._sites) * ARENA_SIZE
        symbols, tries = runtime().symbols, 0
        words = symbols["gilk_sigreturn"], symbols["gilk_params"] + ArenaWord.PLACES
        while True:
            start = find_room(self._process.occupied(), loaded.start, loaded.end, ARENA_SIZE + below)
            if start is None or len(self._sites) >= MOST_ARENAS:
                raise TargetError("no-room", f"there is no free address range within 2 GiB of {loaded.name}")
            try:
                self._process.keeper.map_arena(ArenaMap(start + below, ARENA_SIZE, offset, HELD_SIZE, *words))
                return start
            except MemoryTaken:
                tries += 1
                if tries == _TRIES:
                    raise

    # Instruments.

    def registers(self, ground: PatchContext, iid: int) -> Instrument:
        """The built-in instrument that records all registers."""
        return CallWithRegisters(ground.arena.base + runtime().symbols["gilk_log_registers"], iid, calls_out=False)

    # Instruments of calls that go on in other functions: session/onward.py.

    kinds = FUNCTIONS.keys()

    def ground_of(self, loaded: Loaded) -> PatchContext:
        return self.ground(loaded, self._process.analysis(loaded))

    def notes_jump(self, ground: PatchContext, number: int) -> Instrument:
        self._parameters.tell(ArenaWord.ONWARD, self._process.keeper.data_address() + self._onward)
        return NotesJump(self.runtime_address(ground, "gilk_onward_jumps"), number, calls_out=False)

    def looks_for_notes(self, ground: PatchContext, kind: type[LooksForNotes]) -> Instrument:
        return kind(self._notes(ground), self.runtime_address(ground, FUNCTIONS[kind]))

    def begins_once(self, ground: PatchContext, number: int, otherwise: Instrument) -> Instrument:
        function = self.runtime_address(ground, "gilk_onward_begins")
        return BeginsOnce(LooksForNotes(self._notes(ground), function, number), otherwise)

    def _notes(self, ground: PatchContext) -> int:
        """The address of the arena's word that has the address of the notes."""
        return self.runtime_address(ground, "gilk_params") + ArenaWord.ONWARD

    def renew_serial(self, client: int) -> None:
        """Have all notes of this client, by its number, lead to no records any more."""
        serials = np.frombuffer(self.data, np.uint32, CLIENTS, self._onward + SERIALS_AT)
        serials[client] += 1

    def calls(self, ground: PatchContext, compiled: CompiledObject, control: int = 0) -> Callable[[int], Instrument]:
        """A user's instrument, linked into the arena of ``ground``, as a function from iid to Instrument. ``control``:
        the address of the control page of the client for which it records, if that is not this workspace's own. Raises
        CompileError `undefined-symbol`."""
        site = self._site_of(ground)
        key = (str(compiled.source), compiled.function)
        if key not in site.linked:
            site.linked[key] = self._link(site, compiled, control)
        linked = site.linked[key]
        calls_out = any(self._resolve(name).function for name in compiled.undefined if name not in self._data_names)
        if linked.takes_registers or calls_out:
            return lambda iid: CallWithRegisters(linked.entry, iid, calls_out)
        if linked.values:
            return lambda iid: CallWithValues(linked.values, iid, linked.clobbers)
        return lambda iid: CallWithIid(linked.plain, iid, linked.clobbers)

    def _word(self, site: ArenaSite, address: int) -> int:
        """The place in the arena at which the address is stored, once for all uses."""
        if address not in site.words:
            site.words[address] = at = site.arena.allocate(LINE)
            self._store(at, address.to_bytes(8, "little"))
        return site.words[address]

    def _site_of(self, ground: PatchContext) -> ArenaSite:
        return next(site for site in self._sites if site.arena is ground.arena)

    @property
    def _data_names(self) -> set[str]:
        return {PRIVATE, *self._given}

    def give(self, name: str, address: int) -> None:
        """Let instruments know ``address`` by this name from now on."""
        self._given[name] = address

    def forget_linked(self, sources: Collection[str]) -> None:
        """Forget the code that was compiled from these sources: no later patch will call it. It stays in the arena."""
        for site in self._sites:
            for key in [key for key in site.linked if key[0] in sources]:
                del site.linked[key]

    def _resolve(self, name: str) -> Found:
        found = self._resolver.find(name)
        if found is None:
            raise CompileError(
                "undefined-symbol", f"neither the program nor its libraries define {name!r}, which the instrument uses"
            )
        return found

    def _control(self, site: ArenaSite, control: int) -> int:
        """The address in the arena at which the address of a control page is stored; 0 means this workspace's own
        page."""
        if not control:
            return site.host.base + runtime().symbols["gilk_params"]
        return self._word(site, control)

    def _own(self, site: ArenaSite) -> dict[str, int]:
        """The symbols that gilk itself gives to instruments, besides gilk_control."""
        return {PRIVATE: self._process.keeper.data_address() + self._private} | self._given

    def _link(self, site: ArenaSite, compiled: CompiledObject, control: int) -> Linked:
        own = self._own(site)
        symbols = {name: own.get(name) or self._resolve(name).address for name in compiled.undefined}
        symbols["gilk_control"] = self._control(site, control)
        room = len(compiled.content) + 4096
        code = site.arena.allocate(room)
        linked = link_instrument(compiled, code, site.held_next, symbols)
        site.arena.give_back(code + len(linked.code))
        if len(linked.code) > room or site.held_next + len(linked.data) > site.host.base - PAGE:
            raise CompileError("instrument-too-large", f"{compiled.source} has more code or data than an arena holds")
        self._store(code, linked.code)
        if linked.data:
            self._process.keeper.poke(site.held_next, linked.data)
            site.held_next += len(linked.data) + 63 & -64
        return linked

    # Plans.

    def stage(self, plan: Plan) -> tuple[int, Batch]:
        """Write patches and hand the sites to the keeper; nothing is active yet. Returns the batch's number and the
        batch.

        Raises MemoryTaken: the plan is of no use then, and nothing of it is kept.
        """
        if self._map_pages():
            raise taken(self._process.pid)
        for function in plan.functions:
            for patch in function.patches:
                self._store(patch.address, patch.data)
        return self._hand_over(pack(plan.functions, self.restorers))

    def _map_pages(self) -> set[int]:
        """Map the pages of puns that are not mapped yet; returns those that cannot be mapped, because the process has
        mapped something there first."""
        fresh = {page: offset for page, offset in self._puns.pages.items() if page not in self._mapped}
        gone = set(self._process.keeper.map_pages(fresh)) if fresh else set()
        self._mapped |= fresh.keys() - gone
        if gone:
            self._puns.lose(gone, self._process.occupied())
        return gone

    def _hand_over(self, batch: Batch) -> tuple[int, Batch]:
        self._batch += 1
        self._process.keeper.stage(self._batch, batch)
        return self._batch, batch

    # Templates of plans (splice/template.py).

    def place(
        self, loaded: Loaded, template: PlanTemplate, iids: Array, units: Array, callee: int = 0,
        comes_and_goes: bool = False,
    ) -> PlacedBatch | None:  # fmt: skip
        """Place a template in an image and stage those of its ``units`` that fit there; None where there is no room for
        the block of patches. A function fits only if all of its parts do.

        ``iids``: the iids of all rows. ``callee``: the function that the patches call, if they do. ``comes_and_goes``:
        the units will come into force and go at any time, whatever else is planned; if not, plans that share bytes with
        them replace them.
        """
        spot = self._spot(loaded, len(template.code), callee)
        if spot is None:
            return None
        placed = place(template, spot, iids)
        units = units & ~template.with_parts(self._reserve(loaded, template, placed, units))
        self._store(spot.block, placed.code.data)
        for row in np.flatnonzero(units[placed.jump_unit]).tolist():
            self._store(int(placed.jump_at[row]), placed.jumps[row].data)
        self._claim(loaded, template, placed.batch.new, units, comes_and_goes)
        number, batch = self._hand_over(placed.batch.only(set(np.flatnonzero(units).tolist())))
        return PlacedBatch(number, batch, placed.batch.new, units)

    def _claim(self, loaded: Loaded, template: PlanTemplate, new: Byte, units: Array, comes_and_goes: bool) -> None:
        ground = self._grounds.get(_key(loaded))
        if ground is None:
            self._placed.setdefault(_key(loaded), []).append((template, new, units))
        else:
            claim(ground, template, new, units)
            if comes_and_goes:
                ground.policy = BESIDE

    def give_up(self, loaded: Loaded, template: PlanTemplate, units: Array) -> None:
        """Note that plans need not keep away from these units of a placed template any more."""
        pending = self._placed.get(_key(loaded), ())
        if pending:
            rest = [(one, new, kept & ~units if one is template else kept) for one, new, kept in pending]
            self._placed[_key(loaded)] = [row for row in rest if row[2].any()]
        else:
            ground = self._grounds.get(_key(loaded))
            if ground is not None:
                unclaim(ground, template, units)

    def _spot(self, loaded: Loaded, size: int, callee: int) -> Spot | None:
        """A place for a block of patches; None where there is no room."""
        try:
            arena = self._site_for(loaded).arena
            return Spot(loaded.bias, arena.allocate(size), arena.base, callee)
        except OutOfSpace:
            return None
        except TargetError as error:
            if error.slug != "no-room":
                raise
            return None

    def _reserve(self, loaded: Loaded, template: PlanTemplate, placed: Placed, units: Array) -> Array:
        """Allocate and map the pages that the puns of ``units`` need; returns a mask of the units that cannot be placed
        here, or not beside existing plans."""
        self._puns.avoid(self._process.occupied())
        ground = self._grounds.get(_key(loaded))
        lost = placed.lost | conflicts(ground, template) if ground else placed.lost.copy()
        rows = np.flatnonzero((units & ~lost)[placed.jump_unit]).tolist()
        got = {row: self._puns.allocate(at, at + 1) for row in rows for at in (int(placed.jump_at[row]),)}
        gone = self._map_pages()
        without = [row for row, at in got.items() if at is None or at & -PAGE in gone]
        lost[placed.jump_unit[without]] = True
        return lost

    def save_everything(self) -> None:
        """From now on, have plans save every register at every point, even those that analysis calls dead."""
        self.shape = replace(self.shape, assume_live=EVERYTHING)
        for ground in self._grounds.values():
            ground.host = replace(ground.host, assume_live=EVERYTHING, templates={})
        for site in self._sites:
            site.host = replace(site.host, assume_live=EVERYTHING, templates={})

    def runtime_address(self, ground: PatchContext, name: str) -> int:
        return ground.arena.base + runtime().symbols[name]

    def show_places(self, batches: list[Batch], in_force: list[Batch]) -> None:
        """Give the runtime the table of the original places that patches stand for; ``batches`` are all that may be
        executed, the newest last. A table that is too large is not given."""
        table = places_table(batches, in_force)
        if len(table) > TABLE_SIZE:
            return
        self._tables += 1
        offset = TABLES + self._tables % 2 * TABLE_SIZE
        version = memoryview(self._code)[offset:][VERSION]
        version[:] = bytes(8)
        self._code[offset : offset + len(table)] = table
        version[:] = self._tables.to_bytes(8, "little")
        self._code_address = self._code_address or self._process.keeper.code_address()
        self._parameters.tell(ArenaWord.PLACES, self._code_address + offset)

    def _store(self, address: int, data: bytes | memoryview) -> None:
        offset = self._offset(address)
        self._code[offset : offset + len(data)] = data

    def _offset(self, address: int) -> int:
        for site in self._sites:
            if site.arena.holds(address):
                return site.arena.offset + address - site.arena.base
        return self._puns.pages[address & -PAGE] + (address & PAGE - 1)


def _is_same(one: Analysis, other: Analysis) -> bool:
    return one is other or one.image.content == other.image.content


def _key(loaded: Loaded) -> str:
    return f"{loaded.path}@{loaded.bias:x}"
