# SPDX-License-Identifier: LGPL-2.1-or-later
"""The control sockets of weavers and windows: `gilk aspect list`, show, on, off and remove talk to a weaver, `gilk web
--list`, `--stop` and `--key` to a window.

Such a server listens at an abstract socket whose name has its kind, user and pid, so that nothing is left behind when
it ends. It answers its own user and root; a client trusts it only if its socket belongs to the process and user that
the name says. The messages have the form of those of brokers (session/broker/transport.py).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final

from gilk.errors import GilkError, TargetError, UsageError
from gilk.session.broker.form import Form, has_form
from gilk.session.broker.transport import Closed, Inbox, Line, packed, send
from gilk.targets.status import status_of
from gilk.values import dataclass

WEAVE, WEB = "weave", "web"
_PATIENCE: Final = 10.0  # seconds
_SLOWEST: Final = 0.5  # seconds that a client may take to send its request
_PAUSE: Final = 0.05  # seconds before a client asks again
_MOST: Final = 4096  # bytes of a request
_LARGEST: Final = 8 << 20  # bytes of an answer
_AT_ONCE: Final = 64  # clients
_ANY: Final[Form] = {}
_EFFECTIVE: Final = 1  # of the numbers of ``Uid`` (proc_pid_status(5))
_CREDENTIALS = struct.Struct("iII")
_TIME = struct.Struct("ll")  # a struct timeval

#: Answers a request's words with those of the answer. A GilkError that it raises is the answer.
Answering = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ServerName:
    """The name of a server's socket. ``kind``: WEAVE for a weaver, WEB for a window."""

    pid: int
    user: int
    kind: str = WEAVE


class ControlServer:
    """Listens for clients of this process, as a context manager until its end."""

    def __init__(self, answering: Answering, kind: str = WEAVE) -> None:
        """Begin to listen. Raises OSError."""
        self._answering = answering
        self.client = -1  # the user of the client whose request is being answered
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(_address(ServerName(os.getpid(), os.geteuid(), kind)))
            self._socket.listen()
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> ControlServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor that can be read when a client has connected."""
        return self._socket.fileno()

    def answer(self) -> None:
        """Answer clients that have connected since the last call: as others may connect faster than they are answered,
        not all of them at once."""
        for _ in range(_AT_ONCE):
            try:
                end, _ = self._socket.accept()
            except OSError:
                return
            with end, contextlib.suppress(Closed, OSError):
                self.client = _peer(end).user
                if self.client in (0, os.geteuid()):
                    self._serve(end)

    def _serve(self, end: socket.socket) -> None:
        """Read one request, and answer it. Raises Closed, OSError."""
        inbox, until = Inbox(end, _MOST, takes_fds=False), time.monotonic() + _SLOWEST
        while (message := inbox.next()) is None:
            end.settimeout(max(until - time.monotonic(), 1e-6))
            inbox.read()
        end.settimeout(_SLOWEST)
        try:
            answer = {"answer": self._answering(message.words)}
        except GilkError as error:
            answer = {"error": {"slug": error.slug, "message": error.message}}
        data = packed(answer)
        while data:
            data = data[send(end, data) :]


def servers(kind: str) -> list[ServerName]:
    """The servers of this user, or, for root, of all users, by pid. Each process is tried: /proc/net/unix may miss a
    socket while others come and go."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())
    found = (_server(pid, kind) for pid in pids)
    return [one for one in found if one is not None and os.geteuid() in (0, one.user)]


def is_there(pid: int, kind: str) -> bool:
    """Whether the process with this pid listens as a server of this kind."""
    return _server(pid, kind) is not None


def _server(pid: int, kind: str) -> ServerName | None:
    """The server with this pid; None if that process is none."""
    try:
        name = _name(pid, kind)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as end:
            end.connect(_address(name))
            return name if _peer(end, kind) == name else None
    except BlockingIOError:  # so many clients wait for it that no other can
        return name
    except (OSError, UsageError):
        return None


def ask(pid: int, words: dict[str, Any], kind: str = WEAVE, form: Form = _ANY) -> dict[str, Any]:
    """The answer of the weaver with this pid. Raises UsageError `no-such-weaving`, for a window `no-such-window`,
    TargetError `busy`, `strange-answer` if the answer does not have the ``form``, and the errors by which the weaver
    refuses."""
    name, deadline = _name(pid, kind), time.monotonic() + _PATIENCE
    while True:
        try:
            found = _asked(name, words)
        except TimeoutError:
            break
        except ConnectionRefusedError:  # nobody listens
            raise _none(name) from None
        except (Closed, OSError):
            # The weaver has ended; or this process did not come to send its request for so long that it was sent away.
            if time.monotonic() > deadline:
                break
            time.sleep(_PAUSE)
            continue
        if has_form(found, {"error": dict}):
            raise _refused(found["error"])
        if has_form(found, {"answer": form}):
            return dict(found["answer"])
        raise TargetError(
            "strange-answer", f"{_role(kind)} {pid} gives an answer that is none", "it may be of another version"
        )
    raise TargetError("busy", f"{_role(kind)} {pid} does not answer", "it may be at work; try again")


def _asked(name: ServerName, words: dict[str, Any]) -> dict[str, Any]:
    """The message with the weaver's answer. Raises UsageError `no-such-weaving`, TimeoutError, Closed, OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        _connect(end, name)
        return Line(end, _PATIENCE, most=_PATIENCE, largest=_LARGEST).ask(words).words


def _connect(end: socket.socket, name: ServerName) -> None:
    """Connect to a server. If others wait for it already, the kernel lets this process wait in line with them; whoever
    tries again and again instead may never find a place among processes that connect all the time. Raises UsageError
    `no-such-weaving`, TimeoutError, Closed, OSError."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(int(_PATIENCE), 0))
    try:
        end.connect(_address(name))
    except BlockingIOError:
        raise TimeoutError from None
    peer = _peer(end, name.kind)
    if not peer.pid:  # a signal has ended the waiting
        raise Closed
    if peer != name:
        raise _none(name)


def _role(kind: str) -> str:
    return "the weaver" if kind == WEAVE else "the window"


def _name(pid: int, kind: str) -> ServerName:
    """The name of the weaver with this pid and the user of that process. Sockets with the same pid and another user are
    not the weaver's. Raises UsageError `no-such-weaving`."""
    try:
        return ServerName(pid, int(status_of(pid)[b"Uid"].split()[_EFFECTIVE]), kind)
    except (OSError, KeyError):
        raise _none(ServerName(pid, -1, kind)) from None


def _refused(error: dict[str, Any]) -> UsageError:
    message = str(error.get("message"))
    if error.get("slug") == "no-such-aspect":
        return UsageError("no-such-aspect", message)
    if error.get("slug") == "not-your-window":
        return UsageError("not-your-window", message, "sudo gilk web --key")
    return UsageError("bad-request", message)


def _none(name: ServerName) -> UsageError:
    if name.kind == WEB:
        return UsageError(
            "no-such-window", f"process {name.pid} has no window", "`gilk web --list` shows those that do"
        )
    return UsageError("no-such-weaving", f"process {name.pid} weaves nothing", "`gilk aspect list` shows those that do")


def _address(name: ServerName) -> bytes:
    return f"\0gilk-{name.kind}-{name.user}-{name.pid}".encode()


def _peer(end: socket.socket, kind: str = WEAVE) -> ServerName:
    pid, user, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return ServerName(pid, user, kind)
