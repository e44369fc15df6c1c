# SPDX-License-Identifier: LGPL-2.1-or-later
"""Signal handlers: a handler that looks at the interrupted address is shown an original address, not one in a patch.

A handler installed with SA_SIGINFO gets an instrument at its entry, and the restorer that it returns to gets one as
well (native/runtime/signal.c). Handlers installed later are found by looking at /proc/PID/status at every poll. Those
of the Go runtime are known before it installs them: it ends the program upon an address that it does not expect in a
function of its own, such as that of a bounce's jump (runtime/symtab.go, pcvalue). If the program catches faults,
patches save every register at every point.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gilk.analysis.model import Function
from gilk.errors import GilkError
from gilk.session.entry import Entry
from gilk.session.staging import ChangeResult
from gilk.splice.instrument import CallWithRegisters
from gilk.splice.plan import Want
from gilk.splice.planner import PatchContext
from gilk.targets.base import Loaded, Target
from gilk.targets.stack_switching import main_program
from gilk.targets.workspace import Workspace

EntryOf = Callable[[PatchContext, Function], Entry]
_FAULTS = sum(1 << number - 1 for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL))
#: The functions that the Go runtime passes to sigaction(2) at its start (runtime/os_linux.go, setsig); a linker adds
#: .abi0 to some.
_GO_HANDLERS = ("runtime.sigtramp", "runtime.cgoSigtramp")
_GO_RESTORERS = ("runtime.sigreturn__sigaction", "runtime.sigreturn")
_LEAVE = "gilk_signal_leave"
_FIRST_KEY = 1 << 40  # higher than any key of a probe


class Signals:
    """The instruments at the signal handlers of one process, for its session."""

    def __init__(self, process: Target, workspace: Workspace) -> None:
        self._process = process
        self._workspace = workspace
        self._caught = 0
        self._ahead: list[tuple[int, int]] | None = None
        self._entered: set[int] = set()
        self._left: dict[int, list[tuple[Entry, Want]]] = {}
        self._before: tuple[set[int], dict[int, list[tuple[Entry, Want]]]] = set(), {}
        self._again = False  # whether wants() has to be asked again
        self._key = _FIRST_KEY

    def changed(self) -> bool:
        """Whether handlers may have been installed since the last call; at the first call, also whether some are known
        to come."""
        caught, first = self._process.caught(), self._ahead is None
        if self._ahead is None:
            self._ahead = _of_go(self._process) if self._process.unstarted else []
        changed, self._caught = caught != self._caught and caught != 0, caught
        return changed or (first and bool(self._ahead)) or self._again

    def faults(self) -> bool:
        """Whether the program handles faults: such a handler may see, at any instruction, registers that the code
        itself will not read again."""
        return bool(self._caught & _FAULTS)

    def wants(self, entry_of: EntryOf) -> list[tuple[Entry, Want]]:
        """The instruments for handlers that have none yet."""
        found = []
        self.settle()
        self._again = False
        installed = self._process.keeper.handlers(_numbers(self._caught)) if self._caught else []
        for handler, restorer in [*(self._ahead or []), *installed]:
            if restorer not in self._left:
                self._left[restorer] = list(self._want(restorer, _LEAVE, entry_of))
                found += self._left[restorer]
            if self._left[restorer] and handler not in self._entered:
                self._entered.add(handler)
                name = "gilk_signal_enter_go" if self._is_of_go(handler) else "gilk_signal_enter"
                found += list(self._want(handler, name, entry_of))
        return found

    @contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        """A context in which the instruments that wants() has returned last are put in, or made possible. If that
        fails, wants() will return them again."""
        try:
            yield
        except BaseException:
            self._entered, self._left = self._before
            self.settle()
            self._again = True
            raise

    def settle(self) -> None:
        """Note that the instruments that wants() has returned are in."""
        self._before = set(self._entered), dict(self._left)

    def unbalanced(self, result: ChangeResult) -> list[int]:
        """The keys of instruments to remove at once: if a handler's return cannot be instrumented, its entry must not
        be."""
        leaving = {want.key for wants in self._left.values() for _, want in wants}
        return list(range(_FIRST_KEY, self._key + 1)) if result.refusals.keys() & leaving else []

    def _is_of_go(self, address: int) -> bool:
        return any(self._process.image(one.path).is_go for one in self._loaded_at(address))

    def _loaded_at(self, address: int) -> list[Loaded]:
        """The images that are mapped at the address: one, or none in anonymous memory."""
        return [one for one in self._process.loaded() if one.start <= address < one.end]

    def _want(self, address: int, name: str, entry_of: EntryOf) -> Iterator[tuple[Entry, Want]]:
        for loaded in self._loaded_at(address):
            span = self._process.image(loaded.path).span_at(address - loaded.bias)
            if span is None:
                continue
            try:
                ground = self._workspace.ground(loaded, self._process.analysis(loaded))
            except GilkError:
                continue
            function = ground.analysis.function(span)
            instrument = CallWithRegisters(self._workspace.runtime_address(ground, name), 0, False, roomy=True)
            self._key += 1
            if name == _LEAVE:
                self._workspace.restorers[self._key] = address
            yield entry_of(ground, function), Want(address - loaded.bias, False, instrument, self._key)


def _of_go(process: Target) -> list[tuple[int, int]]:
    """The pairs (handler, restorer) that a Go program is about to install, from its symbols; none for other
    programs."""
    main = main_program(process)
    image = process.image(main.path) if main is not None else None
    if main is None or image is None or not image.is_go:
        return []

    def found(names: tuple[str, ...]) -> list[int]:
        symbols = (each for name in names for suffix in ("", ".abi0") for each in image.named(name + suffix))
        return [each.address + main.bias for each in symbols]

    return [(handler, restorer) for handler in found(_GO_HANDLERS) for restorer in found(_GO_RESTORERS)]


def _numbers(mask: int) -> list[int]:
    return [n + 1 for n in range(64) if mask >> n & 1]
