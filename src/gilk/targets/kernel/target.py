# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel as a target: one image, of the kernel and its modules as they are now."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from gilk.analysis.kernel import KernelAnalysis
from gilk.errors import TargetError
from gilk.image.kernel.build import NAME, KernelImage, kernel
from gilk.image.model import Image
from gilk.targets.base import Loaded
from gilk.targets.kernel.d_messages import originals, try_to_count
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.image import as_it_was, read
from gilk.targets.kernel.link import Link
from gilk.targets.processor_samples import Counted
from gilk.targets.status import parsed


class KernelTarget:
    """A kernel, of which each part is read when it is first needed. Raises TargetError, ImageError.

    ``shared``: its text is read as it was before the splices of any client, by what the driver says of them.
    """

    def __init__(self, link: Link, shared: bool = False) -> None:
        self.link = link
        self._shared = shared

    @property
    def who(self) -> str:
        return "the kernel"

    @cached_property
    def kernel(self) -> KernelImage:
        snapshot = read(self.link)
        return kernel(as_it_was(snapshot, originals(Driver(self.link))) if self._shared else snapshot)

    @cached_property
    def release(self) -> str:
        """The kernel's release, as uname -r gives it. Raises OSError."""
        return self.link.read_file("/proc/sys/kernel/osrelease").decode(errors="replace").strip()

    @cached_property
    def _analysis(self) -> KernelAnalysis:
        return KernelAnalysis(self.kernel)

    def loaded(self) -> tuple[Loaded, ...]:
        """The only image; addresses in it are those of the running kernel."""
        spans = self.kernel.image.spans
        return (Loaded(Path(NAME), 0, spans[0].start, spans[-1].end, False),)

    def image(self, path: Path) -> Image:
        return self.kernel.image

    def analysis(self, loaded: Loaded | None = None) -> KernelAnalysis:
        return self._analysis

    def counts(self, event: Counted) -> bool:
        """Whether its machine counts such events, as perf_event_open(2) does; False without the driver."""
        try:
            try_to_count(Driver(self.link), event)
        except TargetError:
            return False
        return True

    def status(self, tid: int) -> dict[str, str]:
        """The lines of /proc/TID/status by their names; empty when there is no such thread."""
        try:
            found = parsed(self.link.read_file(f"/proc/{tid}/status"))
        except OSError:
            return {}
        return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in found.items()}

    def process_of(self, tid: int) -> int | None:
        """The pid of the process that a thread belongs to; None when the thread has gone."""
        found = self.status(tid).get("Tgid") if tid else "0"
        return None if found is None else int(found)
