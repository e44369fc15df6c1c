# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types as a compiler writes them; the oracle is what the same program prints about itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.errors import ImageError
from gilk.image.kernel.btf import Btf, TypeKind
from gilk.image.kernel.declarations import declare, place, prototype, size_of

SOURCE = r"""
#include <stddef.h>
#include <stdio.h>
typedef unsigned long word;
enum color { RED, GREEN = 7 };
struct inner { char tag; union { int number; double real; }; };
struct list { struct list *next, *prev; };
struct outer {
    struct list list; char name[13]; const char *const *names; struct { short deep; struct inner inner; };
    unsigned low : 3, high : 9; int (*call)(struct outer *, word, ...); enum color color; volatile int grid[2][3];
};
int plain(struct outer *self, word count, const char *text) { return self->grid[0][0] + (int)count + text[0]; }
void nothing(void) {}
struct outer *variadic(const struct outer *first, ...) { return (struct outer *)first; }
enum color (*taking(int (*sort)(const void *, const void *), void **table))(int)
{ return sort(table, table) ? 0 : (enum color (*)(int))table; }
#define SHOW(member) printf(#member " %zu %zu\n", offsetof(struct outer, member), sizeof(((struct outer *)0)->member))
int main(void)
{
    struct outer o = { 0 };
    SHOW(list); SHOW(list.prev); SHOW(name); SHOW(names); SHOW(deep); SHOW(inner.tag); SHOW(inner.number);
    SHOW(inner.real); SHOW(call); SHOW(color); SHOW(grid);
    printf("outer 0 %zu\n", sizeof(struct outer));
    o.high = 0x1ff;
    unsigned char *bytes = (unsigned char *)&o;
    for (size_t i = 0; i < sizeof o; i++) if (bytes[i]) printf("high %zu %u\n", i, bytes[i]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("btf")
    (folder / "types.c").write_text(SOURCE)
    command = ["gcc", "-gbtf", "-O0", "-w", "-o", str(folder / "types"), str(folder / "types.c")]
    subprocess.run(command, check=True)
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.BTF", "--set-section-flags", ".BTF=alloc",
                    str(folder / "types"), str(folder / "types.btf")], check=True)  # fmt: skip
    return folder / "types"


@pytest.fixture(scope="module")
def btf(program: Path) -> Btf:
    return Btf(program.with_suffix(".btf").read_bytes())


def test_members_are_at_the_compilers_offsets(program: Path, btf: Btf) -> None:
    said = dict(re.findall(r"^(\S+) (\d+ \d+)$", subprocess.check_output([program], text=True), re.MULTILINE))
    compared = 0
    for name, numbers in said.items():
        at = place(btf, "outer", name)
        if at is not None and name not in ("high", "outer"):
            assert f"{at.offset} {at.size}" == numbers, name
            compared += 1
    assert compared == 11
    outer = btf.find("outer", TypeKind.STRUCT)
    assert outer is not None and size_of(btf, outer.number) == int(said["outer"].split()[1])


def test_the_bits_of_bit_fields_are_the_compilers(program: Path, btf: Btf) -> None:
    """The bits that are set in memory if the field is all ones."""
    at = place(btf, "outer", "high")
    assert at is not None
    lines = re.findall(r"^high (\d+) (\d+)$", subprocess.check_output([program], text=True), re.MULTILINE)
    set_bits = sum(int(value) << 8 * int(place) for place, value in lines)
    assert set_bits == ((1 << at.bits) - 1) << 8 * at.offset + at.shift


def test_prototypes_are_those_of_the_source(btf: Btf) -> None:
    texts = {name: found.text for name in ("plain", "nothing", "variadic") if (found := prototype(btf, name))}
    assert texts == {
        "plain": "int plain(struct outer *self, word count, const char *text)",
        "nothing": "void nothing(void)",
        "variadic": "struct outer *variadic(const struct outer *first, ...)",
    }
    variadic = prototype(btf, "variadic")
    assert variadic is not None and variadic.variadic and [p.name for p in variadic.parameters] == ["first"]
    assert prototype(btf, "nonesuch") is None


def test_declarations_compile_to_the_same_types(program: Path, btf: Btf, tmp_path: Path) -> None:
    """The printed declarations are C, and the compiler takes them for the same types."""
    checks = []
    for name in ("list", "name", "names", "call", "color"):  # gcc 12 reverses the sizes of an array of arrays
        outer = btf.find("outer", TypeKind.STRUCT)
        assert outer is not None
        member = next(m for m in btf.members(outer) if m.name == name)
        text = declare(btf, member.type, f"check_{name}")
        checks.append(f"extern {text}; _Static_assert(__builtin_types_compatible_p(__typeof__(check_{name}), "
                      f"__typeof__(((struct outer *)0)->{name})), \"{name}\");")  # fmt: skip
    taking = prototype(btf, "taking")
    assert taking is not None
    source = SOURCE.split("#define SHOW")[0] + "\n".join(checks) + f"\n{taking.text};\n"
    (tmp_path / "check.c").write_text(source)
    subprocess.run(["gcc", "-w", "-fsyntax-only", str(tmp_path / "check.c")], check=True)


def test_unknown_types_and_members_are_not_found(btf: Btf) -> None:
    assert place(btf, "outer", "nonesuch") is None
    assert place(btf, "nonesuch", "list") is None
    assert place(btf, "outer", "name.x") is None


@pytest.mark.parametrize("data", [b"", b"\x9f\xeb", bytes(24), b"\x9f\xeb\x01" + bytes(21) + b"x"])
def test_malformed_btf_is_refused(data: bytes) -> None:
    with pytest.raises(ImageError) as caught:
        Btf(data).type(1)
    assert caught.value.slug == "btf-malformed"


@settings(max_examples=200)
@given(st.data())
def test_damaged_types_are_a_named_error(program: Path, data: st.DataObject) -> None:
    content = bytearray(program.with_suffix(".btf").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        damaged = Btf(bytes(content[: data.draw(st.integers(24, len(content)))]))
        for name in ("plain", "variadic", "taking"):
            prototype(damaged, name)
        for path in ("inner.real", "grid", "high", "list.prev"):
            place(damaged, "outer", path)
    except ImageError as error:
        assert error.slug == "btf-malformed"
