# SPDX-License-Identifier: LGPL-2.1-or-later
"""The keeper's answers to requests: one method per request; the methods' names are the protocol (requests.py)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gilk.errors import GilkError, TargetError
from gilk.targets import ptrace, traps
from gilk.targets.another_program import program_gone
from gilk.targets.batch import Batch
from gilk.targets.changing import Outcome
from gilk.targets.copies import Copy, Units
from gilk.targets.held import ArenaMap
from gilk.targets.keeper import Keeper
from gilk.targets.remains import Remains
from gilk.targets.running import Sample
from gilk.targets.semaphores import Raised, Semaphore

#: Whether a request was carried out, and what came of it: a value or an error.
Answer = tuple[bool, Any]


class Answers:
    """Answers requests with ``keeper``, which is None until there is a process."""

    def __init__(self, keeper: Keeper | None = None) -> None:
        self._keeper = keeper

    @property
    def keeper(self) -> Keeper:
        if self._keeper is None:
            raise TargetError("no-such-process", "no process is attached")
        return self._keeper

    def answer(self, name: str, arguments: tuple[Any, ...], send: Callable[[Answer, tuple[int, ...]], None]) -> None:
        """Carry out a request, and send its value or error with the file descriptors that belong to it."""
        fds: tuple[int, ...] = ()
        try:
            value = getattr(self, name)(*arguments)
            if name == "set_up":
                fds = value
            elif name == "share_memory":
                fds = value[:1]
            send((True, value), fds)
            if name == "share_memory":
                os.close(fds[0])  # the client has its own descriptor now
        except ProcessLookupError:
            gone = TargetError("no-such-process", "the process has ended")
            send((False, gone if self._keeper is None else program_gone(self._keeper.process.pid)), ())
        except ptrace.Late:
            send((False, TargetError("busy", "a thread does not stop", "try again later")), ())
        except (GilkError, OSError) as error:
            send((False, error), ())
        finally:
            if self._keeper is not None:
                self._keeper.catch_up()

    def close(self) -> bool:
        """Undo everything; returns whether all code is what it was. The process can be set up again afterwards."""
        return self._keeper is None or self._keeper.close()

    def stay(self, word: int) -> None:
        """When the client goes without asking to close, leave everything in the target as it is, if the word at address
        ``word`` of the target is not 0."""
        self.keeper.stay_word = word

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]:
        return self.keeper.mapper.set_up(name, code_size, data_size)

    def data_address(self) -> int:
        return self.keeper.held.data

    def code_address(self) -> int:
        """The address at which all of the code memory is mapped in the target, for reading."""
        return self.keeper.held.code

    def share_memory(self, size: int) -> tuple[int, int]:
        return self.keeper.mapper.share_memory(size)

    def unshare_memory(self, address: int, size: int) -> bool:
        return self.keeper.unshare_memory(address, size)

    def map_arena(self, arena: ArenaMap) -> None:
        self.keeper.mapper.map_arena(arena)

    def search_stacks(self) -> None:
        self.keeper.search_stacks()

    def map_side(self, blocks: int) -> int:
        return self.keeper.mapper.map_side(blocks)

    def map_advice(self, blocks: int) -> int:
        return self.keeper.mapper.map_advice(blocks)

    def map_pages(self, pages: dict[int, int]) -> list[int]:
        return self.keeper.mapper.map_pages(pages)

    def poke(self, address: int, data: bytes) -> None:
        """Write memory of the target: the initial values of an instrument's variables."""
        self.keeper.memory.write(address, data)

    def peek(self, address: int, size: int) -> bytes:
        return self.keeper.memory.read(address, size)

    def put_back(self, copies: tuple[Copy, ...]) -> None:
        self.keeper.put_back(copies)

    def repair(self, pieces: list[tuple[int, bytes]], remains: Remains) -> bool:
        return self.keeper.repair(pieces, remains)

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        return self.keeper.handlers(signals)

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        return self.keeper.raise_semaphores(counters)

    def lower_semaphores(self, raised: list[Raised]) -> None:
        self.keeper.lower_semaphores(raised)

    def lower_abandoned(self) -> None:
        """Lower the semaphores that sessions without a keeper have raised, and have SIGTRAP end the process again."""
        self.keeper.semaphores.lower_abandoned()
        traps.give_back_abandoned(self.keeper)

    def sample(self, stack: int) -> list[Sample]:
        return self.keeper.sample(stack)

    def standing(self, stack: int) -> list[Sample]:
        return self.keeper.standing(stack)

    def under_way(self, word: int) -> list[str]:
        return self.keeper.under_way(word)

    def stage(self, number: int, batch: Batch) -> None:
        self.keeper.stage(number, batch)

    def expect(self, units: Units, busy: Units) -> None:
        self.keeper.expect(units, busy)

    def begin(self) -> Outcome:
        return self.keeper.begin()

    def copy_code(self, units: Units) -> tuple[Copy, ...]:
        return self.keeper.copy_code(units)

    def give_up(self, units: Units) -> None:
        self.keeper.give_up(units)

    def have_gates(self, control: int) -> None:
        self.keeper.have_gates(control)

    def have_no_gates(self, control: int) -> None:
        self.keeper.have_no_gates(control)

    def forget(self, number: int) -> None:
        self.keeper.forget(number)

    def change(self, remove: dict[int, set[int]], add: dict[int, set[int]]) -> Outcome:
        return self.keeper.change(remove, add)

    def notes(self) -> list[str]:
        """The notes for the user about the work since this was last called."""
        notes, self.keeper.notes = self.keeper.notes, []
        return notes

    def present(self) -> bool:
        return self._keeper is not None and self._keeper.present()
