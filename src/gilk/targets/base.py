# SPDX-License-Identifier: LGPL-2.1-or-later
"""The protocols of targets: images at places, an analysis of each, and a tracer that changes it.

To add a target beside the process and the kernel:

1. Implement `Code`: the images of the target, where they lie, and how each is analysed. Everything that looks up points
   works then.
2. For a target that executes a program's code as a process does, implement `Target`, and a `Tracer` that maps memory,
   stages batches and changes code. The session, its ledger, providers, followers and the engine of D work then. The
   keeper reaches what lies beneath a tracer through a protocol of its own (traced.py): a class that can stop threads,
   write memory and have system calls made by other means implements that, and uses the keeper with all that it knows of
   moving threads. The program in memory of tests/fake is one, in some 250 lines; sessions, ledgers, followers and D run
   on it.
3. For another kind of code, write a stager and a changer (session/staging.py, session/ledger.py), a source of records
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

if TYPE_CHECKING:  # a protocol needs these names for annotations only
    from gilk.targets.batch import Batch
    from gilk.targets.changing import Outcome
    from gilk.targets.copies import Units
    from gilk.targets.debug_registers import WatchedPiece
    from gilk.targets.held import ArenaMap
    from gilk.targets.running import Sample
    from gilk.targets.semaphores import Raised, Semaphore


@dataclass(frozen=True)
class Loaded:
    """An image where the loader put it: run-time address = link-time address + ``bias``. ``link``: the name of the
    symbolic link by which the program was executed, '' if it was executed by its own name. ``called``: the path that
    the process's mappings name, if the file cannot be read by that name any more because it was replaced or removed;
    else ''."""

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
        """Whether the glob matches one of the image's names (spec/image.py); an empty glob matches all images."""
        path = self.called or str(self.path)
        return not pattern or image_names.matches(pattern, path, self.soname, self.main, self.link)


class Code(Protocol):
    """A process or a kernel, as far as points are looked up in it."""

    def __hash__(self) -> int:
        """Distinct targets are never equal: findings about one are kept for that one alone."""
        ...

    @property
    def who(self) -> str:
        """The target's name in messages: ``process 4711``."""
        ...

    def loaded(self) -> tuple[Loaded, ...]: ...

    def image(self, path: Path) -> Image: ...

    def analysis(self, loaded: Loaded) -> Analysis: ...


class Tracer(Protocol):
    """The holder of a target, which maps memory into it and changes its code. Methods raise TargetError unless they say
    otherwise."""

    def set_up(self, name: str, code_size: int, data_size: int) -> tuple[int, int]:
        """Map memory for patches and for records; returns the file descriptors of both, in that order."""
        ...

    def data_address(self) -> int: ...
    def code_address(self) -> int: ...

    def map_arena(self, arena: ArenaMap) -> None:
        """Map an arena and its key page. Raises MemoryTaken."""
        ...

    def map_pages(self, pages: dict[int, int]) -> list[int]:
        """Map single pages, ``pages`` from address to offset in the code memory; returns the addresses of those that
        could not be mapped."""
        ...

    def map_side(self, blocks: int) -> int:
        """Map stacks for the instruments of ``blocks`` threads; returns the address where they begin."""
        ...

    def map_advice(self, blocks: int) -> int:
        """Map stacks for the advice of ``blocks`` threads; returns the address where they begin."""
        ...

    def share_memory(self, size: int) -> tuple[int, int]:
        """Map more memory that the client has too; returns its file descriptor, and its address in the target."""
        ...

    def map_common(self, memory: int, size: int) -> int:
        """Map memory that another process has made, given by its descriptor; returns its address in the target."""
        ...

    def unshare_memory(self, address: int, size: int) -> None: ...
    def poke(self, address: int, data: bytes) -> None: ...
    def peek(self, address: int, size: int) -> bytes:
        """Read memory of the target. Raises OSError when nothing is mapped there."""
        ...

    def stage(self, number: int, batch: Batch) -> None: ...
    def forget(self, number: int) -> None: ...

    def give_up(self, units: Units) -> None:
        """Note that these units, which are not active, will not become active any more."""
        ...

    def have_gates(self, control: int) -> None:
        """Note that threads may wait at gates of the client whose control page lies at ``control``."""
        ...

    def have_no_gates(self, control: int) -> None:
        """Note that the client of this control page goes, and release the threads that wait for it."""
        ...

    def change(self, remove: Units, add: Units) -> Outcome:
        """Undo some units and do others, in one stop. Raises TargetError `code-changed`, `busy`."""
        ...

    def expect(self, add: Units, busy: Units) -> None:
        """Prepare the change that `begin` is going to make."""
        ...

    def begin(self) -> Outcome: ...

    def handlers(self, signals: list[int]) -> list[tuple[int, int]]:
        """The pairs (handler, restorer) of those of ``signals`` whose handlers are given the interrupted state."""
        ...

    def search_stacks(self) -> None:
        """Note that signal handlers of the program may wait on stacks on which no thread is."""
        ...

    def lower_semaphores(self, raised: list[Raised]) -> None: ...
    def trap(self, pieces: list[WatchedPiece], enter: int) -> None: ...

    def is_present(self) -> bool:
        """Whether the target still runs the program that was set up."""
        ...

    def close(self) -> bool:
        """Undo everything; returns whether every byte of code is what it was."""
        ...

    def notes(self) -> list[str]:
        """The notes for the user about the keeper's work since this was last called."""
        ...


class Target(Code, Protocol):
    """A running program: a process, or a stand-in for one."""

    @property
    def pid(self) -> int: ...
    @property
    def keeper(self) -> Tracer: ...

    @property
    def own_number(self) -> int:
        """The process's number in its own PID namespace (pid_namespaces(7)), by which its threads know it."""
        ...

    @property
    def threads(self) -> Threads: ...

    @property
    def unstarted(self) -> bool:
        """Whether the program was launched and none of its code has run yet."""
        ...

    @property
    def gone(self) -> Gone:
        """A function that tells whether a thread of the process or its children has ended, given the thread's number as
        records have it."""
        ...

    def status(self) -> dict[bytes, bytes]:
        """The lines of /proc/PID/status (status.py), or an equivalent. Raises OSError once the process has gone."""
        ...

    def root(self) -> bytes:
        """The process's root directory. Raises OSError."""
        ...

    def check_hits(self) -> None:
        """Check that the process would not be stopped for the system calls of a first hit.

        Raises TargetError `seccomp-blocks-hits`.
        """
        ...

    def may_be_killed(self) -> bool:
        """Whether a seccomp filter of the process's own may kill it for a system call (seccomp.py)."""
        ...

    def caught(self) -> int:
        """The signals that the process has handlers for, bit n-1 for signal n."""
        ...

    def occupied(self) -> Occupied:
        """The address ranges where nothing may be mapped."""
        ...

    def exported(self, path: Path, name: str) -> ElfSymbol | None:
        """The symbol called ``name`` that the image at ``path`` exports to other images; None if it has none. Raises
        ImageError."""
        ...

    def mentions(self, path: Path, names: frozenset[str]) -> bool:
        """Whether the image at ``path`` defines or imports a symbol of any of these names. Raises ImageError."""
        ...

    def raise_semaphores(self, counters: list[Semaphore]) -> list[Raised]:
        """Increment semaphores, which tell the program that somebody listens; returns those that were incremented."""
        ...

    def sample(self, stack: int = 0) -> list[Sample]:
        """Samples of the threads that run just now, with up to ``stack`` bytes of the stack of each."""
        ...

    def copy_code(self, units: Units) -> int:
        """Prepare copies of code in which these units are in force; returns how many copies there are, 0 if none was
        made."""
        ...

    def keep_learnt(self) -> None:
        """Keep the findings of analyses for later sessions."""
        ...
