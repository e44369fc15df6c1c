# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program that is not about a kernel knows the types of the kernel that gilk runs on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.engines.dtrace import own_kernel
from gilk.engines.dtrace.compiled import DoesNotCompile
from tests.lang.d.sessions import consumer, run

NEEDS = pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="the kernel does not tell its types")


@pytest.fixture
def printed(tmp_path: Path) -> Callable[[str], tuple[str, str]]:
    """The words that a program prints, and its errors."""

    def of(text: str) -> tuple[str, str]:
        (tmp_path / "program.d").write_text(f"#pragma D option quiet\n{text}")
        ran = run(tmp_path / "program.d")
        return " ".join(ran.output.decode().split()), ran.errors

    return of


@NEEDS
def test_sizes_and_offsets_are_those_that_the_kernels_headers_fix(printed: Callable[[str], tuple[str, str]]) -> None:
    """These do not change: they are two pointers, or part of the interface to programs (linux/perf_event.h)."""
    text = """BEGIN {
        printf("%d %d ", sizeof (struct list_head), offsetof(struct list_head, prev));
        printf("%d", offsetof(struct vmlinux`perf_event_mmap_page, data_head));
        exit(0); }"""
    assert printed(text) == ("16 8 1024", "")


@NEEDS
def test_its_memory_is_no_processs(printed: Callable[[str], tuple[str, str]]) -> None:
    output, errors = printed('BEGIN { trace(((struct list_head *)8)->prev); } ERROR { printf("%d", arg4); exit(0); }')
    assert (output, "invalid address (0x10)" in errors) == ("1", True)


@NEEDS
def test_declarations_of_the_program_come_first(printed: Callable[[str], tuple[str, str]]) -> None:
    text = 'struct list_head { char only; }; BEGIN { printf("%d", sizeof (struct list_head)); exit(0); }'
    assert printed(text) == ("1", "")


def test_without_them_such_types_are_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(own_kernel, "_PLACE", tmp_path / "none")
    own_kernel.own_kernel.cache_clear()
    try:
        with pytest.raises(DoesNotCompile, match="unknown size"):
            consumer("BEGIN { trace(sizeof (struct list_head)); }")
    finally:
        own_kernel.own_kernel.cache_clear()
