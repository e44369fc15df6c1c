# SPDX-License-Identifier: LGPL-2.1-or-later
"""Puts the documentation into a package that is built, for the window's help, as pyproject.toml cannot."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

DOCS = Path(__file__).parent / "docs"


class WithManual(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode and DOCS.is_dir():
            place = Path(self.build_lib) / "gilk" / "web" / "docs"
            shutil.copytree(DOCS, place, ignore=shutil.ignore_patterns("decisions"), dirs_exist_ok=True)


setup(cmdclass={"build_py": WithManual})
