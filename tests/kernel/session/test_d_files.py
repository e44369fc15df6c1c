# SPDX-License-Identifier: LGPL-2.1-or-later
"""fsinfo in a live stock kernel: the operations that a script makes on a file system are seen, with names and bytes."""

from __future__ import annotations

import pytest

from gilk.engines.dtrace.enabling import NoSuchProbe
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.kernel.session.test_d_programs import shell

pytestmark = pytest.mark.xdist_group("lab")
PLACE = "/dev/shm/fsinfo"
WORK = f"""mkdir {PLACE}; cd {PLACE}; mkdir -m 700 below; dd if=/dev/zero of=written bs=100 count=7 2>/dev/null
    dd if=written of=/dev/null bs=50 2>/dev/null; ln written linked; ln -s nothing points; mv written below/moved
    sync below/moved; ls below > /dev/null; rm linked points below/moved; rmdir below; cd /; rmdir {PLACE}"""


def test_fsinfo_fires_for_each_operation_on_a_file_system(kernel: KernelTarget, guest: Guest) -> None:
    """There are seven writes of 100 bytes, reads of 50 until the end, and each operation on names as often as the
    script does it."""
    shell(guest, "mountpoint -q /dev/shm || { mkdir -p /dev/shm; mount -t tmpfs none /dev/shm; }")
    names = ("mkdir", "rmdir", "unlink", "symlink", "link", "rename")
    of_names = ", ".join(f"fsinfo:::{name}" for name in names)
    text = f"""
        {of_names} /args[0]->fi_fs == "tmpfs"/ {{
            @n[probename, args[0]->fi_name, args[0]->fi_pathname, args[0]->fi_dirname] = count(); }}
        fsinfo:::mkdir /args[0]->fi_name == "below"/ {{ @m["mode"] = sum(args[1] & 0777); }}
        fsinfo:::read, fsinfo:::write /args[0]->fi_pathname == "{PLACE}/written"/ {{
            @f[probename] = count(); @b[probename] = sum(args[1]); }}
        fsinfo:::open, fsinfo:::close /args[0]->fi_pathname == "{PLACE}/written"/ {{ @f[probename] = count(); }}
        fsinfo:::fsync /args[0]->fi_name == "moved"/ {{ @f[args[0]->fi_pathname] = count(); }}
        fsinfo:::readdir /args[0]->fi_name == "below"/ {{ @f[args[0]->fi_dirname] = count(); }}
        END {{ printa("%s %s %s %s %@d\\n", @n); printa("%s %@d\\n", @f); }}
        END {{ printa("%s %@d\\n", @b); printa("%s %@d\\n", @m); }}"""
    done = ran(kernel, text, ["sh", "-c", WORK], clausetime="400000")
    assert not done.errors
    told = [tuple(line.split()) for line in done.lines]
    below = {
        "below": ("mkdir", "rmdir"), "linked": ("unlink",), "points": ("symlink", "unlink"),
        "written": ("link", "rename"),
    }  # fmt: skip
    expected = [(probe, name, f"/fsinfo/{name}", "/fsinfo", "1") for name, probes in below.items() for probe in probes]
    expected += [("mkdir", "fsinfo", "/fsinfo", "/", "1"), ("rmdir", "fsinfo", "/fsinfo", "/", "1")]
    expected += [("unlink", "moved", "/fsinfo/below/moved", "/fsinfo/below", "1")]
    assert sorted(row for row in told if row[0] in names and row[2].startswith("/fsinfo")) == sorted(expected)
    rest = [row for row in told if row[0] not in names]
    counts = dict(rest[:-3])
    assert dict(rest[-3:]) == {"write": "700", "read": str(15 * 50), "mode": str(0o700)}
    assert counts["write"] == "7" and counts["read"] == "15"
    assert counts["open"] == "2" <= counts["close"] and counts[f"{PLACE}/below/moved"] == "1"
    assert int(counts[PLACE]) >= 2 and not guest.complaints()


def test_unavailable_probes_of_fsinfo_are_refused_with_the_reason(kernel: KernelTarget) -> None:
    for name, why in (("create", "function of its own"), ("vnevent", "no one place")):
        with pytest.raises(NoSuchProbe, match=why):
            program(kernel, f"fsinfo:::{name} {{ }}")
