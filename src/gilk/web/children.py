# SPDX-License-Identifier: LGPL-2.1-or-later
"""The server's end of its children. A child that dies does not harm the others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final

from gilk.errors import GilkError
from gilk.values import dataclass
from gilk.web.frames import LENGTH, MOST, Message, packed, unpacked
from gilk.web.starting import StartedProcess, Starting

Json = dict[str, Any]
_OUT_WITHIN: Final = 30.0  # the seconds that a child has to take everything out after the end of its input
_SILENT_FOR: Final = 600.0  # the seconds in which a child that sums up, which changes nothing, must report progress
_KILLED_WITHIN: Final = 30.0  # the seconds in which a child that was killed ends; the starter may have gone, too
_LAST_WORDS: Final = 2.0  # the seconds in which the last messages of a child are read


@dataclass(frozen=True, slots=True)
class ToldError(Exception):
    """An error that a child has reported, or one of the server itself. ``status`` is that of the HTTP answer."""

    slug: str
    message: str
    hint: str = ""
    status: int = 400


GONE = ToldError("child-gone", "the process that did this has ended", "try again", 503)


class ServerChild:
    """A child process, and the questions that it has not answered yet."""

    def __init__(self, process: StartedProcess, writer: asyncio.StreamWriter) -> None:
        self.process, self._writer = process, writer
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._last = 0
        self._is_out = False  # whether the child has taken everything out
        self._news = asyncio.Event()
        self.watching: asyncio.Task[None] | None = None

    async def ask(self, what: str, **given: Any) -> Json:
        """The answer of the child to a question. Raises ToldError."""
        self._last += 1
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = answer
        self.say({"id": self._last, "ask": what, "given": given})
        return await answer

    def say(self, message: Message) -> None:
        """Send a message to the child. Raises ToldError `child-gone`."""
        if self._writer.is_closing():
            raise GONE
        self._writer.write(packed(message))

    def take(self, message: Message) -> None:
        answer = self._waiting.pop(message["id"], None)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(ToldError(**message["error"]))
        else:
            answer.set_result(message["ok"])

    def note(self, state: Json) -> None:
        """Note what a child says of its end (summing.py)."""
        if "out" in state or "report" in state:
            self._is_out = state.get("out") is not None
        self._news.set()

    def gone(self) -> None:
        self._writer.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(GONE)
        self._waiting.clear()

    def kill(self) -> None:
        """Kill the child; for children that change nothing."""
        if self.process.returncode is None:
            self.process.kill()

    async def leave(self) -> None:
        """Close the child's input, upon which it takes everything out and ends, and wait for its end. Its time is
        limited for the taking out; then it may sum up as long as it reports progress.
        """
        self._writer.close()
        loop, ended = asyncio.get_running_loop(), asyncio.ensure_future(self.process.wait())
        until = loop.time() + _OUT_WITHIN
        while not ended.done():
            until = loop.time() + _OUT_WITHIN if self._is_out else until  # an experiment may begin its next repetition
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            limit = _SILENT_FOR if self._is_out else until - loop.time()
            done, _ = await asyncio.wait((ended, news), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
            if not done:
                self.kill()  # the keeper takes everything out, if that is still to be done
                await asyncio.wait((ended,), timeout=_KILLED_WITHIN)
                return

    async def leave_out(self) -> None:
        """Have the child, which has taken everything out and closed its file, end without a report."""
        self.kill()


class Children:
    """Begins children of the window."""

    def __init__(self, starting: Starting) -> None:
        self.starting = starting

    async def begun(
        self,
        program: str,
        tell: Callable[[Json], None] = lambda _state: None,
        gone: Callable[[], None] = lambda: None,
    ) -> ServerChild:
        """A child that runs a module (programs.py). ``tell`` is called with each state that the child reports unasked,
        ``gone`` once when it has ended. Raises ToldError.
        """
        try:
            made = await self.starting.start(program)
        except GilkError as error:
            raise ToldError(error.slug, error.message, error.hint, 503) from None
        child = ServerChild(made.process, await _writer(made.writing))
        reading = asyncio.create_task(_read(child, await _reader(made.reading), tell))
        child.watching = asyncio.create_task(_watch(child, reading, gone))
        return child


async def _watch(child: ServerChild, reading: asyncio.Task[None], gone: Callable[[], None]) -> None:
    """Wait for the end of the child. Its pipe may stay open for a while in a keeper that it has started, so the wait
    for its last messages is limited.
    """
    await child.process.wait()
    await asyncio.wait((reading,), timeout=_LAST_WORDS)
    reading.cancel()
    child.gone()
    gone()


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=MOST)
    pipe = os.fdopen(descriptor, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(descriptor, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _read(child: ServerChild, reader: asyncio.StreamReader, tell: Callable[[Json], None]) -> None:
    try:
        while True:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            message = unpacked(await reader.readexactly(min(length, MOST)))
            if "state" in message:
                child.note(message["state"])
                tell(message["state"])
            else:
                child.take(message)
    except (asyncio.IncompleteReadError, ValueError, KeyError):
        child.gone()
