# SPDX-License-Identifier: LGPL-2.1-or-later
"""Stock kernels in disposable virtual machines, for experiments that would be rash on the machine one works on."""

from gilk.lab.attach import attach
from gilk.lab.kernels import StockKernel, find, kept
from gilk.lab.qemu import Machine
from gilk.lab.vm import BOOT_LIMIT, VM, boot

__all__ = ["BOOT_LIMIT", "VM", "Machine", "StockKernel", "attach", "boot", "find", "kept"]
