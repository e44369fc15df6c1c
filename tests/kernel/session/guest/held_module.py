# SPDX-License-Identifier: LGPL-2.1-or-later
"""A client of the driver that has it hold a module, and waits to be killed: NAME FILE OFFSET."""

import sys
from pathlib import Path

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.link import LocalLink
from gilk.targets.kernel.session_module import SessionModule
from gilk.toolchain.kernel_instrument import ModuleFile

name, path, offset = sys.argv[1:]
link = LocalLink()
module = ModuleFile(name, Path(path).read_bytes(), {"gilk_called": int(offset)})
held = SessionModule(link, Driver(link), module, 0)
print("held", flush=True)
sys.stdin.read()
