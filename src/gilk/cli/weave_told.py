# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of ``gilk weave``: reports as they come, refusals and the end, on the terminal and in a file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from gilk.errors import StoreError

if TYPE_CHECKING:
    from gilk.api.aspects import Weaving, WovenReport
    from gilk.errors import GilkError


class WeavingTold:
    """Prints the reports of a weaving, beside a launched program's own output, and writes them to a file. The
    context manager closes the file."""

    def __init__(self, as_json: bool, quiet: bool, launched: bool, output: Path | None) -> None:
        """Open the file ``output``, if one is given. Raises StoreError `cannot-write`."""
        from gilk.render import woven  # here: --help need not wait for it

        self._woven, self._json, self._quiet, self._path = woven, as_json, quiet, output
        self._err = launched and not as_json
        self._file: IO[str] | None = None if output is None else _opened(output)

    def __enter__(self) -> WeavingTold:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def shows_progress(self) -> bool:
        return not (self._quiet or self._json)

    def begun(self, weaving: Weaving) -> None:
        """Report that everything is woven in and switched on."""
        self._say(self._woven.begun_json(weaving.summaries()))
        if not self._json and not self._quiet and not self._err:
            click.echo(self._woven.begun_text(weaving.summaries()), err=True)
        for pid, error in weaving.refused.items():
            self.refused(pid, error)

    def report(self, report: WovenReport) -> None:
        self._say(self._woven.report_json(report))
        if not self._json:
            click.echo(self._woven.report_text(report), err=self._err)

    def refused(self, pid: int, error: GilkError) -> None:
        """Report a process that does not take part; the weaving goes on in the others."""
        self._say(self._woven.refused_json(pid, error))
        if not self._json:
            click.echo(self._woven.refused_text(pid, error), err=True)

    def under_way(self, names: Sequence[str]) -> None:
        """Report the functions with calls that are still under way and go on without advice."""
        if names:
            self._say(self._woven.under_way_json(names))
        if names and not self._json:
            click.echo(self._woven.under_way_text(names), err=True)

    def end(self, weaving: Weaving) -> None:
        summary = weaving.summaries(), weaving.counts(), weaving.tables()
        sys.stdout.flush()
        self._say(self._woven.summary_json(*summary))
        if not self._json and not self._quiet:
            click.echo(self._woven.summary_text(*summary), nl=False, err=self._err)

    def _say(self, line: str) -> None:
        """Write a line of JSON, to standard output with --json and to the file. Raises StoreError `cannot-write`."""
        if self._json:
            click.echo(line)
        if self._file is not None:
            try:
                self._file.write(f"{line}\n")
                self._file.flush()
            except OSError as error:
                with contextlib.suppress(OSError):  # close() tries once more to write
                    self._file.close()
                self._file = None
                raise StoreError("cannot-write", f"{self._path}: {error.strerror}") from None


def _opened(path: Path) -> IO[str]:
    from gilk.api import aspects

    try:
        return aspects.fresh_text(path)
    except OSError as error:
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None
