#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Build a kernel that checks itself: `tools/kasan_kernel.py DIRECTORY` makes a store of kernels for the lab there.

It is Debian's source of the lab's kernel with KASAN (reads and writes of memory that is not theirs), lockdep (orders of
locks that could end in a deadlock) and CONFIG_DEBUG_ATOMIC_SLEEP. What the lab's machines do not have is left out, so
that it is built in half an hour on two processors. It takes 12 GB of disk. Nothing is installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gilk.cli.progress import working
from gilk.errors import GilkError
from gilk.lab import find
from gilk.lab.kernels import StockKernel
from gilk.lab.packages import Archive, require

_SOURCE = "linux-source-6.1"
_NAME = "-kasan"  # the end of the release
_CHECKS = (
    "KASAN KASAN_GENERIC KASAN_INLINE KASAN_VMALLOC PROVE_LOCKING DEBUG_ATOMIC_SLEEP DEBUG_LIST"
    " KERNEL_GZIP MODULE_COMPRESS_NONE CMDLINE_BOOL"
)
#: An interpreter of ACPI that is checked and emulated takes half a minute for each device, and then gives up.
_COMMAND_LINE = "pci=noacpi"
#: Hardware that the lab's machines do not have, signatures, and others' security modules.
_WITHOUT = (
    "MODULE_SIG SECURITY AUDIT KERNEL_XZ MODULE_COMPRESS_XZ LOCALVERSION_AUTO DRM SOUND USB_SUPPORT WLAN WIRELESS HID"
    " MEDIA_SUPPORT FB INFINIBAND IIO HWMON I2C SPI THERMAL XEN HYPERV ATA SCSI MD FUSION MMC NEW_LEDS EDAC STAGING"
    " IOMMU_SUPPORT MACINTOSH_DRIVERS PCMCIA PARPORT ISDN ACCESSIBILITY AUXDISPLAY CAN BT NFC HAMRADIO RC_CORE WATCHDOG"
    " MFD REGULATOR POWER_SUPPLY PWM EXTCON GREYBUS VGA_SWITCHEROO AGP SUSPEND HIBERNATION CPU_FREQ KEXEC KEXEC_FILE"
    " CRASH_DUMP HOTPLUG_PCI INPUT_TOUCHSCREEN INPUT_JOYSTICK INPUT_TABLET INPUT_MISC INPUT_KEYBOARD INPUT_MOUSE SERIO"
    " SURFACE_PLATFORMS X86_PLATFORM_DEVICES CHROME_PLATFORMS TCG_TPM NUMA MEMORY_HOTPLUG CRYPTO_HW VIRTUALIZATION"
    " PERF_EVENTS_INTEL_UNCORE PERF_EVENTS_INTEL_RAPL PERF_EVENTS_INTEL_CSTATE PERF_EVENTS_AMD_UNCORE"
    " PERF_EVENTS_AMD_POWER PERF_EVENTS_AMD_BRS RFKILL ETHERNET PHYLIB MEMSTICK EFI DMADEVICES GPIOLIB PINCTRL RAS PNP"
    " MPTCP PSTORE NET_SCHED DCB X86_MCE INTEL_TXT CPU_IDLE PM MICROCODE X86_SGX AMD_MEM_ENCRYPT INTEL_TDX_GUEST FDDI"
    " HIPPI ATM TUN VFIO VHOST_MENU PCIEPORTBUS DAX LIBNVDIMM NVMEM EISA REMOTEPROC MAILBOX COMMON_CLK FPGA"
    " RESET_CONTROLLER RTC_CLASS BACKLIGHT_CLASS_DEVICE VT IP_VS BRIDGE IP_SCTP IP_DCCP RDS TIPC"
)
#: Modules that the lab needs to boot, and those that tests load.
_MODULES = (
    "virtio_pci virtio_console virtio_net 9p 9pnet 9pnet_virtio overlay af_packet dummy ifb ext4 xfs nf_tables null_blk"
    " brd loop inet_diag tcp_diag"
)


def build(place: Path) -> StockKernel:
    """The kernel in the store ``place``; it is built unless it is there. Raises GilkError, and
    subprocess.CalledProcessError if a step of the kernel's own build fails."""
    for kept in place.glob(f"6.*{_NAME}"):
        return StockKernel(kept.name, kept)
    require("make", "gcc", "bc", "flex", "bison", "pahole", "depmod")
    tree = _unpack(place / ".build")
    _configure(tree, _stock_configuration())
    with working("compiling the kernel", wanted=True):
        _make(tree, f"-j{len(os.sched_getaffinity(0))}", "bzImage", "modules")
    return _keep(tree, place)


def _stock_configuration() -> Path:
    """The configuration of the lab's kernel, wherever that is kept, whatever $GILK_KERNELS says."""
    os.environ.pop("GILK_KERNELS", None)
    stock = find(notify=lambda text: print(text, file=sys.stderr))
    return stock.root / f"boot/config-{stock.release}"


def _unpack(work: Path) -> Path:
    """The unpacked sources, beside the packages that they and busybox came in."""
    if work.exists():  # of a build that was interrupted
        shutil.rmtree(work)
    work.mkdir(mode=0o755, parents=True)  # apt fetches as another user
    with working("unpacking the kernel's sources", wanted=True):
        Archive(work).unpack([_SOURCE, "busybox-static"], work)
        subprocess.run(["tar", "xf", work / f"usr/src/{_SOURCE}.tar.xz", "-C", work], check=True)
    return work / _SOURCE


def _configure(tree: Path, stock: Path) -> None:
    shutil.copyfile(stock, tree / ".config")
    _set(tree, _CHECKS.split(), _WITHOUT.split())
    modules = tree.parent / "modules"
    modules.write_text("Module Size Used by\n" + "".join(f"{name} 1 0\n" for name in _MODULES.split()))
    _make(tree, f"LSMOD={modules}", "localmodconfig")
    _set(tree, _CHECKS.split(), _WITHOUT.split())
    _make(tree, "olddefconfig")


def _set(tree: Path, wanted: Sequence[str], unwanted: Sequence[str]) -> None:
    words = [word for name in wanted for word in ("-e", name)] + [word for name in unwanted for word in ("-d", name)]
    texts = {
        "LOCALVERSION": _NAME,
        "CMDLINE": _COMMAND_LINE,
        "BUILD_SALT": "",
        "SYSTEM_TRUSTED_KEYS": "",
        "SYSTEM_REVOCATION_KEYS": "",
    }
    words += [word for name, text in texts.items() for word in ("--set-str", name, text)]
    subprocess.run(["scripts/config", *words], cwd=tree, check=True)


def _make(tree: Path, *words: str) -> None:
    """Call make in the tree, and answer each of its questions by the default. Its output is shown if it fails."""
    defaults = "\n" * 10_000
    done = subprocess.run(["make", "-C", tree, *words], input=defaults, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr)
        done.check_returncode()


def _keep(tree: Path, place: Path) -> StockKernel:
    """Lay the kernel out as the packages of a stock kernel do. The tree serves as its headers."""
    release = (tree / "include/config/kernel.release").read_text().strip()
    kernel, final = StockKernel(release, place / ".new"), place / release
    shutil.rmtree(kernel.root, ignore_errors=True)
    for directory in (kernel.image.parent, kernel.headers.parent, kernel.busybox.parent):
        directory.mkdir(parents=True)
    shutil.copyfile(tree / "arch/x86/boot/bzImage", kernel.image)
    shutil.copyfile(tree / ".config", kernel.image.with_name(f"config-{release}"))
    shutil.copy(tree.parent / "bin/busybox", kernel.busybox)
    _make(tree, f"INSTALL_MOD_PATH={kernel.root}", "modules_install")
    kernel.headers.symlink_to(os.path.relpath(tree, final / "usr/src"))
    for name in ("build", "source"):  # they name the tree, which the machines have at the same place
        (kernel.modules / name).unlink(missing_ok=True)
        (kernel.modules / name).symlink_to(tree)
    kernel.root.rename(final)  # the image cannot be entered directly: that code runs before KASAN's memory is there
    return StockKernel(release, final)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    place = parser.parse_args().directory.resolve()
    try:
        kernel = build(place)
    except GilkError as error:
        print(f"kasan_kernel: {error.message} ({error.slug})\n  {error.hint}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"kasan_kernel: {error}", file=sys.stderr)
        return 1
    print(f"{kernel.release}: GILK_KERNELS={place}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
