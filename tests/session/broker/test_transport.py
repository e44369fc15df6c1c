# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random bytes, half messages and nonsense that are sent to the broker harm no other client."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.errors import TargetError
from gilk.image import lookup
from gilk.session.broker.broker import Connection
from gilk.session.broker.client import RemoteTracer
from gilk.session.broker.transport import MOST_FROM_STRANGERS, Closed, Inbox, Line, Message, packed, send
from gilk.targets.base import Loaded
from gilk.targets.framing import HEADER, MessageKind, framed
from gilk.targets.meeting import is_right_to_trace, rendezvous, right_to_trace
from gilk.targets.process import Process
from gilk.version import VERSION
from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.behaviour.waiting import PATIENCE
from tests.programs.build import build
from tests.session.broker.consumers import Worker, consume, counting
from tests.session.broker.test_several_consumers import expected, play

words = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=20) | st.lists(st.integers(), max_size=5))


@settings(max_examples=40)
@given(st.lists(st.tuples(words, st.binary(max_size=50)), max_size=4), st.data())
def test_messages_arrive_whole_however_they_are_cut(
    messages: list[tuple[dict[str, object], bytes]], data: st.DataObject
) -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        inbox, found = Inbox(receiver, MOST_FROM_STRANGERS, takes_fds=False), []
        rest = b"".join(packed(*message) for message in messages)
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            sender.sendall(rest[:size])
            rest = rest[size:]
            inbox.read()
            while (message := inbox.next()) is not None:
                found.append(message)
    assert found == [Message(*message) for message in messages]


@settings(max_examples=40)
@given(st.binary(min_size=8, max_size=200))
def test_any_bytes_are_a_message_or_close_the_connection(content: bytes) -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.sendall(content)
        inbox = Inbox(receiver, MOST_FROM_STRANGERS, takes_fds=False)
        inbox.read()
        try:
            message = inbox.next()
        except Closed:
            return
        assert message is None or isinstance(message.words, dict)


def test_deeply_nested_and_oversized_messages_close_the_connection() -> None:
    for content in (b"[" * 3000, b'{"a":' * 500, b"1" * 4000, b"[]", b"\xff{}", b"{,}"):
        sender, receiver = socket.socketpair()
        with sender, receiver:
            sender.sendall(framed(MessageKind.WORDS, struct.pack("<I", len(content)) + content))
            inbox = Inbox(receiver, MOST_FROM_STRANGERS, takes_fds=False)
            inbox.read()
            with pytest.raises(Closed):
                inbox.next()
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.sendall(HEADER.pack(0xFFFFFFFF, 0, MessageKind.WORDS))
        inbox = Inbox(receiver, MOST_FROM_STRANGERS, takes_fds=False)
        inbox.read()
        with pytest.raises(Closed):
            inbox.next()


@pytest.mark.parametrize(
    "frame",
    [
        framed(MessageKind.VALUE, pickle.dumps({"do": "hello"})),
        framed(MessageKind.WORDS, struct.pack("<I", 2) + b"{}", tag=1),
        framed(MessageKind.WORDS, struct.pack("<I", 3) + b"{}"),
        framed(MessageKind.WORDS, b"\0"),
        framed(MessageKind.FILE, b"/etc/hostname"),
    ],
)
def test_a_message_of_another_kind_closes_the_connection(frame: bytes) -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        inbox = Inbox(receiver, MOST_FROM_STRANGERS, takes_fds=False)
        sender.sendall(framed(MessageKind.WORDS, struct.pack("<I", 2) + b"{}") + frame)
        inbox.read()
        assert inbox.next() == Message({})
        with pytest.raises(Closed):
            inbox.next()


def test_an_answer_followed_by_a_close_is_received(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, broker = socket.socketpair()

    def answered(end: socket.socket, data: bytes, fd: int = -1) -> int:
        sent = send(end, data, fd)
        assert broker.recv(1 << 16) == data
        broker.sendall(packed({"restored": None}))
        broker.close()
        return sent

    monkeypatch.setattr("gilk.session.broker.transport.send", answered)
    assert Line(consumer, 5).ask({"do": "leave"}).words["restored"] is None
    consumer.close()


def test_a_client_waits_longer_for_a_broker_that_works() -> None:
    consumer, broker = socket.socketpair()
    asked = 0

    def works() -> bool:
        nonlocal asked
        asked += 1
        if asked == 4:
            broker.sendall(packed({"restored": None}))
        return True

    with consumer, broker:
        assert Line(consumer, 0.01, works).ask({"do": "leave"}).words["restored"] is None
    assert asked == 4


@pytest.mark.parametrize(("works", "most"), [(False, 60.0), (True, 0.0)])
def test_a_client_does_not_wait_for_ever(works: bool, most: float) -> None:
    consumer, broker = socket.socketpair()
    with consumer, broker, pytest.raises(TimeoutError):
        Line(consumer, 0.01, lambda: works, most).ask({"do": "leave"})


@pytest.mark.parametrize("ends", ["close", "half"])
def test_a_client_that_has_gone_is_noticed_while_something_is_planned_for_it(ends: str) -> None:
    client, end = socket.socketpair()
    with client, end:
        connection = Connection(end, 1, known=True)
        client.sendall(packed({"do": "look"}))
        connection.check()
        client.close() if ends == "close" else client.shutdown(socket.SHUT_WR)

        def noticed() -> bool:
            try:
                connection.check()
            except Closed:
                return True
            return False

        assert wait_for(noticed)  # it looks from time to time


@dataclass
class Scene:
    loop: Loop
    worker: Worker

    def visitor(self) -> socket.socket:
        """The connection of a client that has not said who it is."""
        meeting = rendezvous(self.loop.pid)
        assert meeting.line is not None
        return meeting.line

    def member(self) -> Line:
        line = Line(self.visitor(), PATIENCE)
        right = right_to_trace(self.loop.pid)
        assert line.ask({"do": "hello", "version": VERSION}, fd=right).words == {}
        os.close(right)
        return line

    def have_memory(self, line: Line, size: int) -> int:
        """Give a member memory, and return its offset. The member does not need the file."""
        answer = line.ask({"do": "memory", "size": size})
        os.close(answer.fd)
        return int(answer.words["offset"])

    def function(self, name: str) -> tuple[Loaded, int]:
        """The program, and the address of a function in it."""
        process = Process(RemoteTracer(self.loop.pid), self.loop.pid, launched=False)
        with contextlib.closing(process.files):
            main = process.loaded()[0]
            return main, lookup.spans(process.image(main.path), name)[0].start

    def is_let_go(self, end: socket.socket) -> bool:
        end.settimeout(PATIENCE)
        try:
            return end.recv(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """A consumer at work, whose count must be right whatever a test has done meanwhile."""
    with Loop([build("rounds")]) as loop:
        worker = consume(loop.pid, counting(("one", "two")))
        worker.wait_until_in()
        yield Scene(loop, worker)
        play(loop, 1, 2)
        assert worker.finish() == expected(("one", "two"), 2)
        assert wait_for(lambda: not differences(loop.pid) and not leftovers(loop.pid))


def test_a_client_that_sends_malformed_messages_is_disconnected(scene: Scene) -> None:
    chance = random.Random(3)
    for content in [
        *(chance.randbytes(chance.randint(8, 3000)) for _ in range(20)),
        struct.pack("<II", 5000, 0) + bytes(100),
        packed({"do": "hello", "version": VERSION}),  # without a proof that it may trace
        packed({"do": "memory", "size": 4096}),  # without a greeting
        packed({"do": "leave"}),
    ]:
        with scene.visitor() as end:
            end.sendall(content.ljust(4096, b"\0"))
            assert scene.is_let_go(end)


def test_half_a_message_does_not_hold_up_others(scene: Scene) -> None:
    with scene.visitor() as end:
        end.sendall(packed({"do": "hello", "version": VERSION})[:-3])
        line = scene.member()
        assert scene.have_memory(line, 1 << 20) > 0
        assert line.ask({"do": "leave"}).words["restored"] is None
        line.close()


def test_only_a_writable_descriptor_of_the_memory_proves_the_right_to_trace(scene: Scene) -> None:
    """The descriptors of another process's memory, of this process's for reading only, and of other files are no
    proof."""
    path = f"/proc/{scene.loop.pid}/mem"
    own = right_to_trace(scene.loop.pid)
    for name, flags in ((path, os.O_RDONLY), ("/proc/self/mem", os.O_RDWR), ("/dev/null", os.O_RDWR)):
        fd = os.open(name, flags)
        assert not is_right_to_trace(fd, own)
        line = Line(scene.visitor(), PATIENCE)
        with pytest.raises(Closed):
            line.ask({"do": "hello", "version": VERSION}, fd=fd)
        line.close()
        os.close(fd)
    os.close(own)


def test_a_client_of_another_version_is_refused(scene: Scene) -> None:
    line, right = Line(scene.visitor(), PATIENCE), right_to_trace(scene.loop.pid)
    assert line.ask({"do": "hello", "version": "0"}, fd=right).words["error"][1] == "another-version"
    line.close()
    os.close(right)


@pytest.mark.parametrize(
    "asked",
    [
        {"do": "memory", "size": -1},
        {"do": "memory", "size": 1 << 60},
        {"do": "memory", "size": True},
        {"do": "memory"},
        {"do": "insert"},
        {"do": "insert", "images": [], "objects": [], "wanted": [[0, 0, 0, 0, 0, 1]]},
        {"do": "insert", "images": [], "objects": [["f", [], 1 << 40]], "wanted": []},
        {"do": "insert", "images": [], "objects": [["--help", [], 0]], "wanted": []},
        {"do": "region", "blocks": 1, "stride": 8192, "counters": 1, "rings": [[0, 0]] * 4},
        {"do": "remove", "numbers": [1]},
        {"do": "listen", "counters": [[-1, "x"]]},
        {"do": "gate", "image": ["x", 0], "points": [], "gate": 0, "first": 1},
        {"do": "lose"},
        {"do": "lose", "image": ["x", 1 << 60]},
        {"do": "hello", "version": VERSION},
        {"do": ["insert"]},
        {"do": "attach"},
        {},
    ],
    ids=json.dumps,
)
def test_a_client_with_malformed_requests_is_disconnected(scene: Scene, asked: dict[str, object]) -> None:
    line = scene.member()
    with pytest.raises(Closed):
        line.ask(asked)
    line.close()


def test_insertions_that_are_impossible_are_refused(scene: Scene) -> None:
    """A wrong object, an image that is not there, and addresses that are no points."""
    main, start = scene.function("one")

    def answer(line: Line, bias: int, address: int) -> dict[str, object]:
        asked = {"do": "insert", "images": [[str(main.path), bias]], "objects": [["f", [], 4]]}
        return line.ask({**asked, "wanted": [[0, start, address, 0, 0, 1]]}, b"junk").words

    line = scene.member()
    assert answer(line, main.bias + 4096, start)["error"][1] == "image-gone"  # type: ignore[index]
    assert "error" in answer(line, main.bias, start)
    with pytest.raises(Closed):
        answer(line, main.bias, start + 1)
    line.close()


def test_dropping_a_loaded_image_removes_only_the_clients_own_probes(scene: Scene) -> None:
    """This takes out the member's probes there, and nothing of others."""
    main, start = scene.function("one")
    asked = {"do": "insert", "images": [[str(main.path), main.bias]], "objects": []}
    wanted = [[0, start, start, 0, "count", 1]]
    line = scene.member()
    scene.have_memory(line, 4096 + 3 * 8192)
    assert line.ask(REGION).words["number"] > 0
    for _ in range(2):  # a number stays the member's until its probes are out
        assert line.ask({**asked, "wanted": wanted}).words["refused"] == []
        assert line.ask({"do": "lose", "image": [str(main.path), main.bias]}).words == {}
    assert line.ask({"do": "leave"}).words["others"] is True
    line.close()


@pytest.mark.parametrize(("gate", "what"), [(8, Closed), (-1, Closed), (0, None)])
def test_a_client_sets_and_opens_a_gate(scene: Scene, gate: int, what: type[Exception] | None) -> None:
    """Nobody is held at a gate that is not armed, and it goes with the member."""
    main, start = scene.function("one")
    points = [[start, start, 0]]
    line = scene.member()
    scene.have_memory(line, 4096 + 3 * 8192)
    assert line.ask(REGION).words["number"] > 0
    words = {"do": "gate", "image": [str(main.path), main.bias], "points": points, "gate": gate, "first": 1}
    with pytest.raises(what) if what is not None else contextlib.nullcontext():
        assert line.ask(words).words == {"carried": [], "refused": []}
    line.close()


REGION = {"do": "region", "blocks": 2, "stride": 8192, "counters": 4, "rings": [[0, 0]] * 4}


@pytest.mark.parametrize(
    "wrong",
    [
        {"blocks": 3},
        {"blocks": 0},
        {"stride": 1 << 40},
        {"counters": 1 << 20},
        {"rings": []},
        {"rings": [[4096, 6]] * 4},
    ],
    ids=json.dumps,
)
def test_a_region_outside_of_the_clients_memory_is_refused(scene: Scene, wrong: dict[str, object]) -> None:
    line = scene.member()
    assert scene.have_memory(line, 4096 + 3 * 8192) > 0
    with pytest.raises(Closed):
        line.ask({**REGION, **wrong})
    line.close()


@pytest.mark.parametrize(
    ("made", "number"), [("count", 5), ("count", 0), ("stamp", 1), ("regs", 1 << 24), ("nothing", 1), (None, 1)]
)
def test_built_in_instruments_need_a_region_to_write_to(scene: Scene, made: object, number: int) -> None:
    """It can only write to a part of the region that exists. Only probes that were put in can be taken out."""
    main, start = scene.function("three")
    asked = {"do": "insert", "images": [[str(main.path), main.bias]], "objects": []}
    line = scene.member()
    scene.have_memory(line, 4096 + 3 * 8192)
    if made is None:
        with pytest.raises(Closed):
            line.ask({**asked, "wanted": [[0, start, start, 0, "count", number]]})
        line.close()
        return
    assert line.ask(REGION).words["number"] > 0
    assert line.ask({**asked, "wanted": [[0, start, start, 0, "count", 4]]}).words["refused"] == []
    assert line.ask({"do": "remove", "numbers": [4]}).words == {}
    with pytest.raises(Closed):
        line.ask({**asked, "wanted": [[0, start, start, 0, made, number]]})
    line.close()


def test_a_client_of_another_user_is_disconnected(scene: Scene) -> None:
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    name = scene.visitor().getpeername()
    child = os.fork()
    if not child:
        os.setgid(65534)
        os.setuid(65534)
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(name)
            os._exit(0 if scene.is_let_go(end) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_socket_name_taken_by_another_user_prevents_sharing() -> None:
    """Then nothing is shared, and the reason is given."""
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    with Loop([build("rounds")]) as loop:
        meeting = rendezvous(loop.pid)
        assert meeting.listener is not None
        name = meeting.listener.getsockname()
        meeting.close()
        told, say = os.pipe()
        hear, tell = os.pipe()
        child = os.fork()
        if not child:
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(name)
                end.listen()
                os.write(say, b"x")
                os.read(hear, 1)
            os._exit(0)
        os.read(told, 1)
        assert rendezvous(loop.pid).why == "another user has taken its name"
        worker = consume(loop.pid, counting(("one",)))
        worker.wait_until_in()
        play(loop, 1, 1)
        assert worker.finish() == expected(("one",), 1)
        os.write(tell, b"x")
        os.waitpid(child, 0)
        for fd in (told, say, hear, tell):
            os.close(fd)


@pytest.mark.parametrize("ended", [True, False])
def test_errors_distinguish_an_ended_process_and_an_ended_session(ended: bool) -> None:
    """Either the traced process has gone, or only the process that has its session."""
    with subprocess.Popen(["sleep", "100"]) as child:
        if ended:
            child.kill()
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie
        mine, theirs = socket.socketpair()
        theirs.close()
        away = RemoteTracer(child.pid, Line(mine, 10.0))
        with pytest.raises(TargetError) as raised:
            away.say({"do": "wait"})
        child.kill()
    assert raised.value.slug == ("no-such-process" if ended else "keeper-gone") and not away.there
    assert raised.value.message.endswith("has ended" if ended else "has gone")
