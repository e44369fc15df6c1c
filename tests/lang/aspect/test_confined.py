# SPDX-License-Identifier: LGPL-2.1-or-later
"""C for the kernel: the refused texts, and that accepted texts do as C does, by a compiler and a processor."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.engines.aspect.checked import check
from gilk.engines.aspect.kernel_part import confined_file
from gilk.errors import UsageError
from gilk.lang.aspect.checked import CheckedDemand, CheckedFile
from gilk.lang.aspect.kernel.confined import ConfinedC
from gilk.lang.aspect.kernel.confining import KernelC
from gilk.lang.aspect.kernel.foreign import Foreign
from gilk.lang.aspect.kernel.names import Confined

REFUSED = """
f->private_data = 0                         | writes words of its instance
f->count++                                  | writes words of its instance
*(int *)p = 1                               | writes words of its instance
kfree(p)                                    | kfree() is called
jiffies                                     | variables of the kernel are not read
runqueues.nr_running                        | variables of the kernel are not read
gilk_shared_memory                          | variables of the kernel are not read
proceed()                                   | no `proceed`
deny(13)                                    | functions of the kernel have no errno
join(A, 1)                                  | does not change groups
({ p; })                                    | more than expressions
asm("hlt")                                  | asm() is called
report(f->name)                             | a text in quotes
report("%s", 1, 2)                          | more values than its format
report("%d")                                | fewer values than its format
report("%n", p)                             | no conversion %n
report("%f", 1)                             | no conversion %f
report("%p", jp.caller)                     | jp has no caller
report("%s %s %s %s %s", p, p, p, p, p)     | more than 4 texts
p()                                         | p is a value, and is not called
sizeof(int[*(int *)p])                      | the length of an array is no number
sizeof(int[panic()])                        | the length of an array is no number
w = (long)(int (*)[sizeof(int[f->x])])p     | the length of an array is no number
w = (long)(int (*)(int[f->x]))p             | the length of an array is no number
sizeof(struct { int x[kfree(p)]; })         | declared in a type
sizeof(enum { A = 1 })                      | declared in a type
offsetof(struct { int a[f->x]; }, a)        | declared in a type
"""
BLOCKS = """
{ while (1) ; }       | more than expressions
{ for (;;) ; }        | more than expressions
{ again: goto again; }| more than expressions
{ return 1; }         | returns nothing
{ int *q; }           | no value at first
{ int gilk_place = 1; } | a name of gilk's own
{ int s32 = 1; }      | a name of gilk's own
"""


def rows(text: str) -> list[tuple[str, str]]:
    found = [line.rsplit("|", 1) for line in text.strip().splitlines()]
    return [(one.strip(), why.strip()) for one, why in found]


@pytest.mark.parametrize(("text", "why"), rows(REFUSED))
def test_harmful_c_for_the_kernel_is_refused(text: str, why: str) -> None:
    with pytest.raises(Confined, match=why.replace("(", r"\(").replace(")", r"\)")):
        ConfinedC(["f", "p"], ["w"]).advice(f"{{ {text}; }}")


@pytest.mark.parametrize(("text", "why"), rows(BLOCKS))
def test_loops_and_results_are_refused(text: str, why: str) -> None:
    with pytest.raises(Confined, match=why):
        ConfinedC(["f", "p"]).advice(text)


FILES = {
    "int f(void) { return 1; }": "is neither an #include",
    "#define X(a) kfree(a)": "macro X: kfree",
    '#include "own.h"': "is neither an #include",
    "#include <linux/../../../etc/passwd>": "is neither an #include",
    "#define X(gilk_fetch) gilk_fetch->a": "macro X: gilk_fetch is a name of gilk's own",
}


def checked(place: Path, text: str) -> CheckedFile | None:
    """A checked file of aspects with that text; None if the checker refuses it."""
    path = place / "k.aspect"
    path.write_text(text)
    return check(path).check.file


@pytest.mark.parametrize("text", FILES)
def test_c_sections_for_the_kernel_may_have_only_includes_and_macros(tmp_path: Path, text: str) -> None:
    file = checked(tmp_path, f"%K{{ {text} %}}\nK: call(int f(int a));\n")
    assert file is not None
    with pytest.raises(UsageError) as error:
        confined_file(file)
    assert error.value.slug == "cannot-weave"
    assert FILES[text] in error.value.message


ELEMENTS = {
    "K: call(int f(int a)) then inplace { return 1; };": "in place of a function of the kernel",
    "K: readGlobal(int x);": "elements match calls alone",
    "K: call(int f(int a)) && bind(b, a + 1);": "has no type",
    "K: call(int f(int (*gilk_fetch)(int), int *p)) && if (*p);": "gilk_fetch is a name of gilk's own",
    "K: call(int f(int (*strlen)(char *s))) && if (strlen(0));": "strlen is a value, and is not called",
    "K: call(int f(int (*a)[panic()]));": "no number",
    "K: call(int f(int a)) && bind(char b[panic()], (char *)a);": "no number",
    "table t key(int (*)[panic()]) count; K: call(int f(int a)) then { add(t, 0, 1); };": "no number",
    "var(int (*w)[panic()]) seq(K: call(int f(int x)); K: call(int g(int x)));": "no number",
    "var(int a = panic(1)) seq(K: call(int f(int x)); K: call(int g(int x)));": "panic",
    "var(int gilk_holds = 1) seq(K: call(int f(int x)); K: call(int g(int x)));": "a name of gilk's own",
    "K: call(int f(int a)) && from(g);": "are not for the kernel",
}


@pytest.mark.parametrize("text", ELEMENTS)
def test_elements_that_the_kernel_lacks_are_refused(tmp_path: Path, text: str) -> None:
    file = checked(tmp_path, text)
    assert file is not None
    with pytest.raises(UsageError, match=ELEMENTS[text]):
        confined_file(file)


INPLACE = {
    "K: call(int f(int a)) then inplace { return proceed(a); };": "",  # the checker has refused it
    "K: call(int f(int a)) then inplace { return g(a); };": "g() is called",
    "K: call(int f(int a)) then inplace { return *(int *)a = 1; };": "`=` may not stand",
    "group A; seq(A: call(void g(int b)); K: call(int f(int a)) then inplace { return 1; });": "forge instances",
}


@pytest.mark.parametrize("text", INPLACE)
def test_statements_not_allowed_in_advice_in_place_are_refused(tmp_path: Path, text: str) -> None:
    file = checked(tmp_path, text)
    if not INPLACE[text]:
        assert file is None
        return
    assert file is not None
    with pytest.raises(UsageError) as error:
        confined_file(file, replaces=True)
    assert INPLACE[text] in error.value.message


def test_advice_in_place_may_return_computed_values(tmp_path: Path) -> None:
    advice = "if (p->f_count) return -EBUSY; return p->f_mode / 2;"
    file = checked(tmp_path, f"K: call(int f(struct file *p)) then inplace {{ {advice} }};")
    assert file is not None
    (aspect,) = confined_file(file, replaces=True).aspects
    assert aspect.elements[0].advice is not None
    text = aspect.elements[0].advice.body.text
    assert "return (-(EBUSY));" in text and "return gilk_divide(gilk_fetch((p)->f_mode), 2);" in text


# Expressions that a compiler makes of the confined text and of the text itself are equal; where a pointer leads
# nowhere, or a divisor is 0, the confined one says so.

HARNESS = """\
#include <stdio.h>
#include <string.h>
#include <limits.h>
static int unread;
static struct here {{ int unread; }} *gilk_here(void) {{ return (struct here *)&unread; }}
static void *gilk_loaded(void *to, const volatile void *from, unsigned long size)
{{
    if ((unsigned long)from < 4096) {{ memset(to, 0, size); unread = 1; return to; }}
    return memcpy(to, (const void *)from, size);
}}
{macros}
{declared}
struct inner {{ long n; char name[16]; int many[4]; struct inner *next; }};
struct outer {{ struct inner in; struct inner *to; unsigned u; int i; short s; unsigned char c; }};
int main(void)
{{
    struct inner a = {{ 7, "inner", {{ 1, -2, 3, INT_MIN }}, 0 }};
    struct outer o = {{ {{ -5, "outer", {{ 9, 8, 7, 6 }}, &a }}, &a, 4000000000u, -17, -3, 200 }}, *p = &o;
    long k = {k}; unsigned v = {v};
    long plain = (long)({plain});
    long made = (long)({made});
    (void)p; (void)k; (void)v;
    printf("%d %d\\n", plain == made, unread);
    return 0;
}}
"""
MACROS = Path(__file__).parents[3] / "src/gilk/native/include/kernel/gilk_woven.h"


def macros() -> str:
    """The text of the macros from gilk_fetch() to gilk_remainder(), as for the kernel."""
    text = MACROS.read_text()
    begin = text.index("#define gilk_fetch(")
    fetch = text[begin : text.index("static inline int gilk_note")]
    divide = text[text.index("#define gilk_divided") : text.index("static inline gilk_u64 gilk_on_stack")]
    return fetch + divide


def compared(tmp_path: Path, plain: str, made: str, k: int = 3, v: int = 5, declared: str = "") -> str:
    source, program = tmp_path / "x.c", tmp_path / "x"
    text = HARNESS.format(macros=macros(), declared=declared, plain=plain, made=made, k=k, v=v)
    source.write_text(text)
    subprocess.run(["cc", "-O1", "-w", "-fwrapv", "-o", program, source], check=True, capture_output=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout.strip()


LEAVES = st.sampled_from(
    ["k", "v", "p->i", "p->u", "p->s", "p->c", "p->in.n", "p->to->n", "p->in.next->many[1]", "p->in.many[k & 3]",
     "p->to->name[2]", "(*p).to->many[3]", "*p->to->many", "sizeof(p->in.name)", "17", "-1", "'x'", "0x7fffffff",
     "(short)p->u", "!p->to", "(&p->i == &(*p).i)"]
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "&", "|", "^", "<", "==", "&&", "||"]), inner).map(
            lambda one: f"({one[0]} {one[1]} {one[2]})"
        ),
        st.tuples(inner, st.sampled_from(["/", "%"]), st.sampled_from(["7", "-9", "(p->c | 1)", "2u"])).map(
            lambda one: f"({one[0]} {one[1]} {one[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda one: f"({one[0]} ? {one[1]} : {one[2]})"),
        inner.map(lambda one: f"(~{one})"),
    ),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None)
@given(st.lists(TREES, min_size=8, max_size=8))
def test_confined_c_computes_the_same_as_c(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """Several texts are compiled at once, as a sum. INT_MIN / -1, which stops a processor, is left to the next test."""
    c = ConfinedC(["p", "k", "v"])
    plain = " + ".join(f"(long)({one}) * {3**n}" for n, one in enumerate(texts))
    made = " + ".join(f"(long)({c.value(one)}) * {3**n}" for n, one in enumerate(texts))
    assert compared(tmp_path_factory.mktemp("c"), plain, made) == "1 0"


@pytest.mark.parametrize(
    ("text", "value", "unread"),
    [("k / (v - 5)", "0", 1), ("k % (v - 5)", "0", 1), ("p->to->many[3] / -1", "INT_MIN", 0),
     ("p->to->many[3] % -1", "0", 0), ("p->to->next->n", "0", 1), ("p->to->next->next->n", "0", 1),
     ("*(long *)k", "0", 1), ("p->to->next && p->to->next->n", "0", 0)],
)  # fmt: skip
def test_trapping_operations_are_checked_and_noted(tmp_path: Path, text: str, value: str, unread: int) -> None:
    """Negative control: the unconfined text ends the program by a signal."""
    made = ConfinedC(["p", "k", "v"]).value(text)
    assert compared(tmp_path, value, made) == f"1 {unread}"
    if unread:
        with pytest.raises(subprocess.CalledProcessError):
            compared(tmp_path, text, value)


#: The values of functions that read members, in the structs of the harness.
READING = """
struct inode { long i_size; };
struct dentry { unsigned d_flags; struct inode *d_inode; };
struct file { struct inode *f_inode; };
struct task { int pid, tgid; };
enum { DCACHE_ENTRY_TYPE = 0x700000, DCACHE_MISS_TYPE = 0 };
enum { DCACHE_REGULAR_TYPE = 0x400000, DCACHE_SYMLINK_TYPE = 0x600000 };
static struct inode inode = { 77 };
static struct dentry none, link_ = { 0x600001, &inode }, *d = &link_, *n = &none;
static struct file file = { &inode }, *f = &file, *nowhere = (struct file *)8;
static struct task task = { 5, 6 }, *t = &task;
"""


@pytest.mark.parametrize(
    ("text", "value", "unread"),
    [("d_inode(d)->i_size", 77, 0), ("i_size_read(d_inode(d))", 77, 0), ("i_size_read(d_inode(n))", 0, 1),
     ("i_size_read(file_inode(f))", 77, 0), ("file_inode(nowhere) != 0", 0, 1), ("d_is_positive(d)", 1, 0),
     ("d_is_negative(d)", 0, 0), ("d_is_positive(n) ? d_inode(n)->i_size : 3", 3, 0), ("d_is_symlink(d)", 1, 0),
     ("d_is_reg(d) + d_is_reg(n)", 0, 0), ("100 * task_pid_nr(t) + task_tgid_nr(t)", 506, 0)],
)  # fmt: skip
def test_kernel_functions_that_read_members_become_checked_loads(
    tmp_path: Path, text: str, value: int, unread: int
) -> None:
    """The program has no such functions: they are not called."""
    made = ConfinedC(["d", "n", "f", "nowhere", "t"]).value(text)
    assert compared(tmp_path, str(value), made, declared=READING) == f"1 {unread}"


@pytest.mark.parametrize("text", ["d_inode()", "d_inode(d, d)", "d_name(d)"])
def test_calls_of_other_functions_are_refused(text: str) -> None:
    with pytest.raises(Confined, match="is called"):
        ConfinedC(["d"]).value(text)


def test_pointers_from_a_process_are_not_followed() -> None:
    c = ConfinedC(["kept"], foreign=Foreign(frozenset(["kept"])))
    with pytest.raises(Confined, match="where kept leads"):
        c.value("d_is_positive(kept)")
    assert c.value("new_encode_dev(kept)") == "new_encode_dev(kept)"


def test_a_macro_of_the_file_overrides_a_kernel_function() -> None:
    c = ConfinedC(["d"], macros={"d_inode": 1})
    assert c.value("d_inode(d)") == "gilk_macro_d_inode(d)"


def test_macros_do_not_affect_the_generated_code_around_fragments(tmp_path: Path) -> None:
    """Whatever it is called: the name that it has in C is another one."""
    names = ("gilk_fetch", "if", "sizeof", "gilk_loaded", "count")
    text = "".join(f"#define {name}(x) (x)\n" for name in names)
    file = checked(tmp_path, f"%K{{ {text} %}}\nK: call(int f(int *a)) && if (*a && count(3));\n")
    assert file is not None
    heads = [line.split("(")[0] for line in KernelC(file).lines]
    assert heads == [f"#define gilk_macro_{name}" for name in names]
    (aspect,) = confined_file(file).aspects
    (demand,) = (one for one in aspect.elements[0].alternatives[0].steps if isinstance(one, CheckedDemand))
    assert demand.condition.text == "gilk_holds((gilk_fetch((*(a))) && gilk_macro_count(3)))"


def test_array_lengths_may_be_numbers() -> None:
    text = ConfinedC(["a"]).value("sizeof(int[4 * sizeof(long)]) + (long)(int (*)[3])a")
    assert "panic" not in text and "[3]" in text


PAGE = Path(__file__).parents[3] / "docs/aspect/kernel.md"


def test_the_example_of_the_page_is_accepted(tmp_path: Path) -> None:
    text = PAGE.read_text()
    path = tmp_path / "page.aspect"
    path.write_text(text[text.index("```aspect\n") + 10 :].split("```")[0])
    reading = check(path).check
    assert reading.file is not None and not reading.warnings
    confined_file(reading.file)
