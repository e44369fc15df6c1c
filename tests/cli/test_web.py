# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk web`` starts as its options say, or says why not. tests/web tests the pages."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.harness import ENVIRONMENT, Loop, differences, run_gilk
from tests.programs.build import build
from tests.web.served import PATIENCE, Asking, key_as, served


def test_root_must_name_the_processes_that_the_window_may_reach() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    done = run_gilk("web")
    assert done.returncode == 2 and "(name-what-to-reach)" in done.stderr


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = run_gilk("web", "--user", "root", "--port", str(other.getsockname()[1]), "--audit", tmp_path / "a")
    assert done.returncode == 2 and "(port-taken)" in done.stderr


@pytest.mark.parametrize(
    ("options", "slug"),
    [(["--user", "nobody-at-all"], "no-such-user"), (["--audit", "/proc/none/a", "--pid", "1"], "cannot-write"),
     (["--on", "moon"], "bad-machine"), (["--on", "ssh:-oProxyCommand=x"], "bad-machine"),
     (["--on", "ssh:a/b"], "bad-machine")],
)  # fmt: skip
def test_bad_options_of_the_window_are_refused(options: list[str], slug: str) -> None:
    done = run_gilk("web", *options)
    assert f"({slug})" in done.stderr and done.returncode != 0


def test_the_error_without_web_libraries_says_how_to_install_them(tmp_path: Path) -> None:
    script = "import sys\nsys.modules['uvicorn'] = None\nfrom gilk.cli.main import main\nsys.exit(main(['web']))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **ENVIRONMENT}
    )
    assert done.returncode == 1 and "uvicorn (web-missing)\n  pip install 'gilk[web]'" in done.stderr


def test_only_the_owner_can_read_the_audit_file(tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(os.getpid())) as window:
        window.token()
        assert stat.S_IMODE(window.audit.stat().st_mode) == 0o600
        assert window.audited()[0]["uid"] == os.getuid()


def test_only_the_owner_can_connect_to_the_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    words = [sys.executable, "-m", "gilk", "web", "--json", "--socket", path, "--audit", tmp_path / "a"]
    words += ["--pid", str(os.getpid())]
    with subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        key = json.loads(process.stdout.readline())["address"].partition("#key=")[2]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        connection = http.client.HTTPConnection("localhost:4000", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        connection.request("POST", "/key", json.dumps({"key": key}))
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0 and not path.exists()


def test_a_second_signal_ends_the_window_at_once(tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(os.getpid())) as window:
        window.token()
        window.process.send_signal(signal.SIGSTOP)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            window.process.send_signal(number)
        assert window.process.wait(PATIENCE) in (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)


def test_windows_are_listed_and_stopped(tmp_path: Path) -> None:
    """A window that is stopped takes its instruments out before `--stop` returns."""
    with Loop([build("work")]) as loop, served(tmp_path, "--pid", str(loop.pid)) as window:
        asking, pid = Asking(window), window.process.pid
        target = asking.target(loop.pid)
        assert "number" in asking.post("/session", target=target, requests=["dispatch:entry=count"])
        assert differences(loop.pid)
        (row,) = (one for one in json.loads(run_gilk("web", "--list", "--json").stdout) if one["pid"] == pid)
        assert row["user"] == os.geteuid() and row["sessions"] == 1
        assert window.address.partition("/#")[0] == row["address"]
        assert re.search(rf"^ *{pid}  {row['address']} .* 1 session under way$", run_gilk("web", "--list").stdout, re.M)
        done = run_gilk("web", "--stop", pid)
        assert done.returncode == 0, done.stderr
        assert not differences(loop.pid) and window.process.wait(PATIENCE) == 0
        assert pid not in [one["pid"] for one in json.loads(run_gilk("web", "--list", "--json").stdout)]


def test_the_owner_gets_an_address_with_a_new_key(tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(os.getpid())) as window:
        token, pid = window.token(), window.process.pid
        done = run_gilk("web", "--key", pid)
        address, about = done.stdout.splitlines()
        assert about == "(for one browser, within a minute)"
        base, _, key = address.partition("/#key=")
        assert base == window.address.partition("/#key=")[0] and key != window.key
        assert window.send("POST", "/key", body={"key": key})[1]["token"] == token
        assert window.send("POST", "/key", body={"key": key})[0] == 401
        assert [row["what"] for row in window.audited()].count("a key was made") == 1
        as_json = json.loads(run_gilk("web", "--json", "--key", pid).stdout)
        assert as_json["address"].startswith(f"{base}/#key=")
        without = run_gilk("web", "--key")  # other tests may have windows meanwhile
        assert without.stdout.startswith(f"{base}/#key=") or "(ambiguous-window)" in without.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_no_key(tmp_path: Path) -> None:
    with served(tmp_path, "--pid", str(os.getpid())) as window:
        assert key_as(65534, window) == "no-such-window"
        assert key_as(0, window).startswith(window.address.partition("#")[0]), "the control"


def test_no_key_of_what_is_no_window() -> None:
    done = run_gilk("web", "--key", os.getpid())
    assert done.returncode == 2 and "(no-such-window)" in done.stderr


def test_only_windows_are_stopped() -> None:
    done = run_gilk("web", "--stop", os.getpid())
    assert done.returncode != 0 and "(no-such-window)" in done.stderr
