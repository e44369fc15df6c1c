# SPDX-License-Identifier: LGPL-2.1-or-later
"""The worker for what is within reach: it looks at processes, lists files, and reads and writes experiments.

    python -m gilk.web.reach_worker READING WRITING GRANTS

The server does none of that, since it may have no right to: see separation.py. It is light, for the first page waits
for it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gilk.errors import TargetError
from gilk.inputs import text_of
from gilk.web.checked import Check, acting, checked, free, text
from gilk.web.files import MOST_EXPERIMENT, check_unchanged, plain
from gilk.web.frames import Answers, ServerChannel
from gilk.web.grants import Grants, identity_of, identity_of_file, taken, title_of
from gilk.web.serving import serve

Json = dict[str, Any]
_MOST_SOURCE: Final = 8 << 20  # the most bytes of a source file
_MOST_FILES: Final = 500  # the most files of samples that are listed


class ReachAnswers:
    """The answers to all questions of the worker; each asks ``grants`` what is within reach."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants

    def answers(self) -> Answers:
        return {name: getattr(self, name) for name in CHECKS}

    def target(self, target: str) -> Json:
        """The target in the form that all commands use, and its title for people."""
        name = self._grants.target(target)
        return {"name": name, "title": title_of(name)}

    def processes(self) -> Json:
        """The processes, the youngest first."""
        found = self._grants.processes()
        rows = [{"id": identity_of(one), "pid": one.pid, "names": sorted(one.names), "user": one.user} for one in found]
        return {"processes": rows}

    def files(self) -> Json:
        """The programs and the experiments."""
        programs, more = self._grants.programs()
        return {
            "programs": [{"id": identity_of_file(path), "path": str(path)} for path in programs],
            "programs_left_out": more,
            "experiments": [
                {"id": identity_of_file(path), "name": path.name, "folder": str(path.parent)}
                for path in self._grants.experiment_files()
            ],
        }

    def samples(self) -> Json:
        """The files of samples, the newest first."""
        rows = []
        for path in (path for folder in self._grants.folders for path in folder.glob("*.parquet")):
            try:
                about = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode):
                rows.append({"id": identity_of_file(path), "name": path.name, "folder": str(path.parent),
                             "bytes": about.st_size, "changed": int(about.st_mtime)})  # fmt: skip
        rows.sort(key=lambda row: (-int(str(row["changed"])), str(row["name"])))
        return {"files": rows[:_MOST_FILES], "left_out": max(0, len(rows) - _MOST_FILES)}

    def file(self, file: str) -> Json:
        """The real path of a file."""
        return {"path": str(self._grants.file(file))}

    def experiment(self, file: str) -> Json:
        """The path of an experiment, and its text; None if there is no such file yet."""
        path = self._grants.experiment(file)
        return {"path": str(path), "text": _experiment_text(path)}

    def save(self, file: str, text: str, digest: str) -> Json:
        """Write an experiment, if the text of the file is still that with the digest."""
        from gilk.api.experiments import save_experiment  # here: the worker begins without it

        path = self._grants.experiment(file)
        check_unchanged(_experiment_text(path), digest)
        save_experiment(path, text)
        return {"path": str(path)}

    def source(self, name: str) -> Json:
        """The text of a source file, None if there is none."""
        folder, path = _place(self._grants, name)
        return {"text": text_of(path, _MOST_SOURCE, folder)}

    def new_trace(self, title: str) -> Json:
        """The path of a trace that does not exist yet, in the directory for traces."""
        if self._grants.traces is None:
            raise TargetError("not-granted", "this window has no directory for traces", "gilk web --traces DIR")
        return {"path": str(_free(self._grants.traces, plain(title)))}


def _saving(grants: Grants, given: Json) -> Json:
    for name in ("file", "text", "digest"):
        text(given, name)
    return acting(grants, given)


def _with_text(name: str) -> Check:
    """The check of a question with a text of that name, whose answer itself asks the grants."""

    def check(_grants: Grants, given: Json) -> Json:
        text(given, name)
        return given

    return check


CHECKS: Final[Mapping[str, Check]] = {
    "target": _with_text("target"), "processes": free, "files": free, "samples": free, "file": _with_text("file"),
    "experiment": _with_text("file"), "save": _saving, "source": _with_text("name"), "new_trace": _with_text("title"),
}  # fmt: skip


def _experiment_text(path: Path) -> str | None:
    return text_of(path, MOST_EXPERIMENT, path.parent)


def _place(grants: Grants, name: str) -> tuple[Path, Path]:
    """The given directory below which a source file lies, and its real path; a relative name is tried in each of them.
    A program may name any file as its source. Raises TargetError `not-granted`.
    """
    folders = (*grants.files, *grants.experiments)
    tried = [Path(os.path.realpath(folder / name)) for folder in folders]
    inside = [(folder, path) for path in tried for folder in folders if path.is_relative_to(folder)]
    if not inside:
        message = f"the source {name} lies below no directory of this window's"
        raise TargetError("not-granted", message, f"gilk web --files {Path(name).parent}")
    return next((each for each in inside if each[1].exists()), inside[0])


def _free(folder: Path, name: str) -> Path:
    """The path of a file that does not exist yet."""
    stem = f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    names = (folder / f"{stem}{f'-{number}' if number else ''}.parquet" for number in range(1000))
    return next(path for path in names if not path.exists())


if __name__ == "__main__":
    granted = taken()
    serve(ServerChannel.given(), checked(granted, ReachAnswers(granted).answers(), CHECKS))
