# SPDX-License-Identifier: LGPL-2.1-or-later
"""Puts two things into a package that is built, as pyproject.toml cannot: the documentation, for the window's help, and
gilk's runtime and the program that measures its cost, compiled, so that the machine on which it is installed needs no
compiler for them.
"""

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
DOCS = ROOT / "docs"


class WithMore(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "gilk"
        if DOCS.is_dir():
            place = package / "web" / "docs"
            shutil.copytree(DOCS, place, ignore=shutil.ignore_patterns("decisions"), dirs_exist_ok=True)
        _compile(package)


def _compile(package: Path) -> None:
    """Compile the runtime, and the program that measures its cost, into the package; without a compiler, leave that to
    the machines on which it is installed.
    """
    sys.path.insert(0, str(ROOT / "src"))
    from gilk.errors import CompileError
    from gilk.toolchain import cost_program, runtime_file

    for module in (runtime_file, cost_program):
        made = package / module.SHIPPED.relative_to(runtime_file.NATIVE.parent)
        try:
            module.build(made)
        except CompileError as error:
            made.unlink(missing_ok=True)  # of an earlier build
            print(f"{made.name} is not compiled in: {error}", file=sys.stderr)


setup(cmdclass={"build_py": WithMore})
