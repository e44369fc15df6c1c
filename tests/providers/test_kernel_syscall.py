# SPDX-License-Identifier: LGPL-2.1-or-later
"""System calls of a kernel that lacks one of the functions that all of them pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from gilk.lang.d.probes import Description
from gilk.providers.kernel import syscall
from gilk.providers.kernel.probe import HasKernel


def kernel(*functions: str) -> HasKernel:
    spans = [SimpleNamespace(name=name) for name in functions]
    return cast(HasKernel, SimpleNamespace(kernel=SimpleNamespace(image=SimpleNamespace(spans=spans))))


def description(name: str) -> Description:
    return Description("syscall", "", "read", name)


@pytest.mark.parametrize(("name", "lacking"), [("entry", "x64_sys_call"), ("", "x64_sys_call"), ("return", "")])
def test_the_missing_function_is_named(name: str, lacking: str) -> None:
    lacks = kernel("syscall_exit_to_user_mode_prepare", "vfs_read")
    assert [made.key[3] for made in syscall.probes(lacks, description(name))] == ["return"] * (name != "entry")
    said = syscall.missing(lacks, description(name))
    assert (f"no function {lacking}" in said and "fbt::__x64_sys_" in said) if lacking else said == ""


def test_nothing_is_missing_from_a_kernel_that_has_both() -> None:
    assert syscall.missing(kernel(*syscall.WAYS.values()), description("entry")) == ""
