# SPDX-License-Identifier: LGPL-2.1-or-later
"""The message that a user sees when a command fails, and the exit status.

Standard error gets `gilk: message (slug)`, the slug being a paragraph of docs/errors.md, and a hint if there is one.
Under ``--json`` the last line of standard output is `{"error": {"slug", "message", "hint"}}` instead.

The statuses are those of :mod:`gilk.errors`, 130 when interrupted, and 141 (128 + SIGPIPE, as a shell says it) when
nobody reads gilk's output any more.
"""

from __future__ import annotations

import errno
import os
import sys

import click

from gilk.errors import GilkError, StoreError, UsageError

INTERRUPTED = 130
PIPE_CLOSED = 141
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_OUTPUT = "standard output"
_NO_THREAD = "can't start new thread"  # the text of a RuntimeError of Python's
_ADDRESSES = b"Max address space"  # the row of RLIMIT_AS in /proc/PID/limits
_SOME = "free some space where it goes; what was put into processes has been taken out"


def report(error: BaseException, as_json: bool) -> int:
    """Tell the user about `error` and return the exit status. An error that is a bug of gilk is raised again."""
    if isinstance(error, BrokenPipeError):
        return _give_up_output()
    if isinstance(error, OSError) and not error.filename and _is_of_output(error):
        _give_up_output()
        error, as_json = StoreError("cannot-write", f"{_OUTPUT} cannot be written: {error.strerror}", _SOME), False
    if isinstance(error, KeyboardInterrupt | click.Abort):
        print(file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, click.UsageError) and not as_json:
        error.show()
        _print_hint(_of_usage(error))
        return UsageError.exit_status
    known = _as_gilk_error(error)
    if known is None or os.environ.get("GILK_DEBUG"):
        raise error
    _print(known, as_json)
    return known.exit_status


def _as_gilk_error(error: BaseException) -> GilkError | None:
    """The GilkError that tells the user of `error`; None if `error` must be a bug of gilk."""
    if isinstance(error, GilkError):
        return error
    if isinstance(error, click.ClickException):
        hint = _of_usage(error) or "gilk COMMAND --help lists the options"
        return UsageError("usage", error.format_message(), hint)
    if _is_want_of_memory(error):
        what = str(error) or type(error).__name__
        return GilkError("out-of-memory", f"gilk itself cannot have the memory that it needs: {what}", _of_memory())
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return GilkError("system", f"{error.strerror}{where}", _hint(error))
    return None


def _of_usage(error: click.ClickException) -> str:
    """A hint with gilk's own words for what the command line has or lacks; '' if there is none."""
    from gilk.cli import other_words

    command = (error.ctx.info_name if isinstance(error, click.UsageError) and error.ctx else "") or ""
    if isinstance(error, click.NoSuchOption):
        return other_words.for_option(command, error.option_name)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return other_words.for_missing(command, error.param.name or "")
    return getattr(error, "hint", "")


def _is_of_output(error: OSError) -> bool:
    """Whether `error` came from writing to standard output: then writing a newline there fails in the same way."""
    if error.errno not in _FULL:
        return False
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except (OSError, ValueError) as again:
        return getattr(again, "errno", None) == error.errno
    return False


def _is_want_of_memory(error: BaseException) -> bool:
    """Whether memory ran out. The dynamic linker's failures count too; it reports them only in the text of an
    ImportError. Where addresses are limited, so do errors that extensions of Python make of it."""
    if isinstance(error, ImportError):
        return "failed to map segment" in str(error) or os.strerror(errno.ENOMEM) in str(error)
    if isinstance(error, SystemError) or str(error) == _NO_THREAD:
        return _limit() is not None
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _of_memory() -> str:
    limit = _limit()
    if limit is None:
        return "there is too little memory, or a limit of its cgroup: end something, or raise it"
    return f"the addresses of a process are limited to {limit >> 20} MiB here: ulimit -v unlimited"


def _limit() -> int | None:
    """The bytes of addresses that this process may have; None if it is not limited. The module `resource` is an
    extension, which might not be mapped any more."""
    with open("/proc/self/limits", "rb", buffering=0) as file:
        line = next(line for line in file.read().splitlines() if line.startswith(_ADDRESSES))
    word = line[len(_ADDRESSES) :].split()[0]
    return int(word) if word.isdigit() else None


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        from gilk.api import machine

        built = os.environ.get("TMPDIR", "/tmp")
        kept = machine.cache_place().path or "no cache"
        return f"gilk builds in {built} and keeps in {kept}: free some space, or set TMPDIR and GILK_CACHE"
    return "GILK_DEBUG=1 shows where it happened"


def _print(error: GilkError, as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps({"error": {"slug": error.slug, "message": error.message, "hint": error.hint}}), flush=True)
        return
    print(_clean(f"gilk: {error.message} ({error.slug})"), file=sys.stderr)
    _print_hint(error.hint)


def _print_hint(hint: str) -> None:
    for line in hint.splitlines():
        print(_clean(f"  {line}"), file=sys.stderr)


def _clean(text: str) -> str:
    """The text without characters that control a terminal."""
    try:
        from gilk.render.text import message  # here: it takes long to import
    except (MemoryError, SystemError, ImportError):  # there may be no memory for it
        return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    return message(text)


def _give_up_output() -> int:
    """Redirect standard output to /dev/null, so that the interpreter's own flush at exit raises nothing either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
