# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each defence alone turns strangers away, when all others are off; with all of them off, strangers get in."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route, WebSocketRoute

from gilk.web import assets, guard, peer
from gilk.web.audit import Audit
from gilk.web.grants import Grants
from gilk.web.guard import CHECKS, HEADERS, Gate, Guard
from gilk.web.keys import KEY_LASTS, MOST_KEYS, Keys
from gilk.web.routes import Window, application, routes
from tests.web.served import Served, served

Headers = Sequence[tuple[str, str]]
HOST = ("host", "127.0.0.1:4000")
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND")
KEYS = Keys(acts=True)
TOKEN = ("authorization", f"Bearer {KEYS.exchange(KEYS.make())}")
LOOKING = Keys(acts=False)
LOOKING_TOKEN = ("authorization", f"Bearer {LOOKING.exchange(LOOKING.make())}")


async def _reached(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def status(
    headers: Headers, method: str = "GET", path: str = "/index.json", checks: Mapping[str, Any] = CHECKS,
    kind: str = "http", keys: Keys = KEYS, client: tuple[str, int] | None = None, app: Any = _reached,
) -> int:  # fmt: skip
    """The status of the answer; 101 for a connection that stays open, 403 for one that is closed."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    scope = {
        "type": kind, "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers], "client": client,
        "server": ("127.0.0.1", 4000), "http_version": "1.1", "scheme": "http",
    }  # fmt: skip
    users = frozenset({os.geteuid()}) if client else None
    asyncio.run(Guard(app, Gate(keys, users), checks)(scope, receive, send))
    first = sent[0]
    return {"websocket.accept": 101, "websocket.close": 403}.get(first["type"]) or int(first["status"])


#: The defence, the stranger's request, and the answer.
STRANGERS: list[tuple[str, dict[str, Any], int]] = [
    ("host", {"headers": [("host", "evil.example:4000")]}, 421),
    ("host", {"headers": [("host", "127.0.0.1.evil.example")]}, 421),
    ("host", {"headers": [("host", "")]}, 421),
    ("host", {"headers": []}, 421),
    ("host", {"headers": [HOST, ("host", "evil.example")]}, 421),
    ("origin", {"headers": [HOST, ("origin", "http://evil.example")]}, 403),
    ("origin", {"headers": [HOST, ("origin", "null")]}, 403),
    ("origin", {"headers": [HOST, ("origin", "http://127.0.0.1:4001")]}, 403),
    ("origin", {"headers": [HOST], "kind": "websocket", "path": "/live"}, 403),
    ("origin", {"headers": [HOST, ("origin", "http://evil.example")], "kind": "websocket", "path": "/live"}, 403),
    ("site", {"headers": [HOST, ("sec-fetch-site", "cross-site")]}, 403),
    ("site", {"headers": [HOST, ("sec-fetch-site", "same-site")], "path": "/"}, 403),
    ("site", {"headers": [HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"),
                          ("sec-fetch-dest", "iframe")], "path": "/"}, 403),
    ("site", {"headers": [HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"),
                          ("sec-fetch-dest", "document")]}, 403),
    ("token", {"headers": [HOST]}, 401),
    ("token", {"headers": [HOST, ("authorization", "Bearer ")]}, 401),
    ("token", {"headers": [HOST, ("authorization", "Bearer é")]}, 401),
    ("token", {"headers": [HOST, ("authorization", TOKEN[1].replace("Bearer", "Basic"))]}, 401),
    ("token", {"headers": [HOST, ("cookie", TOKEN[1].removeprefix("Bearer "))]}, 401),
    ("token", {"headers": [HOST, LOOKING_TOKEN], "keys": LOOKING, "method": "POST", "path": "/session"}, 403),
    # A path that a router might take for /index.json.
    ("token", {"headers": [HOST], "path": "/index.json\n"}, 401),
    ("token", {"headers": [HOST], "path": "/index.json/"}, 401),
    # A path to data is no page, even if it is no JSON twin.
    ("token", {"headers": [HOST], "path": "/file/1/tile.bin"}, 401),
    ("token", {"headers": [HOST], "path": "/assets/../index.json"}, 401),
    ("token", {"headers": [HOST], "path": "/index\r"}, 401),
]  # fmt: skip


@pytest.mark.parametrize(("name", "stranger", "answer"), STRANGERS)
def test_each_defence_holds_alone(name: str, stranger: dict[str, Any], answer: int) -> None:
    assert status(**stranger, checks={name: CHECKS[name]}) == answer
    assert status(**stranger, checks={}) in (101, 200), "the control: nothing else turns it away"


def test_requests_of_gilks_own_pages_are_accepted() -> None:
    mine = [HOST, TOKEN, ("origin", "http://127.0.0.1:4000"), ("sec-fetch-site", "same-origin")]
    for method in METHODS:
        assert status(mine, method) == 200
    assert status(mine, kind="websocket", path="/live") == 101
    assert status([HOST, ("sec-fetch-site", "none")], path="/") == 200
    assert status([("host", "localhost"), TOKEN]) == status([("host", "[::1]:80"), TOKEN]) == 200
    opened = [HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]
    assert status(opened, path="/") == 200, "from a file, as --open does it"
    assert status([HOST, LOOKING_TOKEN], keys=LOOKING) == 200
    assert status([HOST, LOOKING_TOKEN], "POST", "/key/new", keys=LOOKING) == 200, "another browser may only look, too"


def test_wrong_tokens_are_always_refused() -> None:
    for number in range(1000):
        assert status([HOST, ("authorization", f"Bearer {number:043}")]) == 401


def test_a_key_is_valid_once_and_for_a_minute() -> None:
    now = itertools.count(0.0, KEY_LASTS / 2)
    keys = Keys(True, lambda: next(now))
    key = keys.make()
    token = keys.exchange(key)
    assert token is not None and keys.admits(token)
    assert keys.exchange(key) is None
    late = keys.make()
    next(now)
    assert keys.exchange(late) is None
    assert keys.exchange("") is None and not keys.admits("")


def test_only_so_many_keys_are_valid_at_one_time() -> None:
    keys = Keys(True, lambda: 0.0)
    first, *others = [keys.make() for _ in range(MOST_KEYS + 1)]
    assert keys.exchange(first) is None and all(map(keys.exchange, others)) and len({first, *others}) == MOST_KEYS + 1


@pytest.fixture
def window(tmp_path: Path) -> Window:
    return Window(Grants(), KEYS, Audit(tmp_path / "audit"), assets.load())


def paths(window: Window) -> Iterator[tuple[str, Any]]:
    """Every route of the application, with values in place of its variables."""
    for route in routes(window):
        assert isinstance(route, Route | WebSocketRoute)
        path = route.path.replace("{digest}", window.assets.digest).replace("{name}", "main.js")
        for variable in ("{target}", "{number}", "{file}", "{page:path}"):
            path = path.replace(variable, "1")
        yield path, route


def test_no_route_answers_a_stranger(window: Window) -> None:
    app = application(window, Gate(KEYS, None))._app
    seen = 0
    for path, route in paths(window):
        if isinstance(route, WebSocketRoute):
            continue  # it is given the token as its first message: test_live.py
        is_frame = route.endpoint in (window.page, window.assets.file)
        has_data = path.endswith((".json", ".csv", ".arrow", ".ndjson"))
        assert is_frame or route.methods == {"POST"} or has_data, "what has data in it asks for a token"
        for method in METHODS:
            if (path, method) != ("/key", "POST"):
                answer = status([HOST], method, path, app=app)
                looks = method in ("GET", "HEAD")
                open_to_all = looks and not has_data and ".json" not in path
                assert answer in ((200, 405) if open_to_all else (401, 405)), (method, path, answer)
            seen += 1
        for strange in ([("host", "evil.example"), TOKEN], [HOST, TOKEN, ("origin", "http://evil.example")]):
            for method in METHODS:
                assert status(strange, method, path, app=app) in (403, 421), (method, path)
    assert seen > 100


def test_page_frames_contain_nothing_about_the_machine(window: Window) -> None:
    text = bytes(window.assets.page().body).decode()
    assert "DIGEST" not in text and os.uname().nodename not in text and "<script>" not in text


@pytest.mark.parametrize("address", [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_the_user_of_a_connection_is_determined(address: tuple[str, int]) -> None:
    with (
        socket.create_server((address[0], 0), family=address[1]) as listener,
        socket.create_connection(listener.getsockname()[:2]),
    ):
        accepted, remote = listener.accept()
        with accepted:
            local = listener.getsockname()
            assert peer.user_of(remote[:2], local[:2]) == os.geteuid()
            assert peer.user_of((remote[0], 1), local[:2]) is None


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("web"), "--user", str(os.geteuid())) as found:
        yield found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_even_with_the_token(real: Served, tmp_path: Path) -> None:
    token = real.token()
    asked = f"GET /index.json HTTP/1.1\r\nHost: 127.0.0.1:{real.port}\r\nAuthorization: Bearer {token}\r\n\r\n"

    def status_as(user: int) -> str:
        """The status of a request by another user, sent by bash: that user may not be able to execute this Python."""
        script = f'exec 3<>/dev/tcp/127.0.0.1/{real.port}; printf "%s" "$0" >&3; read -r line <&3; echo "$line"'
        done = subprocess.run(["/bin/bash", "-c", script, asked], user=user, capture_output=True, text=True, cwd="/")
        return done.stdout.partition(" ")[2][:3]

    assert status_as(0) == "200"
    # Another user is sent away before the request is read, and may find the connection closed before the answer.
    assert status_as(65534) in ("403", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_idle_connections_of_another_user_do_not_lock_out_the_own(real: Served) -> None:
    """Another user keeps more connections than the window takes, and sends nothing."""
    script = f"""
    for n in {{1..250}}; do exec {{end}}<>/dev/tcp/127.0.0.1/{real.port} || exit 1; done
    echo held; read -r
    """
    with subprocess.Popen(
        ["/bin/bash", "-c", script], user=65534, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "held\n"
        status, _, _ = real.send("GET", "/")
        other.stdin.close()
    assert status == 200


def test_every_answer_has_the_headers(real: Served) -> None:
    for path in ("/", "/index.json", "/nowhere.json", "/assets/x/y", "/key"):
        _, _, headers = real.send("GET", path)
        assert {name: headers[name] for name in HEADERS} == HEADERS, path
        assert headers["cache-control"] == "no-store"
        assert headers["set-cookie"] is None


def test_a_used_key_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, "--user", str(os.geteuid())) as window:
        window.token()
        status_, found, _ = window.send("POST", "/key", body={"key": window.key})
        assert (status_, found["error"]["slug"]) == (401, "bad-key")
        assert [row["what"] for row in window.audited()] == ["a browser was admitted"]


def test_a_new_key_needs_the_token_and_admits_once(tmp_path: Path) -> None:
    with served(tmp_path, "--user", str(os.geteuid())) as window:
        token = window.token()
        assert window.send("POST", "/key/new", body={})[0] == 401
        status_, made, _ = window.send("POST", "/key/new", {"Authorization": f"Bearer {token}"}, {})
        assert status_ == 200 and made["seconds"] == KEY_LASTS and made["key"] != window.key
        again = [window.send("POST", "/key", body={"key": made["key"]}) for _ in range(2)]
        assert [status_ for status_, _, _ in again] == [200, 401] and again[0][1]["token"] == token
        assert "gilk web --key" in again[1][1]["error"]["hint"]
        whats = ["a browser was admitted", "a key was made", "a browser was admitted"]
        assert [row["what"] for row in window.audited()] == whats


@pytest.mark.parametrize(
    "body", [None, [], {}, {"key": 1}, {"key": "x", "more": 1}, "x" * (2 << 20)], ids=lambda body: repr(body)[:20]
)
def test_bad_requests_have_slugs(real: Served, body: Any) -> None:
    status_, found, _ = real.send("POST", "/key", body=body)
    assert status_ in (400, 413) and found["error"]["slug"] == "bad-request"


def test_the_content_security_policy_has_no_exception() -> None:
    assert "unsafe" not in guard.POLICY and "require-trusted-types-for 'script'" in guard.POLICY


def test_scripts_do_not_turn_text_into_markup() -> None:
    """Nor do scripts load anything from elsewhere."""
    words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc",
             "createContextualFragment", "DOMParser", "setHTML", "https://", "javascript:")  # fmt: skip
    for name, text in assets.load().files.items():
        if name.endswith(".js"):
            assert not [word for word in words if word in text.decode()], name
