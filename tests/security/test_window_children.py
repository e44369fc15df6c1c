# SPDX-License-Identifier: LGPL-2.1-or-later
"""A server that was taken over speaks to the children of its window directly, and asks for what was not granted. Each
question that a child answers is asked here; a new one that is missing fails the first test.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gilk.errors import GilkError
from gilk.web.checked import Check, checked, free
from gilk.web.grants import Grants, identity_of_file
from gilk.web.programs import CHILDREN
from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.programs.build import build
from tests.web.spoken import birth_of, spoken_to

Json = dict[str, Any]
Case = tuple[Json, str]
SMALL = '[workload]\ncommand = "true"\n[[instrument]]\npoints = "libc:exit:entry"\ninstrument = "count"\n'
ELSEWHERE = 'targets = ["pid:{}"]\nduration = 0.1\n[[instrument]]\npoints = "dispatch:entry"\ninstrument = "count"\n'


@dataclass(frozen=True)
class World:
    """A process within reach, and directories; ``link`` lies within reach and leads out of it."""

    loop: Loop
    grants: Grants
    outside: Path

    @property
    def files(self) -> Path:
        return self.grants.files[0]

    @property
    def experiments(self) -> Path:
        return self.grants.experiments[0]

    @property
    def traces(self) -> Path:
        assert self.grants.traces is not None
        return self.grants.traces

    @property
    def mine(self) -> str:
        return f"pid-{self.loop.pid}-{birth_of(self.loop.pid)}"

    @property
    def held(self) -> Json:
        return {str(self.loop.pid): birth_of(self.loop.pid)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    places = {name: tmp_path_factory.mktemp(name).resolve() for name in ("files", "experiments", "traces", "outside")}
    for name, suffix in (("files", "parquet"), ("experiments", "toml"), ("outside", "parquet"), ("outside", "toml")):
        (places[name] / f"a.{suffix}").write_text(SMALL)
    (places["files"] / "link.parquet").symlink_to(places["outside"] / "a.parquet")
    (places["experiments"] / "link.toml").symlink_to(places["outside"] / "a.toml")
    (places["traces"] / "old.parquet").write_text("kept")
    with Loop([build("work")]) as loop:
        grants = Grants(
            pids=frozenset((loop.pid,)), files=(places["files"],), experiments=(places["experiments"],),
            traces=places["traces"],
        )  # fmt: skip
        yield World(loop, grants, places["outside"])


def checks() -> Iterator[tuple[str, str, Check]]:
    """(child, question, check) of all questions of all children."""
    for name in CHILDREN:
        for question, check in importlib.import_module(f"gilk.web.{name}").CHECKS.items():
            yield name, question, check


TARGETS = {
    "images": {}, "symbols": {"image": "*", "query": "", "sort": "match", "only": "", "first": 0},
    "survey": {"image": ""}, "function": {"image": "", "address": "main"}, "preview": {"requests": []},
}  # fmt: skip
OF_D = {"check": {"text": "BEGIN { }"}, "words": {"text": "B", "at": 1}, "preview": {"text": "BEGIN { }"}}
SAMPLES = {
    "timeline": {}, "tile": {"zoom": 0, "number": 0, "chunk": 0, "query": ""}, "call": {"number": 0},
    "view": {"begin": 0, "end": 1}, "find": {"query": "", "after": -1, "back": False}, "tree": {"node": -1},
    "flame": {"node": -1}, "anomalies": {"least": 1, "limit": 1}, "prepared": {"sql": ""},
    "asked": {"sql": "", "rows": 1},
    "plotted": {"kind": "scatter", "by": "", "values": "", "scale": "", "of": []},
}  # fmt: skip
OF_EXPERIMENTS = {
    "experiment": {"text": SMALL},
    "started": {"pid": 1, "machine": "", "workload": "", "requests": ["main:entry=count"], "times": []},
    "changed": {"text": SMALL, "change": {"remove": 1}},
}  # fmt: skip
TRACE = {"start": "now", "stop": "for:0.1s", "scope": [], "skip": [], "everything": False, "depth": 1}


def targets(world: World) -> list[tuple[Any, str]]:
    return [
        (f"pid-{os.getpid()}-{birth_of(os.getpid())}", "not-granted"), (f"{world.mine}1", "target-changed"),
        ("kernel", "not-granted"), ("here", "not-granted"), ("lab", "not-granted"), ("x", "bad-target"),
        (f"pid:{os.getpid()}", "bad-target"), (identity_of_file(Path("/bin/cat")), "not-granted"),
        (identity_of_file(world.files / "link.parquet"), "not-granted"), (5, "bad-request"), (None, "bad-request"),
    ]  # fmt: skip


def strangers(world: World) -> list[tuple[Any, str]]:
    """Processes that no session may be in."""
    pid = os.getpid()
    return [
        ({str(pid): birth_of(pid)}, "not-granted"), ({**world.held, str(pid): birth_of(pid)}, "not-granted"),
        ({str(world.loop.pid): birth_of(world.loop.pid) + 1}, "target-changed"), ({}, "bad-request"),
        ({"x": 1}, "bad-request"), ([], "bad-request"), ({"-1": 1}, "bad-request"), ({"1": "1"}, "bad-request"),
    ]  # fmt: skip


def hostile(world: World, child: str, question: str) -> list[Case]:
    """Questions that are to be refused, and the slugs."""
    if (child, question) in (("worker", question), ("reach_worker", "target")):
        rest = TARGETS.get(question, {}) if child == "worker" else {}
        return [({"target": each, **rest}, slug) for each, slug in targets(world)]
    if child == "d_worker":
        other = (f"pid-{os.getpid()}-{birth_of(os.getpid())}", "not-granted")
        found = [other, (f"{world.mine}1", "target-changed"), ("kernel", "bad-target"), (1, "bad-request")]
        return [({"target": each, **OF_D[question]}, slug) for each, slug in found]
    if child == "file_worker" and question in OF_EXPERIMENTS:
        paths = (world.outside / "a.toml", world.experiments / "link.toml", world.experiments / "a.txt")
        return [({"path": str(path), **OF_EXPERIMENTS[question]}, "not-granted") for path in paths]
    outside = [str(world.outside / "a.parquet"), str(world.files / "link.parquet"), "/etc/passwd",
               f"{world.files}/../x.parquet"]  # fmt: skip
    if child == "file_worker" and question == "compared":
        inside = str(world.files / "a.parquet")
        pairs = [pair for each in outside for pair in ((each, inside), (inside, each))]
        return [({"a": a, "b": b, "factor": 0.0, "limit": 1}, "not-granted") for a, b in pairs]
    if child == "file_worker":
        return [({"path": path, **SAMPLES[question]}, "not-granted") for path in outside]
    return FEW[child, question](world)


def _host(world: World) -> list[Case]:
    given = {"requests": [["dispatch:entry=count", 0, None]], "text": ""}
    found = [({**given, "processes": each}, slug) for each, slug in strangers(world)]
    in_c = {"requests": [["dispatch:entry=mine.c:f", 0, None]], "text": "void f(void) {}", "processes": world.held}
    return [*found, (in_c, "not-granted")]


def _d_host(world: World) -> list[Case]:
    return [({"text": "BEGIN { }", "processes": each}, slug) for each, slug in strangers(world)]


def _trace_host(world: World) -> list[Case]:
    new = str(world.traces / "new.parquet")
    found = [({**TRACE, "file": new, "processes": each}, slug) for each, slug in strangers(world)]
    places = (world.outside / "new.parquet", world.traces / "old.parquet", world.traces / ".." / "x.parquet",
              world.traces / "sub" / "x.parquet", world.traces / "x.txt", Path("new.parquet"))  # fmt: skip
    return [*found, *(({**TRACE, "file": str(each), "processes": world.held}, "not-granted") for each in places)]


def _experiment_host(world: World) -> list[Case]:
    given = {"text": SMALL, "file": "a.toml", "directory": str(world.experiments)}
    kernel = 'machine = "lab"\ntargets = ["kernel"]\n' + SMALL.replace("libc:exit:entry", "kernel:a:entry")
    wrong: list[Json] = [
        {"directory": str(world.outside)}, {"file": "../x.toml"}, {"file": "link.toml"}, {"file": "a.txt"},
        {"file": str(world.outside / "a.toml")}, {"text": ELSEWHERE.format(os.getpid())}, {"text": kernel},
    ]  # fmt: skip
    return [({**given, **each}, "not-granted") for each in wrong]


def _save(world: World) -> list[Case]:
    given = {"text": "x = 1", "digest": ""}
    paths = (world.outside / "new.toml", world.experiments / "link.toml", world.experiments / "a.txt")
    return [({**given, "file": identity_of_file(each)}, "not-granted") for each in paths]


#: By child and question; the other questions have their cases in hostile().
FEW = {
    ("host", "begin"): _host, ("d_host", "begin"): _d_host, ("trace_host", "begin"): _trace_host,
    ("experiment_host", "begin"): _experiment_host, ("reach_worker", "save"): _save,
    ("c_worker", "check"): lambda _: [({"text": "void f(void) {}"}, "not-granted")],
    ("c_worker", "names"): lambda _: [({"text": "void f(void) {}"}, "not-granted")],
    ("reach_worker", "file"): lambda world: [
        ({"file": identity_of_file(each)}, "not-granted")
        for each in (Path("/etc/passwd"), world.files / "link.parquet", world.outside / "a.toml")
    ],
    ("reach_worker", "experiment"): lambda world: [
        ({"file": identity_of_file(each)}, "not-granted")
        for each in (world.outside / "a.toml", world.experiments / "link.toml")
    ],
    ("reach_worker", "source"): lambda world: [
        ({"name": each}, "not-granted")
        for each in ("/etc/passwd", str(world.files / "link.parquet"), "../../etc/passwd")
    ],
    ("reach_worker", "new_trace"): lambda _: [({"title": 5}, "bad-request")],
}  # fmt: skip


def asked() -> list[tuple[str, str]]:
    """The questions of children that are asked in their processes. A kernel has tests of its own."""
    return [(name, question) for name, question, check in checks() if check is not free and name != "machine_host"]


def test_every_question_has_a_hostile_case(world: World) -> None:
    for child, question in asked():
        assert hostile(world, child, question), (child, question)
    free_ones = {(name, question) for name, question, check in checks() if check is free}
    changing = {"ready", "processes", "files", "samples", "pause", "end", "leave-out", "state"}
    assert {question for _, question in free_ones} <= changing | {"d-check", "d-words", "d-preview"}
    with pytest.raises(KeyError):
        checked(Grants(), {"new": dict}, {})


#: Children whose first question begins a session; one that is refused ends them.
HOSTS = frozenset(("host", "d_host", "trace_host", "experiment_host"))


@pytest.mark.parametrize(("child", "question"), asked())
def test_ungranted_questions_are_refused(world: World, child: str, question: str) -> None:
    cases = hostile(world, child, question)
    if child in HOSTS:
        for given, slug in cases:
            with spoken_to(child, world.grants) as one:
                assert one.slug(question, **given) == slug, given
    else:
        with spoken_to(child, world.grants) as one:
            for given, slug in cases:
                assert one.slug(question, **given) == slug, given
    assert not differences(world.loop.pid) and world.loop.alive()
    assert sorted(path.name for path in world.outside.iterdir()) == ["a.parquet", "a.toml"]
    assert (world.outside / "a.toml").read_text() == SMALL and (world.traces / "old.parquet").read_text() == "kept"


def test_questions_about_what_is_granted_are_answered(world: World) -> None:
    """The negative control: the same questions, within the grants."""
    with spoken_to("worker", world.grants) as worker:
        for question, rest in TARGETS.items():
            image = {"image": ""} if "image" in rest else {}
            assert "ok" in worker.ask(question, target=world.mine, **{**rest, **image}), question
    with spoken_to("d_worker", world.grants) as d_worker:
        for question, rest in OF_D.items():
            assert "ok" in d_worker.ask(question, target=world.mine, **rest)
    with spoken_to("file_worker", world.grants) as file_worker:
        for question, rest in OF_EXPERIMENTS.items():
            assert "ok" in file_worker.ask(question, path=str(world.experiments / "a.toml"), **rest), question
        for question, rest in SAMPLES.items():
            slug = file_worker.slug(question, path=str(world.files / "a.parquet"), **rest)
            assert slug == "bad-trace", "it is read, and is no trace"
    with spoken_to("c_worker", replace(world.grants, c=True)) as c_worker:
        assert "ok" in c_worker.ask("names", text="void f(void) {}")
    with spoken_to("reach_worker", world.grants) as reach:
        assert reach.ask("target", target=world.mine)["ok"]["name"] == f"pid:{world.loop.pid}"
        file = identity_of_file(world.experiments / "new.toml")
        assert "ok" in reach.ask("save", file=file, text=SMALL, digest="")
        assert reach.ask("experiment", file=file)["ok"]["text"] == SMALL
        assert reach.ask("source", name=str(world.files / "a.parquet"))["ok"]["text"] == SMALL
        assert reach.ask("new_trace", title="a b")["ok"]["path"].startswith(str(world.traces / "a-b-"))
        assert reach.slug("save", file=file, text=SMALL, digest="") == "file-changed"
        (world.experiments / "new.toml").unlink()


SESSIONS = {
    "host": {"requests": [["dispatch:entry=count", 0, None]], "text": ""}, "d_host": {"text": "BEGIN { }"},
    "trace_host": TRACE,
}  # fmt: skip


@pytest.mark.parametrize("child", sorted(HOSTS))
def test_sessions_within_the_grants_begin_and_a_read_only_window_has_none(world: World, child: str) -> None:
    if child == "experiment_host":
        given: Json = {"text": SMALL, "file": "a.toml", "directory": str(world.experiments)}
    else:
        given = {**SESSIONS[child], "processes": world.held, "file": str(world.traces / f"{child}.parquet")}
        given = {name: each for name, each in given.items() if name != "file" or child == "trace_host"}
    with spoken_to(child, replace(world.grants, acts=False)) as one:
        assert one.slug("begin", **given) == "read-only" and not differences(world.loop.pid)
    with spoken_to(child, world.grants) as one:
        assert "ok" in one.ask("begin", **given)
    assert wait_for(lambda: not leftovers(world.loop.pid) and not differences(world.loop.pid))


@pytest.mark.parametrize("child", CHILDREN)
def test_other_words_are_no_questions(world: World, child: str) -> None:
    with spoken_to(child, world.grants) as one:
        assert one.slug("__init__") == "bad-request"


def test_a_window_reaches_one_kernel() -> None:
    """The process of a machine is asked by way of its checks alone: it begins by starting one."""
    found = importlib.import_module("gilk.web.machine_host").CHECKS
    traces = Path("/nowhere")
    lab, here = Grants(machine="lab", traces=traces), Grants(machine="here", traces=traces)
    session = {"requests": [], "workload": "", "text": ""}
    trace = {**TRACE, "workload": "", "file": "/nowhere/a.parquet"}
    cases: list[tuple[Grants, str, Json, str]] = [
        (lab, "start", {"machine": "here"}, "not-granted"), (Grants(), "start", {"machine": "lab"}, "not-granted"),
        (here, "session", {**session, "workload": "id"}, "only-in-the-lab"),
        (here, "program", {"text": "", "workload": "id"}, "only-in-the-lab"),
        (here, "trace", {**trace, "workload": "id"}, "only-in-the-lab"),
        (lab, "session", {**session, "text": "int f;"}, "not-granted"),
        (lab, "trace", {**trace, "file": "/etc/a.parquet"}, "not-granted"),
        *((lab, question, {"target": f"pid:{os.getpid()}"}, "not-granted") for question in TARGETS),
        *((replace(lab, acts=False), question, {**session, **trace, "text": ""}, "read-only")
          for question in ("session", "program", "trace")),
    ]  # fmt: skip
    for grants, question, given, slug in cases:
        with pytest.raises(GilkError) as refused:
            found[question](grants, given)
        assert refused.value.slug == slug, (question, given)
    assert found["start"](here, {"machine": "here"}) and found["session"](lab, {**session, "workload": "id"})
    assert found["trace"](lab, trace) == trace and found["images"](lab, {"target": "kernel"})
    assert {question for question, _, _, _ in ((case[1], *case[1:]) for case in cases)} == {
        question for question, check in found.items() if check is not free
    }
