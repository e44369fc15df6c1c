# SPDX-License-Identifier: LGPL-2.1-or-later
"""The layout holds: imports point down the list of layers, and the pure layers do no input or output."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from tests.parsed import nodes

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gilk"

# From the top to the bottom. A module may import from its own layer and from those below it.
LAYERS = [
    "cli", "notebook", "web", "api", "render", "engines", "runs", "session", "trace", "providers", "lab", "targets",
    "toolchain", "lang", "splice", "analysis", "image", "cache", "arch", "spec", "native", "version", "private",
    "inputs", "errors", "digest", "outputs", "activity", "own_threads", "collector", "values",
]  # fmt: skip
ROOTS = {"__init__", "__main__"}  # the package root: for users, not for the package
FRONT_ENDS = {"notebook", "web", "cli"}
FRONT_END_MAY_IMPORT = {
    "web",
    "api",
    "render",
    "spec",
    "version",
    "inputs",
    "errors",
    "activity",
    "own_threads",
    "values",
}
PURE = {"analysis", "splice", "lang", "spec"}
IMPURE_MODULES = {"os", "io", "subprocess", "socket", "tempfile", "shutil", "mmap", "ctypes", "threading"}
IMPURE_CALLS = {"open", "print", "input"}
IMPURE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "iterdir", "exists"}

MODULES = {path.relative_to(SOURCE).with_suffix("").as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}


def layer_of(module: str) -> str:
    return module.split("/")[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import in `path`, anywhere in it; names of `from x import y` are `x.y`."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def internal_imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module path below gilk/) of the imports of this package; the package root itself is ''."""
    for line, name in imports(path):
        if name != "gilk" and not name.startswith("gilk."):
            continue
        parts = name.split(".")[1:]
        while parts and "/".join(parts) not in MODULES and "/".join([*parts, "__init__"]) not in MODULES:
            parts.pop()
        yield line, "/".join(parts)


def by_module() -> list[object]:
    return [pytest.param(path, id=module) for module, path in MODULES.items() if module not in ROOTS]


@pytest.mark.parametrize("path", by_module())
def test_imports_point_down(path: Path) -> None:
    own = layer_of(path.relative_to(SOURCE).with_suffix("").as_posix())
    assert own in LAYERS, f"{path} belongs to no layer"
    for line, module in internal_imports(path):
        assert module, f"{path}:{line} imports the package root"
        other = layer_of(module)
        assert LAYERS.index(other) >= LAYERS.index(own), f"{path}:{line}: {own} imports {other}, which lies above"
        if own in FRONT_ENDS and other != own:
            assert other in FRONT_END_MAY_IMPORT, f"{path}:{line}: {own} imports {other}; it should go through api"


def test_the_representation_imports_nothing_of_a_language() -> None:
    shared = [path for module, path in MODULES.items() if module.startswith("lang/") and module.count("/") == 1]
    for path in (*shared, *(SOURCE / "lang" / "to_c").glob("*.py")):
        for line, module in internal_imports(path):
            assert not module.startswith("lang/d/"), f"{path}:{line} imports {module}"


#: This module reads the messages of the kernel's own build about a user's C.
READS_MESSAGES = {"toolchain/kernel_instrument"}


def _meets_generated_code(module: str, path: Path) -> bool:
    """Whether a module makes C or has it compiled; it must get facts about that C from lang/facts.py."""
    if re.fullmatch(r"lang/(to_c/)?\w+|toolchain/\w+", module):
        return module not in READS_MESSAGES
    makers = ("lang/to_c/", "lang/d/unit")
    return any(other.startswith(makers) for _, other in internal_imports(path))


def test_no_module_searches_in_generated_code() -> None:
    found = {module for module, path in MODULES.items() if _meets_generated_code(module, path)}
    assert {"lang/facts", "lang/to_c/sites", "toolchain/clobbers", "engines/dtrace/instruments"} <= found
    for module in found:
        assert "re" not in {name.split(".")[0] for _, name in imports(MODULES[module])}, f"{module} imports re"


def test_providers_contain_no_c() -> None:
    said = re.compile(r"regs->|\b(gd|d|host)_[a-z]\w*")
    for path in (SOURCE / "providers").glob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not said.search(node.value), f"{path}:{node.lineno} has C in it"


def test_render_imports_no_session() -> None:
    for module, path in MODULES.items():
        if layer_of(module) == "render":
            for line, other in internal_imports(path):
                assert layer_of(other) not in ("engines", "runs", "session"), f"{path}:{line} imports {other}"


def test_no_import_cycles() -> None:
    graph = {
        module: {_module_name(other) for _, other in internal_imports(path)}
        for module, path in MODULES.items()
        if module not in ROOTS
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, "import cycle: " + " -> ".join((*trail[trail.index(module) :], module))
        if module in done:
            return
        for other in graph.get(module, ()):
            if other != module:
                visit(other, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def package_of(module: str) -> str:
    """The package of a module; the module itself if it is in no package."""
    return module.rpartition("/")[0] or module


#: Packages of which a subpackage uses modules of the package itself: splice/planner.py tries the tactics, which are
#: written with splice/plan.py and splice/code.py. Nothing is to be added here.
LEAN_ON_THEIR_PARTS = {"splice": {"splice/tactics", "splice/kernel"}}


def test_no_cycle_among_packages() -> None:
    graph: dict[str, set[str]] = {package_of(module): set() for module in MODULES if module not in ROOTS}
    for module, path in MODULES.items():
        own = package_of(module)
        if module not in ROOTS:
            used = {package_of(_module_name(other)) for _, other in internal_imports(path)}
            graph[own] |= used - {own} - LEAN_ON_THEIR_PARTS.get(own, set())
    assert {"session", "session/broker", "lang/d/meaning", "targets/kernel"} <= graph.keys()
    acyclic(graph)


def _module_name(module: str) -> str:
    return module if module in MODULES else f"{module}/__init__"


@pytest.mark.parametrize("path", [param for param in by_module() if layer_of(param.id) in PURE])
def test_pure_layers_do_no_io(path: Path) -> None:
    for line, name in imports(path):
        assert name.split(".")[0] not in IMPURE_MODULES, f"{path}:{line} imports {name}"
    for node in nodes(path):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name):
                assert function.id not in IMPURE_CALLS, f"{path}:{node.lineno} calls {function.id}"
            if isinstance(function, ast.Attribute):
                assert function.attr not in IMPURE_METHODS, f"{path}:{node.lineno} calls {function.attr}"


NATIVE = SOURCE / "native"
#: Things that only a host, native/host, may use: system calls, segments, the processor's clock and number.
OF_A_HOST = re.compile(r"syscall|%gs|%fs|[fg]sbase|rdtsc|rdpid|\blsl\b", re.IGNORECASE)


def c_files(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in sorted((NATIVE / folder).rglob("*")))
    return [path for path in found if path.suffix in {".c", ".h", ".S"}]


def test_the_runtime_has_no_instructions_of_a_host() -> None:
    files = c_files("runtime")
    assert len(files) > 20 and not [path for path in files if path.suffix == ".S"]
    found = {path.name: OF_A_HOST.findall(path.read_text()) for path in files}
    assert not {name: words for name, words in found.items() if words}


def test_printed_code_has_no_instructions_of_a_host() -> None:
    for path in sorted((SOURCE / "lang").rglob("*.py")):
        assert not re.search(r"%gs|rdtsc|rdpid", path.read_text()), path


def test_negative_control_instructions_of_a_host_are_found_in_the_host() -> None:
    words = {word.lower() for path in c_files("host") for word in OF_A_HOST.findall(path.read_text())}
    assert words >= {"syscall", "%gs", "fsbase", "gsbase", "rdtsc", "rdpid", "lsl"}


T = TypeVar("T")


def acyclic(graph: Mapping[T, set[T]]) -> None:
    left = dict(graph)
    while left:
        ready = [each for each, needs in left.items() if not needs & left.keys()]
        assert ready, f"a cycle among {sorted(map(str, left))}"
        for each in ready:
            del left[each]


def test_negative_control_a_planted_cycle_is_found() -> None:
    acyclic({1: {2, 3}, 2: {3}, 3: set()})
    with pytest.raises(AssertionError, match=r"a cycle among \['1', '2'\]"):
        acyclic({1: {2}, 2: {1, 3}, 3: set()})


def test_no_cycle_among_headers() -> None:
    files = c_files("abi", "host", "include", "runtime")
    included = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
    graph = {path: {(path.parent / name).resolve() for name in included.findall(path.read_text())} for path in files}
    assert set().union(*graph.values()) <= graph.keys()
    acyclic(graph)


#: The definition of a function that other files may call, in kernel style: its type and name begin the line.
DEFINED = re.compile(
    r"^(?!static\b|typedef\b|struct \w+ \{|#|[ \t/*}])[\w *]*?\b(\w+)\((?:[^;{}]|\n)*?\)\s*\n\{", re.MULTILINE
)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def test_no_cycle_among_files_of_the_driver() -> None:
    """The driver's files have no cycle, by the functions that one calls or takes the address of and another defines."""
    texts = {path: COMMENT.sub("", path.read_text()) for path in c_files("ilk") if path.suffix == ".c"}
    defined = {path: set(DEFINED.findall(text)) for path, text in texts.items()}
    assert len(set().union(*defined.values())) > 100
    words = {path: set(re.findall(r"\b[a-z_]\w*\b", text)) for path, text in texts.items()}
    graph = {
        path: {other for other, names in defined.items() if other != path and names & (words[path] - defined[path])}
        for path in texts
    }
    acyclic(graph)


FORKS = {"fork", "forkpty", "posix_spawn", "posix_spawnp"}


def knows_processes(path: Path) -> Iterator[str]:
    """The ways in which a module itself reaches processes."""
    yield from (name for _, name in imports(path) if name == "gilk.targets.ptrace")
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os" and node.attr in FORKS:
                yield f"os.{node.attr}"
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            if str(node.values[0].value) == "/proc/":
                yield "/proc/PID"


def test_only_targets_use_ptrace_fork_and_proc() -> None:
    found = {module: set(knows_processes(path)) for module, path in MODULES.items() if layer_of(module) != "targets"}
    assert {module: how for module, how in found.items() if how} == {}, (
        "targets reads /proc/PID, uses ptrace(2) and forks"
    )
    assert any(set(knows_processes(path)) for module, path in MODULES.items() if layer_of(module) == "targets")


#: The files below /proc/PID that show nothing once the main thread has ended, as the process's others go on.
OF_THE_MEMORY = re.compile(r"/proc/\{(?!tid\})[^}]*\}/(auxv|cwd|environ|exe|maps|map_files|mem|ns|pagemap|root)\b")
#: Modules that ask about a process that gilk has started and still holds, or about one of another machine.
ASK_BY_PID = {"targets/startup", "targets/trials", "targets/kernel/held"}


def test_files_about_a_memory_are_read_by_a_thread_that_has_it() -> None:
    """The main thread may have ended: of_memory() and thread_with_memory() of gilk.targets.alive find such a thread."""
    found = {module for module, path in MODULES.items() if OF_THE_MEMORY.search(path.read_text())}
    assert found == ASK_BY_PID


def test_threads_are_started_where_a_limit_on_addresses_is_seen() -> None:
    made = {module for module, path in MODULES.items() if re.search(r"threading\.(Thread|Timer)\(", path.read_text())}
    starting = {module for module in made if "own_threads.start(" in MODULES[module].read_text()}
    assert made - starting == {"own_threads"}
    pools = {module for module, path in MODULES.items() if "ThreadPoolExecutor(" in path.read_text()}
    assert pools == {"session/plan_workers"}  # asks room_for()


def tracked_files() -> list[Path]:
    """The files that git tracks; in an unpacked archive, all files that are not build products."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    files = (path for path in ROOT.rglob("*") if path.is_file())
    return [path for path in files if not {".venv", "build"} & set(path.relative_to(ROOT).parts)]


def test_every_source_file_names_its_licence() -> None:
    for path in tracked_files():
        if path.suffix in {".py", ".c", ".h", ".S"} and path.stat().st_size:
            head = "\n".join(path.read_text(errors="replace").splitlines()[:2])
            assert f"SPDX-License-Identifier: {licence(path)} " in head.replace("\n", " \n") + " ", path


def licence(path: Path) -> str:
    """The licence of a file: the driver has the kernel's; the headers that programs share with it may be used by any
    program."""
    if path.name in ("ilk_abi.h", "ilk_d_abi.h", "ilk_d_forms.h"):
        return "GPL-2.0 WITH Linux-syscall-note"
    return "GPL-2.0" if "ilk" in path.parent.parts else "LGPL-2.1-or-later"


# The pattern is written so as not to match itself.
PERSONAL_PATH = re.compile(r"/home/(?!me/|user/)[a-z]+/|(?<!\d)/root/[.\w]|/wor[k]/\w|/tm[p]/(v|bash\w+)\b")


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    for path in tracked_files():
        if path.suffix in {".txt"} or path == Path(__file__):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found = PERSONAL_PATH.search(text)
        assert not found, f"{path} mentions {found.group() if found else ''}"
