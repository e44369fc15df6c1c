# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian's squid with a cache on disk: make its directory, fill it with objects, and make its clients' requests."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.behaviour.waiting import PATIENCE

SQUID = "/usr/sbin/squid"
USER = "proxy"  # the user that squid becomes when root has started it
CLIENT = Path(__file__).with_name("squid_client.py")
#: Objects are not kept in memory, so that each hit is read from disk.
CONFIGURATION = """
http_port 127.0.0.1:PORT
http_access allow all
pid_filename none
cache_log PLACE/log
logformat plain %>a %Ss %>Hs %<st %<sh
access_log stdio:PLACE/access plain
cache_store_log none
cache_dir ufs PLACE/cache 50 1 1
cache_mem 0
maximum_object_size_in_memory 0
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname here
coredump_dir none
netdb_filename none
"""
#: By client: the length of its object in bytes, and how often it asks for that.
OBJECTS = {"127.0.0.1": (3000, 3), "127.0.0.2": (30000, 2), "127.0.0.3": (100000, 4)}
FOREVER = "max-age=1000000000"


class _Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"x" * int(self.path.strip("/"))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", FOREVER)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def origin() -> Iterator[int]:
    """Run a server of objects, whose names are their lengths. Yields its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def place() -> Iterator[Path]:
    """A directory that belongs to USER. pytest's own directories are below one that no other user can enter."""
    with tempfile.TemporaryDirectory(prefix="squid-") as name:
        path = Path(name)
        path.chmod(0o755)
        (path / "cache").mkdir()
        for one in (path, path / "cache"):
            shutil.chown(one, USER)
        yield path


def configured(place: Path, port: int, there: str = "") -> Path:
    """A configuration file in ``place``, for a squid that has its files in ``there``, by default in ``place``."""
    path = place / f"conf.{port}"
    path.write_text(CONFIGURATION.replace("PLACE", there or str(place)).replace("PORT", str(port)))
    return path


def words(configuration: Path | str) -> list[str]:
    """The command of a squid that is a single process, and listens once it has read its cache."""
    return [SQUID, "-N", "-F", "-f", str(configuration)]


@contextmanager
def squid(place: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run squid with the cache in ``place``. Yields the process."""
    with subprocess.Popen(words(configured(place, port)), stderr=subprocess.DEVNULL) as server:
        try:
            yield server
        finally:
            server.terminate()
            server.wait(PATIENCE)


def requests(port_of_origin: int) -> list[tuple[str, str]]:
    """The (client, URL) of all requests; the clients take turns, as long as they have requests left."""
    most = max(times for _, times in OBJECTS.values())
    return [
        (client, f"http://127.0.0.1:{port_of_origin}/{size}")
        for n in range(most)
        for client, (size, times) in OBJECTS.items()
        if n < times
    ]


def asking(port: int, asked: Sequence[tuple[str, str]]) -> tuple[list[str], bytes]:
    """A command that makes these requests of the squid at ``port``, and its input."""
    return [sys.executable, str(CLIENT), str(port)], json.dumps(asked).encode()


def answers(port: int, asked: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The number of bytes in the answers to each client."""
    command, given = asking(port, asked)
    done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE, check=True)
    told: dict[str, int] = json.loads(done.stdout)
    return told


def fill(place: Path, port: int) -> list[tuple[str, str]]:
    """Fill the cache in ``place`` with the object of each client. Returns the requests that will hit them."""
    made = subprocess.run(
        [SQUID, "-N", "-z", "-f", configured(place, port)], capture_output=True, timeout=PATIENCE, check=False
    )
    assert made.returncode == 0, made.stderr.decode()
    with origin() as far, squid(place, port):
        asked = requests(far)
        answers(port, list(dict.fromkeys(asked)))
    return asked


def stored(place: Path) -> dict[str, int]:
    """For each client, the length of the file that has its object, with what squid writes in front of that."""
    files = sorted(one.stat().st_size for one in (place / "cache" / "00" / "00").iterdir())
    assert len(files) == len(OBJECTS)
    return dict(zip(OBJECTS, files, strict=True))


def asked_for() -> dict[str, int]:
    """For each client, the number of bytes of all that it asks for."""
    return {client: size * times for client, (size, times) in OBJECTS.items()}


def logged(log: str) -> dict[str, int]:
    """For each client, the bytes of bodies that squid has sent from its cache, by squid's own log."""
    sums = Counter[str]()
    for line in log.splitlines():
        client, how, status, sent, head = line.split()
        assert (how, status) == ("TCP_HIT", "200"), line
        sums[client] += int(sent) - int(head)
    return dict(sums)


_READ = re.compile(r"read\(\d+<[^>]*/cache/00/00/([0-9A-F]{8})>.* = (\d+)$", re.MULTILINE)


def read_by_strace(trace: str) -> dict[str, int]:
    """For each client, the bytes that squid has read of the client's object, by strace; the files are in the
    clients' order."""
    sums = Counter[str]()
    clients = list(OBJECTS)
    for number, amount in _READ.findall(trace):
        sums[clients[int(number, 16)]] += int(amount)
    return dict(sums)
