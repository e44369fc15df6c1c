# SPDX-License-Identifier: LGPL-2.1-or-later
"""The protocols of targets: images at places, an analysis of each, and a tracer that changes it.

To add a target to those that there are (a process, a kernel):

1. `Code`: what its images are, where they lie, and how each is analysed. All that looks points up works then.
2. For one that executes a program's code as a process does: `Target`, and a `Tracer` that maps, stages and changes.
   The session, its ledger, providers, followers and the engine of D work then.
   A protocol of its own (traced.py) describes what lies beneath a tracer: a class that can stop threads, write memory
   and have system calls made by other means implements that, and has the keeper with all it knows of moving threads.
   The program in memory of tests/fake is one, in some 250 lines; sessions, ledgers, followers and D run on it.
3. For another kind of code: a stager and a changer (session/staging.py, session/ledger.py), a source of records
   (trace/drain.py) and a session over them, as kernel_session.py is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gilk.analysis.analysis import Analysis
from gilk.image.model import ElfSymbol, Image
from gilk.spec import image as image_names
from gilk.splice.allocator import Occupied
from gilk.targets.threads import Gone, Threads
from gilk.values import dataclass

if TYPE_CHECKING:  # a protocol need not wait for what it names
    from gilk.targets.batch import Batch
    from gilk.targets.changing import Outcome
    from gilk.targets.copies import Units
    from gilk.targets.held import ArenaMap
    from gilk.targets.running import Sample
    from gilk.targets.semaphores import Raised, Semaphore


@dataclass(frozen=True)
class Loaded:
    """An image where the loader put it: run-time address = link-time address + ``bias``. ``link``: the name of the link
    by which the program was executed, if it was by one. ``called``: the path by which the process has it, if the file
    is not to be read by any of that name, since it was replaced or removed."""

    path: Path
    bias: int
    start: int
    end: int
    main: bool
    soname: str = ""
    link: str = ""
    called: str = ""

    @property
    def name(self) -> str:
        return self.called.rpartition("/")[2] or self.path.name

    def is_meant(self, pattern: str) -> bool:
        """Whether the image goes by a name that the glob matches (spec/image.py); an empty one means all images."""
        path = self.called or str(self.path)
        return not pattern or image_names.matches(pattern, path, self.soname, self.main, self.link)


class Code(Protocol):
    """A process, or the kernel, as far as points are looked up in it."""

    def __hash__(self) -> int:
        """No two are equal: findings about one are kept for that alone."""
        ...

    @property
    def who(self) -> str:
        """For messages: ``process 4711``."""
        ...

    def loaded(self) -> tuple[Loaded, ...]: ...

    def image(self, path: Path) -> Image: ...

    def analysis(self, loaded: Loaded) -> Analysis: ...


class Tracer(Protocol):
    """The holder of a target: maps memory into it and changes its code. Methods raise TargetError unless they say
    otherwise."""

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]:
        """Map memory for patches and for records: file descriptors of both."""
        ...

    def data_address(self) -> int: ...
    def code_address(self) -> int: ...

    def map_arena(self, arena: ArenaMap) -> None:
        """Raises MemoryTaken."""
        ...

    def map_pages(self, pages: dict[int, int]) -> list[int]:
        """Single pages, address to offset; those that could not be had."""
        ...

    def map_side(self, blocks: int) -> int:
        """Stacks for the instruments of so many threads; where they begin."""
        ...

    def map_advice(self, blocks: int) -> int:
        """Stacks for the advice of so many threads; where they begin."""
        ...

    def share_memory(self, size: int) -> tuple[int, int]:
        """A file descriptor, and the address in the target."""
        ...

    def map_common(self, memory: int, size: int) -> int:
        """Map memory that another process has made, by its descriptor; the address in the target."""
        ...

    def unshare_memory(self, address: int, size: int) -> None: ...
    def poke(self, address: int, data: bytes) -> None: ...
    def peek(self, address: int, size: int) -> bytes:
        """Raises OSError when nothing is mapped there."""
        ...

    def stage(self, number: int, batch: Batch) -> None: ...
    def forget(self, number: int) -> None: ...

    def give_up(self, units: Units) -> None:
        """These units, which are not active, will not be any more."""
        ...

    def have_gates(self, control: int) -> None:
        """Threads may wait at gates of the client whose control page lies there."""
        ...

    def have_no_gates(self, control: int) -> None:
        """That client goes, and no thread waits for it any more."""
        ...

    def change(self, remove: Units, add: Units) -> Outcome:
        """Undo some units and do others, in one stop. Raises TargetError `code-changed`, `busy`."""
        ...

    def expect(self, add: Units, busy: Units) -> None:
        """Have ready what `begin` is to change."""
        ...

    def begin(self) -> Outcome: ...

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        """(handler, restorer) of those that are given the interrupted state."""
        ...

    def search_stacks(self) -> None:
        """Handlers of the program may wait on stacks on which no thread is."""
        ...

    def lower_semaphores(self, raised: list[Raised]) -> None: ...

    def is_present(self) -> bool:
        """The program is still the one that was set up."""
        ...

    def close(self) -> bool:
        """Undo all; whether every byte of code is what it was."""
        ...

    def notes(self) -> list[str]:
        """Notes for the user about the work since they were last asked for."""
        ...


class Target(Code, Protocol):
    """A program that runs: a process, or what stands for one."""

    @property
    def pid(self) -> int: ...
    @property
    def keeper(self) -> Tracer: ...

    @property
    def own_number(self) -> int:
        """By which its threads know the process themselves (pid_namespaces(7))."""
        ...

    @property
    def threads(self) -> Threads: ...

    @property
    def unstarted(self) -> bool:
        """It was launched, and nothing of it has run yet."""
        ...

    @property
    def gone(self) -> Gone:
        """Whether a thread, of its own or of its children, has ended, by the number that records have."""
        ...

    def status(self) -> dict[bytes, bytes]:
        """Lines of /proc/PID/status (status.py), or what stands for them. Raises OSError once it has gone."""
        ...

    def root(self) -> bytes:
        """Its root directory. Raises OSError."""
        ...

    def may_be_killed(self) -> bool:
        """A filter of its own may kill it for a system call (seccomp.py)."""
        ...

    def caught(self) -> int:
        """The signals that it has handlers for, bit n-1 for signal n."""
        ...

    def occupied(self) -> Occupied:
        """Where nothing may be mapped."""
        ...

    def exported(self, path: Path, name: str) -> ElfSymbol | None:
        """The symbol of that name that other images find in this one; None without one. Raises ImageError."""
        ...

    def mentions(self, path: Path, names: frozenset[str]) -> bool:
        """Whether an image has symbols of these names, of its own or asked of others. Raises ImageError."""
        ...

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        """Have these say that somebody listens; those that do."""
        ...

    def sample(self, stack: int = 0) -> list[Sample]:
        """The threads that run just now, and so many bytes of the stack of each."""
        ...

    def copy_code(self, units: Units) -> int:
        """Have copies of code ready in which these units are in force; how many, 0 where there are none."""
        ...

    def keep_learnt(self) -> None:
        """Keep for later sessions what analyses have found."""
        ...
