# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a user sees when a command fails, and the exit status it ends with.

Standard error gets `gilk: message (slug)`, the slug being a paragraph of
docs/errors.md, and a hint if there is one. Under ``--json`` the last line of
standard output is `{"error": {"slug", "message", "hint"}}` instead.

Statuses: those of :mod:`gilk.errors`; 130 interrupted; 141 nobody reads our
output any more (128 + the signal, as a shell would say).
"""

from __future__ import annotations

import errno
import os
import sys

import click

from gilk.errors import GilkError, UsageError

INTERRUPTED = 130
PIPE_CLOSED = 141


def report(error: BaseException, as_json: bool) -> int:
    """Tell the user about `error` and return the exit status. Raises it again if it is a bug of ours."""
    if isinstance(error, BrokenPipeError):
        return _give_up_output()
    if isinstance(error, KeyboardInterrupt | click.Abort):
        print(file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, click.UsageError) and not as_json:
        error.show()
        return UsageError.exit_status
    known = _as_gilk_error(error)
    if known is None or os.environ.get("GILK_DEBUG"):
        raise error
    _print(known, as_json)
    return known.exit_status


def _as_gilk_error(error: BaseException) -> GilkError | None:
    """`error` with a slug, or None when it is not one a user could have caused."""
    if isinstance(error, GilkError):
        return error
    if isinstance(error, click.ClickException):
        return UsageError("usage", error.format_message(), "gilk COMMAND --help lists the options")
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return GilkError("system", f"{error.strerror}{where}", _hint(error))
    return None


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        from gilk import api

        built = os.environ.get("TMPDIR", "/tmp")
        kept = api.cache_place().path or "no cache"
        return f"gilk builds in {built} and keeps in {kept}: free some space, or set TMPDIR and GILK_CACHE"
    return "GILK_DEBUG=1 shows where it happened"


def _print(error: GilkError, as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps({"error": {"slug": error.slug, "message": error.message, "hint": error.hint}}), flush=True)
        return
    from gilk.render.text import message  # here: it takes long to import

    print(message(f"gilk: {error.message} ({error.slug})"), file=sys.stderr)
    for line in error.hint.splitlines():
        print(message(f"  {line}"), file=sys.stderr)


def _give_up_output() -> int:
    """Point standard output at nothing, so that the interpreter's own flush at exit is quiet as well."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
