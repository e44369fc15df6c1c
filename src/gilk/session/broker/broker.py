# SPDX-License-Identifier: LGPL-2.1-or-later
"""The broker: a process of its own that has the session of a target, in which any number of consumers have a part.

The first consumer forks it; it ends after the last one, and then the target is what it was. Consumers may be killed, be
stopped or send anything: this does not affect the other consumers.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from typing import Any

from gilk import activity
from gilk.errors import GilkError, TargetError, failed
from gilk.session.broker.client_state import ClientState
from gilk.session.broker.messages import OF_FOLLOWING, ProtocolError, error_words, number
from gilk.session.broker.session import SharedSession
from gilk.session.broker.transport import MOST, MOST_FROM_STRANGERS, Closed, Inbox, Message, gone, packed, send
from gilk.targets.meeting import is_own, is_right_to_trace, right_to_trace
from gilk.targets.process import Process
from gilk.targets.running import MOST_STACK
from gilk.version import VERSION

_TURN = 0.5  # seconds between two checks of the target
_LOOK = 0.1  # seconds between two looks at a client for whom something is planned
_SHYNESS = 10.0  # seconds within which a new client has to say who it is
_PATIENCE = 30.0  # seconds between attempts to take out code in which a thread was
_MOST_LINES, _MOST_NOTES = 512, 64


class Connection:
    """A client on a line. It has a part in the session once it has shown that it may trace the target."""

    def __init__(self, end: socket.socket, identity: int, known: bool) -> None:
        end.setblocking(False)
        self.end, self.state, self.known = end, ClientState(identity), known
        self.takes_part = known  # whether it has, or is about to have, something in the session
        self.holds = False  # whether the process stands still for it
        self.due = time.monotonic() + _SHYNESS
        self.inbox = Inbox(end, MOST if known else MOST_FROM_STRANGERS, takes_fds=True)
        self._looked = 0.0
        self._unsent = b""
        self._fd = -1

    def meet(self) -> None:
        self.known = self.takes_part = True
        self.inbox.trust()

    def answer(self, words: dict[str, Any], fd: int = -1, content: bytes = b"") -> None:
        """Send an answer; ``fd`` is sent along, and closed after that. Raises Closed."""
        self._unsent += packed(words, content)
        if fd >= 0:
            self._drop_fd()
            self._fd = fd
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[send(self.end, self._unsent, self._fd) :]
                self._drop_fd()
        except BlockingIOError:
            return
        except OSError:
            raise Closed from None

    def check(self) -> None:
        """Raise Closed if the client has closed the line, or sends no more, while it waits for an answer."""
        if self._looked + _LOOK < time.monotonic():
            self._looked = time.monotonic()
            if gone(self.end):
                raise Closed

    @property
    def waits_for_room(self) -> bool:
        return bool(self._unsent)

    def close(self) -> None:
        self._drop_fd()
        self.inbox.close()
        self.end.close()

    def _drop_fd(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Broker:
    """The broker of one process. ``listener``: the socket where other clients connect, None if there is none.
    ``first``: the line of the client that founded the broker."""

    def __init__(self, process: Process, listener: socket.socket | None, first: socket.socket) -> None:
        self._process, self._listener = process, listener
        self._session: SharedSession | None = None
        self._right = right_to_trace(process.pid)
        self._identities = 0
        self._connections: dict[int, Connection] = {}
        self._leaving: list[ClientState] = []  # clients that have gone, whose probes could not be taken out yet
        self._patient_until = 0.0
        self._failed = False  # the session could not be ended: the end of the keeper will undo it
        self._admit(first, known=True)
        if listener is not None:
            listener.setblocking(False)
            process.keeper.keep_name(listener.fileno())

    def serve(self) -> None:
        """Serve clients until all have gone. An error of gilk's own ends this process, and then all is undone by the
        keeper; clients that are still there are told of the error."""
        try:
            self._serve()
        except Exception as error:
            words = error_words(failed("the process that has the session", error))
            for connection in self._connections.values():
                with contextlib.suppress(Closed):
                    connection.answer(words)
            raise

    def _serve(self) -> None:
        due = time.monotonic() + _TURN
        while not self._failed and any(connection.known for connection in self._connections.values()):
            for fd, events in self._wait(due - time.monotonic()):
                self._turn(fd, events)
            if time.monotonic() >= due:
                with contextlib.suppress(GilkError, OSError):  # the process may end during these checks
                    self._look_after()
                due = time.monotonic() + _TURN
        self._end()

    def _wait(self, seconds: float) -> list[tuple[int, int]]:
        poll = select.poll()
        if self._listener is not None:
            poll.register(self._listener, select.POLLIN)
        for fd, connection in self._connections.items():
            poll.register(fd, select.POLLIN | (select.POLLOUT if connection.waits_for_room else 0))
        return poll.poll(max(seconds, 0) * 1000)

    def _turn(self, fd: int, events: int) -> None:
        connection = self._connections.get(fd)
        if connection is None:
            self._accept()
            return
        try:
            if events & select.POLLOUT:
                connection.flush()
            if events & ~select.POLLOUT:
                self._hear(connection)
        except Closed:
            self._part(connection)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            end, _ = self._listener.accept()
        except OSError:
            return
        if is_own(end) and len(self._connections) < _MOST_LINES:
            self._admit(end, known=False)
        else:
            end.close()

    def _admit(self, end: socket.socket, known: bool) -> None:
        self._identities += 1
        self._connections[end.fileno()] = Connection(end, self._identities, known)

    # Requests of clients.

    def _hear(self, connection: Connection) -> None:
        """Read from a client, and answer its whole messages. Raises Closed."""
        try:
            connection.inbox.read()
        except BlockingIOError:
            return
        while (message := connection.inbox.next()) is not None:
            self._answer(connection, message)

    def _answer(self, connection: Connection, message: Message) -> None:
        try:
            if connection.known and message.words.get("do") in OF_FOLLOWING:
                told, content = connection.state.follow(self._opened(), message.words, message.content)
                connection.answer(told, content=content)
            else:
                self._carry_out(connection, message)
        except GilkError as error:
            connection.answer(error_words(error))
        except ProtocolError:
            raise Closed from None
        except Closed:
            raise
        except Exception as error:  # for example an object file that is none: this affects only this client
            connection.answer(error_words(TargetError("not-understood", f"the shared session failed: {error!r}")))
        finally:
            if message.fd >= 0:
                os.close(message.fd)

    def _carry_out(self, connection: Connection, message: Message) -> None:
        words, state = message.words, connection.state
        match words.get("do"):
            case "hello" if not connection.known:
                self._meet(connection, message)
            case "memory" | "common" if connection.known:
                connection.takes_part = True
                connection.answer(*state.have(self._opened(), words, message.fd))
            case "insert" if connection.known:
                with activity.checked(connection.check):
                    told = state.insert(self._opened(), words, message.content)
                connection.answer(told)
            case "region" if connection.known:
                self._try_again()  # a client that has gone may still be the one that follows
                connection.answer(state.have_region(self._opened(), words))
            case "remove" if connection.known:
                connection.answer(state.remove(self._opened(), words))
            case "look" if connection.known:
                self._opened().look_after()
                connection.answer({})
            case "renew" if connection.known:
                self._opened().renew_parts()
                connection.answer({})
            case "inside" if connection.known:
                connection.answer({"blocks": self._opened().inside()})
            case "listen" if connection.known:
                connection.answer(state.listen(self._opened(), words))
            case "hold" | "release" as what if connection.known:
                connection.holds = what == "hold"
                (self._process.hold if connection.holds else self._process.release)()
                connection.answer({})
            case "sample" if connection.known:
                stack = number(words.get("stack"), 0, MOST_STACK)
                samples = self._process.sample(stack) if not self._process.unstarted else []
                rows = [[one.tid, one.cpu, one.thread, one.registers, len(one.stack)] for one in samples]
                connection.answer({"samples": rows}, content=b"".join(one.stack for one in samples))
            case "wait" if connection.known:
                end = self._process.wait(block=False)
                connection.answer({"code": None if end is None else end.code})
            case "leave" if connection.known:
                self._take_leave(connection)
            case _:
                raise ProtocolError

    def _meet(self, connection: Connection, message: Message) -> None:
        if message.fd < 0 or not is_right_to_trace(message.fd, self._right):
            raise ProtocolError
        if message.words.get("version") != VERSION:
            raise TargetError(
                "another-version",
                f"process {self._process.pid} is in a session of another version of gilk, {VERSION}",
                "end that first, or use that version",
            )
        if not self._process.keeper.is_present():
            self._process.keeper.give_up_name()
            self._give_up_name()  # the target has executed another program: the next client is to found a new broker
            raise ProtocolError
        connection.meet()
        connection.answer({})

    def _opened(self) -> SharedSession:
        if self._session is None:
            self._session = SharedSession(self._process)
        return self._session

    # Clients that leave, and the end.

    def _take_leave(self, connection: Connection) -> None:
        """Take out all that the client had, which may begin anew, and answer it. The last client is told whether the
        target is what it was."""
        self._identities += 1
        state, lost = connection.state, self._lost()
        connection.state, connection.takes_part = ClientState(self._identities), False
        if any(other.takes_part for other in self._connections.values()):
            notes = state.remarks(self._session) if self._session is not None else []
            self._leave(state)
            connection.answer({"restored": None, "others": True, "lost": lost, "notes": notes[:_MOST_NOTES]})
            return
        restored, notes = self._close_session()
        connection.answer({"restored": restored, "notes": notes, "lost": lost})

    def _lost(self) -> int:
        """The hits of threads that found no room in the session's own memory."""
        return 0 if self._session is None else self._session.drain.lost()

    def _part(self, connection: Connection) -> None:
        """Forget a client whose line is closed, and take out all that it had."""
        del self._connections[connection.end.fileno()]
        if connection.holds:
            with contextlib.suppress(GilkError):
                self._process.release()
        try:
            if any(other.takes_part for other in self._connections.values()):
                self._leave(connection.state)
            else:
                self._close_session()
        finally:
            connection.close()  # a client that waits for the end of the line knows then that all is out

    def _leave(self, state: ClientState) -> None:
        if self._session is not None and not self._session.closed and not state.leave(self._session):
            self._leaving.append(state)

    def _try_again(self) -> None:
        """Take out the code of clients that have gone in which a thread was before."""
        if self._session is not None:
            self._leaving = [state for state in self._leaving if not state.leave(self._session)]

    def _look_after(self) -> None:
        now = time.monotonic()
        if not self._process.keeper.there:
            self._failed = True  # clients see their lines close, and tell their users
            return
        for connection in [one for one in self._connections.values() if not one.known and one.due < now]:
            self._part(connection)
        if self._session is not None:
            self._session.take()  # frees the blocks of threads that have ended for other threads
        if self._session is not None and now >= self._patient_until:
            self._patient_until = now + _PATIENCE
            self._session.tidy()
            self._try_again()

    def _end(self) -> None:
        self._close()
        for connection in self._connections.values():
            connection.close()

    def _close(self) -> None:
        """Take everything out, and let the process go. The keeper ends before the broker's name is free."""
        self._close_session()
        self._process.keeper.leave()
        self._give_up_name()

    def _close_session(self) -> tuple[bool | None, list[str]]:
        """End the session; returns whether the target is what it was, None if that cannot be known, and notes for the
        user."""
        session, self._session, self._leaving = self._session, None, []
        if session is None:
            return True, []
        try:
            session.end()
        except (GilkError, OSError):
            self._failed = True
            return None, session.notes[:_MOST_NOTES]
        return session.restored, session.notes[:_MOST_NOTES]

    def _give_up_name(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
