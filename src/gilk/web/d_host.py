# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process of a D program that runs in another process for a window (printing.py).

    python -m gilk.web.d_host READING WRITING GRANTS

The first message has the program and the process. The process ends in the same cases as host.py.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from gilk.api import dtrace as d_programs
from gilk.errors import GilkError, TargetError
from gilk.web.checked import Check, first_given, free, in_one_process, text
from gilk.web.frames import ServerChannel, ServerEnded, told
from gilk.web.grants import Grants, taken
from gilk.web.host import ServerSaid, leave
from gilk.web.printing import PrintingHost

Json = dict[str, Any]


def _beginning(grants: Grants, given: Json) -> Json:
    text(given, "text")
    return in_one_process(grants, given)


CHECKS: Final[Mapping[str, Check]] = {"begin": _beginning, "end": free}


def main() -> None:
    channel = ServerChannel.given()
    grants = taken()
    signal.signal(signal.SIGTERM, leave)
    begun: Json = {}
    consumer: d_programs.Consumer | None = None
    try:
        begun = channel.receive()
        given = first_given(grants, begun, CHECKS)
        pid, born = given["processes"]
        consumer = d_programs.prepare(d_programs.Asked((("n", given["text"]),), (), (), pid, ()))
        grants.check_process(pid, born)  # again, now that no other process can get its number
        if consumer.machine is not None:  # it would run in this machine's kernel, since the driver is loaded
            raise TargetError("not-granted", "the program is about the kernel of this machine", "gilk web --on here")
        PrintingHost(channel, ServerSaid(channel).end, (pid,)).carry_out(consumer, begun)
    except ServerEnded:
        pass
    except GilkError as error:
        with suppress(ServerEnded):
            channel.send({"id": begun.get("id", 0), "error": told(error)})
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if consumer is not None:
            d_programs.let_go(consumer)


if __name__ == "__main__":
    main()
