# SPDX-License-Identifier: LGPL-2.1-or-later
"""accounting.aspect in Debian's squid and the kernel that it runs on, with a weaver in the virtual machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gilk.targets.kernel.target import KernelTarget
from tests.behaviour.test_weave_squid import by_client
from tests.kernel.driver.driving import Guest
from tests.kernel.session.test_session import text_of
from tests.kernel.session.test_weave_both import PATIENCE, Away, compiled, nothing_is_left
from tests.kernel.session.test_weave_both import image as image
from tests.programs import squid

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(5400), pytest.mark.stress]
ACCOUNTING = Path(__file__).parents[3] / "examples" / "aspects" / "accounting.aspect"
THERE = "/run/squid"
READS = ["vfs_read"]
PLANNING = 3600.0  # seconds to analyse all of squid's code on an emulated machine
PORT = 3128  # no other program listens there


def there(guest: Guest, *command: str, given: bytes = b"") -> str:
    status, said, errors = guest.vm.run(command, given, timeout=PATIENCE)
    assert status == 0, (command, said, errors)
    return said.decode()


@pytest.fixture
def cached(guest: Guest, exchange: Path) -> list[tuple[str, str]]:
    """A cache in the machine; returns the requests that hit it."""
    with squid.place() as place:
        asked = squid.fill(place, PORT)
        shutil.copytree(place / "cache", exchange / "cache")
        squid.configured(exchange, PORT, THERE)
    there(guest, "sh", "-c", f"mkdir -p {THERE} && cp -r {exchange}/cache {THERE}")
    there(guest, "chown", "-R", f"{squid.USER}:", THERE)
    return asked


def answers(guest: Guest, asked: list[tuple[str, str]]) -> dict[str, int]:
    """The number of bytes in the answers to each client, in the machine."""
    command, given = squid.asking(PORT, asked)
    told: dict[str, int] = json.loads(there(guest, *command, given=given))
    return told


def ended(guest: Guest) -> None:
    there(guest, "sh", "-c", "kill $(pidof -s squid)")


def test_squid_is_accounted_per_client_through_the_kernel(
    kernel: KernelTarget, guest: Guest, image: Path, exchange: Path, cached: list[tuple[str, str]]
) -> None:
    """The kernel's vfs_read has read, while squid handled a client's requests, as many bytes of regular files as the
    file of its object has, times its requests. The clients and squid's own log agree about the bodies.
    tests/behaviour/test_weave_squid.py compares with strace."""
    compiled(kernel, ACCOUNTING)
    command = squid.words(exchange / f"conf.{PORT}")
    before = text_of(kernel, READS)
    away = Away(guest, [str(image), "-", str(ACCOUNTING), *command])
    away.until("woven", PLANNING)
    assert text_of(kernel, READS) != before
    assert answers(guest, cached) == squid.asked_for()
    ended(guest)
    end = away.end()[-1]
    assert text_of(kernel, READS) == before
    found = by_client({bytes.fromhex(key): value for key, value in end["tables"]["bytes"]})
    log = guest.link.read_file(f"{THERE}/access").decode()
    assert squid.logged(log) == squid.asked_for()
    assert found == {client: size * squid.OBJECTS[client][1] for client, size in squid.stored(exchange).items()}
    (matches, begun, *_) = end["counts"]["#1"]
    assert begun == matches[0] == len(cached)
    assert end["restored"] == [True, True]
    nothing_is_left(guest)
