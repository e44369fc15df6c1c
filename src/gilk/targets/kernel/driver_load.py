# SPDX-License-Identifier: LGPL-2.1-or-later
"""Loads the driver into a kernel and unloads it, through a link."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from gilk.errors import TargetError

NAME: Final = "ilk"
_LOCKDOWN: Final = "/sys/kernel/security/lockdown"


class Runner(Protocol):
    """The part of a Link that loading the driver uses."""

    def read_file(self, path: str) -> bytes: ...
    def run(self, command: Sequence[str]) -> tuple[int, bytes, bytes]: ...


def loaded(link: Runner) -> bool:
    rows = link.read_file("/proc/modules").splitlines()
    return any(row.split()[0] == NAME.encode() for row in rows)


def allowed() -> None:
    """Check that we are root, before minutes are spent on building. Raises TargetError driver-not-root."""
    if os.geteuid():
        raise _not_root()


def _not_root() -> TargetError:
    return TargetError("driver-not-root", "only root may load or unload the driver", "sudo gilk driver ...")


def load(link: Runner, module: Path, parameters: Sequence[str] = ()) -> bool:
    """Load the driver; returns False if it was loaded already. `module` is a path on the machine of the link.

    Raises TargetError driver-not-root, driver-locked-down, driver-wrong-kernel, driver-load-failed.
    """
    if loaded(link):
        return False
    status, _, said = _run(link, ["insmod", str(module), *parameters])
    if status:
        raise _why_not(link, said)
    return True


def unload(link: Runner) -> bool:
    """Unload the driver; returns False if it was not loaded. Raises TargetError driver-not-root, driver-in-use,
    driver-load-failed."""
    if not loaded(link):
        return False
    status, _, said = _run(link, ["rmmod", NAME])
    if not status:
        return True
    if "in use" in said or "temporarily unavailable" in said:
        raise TargetError("driver-in-use", "the driver is in use", "end the sessions that use it first")
    raise _why_not(link, said)


def _run(link: Runner, command: Sequence[str]) -> tuple[int, str, str]:
    try:
        status, out, err = link.run(command)
    except OSError as error:
        raise TargetError("driver-load-failed", f"{command[0]}: {error.strerror}", "apt-get install kmod") from None
    return status, out.decode(errors="replace"), err.decode(errors="replace").strip()


def _why_not(link: Runner, said: str) -> TargetError:
    if "not permitted" in said or "rejected" in said:
        if _locked_down(link):
            hint = "sign the driver with a key the machine trusts (dkms does it), or turn Secure Boot off"
            return TargetError("driver-locked-down", "the kernel is locked down: it takes signed modules only", hint)
        return _not_root()
    if "Invalid module format" in said or "Unknown symbol" in said or "disagrees" in said:
        hint = "gilk driver build, with the headers of the kernel that runs"
        return TargetError("driver-wrong-kernel", f"the driver was built for another kernel: {said}", hint)
    return TargetError("driver-load-failed", f"the kernel refuses the driver: {said}", "dmesg says more")


def _locked_down(link: Runner) -> bool:
    try:
        return b"[none]" not in link.read_file(_LOCKDOWN)
    except OSError:
        return False
