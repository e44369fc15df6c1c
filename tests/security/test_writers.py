# SPDX-License-Identifier: LGPL-2.1-or-later
"""The source opens files for writing only in known ways: a process's memory, outputs by the helper, and the
exceptions listed here."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from tests.parsed import nodes

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gilk"
MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
_FLAGS = {"O_RDWR", "O_WRONLY", "O_CREAT", "O_TRUNC"}
_WRITES = {"write_text", "write_bytes"}
#: Modules that write files without the helper, and the reasons.
WRITERS = {
    "outputs.py": "the helper",
    "private.py": "the cache, in directories that nobody else may write to",
    "image/cache.py": "as private.py",
    "trace/clock.py": "as private.py",
    "toolchain/dprogram.py": "in a directory of a compiler's run, which is ours and new",
    "toolchain/instrument.py": "the same",
    "toolchain/advice.py": "the same",
    "engines/aspect/members.py": "the same",
    "engines/aspect/program_types.py": "the same",
    "toolchain/kernel_instrument.py": "the same",
    "targets/kernel/instruments.py": "the same",
    "lab/kernels.py": "in a directory where kernels are kept, or one of a run",
    "targets/apart.py": "its own name, /proc/self/comm",
    "engines/dtrace/outlet.py": "what -o or freopen() names, as a shell's redirection",
    "targets/trials.py": "memory of a child of its own, to see whether that may be done",
    "render/output.py": "a device or a pipe that a user names",
    "render/plot_draw.py": "the same",
    "engines/dtrace/provided.py": "the same",
    "runs/experiment/workload.py": "what an experiment names as standard output of its program",
    "engines/scan/count.py": "a pipe of its own",
    "trace/destination.py": "a new file, to see whether that may be made",
    "session/broker/forking.py": "/dev/null",
    "targets/server.py": "/dev/null",
    "targets/detached.py": "/dev/null",
    "cli/failure.py": "/dev/null",
    "targets/alive.py": "the memory of a target",
    "targets/shared_memory.py": "memory that both have mapped, once it is proven to be that",
    "targets/kernel/own.py": "/dev/ilk",
    "targets/kernel/held.py": "the memory of a command that it has started, and of children of that",
    "targets/kernel/relay.py": "/dev/null, or the port of a virtual machine",
}


@functools.cache
def opened_for_writing(path: Path) -> list[ast.Call]:
    return [node for node in nodes(path) if isinstance(node, ast.Call) and writes(node)]


def writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in _WRITES:
        return True
    if name != "open":
        return False
    words = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}
    modes = [node.value for node in (*call.args, *(each.value for each in call.keywords)) if is_text(node)]
    return bool(words & _FLAGS) or any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def of_a_process(call: ast.Call) -> str:
    """The path below /proc/PID that the call names, as far as it is a literal; empty for any other call."""
    for node in ast.walk(call):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
            if text.startswith("/proc/*"):
                return text
    return ""


def test_files_are_opened_for_writing_only_in_the_listed_modules() -> None:
    found = {module: list(opened_for_writing(path)) for module, path in MODULES.items() if module not in WRITERS}
    others = [f"{module}:{call.lineno}" for module, calls in found.items() for call in calls]
    assert others == [], "use gilk.outputs, or say here why not"


def test_only_the_memory_of_a_process_is_opened_for_writing() -> None:
    found = {f"{module}: {of_a_process(call)}" for module, path in MODULES.items() for call in opened_for_writing(path)}
    others = {each for each in found if not each.endswith((": ", ": /proc/*/mem"))}
    assert others == set()
    assert any(each.endswith("/proc/*/mem") for each in found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("open(name)", False),
        ("open(name, 'rb')", False),
        ("open(name, mode='r+b')", True),
        ("path.open('wb')", True),
        ("path.write_text('x')", True),
        ("os.open(name, os.O_PATH | os.O_CLOEXEC)", False),
        ("os.open(name, os.O_WRONLY)", True),
    ],
)
def test_calls_that_open_for_writing_are_recognised(text: str, found: bool) -> None:
    call = ast.parse(text).body[0]
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    assert writes(call.value) is found


def test_paths_below_proc_are_recognised() -> None:
    call = ast.parse("os.open(f'/proc/{pid}/fd/{fd}', os.O_RDWR)").body[0]
    assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
    assert of_a_process(call.value) == "/proc/*/fd/*"
