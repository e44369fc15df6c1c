# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes of another user that listen as weavers or as windows, and answer anything: root, who asks those of all
users, sees its own all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from gilk.api import weavings, windows
from gilk.cli.web import _others
from gilk.render import weavings as render
from gilk.session.broker import control
from tests.behaviour.harness import ENVIRONMENT
from tests.security.partner import AS_ANOTHER

#: Becomes another user, if one is given, and forks a server for each answer; then waits for the end of its input. Sends
#: an answer that is null byte by byte, a byte every half second. Prints the numbers of the servers.
SERVERS = """
import json, os, socket, sys, time
from gilk.session.broker.transport import packed
kind, answers, user = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
def serve(answer, listens):
    end = socket.socket(socket.AF_UNIX)
    end.bind(f"\\0gilk-{kind}-{os.geteuid()}-{os.getpid()}".encode())
    end.listen()
    os.close(listens)
    while True:
        line, _ = end.accept()
        try:
            for byte in packed({"answer": "x" * 1000}) if answer is None else ():
                line.sendall(bytes([byte]))
                time.sleep(0.5)
            line.sendall(packed(answer))
        except OSError:
            pass
        line.close()
children = []
for answer in answers:
    hear, listens = os.pipe()
    child = os.fork()
    if not child:
        sys.stdin.close()
        serve(answer, listens)
    os.close(listens)
    os.read(hear, 1)
    children.append(child)
print(json.dumps(children), flush=True)
sys.stdin.read()
for child in children:
    os.kill(child, 9)
"""
ASPECT = {"name": "a", "on": True, "matches": [1]}
WEAVING = {"file": "f", "began": 1.0, "pids": [1], "aspects": [ASPECT], "told": 0}
WINDOW = {"address": "http://127.0.0.1:1", "since": 1.0, "sessions": 0}


@contextmanager
def servers(kind: str, answers: list[object]) -> Iterator[list[int]]:
    words = [sys.executable, "-c", SERVERS, kind, json.dumps(answers), str(AS_ANOTHER.get("user", 0))]
    environment, pipe = {**os.environ, **ENVIRONMENT}, subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.stdin.close()


def test_weavers_that_answer_anything_are_listed_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_PATIENCE", 2.0)
    own = {"id": 7, "user": 8, "file": "\x1b[2Jfile\nline"}
    strange: list[object] = [
        *({"answer": answer} for answer in ({}, 5, [WEAVING], WEAVING | {"aspects": 3}, WEAVING | {"began": 1e300})),
        *({"answer": WEAVING | {"aspects": [ASPECT | {"matches": [each]}]}} for each in ("many", None, True, 10**400)),
        {"answer": WEAVING | {"pids": "all"}}, {"error": 5}, {}, None,
    ]  # fmt: skip
    refusal = {"error": {"slug": [], "message": "\x1b[2J"}}
    with servers(control.WEAVE, [*strange, refusal, {"answer": WEAVING | own}]) as pids:
        found = {row["id"]: row for row in weavings.listed() if row["id"] in pids}
    *silent, right = (found[pid] for pid in pids)
    assert all(row.keys() == {"id", "user", "silent"} for row in silent)
    assert right["user"] == AS_ANOTHER.get("user", os.geteuid()) and right["file"] == own["file"]
    shown = render.listed(list(found.values()))
    assert len(shown.splitlines()) == len(pids) and "\x1b" not in shown


def test_a_weaver_that_shows_anything_is_refused() -> None:
    with servers(control.WEAVE, [{"answer": WEAVING}, {"answer": WEAVING | {"processes": [1], "reports": []}}]) as pids:
        for pid in pids:
            with pytest.raises(control.TargetError) as raised:
                weavings.ask(pid, {"ask": "show"})
            assert raised.value.slug == "strange-answer"


def test_windows_that_answer_anything_are_listed_as_such() -> None:
    strange: list[object] = [{"answer": WINDOW | one} for one in ({"since": "never"}, {"since": -1}, {"sessions": []})]
    with servers(control.WEB, [*strange, {"answer": WINDOW | {"pid": 1, "address": "\x1b]0;x\x07http"}}]) as pids:
        found = {row["pid"]: row for row in windows.listed() if row["pid"] in pids}
        with CliRunner().isolation() as (said, *_):
            _others(None, as_json=False)
            assert b"\x1b" not in said.getvalue() and b"http" in said.getvalue()
    assert ["silent" in found[pid] for pid in pids] == [True, True, True, False]
