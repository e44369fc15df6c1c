# SPDX-License-Identifier: LGPL-2.1-or-later
"""The message by which the driver loads a D program, for tests that change it before it is sent."""

from __future__ import annotations

from gilk.engines.dtrace.compiled import ProgramText
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.kernel_clauses import printed
from gilk.engines.dtrace.memory_sizes import sizes
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.targets.kernel.d_messages import pack_program
from gilk.targets.kernel.driver_abi import HEAD, PROTOCOL
from gilk.trace.d.layout import LAYOUT_FIELDS

_SMALL = {
    "clausetime": "1000000",
    "bufsize": "16k",
    "aggsize": "64k",
    "dynvarsize": "32k",
    "nspec": "4",
    "specsize": "4k",
    "scratchsize": "512",
}


def program_message(text: str, processors: int) -> bytes:
    """The whole message of a program of BEGIN, END and ticks, with little memory and a group for each probe."""
    options = Options()
    for name, value in _SMALL.items():
        options.set(name, value)
    consumer = Consumer([ProgramText("script", Source("fuzzed.d", text))], Macros(), options)
    consumer.compile()
    program, enabled = consumer.compiled.program, consumer.enabled
    made = printed(program, enabled, sorted({tuple(each) for each in enabled.clauses.values()}), options)
    layout = sizes(program, options, processors, scratches=0).layout()
    fields = [int(getattr(layout, name)) for name in LAYOUT_FIELDS]
    body = pack_program(made, fields, options.number("clausetime"))
    return HEAD.pack(HEAD.size + len(body), PROTOCOL) + body
