# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian's nginx: a check that it lacks is woven in and out while clients send requests, and no request is lost."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gilk
from gilk.targets.selecting import descendants, processes
from tests.behaviour.advised import aspects
from tests.behaviour.harness import differences, leftovers, wait_for
from tests.behaviour.test_weave import EXAMPLES

CONFIGURATION = """
daemon off; worker_processes 2; pid PLACE/pid; error_log PLACE/errors; events { worker_connections 64; }
http {
    access_log off; keepalive_requests 100000000; client_max_body_size 10m;
    client_body_temp_path PLACE/1; proxy_temp_path PLACE/2; fastcgi_temp_path PLACE/3; uwsgi_temp_path PLACE/4;
    scgi_temp_path PLACE/5;
    server {
        listen unix:PLACE/socket;
        location /page { return 200 "page"; }
        location /post { proxy_pass http://unix:PLACE/socket:/page; }
    }
}
"""
#: The check of chunked.aspect with another limit, which chunks can exceed in this version, which has that check.
LIMIT = (EXAMPLES / "chunked.aspect").read_text().replace("ctx->size < 0 || ctx->length < 0", "ctx->size > LIMIT")
CLIENTS = 4


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("here", timeout=240)
        self._path = path
        self.connects = 0

    def connect(self) -> None:
        self.connects += 1
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(240)
        self.sock.connect(str(self._path))

    def asked(self, method: str = "GET", path: str = "/page", body: bytes | None = None) -> tuple[int, bytes]:
        self.request(method, path, iter([body]) if body else None, encode_chunked=bool(body))
        answer = self.getresponse()
        return answer.status, answer.read()


class Client(threading.Thread):
    """A client that sends requests on one connection until it is stopped."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._connection, self.answers, self.stop, self.wrong = _Connection(path), 0, False, ""

    def run(self) -> None:
        try:
            while not self.stop:
                if (answer := self._connection.asked()) != (200, b"page"):
                    self.wrong = repr(answer)
                self.answers += 1
        except (OSError, http.client.HTTPException) as error:
            self.wrong = repr(error)

    @property
    def connects(self) -> int:
        return self._connection.connects


@contextmanager
def nginx(place: Path) -> Iterator[list[int]]:
    """Run nginx. Yields the numbers of the master and its workers."""
    (place / "nginx.conf").write_text("user root;" + CONFIGURATION.replace("PLACE", str(place)))
    words = ["/usr/sbin/nginx", "-p", str(place), "-c", str(place / "nginx.conf")]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as server:
        try:
            assert wait_for(lambda: len(descendants(processes(), server.pid)) == 2)
            assert wait_for((place / "socket").exists)
            yield [server.pid, *sorted(descendants(processes(), server.pid))]
        finally:
            server.terminate()
            server.wait(60)


def chunked(path: Path, size: int) -> int:
    """The status of the answer to a request with one chunk of that size, on a connection of its own, as nginx closes
    it."""
    connection = _Connection(path)
    try:
        return connection.asked("POST", "/post", b"x" * size)[0]
    finally:
        connection.close()


@pytest.mark.stress
def test_a_check_in_nginx_is_woven_in_and_out_while_clients_send_requests(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with nginx(tmp_path) as pids:
        clients = [Client(path) for _ in range(CLIENTS)]
        for one in clients:
            one.start()
        for _ in range(5):
            assert (chunked(path, 100), chunked(path, 5000)) == (200, 200)
            targets = [gilk.attach(pid) for pid in pids]
            with gilk.weave(aspects(tmp_path, LIMIT), *targets, defines=["LIMIT=1000"]) as weaving:
                assert (chunked(path, 100), chunked(path, 5000)) == (200, 400)
                assert {one.text for one in weaving.reports()} == {"chunk of 5000 bytes refused"}
            for target in targets:
                target.close()
            before = [one.answers for one in clients]
            assert wait_for(
                lambda before=before: all(one.answers > n + 10 for one, n in zip(clients, before, strict=True))
            )
        for one in clients:
            one.stop = True
            one.join(60)
        assert [one.wrong for one in clients] == [""] * CLIENTS
        assert [one.connects for one in clients] == [1] * CLIENTS
        assert [(differences(pid), leftovers(pid)) for pid in pids] == [([], [])] * len(pids)


@pytest.mark.stress
def test_the_example_is_woven_into_debians_nginx(tmp_path: Path) -> None:
    with nginx(tmp_path) as pids, gilk.attach(pids[-1]) as target:
        with gilk.weave(EXAMPLES / "chunked.aspect", target) as weaving:
            assert wait_for(lambda: chunked(tmp_path / "socket", 100) == 200 and weaving.counts()[0].matches[0] > 0)
            assert not list(weaving.reports())
