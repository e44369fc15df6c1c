# SPDX-License-Identifier: LGPL-2.1-or-later
"""The package root offers exactly the names that it lists, and they lead to the modules of api."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import gilk

MODULES = sorted(path.stem for path in (Path(gilk.__file__).parent / "api").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", gilk.__all__)
def test_each_public_name_can_be_used(name: str) -> None:
    assert getattr(gilk, name) is not None


def test_the_root_lists_all_names_that_it_resolves() -> None:
    assert set(gilk._PLACES) <= set(gilk.__all__) == set(dir(gilk))
    assert len(gilk.__all__) == len(set(gilk.__all__))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_api_has_the_names_that_it_lists(name: str) -> None:
    module = importlib.import_module(f"gilk.api.{name}")
    assert all(hasattr(module, each) for each in module.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        gilk.nothing  # noqa: B018


def test_the_root_alone_imports_nothing_heavy() -> None:
    code = "import sys, gilk; print({'numpy', 'pyarrow', 'iced_x86', 'gilk.api'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
