# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run one script for a bounded time, and find out what became of it by the events that `gilk dtrace --json` writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from script_runs.script import Script

_PATIENCE = 60.0  # seconds for all besides the script's own time
#: The program that is traced: bash, at what a shell does.
WORK = r"""
until=$((SECONDS + 3))
while [ $SECONDS -lt $until ]; do
    while read -r line; do words=($line); done < /etc/passwd
    printf '%s\n' "${words[@]}" > "$WORK_DIR/out"; cat < "$WORK_DIR/out" > /dev/null
    cd /; test -e /nonexistent; (exit 3); kill -0 $$; for ((i = 0; i < 2000; i++)); do :; done
done
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run. ``result``: ``fired``, probes besides BEGIN and END fired, and it shows; ``silent``, it ran
    and nothing of them shows; ``refused``; ``failed``. ``why`` is the message, for the last two."""

    result: str
    why: str = ""


def run(script: Script, command: list[str], seconds: float) -> Outcome:
    """Run the script with ``command`` in the place of dtrace, and end it after ``seconds`` by SIGINT."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "work.sh").write_text(WORK)
        events, tool = place / "events", place / "dtrace"
        work = ["bash", f"{place}/work.sh"]
        traces = script.is_about_a_process and not script.takes_a_command
        ending = f" -c '{' '.join(work)}'" if traces else ""
        tool.write_text(f'#!/bin/sh\nexec {" ".join(command)} --json -x defaultargs "$@"{ending} >> {events}\n')
        tool.chmod(0o755)
        words = [str(tool), *script.options, "-s", str(script.path)]
        if script.wraps:
            (place / script.path.name).write_text(script.running(tool), errors="surrogateescape")
            (place / script.path.name).chmod(0o755)
            words = [script.interpreter, str(place / script.path.name), *(work if script.takes_a_command else [])]
        status, errors = _ended(words, place, script.path.parent, seconds)
        return _outcome(status, errors, list(_events(events)))


def _ended(words: list[str], place: Path, where: Path, seconds: float) -> tuple[int | None, str]:
    """The exit status, None if it had to be killed, and what it wrote to standard error."""
    environment = {**os.environ, "LC_ALL": "C", "WORK_DIR": str(place), "PATH": f"{place}:{os.environ['PATH']}"}
    with (place / "errors").open("w+", errors="surrogateescape") as errors:
        process = subprocess.Popen(
            words, cwd=where, env=environment, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
        status = _waited(process, place / "events", seconds)
        errors.seek(0)
        return status, errors.read()


def _waited(process: subprocess.Popen[bytes], events: Path, seconds: float) -> int | None:
    """Wait for the end; ``seconds`` after the program has begun, ask for it."""
    waited = 0.0
    while waited < _PATIENCE:
        began = events.exists() and '"began"' in events.read_text(errors="replace")[:2000]
        try:
            return process.wait(seconds if began else 0.2)
        except subprocess.TimeoutExpired:
            waited += 0.2
        if began:
            os.killpg(process.pid, signal.SIGINT)
            try:
                return process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return None


def _events(path: Path) -> Iterator[dict[str, object]]:
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def _message(error: object) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def _outcome(status: int | None, errors: str, events: list[dict[str, object]]) -> Outcome:
    said = [line for line in errors.splitlines() if line.strip()]
    said += [_message(each["error"]) for each in events if "error" in each]
    began = any(each.get("type") == "began" for each in events)
    if "Traceback" in errors or status is None:
        return Outcome("failed", "a traceback" if "Traceback" in errors else "it did not end")
    if not began:
        return Outcome(
            "refused", next((line for line in said if "does not" in line), said[0] if said else "no message")
        )
    fired = any(each.get("type") == "fired" and each.get("provider") != "dtrace" for each in events)
    counted = any(each.get("type") in ("snapshot", "printed") and each.get("rows") for each in events)
    return Outcome("fired" if fired or counted else "silent")
