# SPDX-License-Identifier: LGPL-2.1-or-later
"""``types``: the C of aspects knows the program's types from its debug information, with the compiler's layout:
advice reads the values that the program prints."""

from __future__ import annotations

from pathlib import Path

import pytest

import gilk
from gilk.errors import CompileError, UsageError
from tests.behaviour.advised import OPTIONS, aspects, build, rounds
from tests.behaviour.harness import differences, leftovers
from tests.seldom import seldom

PROGRAM = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
enum color { RED = 3, GREEN = -2, BLUE = 70000 };
typedef struct { uint16_t length; char *data; } text_t;
struct node;
typedef struct request request_t;
union either { uint8_t bytes[6]; struct { uint16_t low; uint32_t high; } __attribute__((packed)) halves; double real; };
struct bits { unsigned a : 3; int b : 7; unsigned long c : 33; unsigned char d : 1; uint16_t after; long e : 60; };
struct tight { char c; uint64_t wide; short s[3]; } __attribute__((packed));
struct client { struct node *chain; struct timeval since; enum color color; text_t names[2]; };
struct node { struct node *next; request_t *request; long double odd; int (*call)(int); };
struct request {
	char kind; struct client *client; union either either;
	struct { int inner; union { short tail; long whole; }; };
	struct bits bits; struct tight tight; _Bool flag; float real; long table[2][3]; unsigned char rest[];
};
static union { struct request request; char room[400]; } one;
NOINLINE long handle(request_t *request, struct node node) { __asm__ volatile("" : : "r"(request), "m"(node) : "memory"); return node.next != 0; }
static void one_round(void)
{
	static struct client client;
	static struct node node;
	struct request *r = &one.request;

	memset(&one, 0, sizeof one);
	r->kind = 'k'; r->client = &client; client.color = BLUE; client.since.tv_usec = 123; client.chain = &node;
	client.names[1] = (text_t){4, "text"}; node.request = r; node.next = &node;
	r->either.halves.high = 0xdeadbeef; r->inner = -5; r->whole = 1L << 40;
	r->bits = (struct bits){5, -20, 1L << 32, 1, 999, -12345678901L};
	r->tight.wide = 77; r->tight.s[2] = -3; r->flag = 1; r->real = 1.5f; r->table[1][2] = 42; r->rest[3] = 200;
	printf("%c %d %ld %.*s %x %d %ld | %d %d %lx %d %d %ld | %lu %d %d %g %ld %d %d | %zu %zu %ld\n",
		r->kind, client.color, (long)client.since.tv_usec, client.names[1].length, client.names[1].data,
		r->either.halves.high, r->inner, r->whole, (int)r->bits.a, r->bits.b, (long)r->bits.c, r->bits.d, r->bits.after,
		(long)r->bits.e, (unsigned long)r->tight.wide, r->tight.s[2], r->flag, (double)r->real, r->table[1][2], r->rest[3],
		client.chain->request == r, sizeof(struct request), offsetof(struct request, rest), handle(r, node));
}
"""
ADVICE = r"""
types program;
%{ HEADERS
static long is_blue(const struct client *client) { return client->color == BLUE; } %}
call(long handle(request_t *r, struct node node)) && bind(struct client *client, r->client) && if (is_blue(client)) then {
    report("%c %d %ld %.4s %x %d %ld | %d %d %lx %d %d %ld",
        r->kind, client->color, (long)client->since.tv_usec, client->names[1].data, r->either.halves.high, r->inner, r->whole,
        (int)r->bits.a, r->bits.b, (long)r->bits.c, r->bits.d, r->bits.after, (long)r->bits.e);
    report("%lu %d %d %g %ld %d %d | %lu %lu %d", r->tight.wide, r->tight.s[2], r->flag, (double)r->real, r->table[1][2],
        r->rest[3], client->chain->request == r, sizeof *r, __builtin_offsetof(struct request, rest), node.next == client->chain); };
"""
HEADERS = (
    "",
    "#include <sys/time.h>\n#include <stdint.h>\nenum color { RED = 3, GREEN = -2, BLUE = 70000 };\n#define X 1\n",
)


@pytest.mark.parametrize("headers", HEADERS, ids=["alone", "beside"])
@pytest.mark.parametrize("compiler", seldom(["gcc", "clang"], 1))
def test_members_are_at_the_compilers_offsets(tmp_path: Path, compiler: str, headers: str) -> None:
    path = aspects(tmp_path, ADVICE.replace("HEADERS", headers))
    with rounds(build(tmp_path, PROGRAM, *OPTIONS, compiler=compiler)) as program:
        said = program.ask()
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert program.ask() == said
            assert " | ".join(one.text for one in weaving.reports()) == said
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])


def test_types_of_a_program_without_debug_information_are_refused(tmp_path: Path) -> None:
    path = aspects(tmp_path, ADVICE.replace("HEADERS", ""))
    with rounds(build(tmp_path, PROGRAM, "-O2")) as program, gilk.attach(program.pid) as target:
        with pytest.raises(UsageError) as raised:
            gilk.weave(path, target)
        assert raised.value.slug == "no-debug-types"


def test_an_unknown_member_is_refused_with_its_line(tmp_path: Path) -> None:
    path = aspects(tmp_path, "types program;\ncall(long handle(request_t *r, struct node node)) && if (r->missing);\n")
    with rounds(build(tmp_path, PROGRAM, *OPTIONS)) as program, gilk.attach(program.pid) as target:
        with pytest.raises(CompileError, match=r"woven\.aspect:2:.*missing"):
            gilk.weave(path, target)
