# SPDX-License-Identifier: LGPL-2.1-or-later
"""The process of a D program that runs in another process for a window (printing.py).

    python -m gilk.web.d_host READING WRITING

The first message has the program and the process. The process ends in the same cases as host.py.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Any

from gilk.api import dtrace as d_programs
from gilk.errors import GilkError
from gilk.web.frames import ServerChannel, ServerEnded, told
from gilk.web.grants import check_born
from gilk.web.host import ServerSaid, leave
from gilk.web.printing import PrintingHost

Json = dict[str, Any]


def main() -> None:
    channel = ServerChannel.given()
    signal.signal(signal.SIGTERM, leave)
    begun: Json = {}
    consumer: d_programs.Consumer | None = None
    try:
        begun = channel.receive()
        given = begun["given"]
        ((pid, born),) = ((int(pid), born) for pid, born in given["processes"].items())
        consumer = d_programs.prepare(d_programs.Asked((("n", given["text"]),), (), (), pid, ()))
        check_born(pid, born)
        PrintingHost(channel, ServerSaid(channel).end).carry_out(consumer, begun)
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
