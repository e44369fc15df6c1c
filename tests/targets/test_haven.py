# SPDX-License-Identifier: LGPL-2.1-or-later
"""A thread that makes system calls for gilk leaves all memory as it was: a stack pointer may point into a heap that has
inaccessible memory below it, as Go's may, or into a signal's stack that is a part of the thread's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import leftovers
from tests.programs.build import compile_text

SOURCE = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
enum { HEAP = 1 << 18, STACK = 8192, PATTERN = 0x5a };
static unsigned char *data;
static size_t size;
static char *low; /* the low end of the stack in use */
__attribute__((noinline)) int work(int x) { __asm__ volatile(""); return x + 1; }
/* Says for each byte of input whether the data is what it was, with hardly any stack left. */
static void serve(void)
{
    volatile char *used = __builtin_alloca((char *)__builtin_frame_address(0) - low - 512);
    *used = 0;
    char byte;
    int status = 0;
    while (write(1, status ? "bad\n" : "good\n", status ? 4 : 5) > 0 && read(0, &byte, 1) == 1)
        for (size_t i = 0; i < size; i++)
            status |= data[i] != PATTERN;
    _exit(work(-1) + status);
}
static void on_signal(int number) { (void)number; serve(); }
static __attribute__((noinline)) void interrupted(void)
{
    unsigned char room[1 << 15];
    memset(data = room, PATTERN, size = sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
    raise(SIGUSR1);
}
static void in_signal(void)
{
    char room[1 << 15];
    stack_t stack = { .ss_sp = room, .ss_size = sysconf(_SC_MINSIGSTKSZ) + 1024 };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
    if (sigaltstack(&stack, 0) || sigaction(SIGUSR1, &action, 0))
        _exit(2);
    low = room;
    interrupted();
}
static void in_heap(void)
{
    unsigned char *heap = mmap(0, HEAP + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ucontext_t context;
    mprotect(data = heap + 4096, HEAP, PROT_READ | PROT_WRITE);
    memset(data, PATTERN, size = HEAP - 2 * STACK);
    getcontext(&context);
    context.uc_stack.ss_sp = low = (char *)data + size;
    context.uc_stack.ss_size = STACK;
    makecontext(&context, serve, 0);
    setcontext(&context);
}
int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) in_signal(); else in_heap();
    return 1;
}
"""


@pytest.mark.parametrize("arguments", [[], ["signal"]])
def test_borrowing_a_thread_changes_no_memory(tmp_path: Path, arguments: list[str]) -> None:
    command = [compile_text(tmp_path, "elsewhere", SOURCE, "-O2", "-Wl,-z,now"), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin and process.stdout
        try:
            for _ in range(3):
                assert process.stdout.readline() == "good\n"
                with gilk.attach(process.pid) as target, target.session() as session:
                    session.insert("elsewhere:work:entry", "count")
                assert leftovers(process.pid) == []
                process.stdin.write(".")
                process.stdin.flush()
            assert process.stdout.readline() == "good\n"
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            process.kill()
