# SPDX-License-Identifier: LGPL-2.1-or-later
"""Another consumer, in the machine itself: `second.py PROGRAM`. It prints "ready" once its probes are in, and goes
on."""

from __future__ import annotations

import signal
import sys

from gilk.engines.dtrace.compiled import ProgramText
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.machine import OtherMachine
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.runs.elsewhere import Elsewhere
from gilk.targets.kernel.link import LocalLink


def main() -> None:
    options = Options()
    options.set("quiet", None)
    options.set("destructive", None)  # nobody takes its records, which must not abort it
    machine = OtherMachine(Elsewhere(LocalLink(), lambda: None))  # type: ignore[arg-type]
    consumer = Consumer([ProgramText("script", Source("second", sys.argv[1]))], Macros({}, ("second",)), options)
    consumer.machine = machine
    consumer.compile()
    refused = consumer.start()
    print(refused or "ready", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
