# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments in C: every form, the functions that they may call, what they see, and the errors about wrong ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import gilk
from tests.behaviour.harness import Ran, plain, redirected, run
from tests.programs.build import build, compile_text
from tests.seldom import seldom

INSTRUMENTS = """\
#include <gilk.h>

void simple_instr(unsigned int iid)
{
	ilk_log_integer_sample(gilk_time(), iid);
}

void first_argument(const struct gilk_regs *regs)
{
	ilk_log_integer_sample(regs->rdi, 1);
}

void both(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_pair_sample(regs->rdi, regs->rsi, iid);
}

static unsigned long calls = 1000;
static unsigned long zeroed;

void counts_itself(unsigned int iid)
{
	calls++;
	zeroed += 2;
	ilk_log_pair_sample(calls, zeroed, iid);
}

void logs_text(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_string_sample((const char *)regs->rdx, iid);
}

int snprintf(char *text, unsigned long size, const char *format, ...);
void *malloc(unsigned long size);
void free(void *block);

void calls_libc(const struct gilk_regs *regs, unsigned int iid)
{
	char *text = malloc(64);

	snprintf(text, 64, "%s and %ld", "2.50", (long)regs->rdi);
	ilk_log_string_sample(text, iid);
	free(text);
}

extern long shared_value;
long twice(long x);

void uses_the_program(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_pair_sample(twice((long)regs->rdi), (unsigned long)shared_value, iid);
}
"""

PROGRAM = """\
#include <stdio.h>
long shared_value = 77;
__attribute__((noinline, noclone)) long twice(long x) { __asm__ volatile("" ::: "memory"); return 2 * x; }
__attribute__((noinline, noclone)) long target(long a, long b, const char *c, long d, long e, long f)
{
	__asm__ volatile("" : : "r"(c) : "memory");
	return a + b + d + e + f;
}
int main(void)
{
	long sum = 0;
	for (long i = 0; i < 5; i++)
		sum += target(i, i * 10, i & 1 ? "odd" : "even", -i, 1L << 40, i << 33) + twice(i);
	printf("%ld\\n", sum);
	return sum == 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("program"), "program", PROGRAM, "-O2", "-fPIE", "-pie")


@pytest.fixture(scope="module")
def instruments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("instruments") / "instruments.c"
    source.write_text(INSTRUMENTS)
    return source


def samples(program: Path, where: str, instrument: str | gilk.CFunction, **options: int) -> pa.Table:
    with redirected() as (out, _), gilk.launch([str(program)]) as target, target.session(**options) as session:
        (probe, *_) = session.insert(where, instrument)
        assert probe.tactic is not None, probe.refusal
        target.resume()
        parts = []
        while target.process.wait(block=False) is None:
            parts.append(session.poll())
        parts += [session.poll(), session.close()]
        assert session.restored is True
        table = pa.concat_tables(parts, promote_options="default")
        out.seek(0)
        assert out.read() == plain([program]).stdout
    return table.sort_by("time")


def test_an_instrument_in_the_form_of_the_paper(program: Path, instruments: Path) -> None:
    table = samples(program, "target:entry", gilk.c(instruments, "simple_instr"))
    values = table["value"].to_pylist()
    assert len(values) == 5
    assert values == sorted(values)


def test_an_instrument_that_takes_registers(program: Path, instruments: Path) -> None:
    assert samples(program, "target:entry", gilk.c(instruments, "first_argument"))["value"].to_pylist() == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_an_instrument_that_takes_the_point_and_registers(program: Path, instruments: Path) -> None:
    table = samples(program, "target:entry", gilk.c(instruments, "both"))
    assert table["value"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["extra"].to_pylist() == [0, 10, 20, 30, 40]


def test_variables_of_an_instrument_keep_their_values_between_hits(program: Path, instruments: Path) -> None:
    table = samples(program, "target:entry", gilk.c(instruments, "counts_itself"))
    assert table["value"].to_pylist() == [1001, 1002, 1003, 1004, 1005]
    assert table["extra"].to_pylist() == [2, 4, 6, 8, 10]


def test_an_instrument_logs_text(program: Path, instruments: Path) -> None:
    table = samples(program, "target:entry", gilk.c(instruments, "logs_text"))
    assert table["text"].to_pylist() == ["even", "odd", "even", "odd", "even"]


def test_an_instrument_calls_functions_of_libc(program: Path, instruments: Path) -> None:
    table = samples(program, "target:entry", gilk.c(instruments, "calls_libc"))
    assert table["text"].to_pylist() == [f"2.50 and {i}" for i in range(5)]


def test_an_instrument_uses_functions_and_variables_of_the_program(program: Path, instruments: Path) -> None:
    table = samples(program, "target:entry", gilk.c(instruments, "uses_the_program"))
    assert table["value"].to_pylist() == [0, 2, 4, 6, 8]
    assert table["extra"].to_pylist() == [77] * 5


def test_an_instrument_that_calls_the_function_it_is_at_is_not_reentered(program: Path, instruments: Path) -> None:
    """The instrument at twice() calls twice()."""
    table = samples(program, "twice:entry", gilk.c(instruments, "uses_the_program"))
    assert table["value"].to_pylist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("where", ["*:blocks", "*:entry"])
def test_vector_state_is_kept_when_libc_is_called(instruments: Path, where: str) -> None:
    ran: Ran = run([f"{where}={instruments}:calls_libc"], [build("avx"), "3"], timeout=120)
    assert ran.visible == plain([build("avx"), "3"]).visible
    assert ran.report["restored"] is True


@pytest.mark.parametrize(
    "name", seldom(("signals", "redzone", "exceptions", "ipara", "recursion", "setjmp", "threads"), 2)
)
@pytest.mark.parametrize("function", ["simple_instr", pytest.param("both", marks=pytest.mark.stress), "calls_libc"])
def test_programs_behave_the_same_with_c_instruments_everywhere(instruments: Path, name: str, function: str) -> None:
    command = [build(name), "1"]
    ran = run([f"*:entry={instruments}:{function}", f"*:return={instruments}:{function}"], command, timeout=120)
    assert ran.visible == plain(command).visible
    assert ran.report["restored"] is True


def test_the_args_instrument_records_the_arguments_of_calls(program: Path) -> None:
    table = samples(program, "target:entry", "args")
    rows = list(zip(*(table[f"arg{n}"].to_pylist() for n in (0, 1, 3, 4, 5)), strict=True))
    assert rows == [(i, i * 10, -i % 2**64, 1 << 40, i << 33) for i in range(5)]


def test_the_regs_instrument_records_the_registers(program: Path) -> None:
    table = samples(program, "target:entry", "regs")
    rows = list(zip(*(table[name].to_pylist() for name in ("rdi", "rsi", "rcx", "r8", "r9")), strict=True))
    assert rows == [(i, i * 10, -i % 2**64, 1 << 40, i << 33) for i in range(5)]
    nm = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in nm.splitlines() if line.endswith(" T target"))
    assert {(value - address) % 4096 for value in table["rip"].to_pylist()} == {0}
    assert {value % 16 for value in table["rsp"].to_pylist()} == {8}


SILENT = """\
__attribute__((noinline, noclone, noipa)) void ignores(long a, long b, long c, long d)
{
	(void)a, (void)b, (void)c, (void)d;
	__asm__ volatile("mov $1, %%eax; mov %%eax, %%ecx; mov %%eax, %%edx; mov %%eax, %%esi" ::: "rax", "rcx", "rdx", "rsi");
}
int main(void)
{
	for (long i = 1; i < 6; i++)
		ignores(i, 10 * i, 100 * i, 1000 * i);
	return 0;
}
"""


@pytest.mark.parametrize("instrument", ["args", "regs", "both"])
def test_an_instrument_sees_the_registers_as_they_were_before_others_at_its_point(
    tmp_path: Path, instruments: Path, instrument: str
) -> None:
    """The function overwrites its arguments unread, so a stamp and a count may overwrite them too, but not if
    another instrument reads them."""
    program = compile_text(tmp_path, "silent", SILENT, "-O2")
    wanted = gilk.c(instruments, "both") if instrument == "both" else instrument
    with redirected(), gilk.launch([str(program)]) as target, target.session() as session:
        first = session.insert("ignores:entry", "stamp") + session.insert("ignores:entry", "count")
        (probe,) = session.insert("ignores:entry", wanted)
        assert all(p.tactic is not None for p in (*first, probe))
        target.resume()
        parts = []
        while target.process.wait(block=False) is None:
            parts.append(session.poll())
        table = pa.concat_tables([*parts, session.poll(), session.close()], promote_options="default").sort_by("time")
    names = {"args": ("arg0", "arg1", "arg2", "arg3"), "regs": ("rdi", "rsi", "rdx", "rcx"), "both": ("value", "extra")}
    columns = [[v for v in table[name].to_pylist() if v] for name in names[instrument]]
    assert columns == [[10**n * i for i in range(1, 6)] for n in range(len(columns))]


def test_drops_are_counted_when_the_buffer_is_tiny() -> None:
    """Every hit is a record or a drop."""
    program = build("work")
    with redirected(), gilk.launch([str(program), "20"]) as target, target.session(ring=4096) as session:
        session.insert("*:entry", gilk.stamp)
        counted = session.insert("*:entry", gilk.count)
        target.resume()
        while target.process.wait(block=False) is None:
            pass
        session.poll()
        session.close()
        hits = sum(session.counts()[p.row.point] for p in counted)
        assert session.drain.drops() > 0
        assert session.records + session.drain.drops() == hits


# Wrong instruments.


def refused(tmp_path: Path, text: str, function: str = "instrument") -> gilk.GilkError:
    source = tmp_path / "mine.c"
    source.write_text(text)
    with redirected() as (_, _), gilk.launch([str(build("work")), "1"]) as target, target.session() as session:
        with pytest.raises(gilk.GilkError) as caught:
            session.insert("dispatch:entry", gilk.c(source, function))
        # Nothing has changed, and the session still works.
        (probe,) = session.insert("dispatch:entry", gilk.count)
        target.resume()
        while (end := target.process.wait(block=False)) is None:
            pass
        assert end.code == 0
        assert session.counts()[probe.row.point] > 0
    return caught.value


def test_an_instrument_that_does_not_compile_is_refused_with_file_and_line(tmp_path: Path) -> None:
    error = refused(tmp_path, "#include <gilk.h>\n\nvoid instrument(unsigned int iid)\n{\n\tthis is wrong;\n}\n")
    assert (error.slug, error.exit_status) == ("does-not-compile", 5)
    assert "mine.c:5:" in error.message + error.hint


def test_an_instrument_with_an_undefined_name_is_refused(tmp_path: Path) -> None:
    error = refused(
        tmp_path, "void nowhere_to_be_found(void);\nvoid instrument(unsigned int iid) { nowhere_to_be_found(); }\n"
    )
    assert error.slug == "undefined-symbol"
    assert "nowhere_to_be_found" in error.message


@pytest.mark.parametrize(
    "head", ["int instrument(unsigned int iid)", "void instrument(double x)", "void instrument(unsigned iid, int b)"]
)
def test_an_instrument_with_a_wrong_signature_is_refused(tmp_path: Path, head: str) -> None:
    error = refused(tmp_path, f"{head} {{ {'return 0;' if head.startswith('int') else ''} }}\n")
    assert error.slug == "does-not-compile"
    assert "an instrument is void instrument(unsigned" in error.message


def test_an_instrument_function_missing_in_its_file_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "void other(unsigned int iid) { }\n").slug == "no-such-instrument"


def test_vector_code_in_an_instrument_is_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, "double d;\nvoid instrument(unsigned int iid) { d = d * 1.5; }\n")
    assert error.slug == "does-not-compile"


BACKWARDS = """\
#include <stdio.h>
#include <string.h>
long move_up(char *to, const char *from, long size);
__asm__(
	".text\\n.globl move_up\\n.type move_up, @function\\nmove_up:\\n"
	"lea -1(%rdi,%rdx), %rdi\\nlea -1(%rsi,%rdx), %rsi\\nmov %rdx, %rcx\\nstd\\nxor %eax, %eax\\nmov $77, %r8d\\n"
	"rep movsb\\nmov %r8, %rax\\nsub %rcx, %rax\\ncld\\nret\\n.size move_up, . - move_up\\n");
int main(void)
{
	char text[32] = "0123456789";
	long sum = 0;

	for (int i = 0; i < 5; i++)
		sum += move_up(text + 3, text, 10);
	printf("%ld %s\\n", sum, text);
	return 0;
}
"""
SEES_DIRECTION = """\
#include <gilk.h>

static char from[64] = "abcdefghijklmnopqrstuvwxyz", to[64];

/* Does what a compiler makes of a copy of structures. */
void copies(unsigned int iid)
{
	char *d = to;
	const char *s = from;
	unsigned long n = 26;

	__asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
	ilk_log_pair_sample(d - to, to[0], iid);
}
"""


@pytest.mark.parametrize("where", seldom(["+0x10", "+0x18", "+0xe", "+0x16"], 2))
def test_an_instrument_runs_with_the_direction_flag_clear(tmp_path: Path, where: str) -> None:
    """The instrument is in a copy loop that goes backwards, after its std; the copy itself is right."""
    program = compile_text(tmp_path, "p", BACKWARDS, "-O2", "-fPIE", "-pie")
    (tmp_path / "i.c").write_text(SEES_DIRECTION)
    assert plain([program]).stdout.startswith(b"385 ")
    table = samples(program, f"move_up:{where}", gilk.c(tmp_path / "i.c", "copies"))
    assert table["value"].to_pylist() == [26] * 5
    assert table["extra"].to_pylist() == [ord("a")] * 5
