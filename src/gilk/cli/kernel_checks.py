# SPDX-License-Identifier: LGPL-2.1-or-later
"""The facts that `gilk doctor` looks up for work on kernels: the driver of the running kernel, and the needs of
virtual machines."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from gilk.cli.checks import Check, Status, verdict

_QEMU = "qemu-system-x86_64"


def driver() -> Check:
    """Check whether the driver is loaded, or can at least be built."""
    means = "points of the running kernel (kernel:FUNCTION:WHERE) take the driver"
    if Path("/dev/ilk").exists():
        return Check("driver", Status.OK, "loaded", means)
    release = platform.release()
    headers = Path("/lib/modules", release, "build", "Makefile")
    if not headers.exists():
        fix = f"apt install linux-headers-{release}, as root, then `gilk driver load`; or `gilk run --on lab`"
        return Check("driver", Status.WARN, f"not loaded, and no headers of {release}", means, fix)
    return Check("driver", Status.WARN, "not loaded", means, "`gilk driver load`, as root")


def lab() -> Check:
    """Check whether QEMU is installed and KVM usable; kernels are fetched only when they are needed."""
    found = shutil.which(_QEMU)
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK)
    how = "with KVM, if it works" if kvm else "emulated, which is some ten times slower"
    means = "virtual machines with a stock kernel (`gilk lab`, `gilk run --on lab`) take QEMU"
    status = verdict(bool(found), Status.WARN)
    return Check("lab", status, how if found else f"no {_QEMU}", means, "apt install qemu-system-x86")
