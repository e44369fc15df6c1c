# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries that one process opens and closes during a session: probes are put into them, and libraries that lack
probes are noted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from gilk.errors import GilkError, TargetError
from gilk.image.model import Image
from gilk.session.broker.library_watch import LibraryWatch, WatchEnd, may_come
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.trace.clock import Clock

_GONE = frozenset({"no-such-process", "keeper-gone"})
_NAMED = 5


class HasProbes(Protocol):
    """Puts probes into libraries. All methods raise GilkError, OSError."""

    def put_in(self, images: Sequence[Loaded]) -> list[str] | None:
        """Put probes into the libraries. Returns None if none has a point that is meant, else the reasons of
        refusals."""
        ...

    def has_points(self, loaded: Loaded) -> bool:
        """Whether the library has points that are meant. It may have been closed since."""
        ...

    def regain(self, loaded: Loaded) -> list[str] | None:
        """Put probes into a library that was closed and is opened again. Returns None if it had no probes, else the
        reasons of refusals."""
        ...

    def lose(self, loaded: Loaded) -> None:
        """Note that a library was closed."""
        ...

    def forget(self, loaded: Loaded) -> None:
        """Forget the probes of a library that was closed, because its path is another file now."""
        ...


class OpenedLibraries:
    """The libraries of one process that match the patterns ``names``; ``uses`` puts the probes in."""

    def __init__(self, process: Process, names: Sequence[str], uses: HasProbes) -> None:
        self.process = process
        self._names, self._uses = tuple(filter(None, names)), uses
        self._seen: dict[Path, Image] = {}  # images as they were when probes went in
        self._watch: LibraryWatch | None = None
        self._probed: dict[str, None] = {}  # names of libraries
        self._told: dict[str, None] = {}  # sentences about missing probes

    def begin(self, clock: Clock, known: Sequence[Loaded], launched: bool, is_first: bool = False) -> bool:
        """Watch for libraries; returns False if none can come.

        ``known``: the images that were mapped when probes went in. ``launched``: nothing of the program has run yet.
        ``is_first``: no probes have gone in yet. Raises TargetError.
        """
        if not may_come(self.process, self._names, known, launched):
            return False
        self._watch = LibraryWatch(self.process, clock, self._opened, self._closed, None if is_first else known)
        return True

    @property
    def known(self) -> tuple[Loaded, ...]:
        """The images into which probes can go at first: none of them is unmapped before the first ``look``."""
        assert self._watch is not None
        return self._watch.libraries.known

    def look(self, seconds: float) -> None:
        """Wait for ``seconds``, or until the process has opened a library."""
        assert self._watch is not None
        try:
            self._watch.libraries.look(seconds)
        except TargetError as error:
            if error.slug not in _GONE:
                raise

    def close(self) -> WatchEnd:
        """Hold threads no more. Raises GilkError."""
        if self._watch is None:
            return WatchEnd()
        self._watch.libraries.look_last()
        return self._watch.close()

    def _is_meant(self, loaded: Loaded) -> bool:
        return not loaded.main and any(loaded.is_meant(name) for name in self._names)

    def _opened(self, images: Sequence[Loaded]) -> None:
        meant = [loaded for loaded in images if self._is_meant(loaded)]
        try:
            fresh = [loaded for loaded in meant if not self._is_back(loaded)]
            if fresh:
                self._note(fresh, self._uses.put_in(fresh))
        except (GilkError, OSError) as error:
            if getattr(error, "slug", "") not in _GONE or self.process.alive:
                which = named(loaded.name for loaded in meant)
                self._told[f"opened later, and not instrumented: {which}: {error}"] = None

    def _is_back(self, loaded: Loaded) -> bool:
        """Whether the library was closed before and has its probes again."""
        image = self.process.image(loaded.path)
        if self._seen.setdefault(loaded.path, image) is not image:
            self._seen[loaded.path] = image
            self._uses.forget(loaded)
            return False
        refused = self._uses.regain(loaded)
        self._note([loaded], refused)
        return refused is not None

    def _closed(self, loaded: Loaded) -> None:
        self._seen.setdefault(loaded.path, self.process.image(loaded.path))
        self._uses.lose(loaded)

    def _note(self, images: Iterable[Loaded], refused: list[str] | None) -> None:
        if refused is not None:
            self._probed.update((loaded.name, None) for loaded in images)
            self._told.update((f"opened later, and refused there: {why}", None) for why in refused)

    # The end.

    @property
    def has_probed(self) -> bool:
        """Whether any library has got probes."""
        return bool(self._probed)

    @property
    def lacking(self) -> list[str]:
        """Sentences about libraries that should have probes and have none."""
        if self._watch is None:
            return list(self._told)
        libraries = self._watch.libraries
        return [*self._told, *remarks_unseen(filter(self._lacks, libraries.arrivals.unseen), libraries.hindrance)]

    def _lacks(self, loaded: Loaded) -> bool:
        try:
            return self._is_meant(loaded) and self._uses.has_points(loaded)
        except (GilkError, OSError):
            return True  # it cannot be known, so the user is told

    @property
    def remarks(self) -> list[str]:
        """Sentences about the libraries that have probes."""
        if not self._probed or self._watch is None:
            return []
        held = self._watch.libraries.held / 1e6
        return [f"opened later, and instrumented first: {named(self._probed)}; all that took {held:.0f} ms"]


def rest(watched: Iterable[OpenedLibraries], seconds: float) -> None:
    """Wait for ``seconds`` in all, or until one of the processes has opened a library."""
    each = list(watched)
    for opened in each:
        opened.look(seconds / len(each))
    if not each:
        time.sleep(seconds)


def named(libraries: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    names = list(dict.fromkeys(libraries))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def remarks_unseen(libraries: Iterable[Loaded], hindrance: str = "") -> list[str]:
    """Sentences about libraries that were opened later and not instrumented in time.

    ``hindrance``: why no thread could be held; then there may be libraries that were never seen.
    """
    names, said = [loaded.name for loaded in libraries], list[str]()
    if names:
        what = "library was opened later, and has" if len(names) == 1 else "libraries were opened later, and have"
        said.append(f"{len(names)} {what} no instruments: {named(names)}")
    if hindrance:
        said.append(f"libraries that were opened later have no instruments, also those that nobody saw: {hindrance}")
    return said
