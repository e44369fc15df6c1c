# SPDX-License-Identifier: LGPL-2.1-or-later
"""The life of a worker: it answers one question after the other."""

from __future__ import annotations

from gilk.web.frames import Answers, ServerChannel, ServerEnded, answered


def serve(channel: ServerChannel, answers: Answers) -> None:
    """Answer questions until the server ends."""
    try:
        while True:
            channel.send(answered(channel.receive(), answers))
    except ServerEnded:
        return
