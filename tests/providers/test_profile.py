# SPDX-License-Identifier: LGPL-2.1-or-later
"""Running threads are found where they are, and left as they were; sleeping threads are not found."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.behaviour.harness import Loop, differences, leftovers
from tests.programs.build import build, compile_text
from tests.providers.sessions import traced

_PROGRAM = """
    pid$target:a.out:text_hash:entry { self->met = 1; }
    profile-199 { @a["at home"] = sum(pid == $target && uregs[R_RIP] == arg1 && arg0 == 0 && execname == "work"); }
    profile-199 { this->byte = *(char *)uregs[R_RSP]; @s["stack"] = count(); }
    profile-199 { @n["all"] = count(); n++; }
    profile-199 /self->met/ { @m["met"] = count(); met = 1; }
    profile-199 { printf("%s\\n", ""); @w[umod(arg1)] = count(); }
    profile-199 /n >= 40 && met/ { exit(0); }"""


def test_profile_finds_threads_where_they_run() -> None:
    """Patches count as the code that they stand for; self-> variables are those of the other probes."""
    with Loop([build("work")]) as loop:
        done = traced(_PROGRAM, pid=loop.pid)
        found = done.numbers()
        assert found["all"] == found["at home"] == found["stack"] >= 10  # of forty, when there is time
        assert found["met"] > 0
        assert not [line for line in done.lines if "0x" in line or "gilk" in line]
        assert (done.errors, differences(loop.pid), leftovers(loop.pid)) == ("", [], [])


_STACKS = """int n; profile-499 { @[ustack()] = count(); n++; }
    profile-499 /n == 60/ { exit(0); } END { printf("stacks\\n"); printa("%k\\nend\\n", @); }"""


def stacks(pid: int) -> list[str]:
    """The distinct stacks of sixty samples."""
    done = traced(_STACKS, pid=pid)
    return " ".join(done.lines).split("stacks ", 1)[1].split(" end")[:-1]


def test_stacks_of_samples_lead_to_the_programs_start() -> None:
    """Whatever the thread has done since, each stack leads from the sampled place to the program's beginning."""
    with Loop([build("work")]) as loop:
        found = stacks(loop.pid)
    assert len(found) > 2
    assert not [stack for stack in found if not stack.endswith("`_start+0x21")], found


#: popped() has its caller's RBP back, and is a long time about to return; what it was popped from is then used for
#: something else, for as long a time. Its table says all the while that RBP is where it was, as compilers have it.
_POPPED = r"""
__asm__(
	".text\n.type popped,@function\npopped:\n.cfi_startproc\n"
	"\tpush %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset rbx,-16\n"
	"\tpush %rbp\n.cfi_def_cfa_offset 24\n.cfi_offset rbp,-24\n"
	"\tmov $2, %ebp\n\tpop %rbp\n.cfi_def_cfa_offset 16\n"
	"\t.rept 50000\n\tnop\n\t.endr\n"
	"\tpop %rbx\n.cfi_def_cfa_offset 8\n\tret\n.cfi_endproc\n.size popped,.-popped\n"
	".type goes_on,@function\ngoes_on:\n.cfi_startproc\n"
	"\tpush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp,-16\n\tmov %rsp, %rbp\n.cfi_def_cfa_register rbp\n"
	"1:\tcall popped\n\tmovq $1, -24(%rsp)\n"
	"\t.rept 50000\n\tnop\n\t.endr\n"
	"\tjmp 1b\n.cfi_endproc\n.size goes_on,.-goes_on\n");
extern void goes_on(void);
int main(void) { goes_on(); }
"""


def test_a_stack_sampled_at_a_return_is_complete(tmp_path: Path) -> None:
    with subprocess.Popen([compile_text(tmp_path, "popped", _POPPED)]) as child:
        found = [stack for stack in stacks(child.pid) if "`popped+" in stack]
        child.kill()
    assert len(found) > 2
    assert not [stack for stack in found if not stack.endswith("`_start+0x21")], found


def test_sleeping_threads_are_not_sampled() -> None:
    with subprocess.Popen(["sleep", "100"]) as asleep:
        done = traced("profile-499 { @ = count(); } tick-200ms { exit(0); }", pid=asleep.pid)
        assert done.lines == [] and asleep.poll() is None
        asleep.kill()


def test_without_a_process_profile_fires_once_for_all_processors() -> None:
    done = traced('profile-97 { n++; } profile-97 /n == 3/ { printf("times %d\\n", n); exit(0); }')
    assert done.numbers() == {"times": 3}
