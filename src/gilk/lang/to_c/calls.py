# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C of calls: one entry for each operation of lang/operations.py that has a value."""

from __future__ import annotations

from gilk.lang import ir
from gilk.lang.to_c.emit import FreshNames, c_type
from gilk.lang.variables import BUILT_INS

_VARIABLES = {
    "timestamp": "gd_timestamp(c)",
    "walltimestamp": "gd_walltimestamp(c)",
    "execname": "gd_execname(c)",
    "probeprov": "gd_probe_text(c, 0)",
    "probemod": "gd_probe_text(c, 1)",
    "probefunc": "gd_probe_text(c, 2)",
    "probename": "gd_probe_text(c, 3)",
    "pid": "((gd_s32)c->event->pid)",
    "tid": "((gd_s32)c->event->tid)",
    "ppid": "((gd_s32)gd_environment(c)->ppid)",
    "uid": "gd_environment(c)->uid",
    "gid": "gd_environment(c)->gid",
    "euid": "gd_environment(c)->euid",
    "egid": "gd_environment(c)->egid",
    "root": "gd_environment(c)->root",
    "vtimestamp": "gd_vtimestamp(&vtime)",
    "ipl": "((gd_s32)0)",
    "id": "c->event->probe",
    "epid": "epid",
    "cpu": "((gd_s32)gd_cpu(c))",
    "ucaller": "({ gd_u64 caller = gd_ucaller(c); if (c->fault) goto fault; caller; })",
    "ustackdepth": "({ gd_u32 depth = (gd_u32)gd_ustackdepth(c); if (c->fault) goto fault; depth; })",
    "errno": "((gd_s32)c->event->error)",
    # In the kernel only; no clause in C runs there.
    "caller": "0UL",
    "stackdepth": "0U",
    "curthread": "0UL",
    "by_processor": "0UL",
}
#: Operations that make a string in a buffer, which is their first argument.
_MAKE = frozenset(
    (
        *("strjoin", "substr", "basename", "dirname", "cleanpath", "lltostr", "strtok", "tolower", "toupper"),
        *("fdpath", "threadname"),
    )
)
#: Operations that may fault because of an argument.
_FAULTY = frozenset(("lltostr",))
#: Operations that take a NULL string.
TAKE_NULL = frozenset(("is_set", "character", "after"))
#: For an operation with an optional last argument: the number of arguments, and the default of the last one.
_DEFAULTS = {
    "copyinstr": (2, "~0UL"),
    "inet_ntoa6": (2, "0"),
    "lltostr": (2, "10"),
    "index": (3, "0"),
    "rindex": (3, "0x7fffffff"),
    "strtoll": (2, "10"),
    "substr": (3, "0x7fffffff"),
}
_SWAPS = {"htons": 16, "ntohs": 16, "htonl": 32, "ntohl": 32, "htonll": 64, "ntohll": 64}


_PATH = 4096  # bytes of the longest path that the kernel returns


def call(node: ir.Call, arguments: list[str], strsize: int, scratchsize: int, name: FreshNames) -> str:
    """The C of a call whose arguments are C already."""
    if node.name in _VARIABLES:
        return _VARIABLES[node.name]
    if node.name in BUILT_INS and BUILT_INS[node.name].header:
        return f"(({c_type(node.type)})gd_{node.name}(c))"
    if node.name == "cwd":
        to, size = name("s"), max(strsize, _PATH)
        return f"({{ char *{to} = gd_alloca(c, {size}); if (!{to}) goto fault; gd_cwd({to}, {size}); }})"
    most, default = _DEFAULTS.get(node.name, (0, ""))
    if len(arguments) < most:
        arguments = [*arguments, default]
    given = "".join(f", {argument}" for argument in arguments)
    if node.name in _SWAPS:
        return f"((gd_u{_SWAPS[node.name]})__builtin_bswap{_SWAPS[node.name]}({arguments[0]}))"
    if node.name in _MAKE:
        if node.name == "strtok" and len(arguments) > 2:
            return _made("strtok_kept", f", {arguments[0]}, {arguments[1]}, (char *){arguments[2]}", strsize, name)
        return _made(node.name, given, strsize, name)
    return _SPECIAL[node.name].format(*arguments, given=given, v=name(), w=name(), strsize=strsize, most=scratchsize)


def _made(function: str, given: str, strsize: int, name: FreshNames) -> str:
    to = name("s")
    room = f"char *{to} = gd_alloca(c, {strsize}); if (!{to}) goto fault;"
    check = "if (c->fault) goto fault; " if function in _FAULTY else ""
    result = name("s")
    made = f"const char *{result} = gd_{function}(c, {to}{given}); {check}{result};"
    return f"({{ {room} {made} }})"


_SPECIAL = {
    "is_set": "gd_is_set({0})",
    "strchr": "(const char *)gd_strchr(c, {0}, (int){1})",
    "strrchr": "(const char *)gd_strrchr(c, {0}, (int){1})",
    "strstr": "(const char *)gd_strstr(c, {0}, {1})",
    "inet_ntoa6": (
        "({{ char *{v} = gd_alloca(c, {strsize}); gd_u8 {w}[16]; if (!{v} || !gd_load(c, {w}, {0}, 16)) goto fault; "
        "(const char *)({1} ? gd_inet_ntoa6(c, {v}, {w}) : gd_inet_ntoa6_short(c, {v}, {w})); }})"
    ),
    **{
        name: (
            f"({{{{ char *{{v}} = gd_alloca(c, {{strsize}}); const char *{{w}} = {{v}} ? gd_{name}(c, {{v}}, {{0}}, "
            "{1}) : 0; if (!{w}) goto fault; {w}; }})"
        )
        for name in ("inet_ntop", "link_ntop")
    },
    "inet_ntoa": (
        "({{ char *{v} = gd_alloca(c, {strsize}); gd_u8 {w}[4]; "
        "if (!{v} || !gd_load(c, {w}, {0}, 4)) goto fault; (const char *)gd_inet_ntoa(c, {v}, {w}); }})"
    ),
    "strlen": "gd_strlen(c{given})",
    "character": "({{ char {v} = gd_character(c{given}); if (c->fault) goto fault; (gd_s8){v}; }})",
    "after": "({{ const char *{v} = gd_after(c{given}); if (c->fault) goto fault; {v}; }})",
    "placed": (
        "({{ char *{v} = gd_alloca(c, {strsize}); if (!{v}) goto fault; gd_zero({v}, {strsize}); "
        "gd_put_string({v}, {0}, {strsize}); "
        "(gd_u64){v}; }})"
    ),
    "index": "((gd_s32)gd_index(c{given}))",
    "rindex": "((gd_s32)gd_rindex(c{given}))",
    "strtoll": "({{ gd_s64 {v} = gd_strtoll(c{given}); if (c->fault) goto fault; {v}; }})",
    "rand": "gd_rand(c)",
    "fdoffset": "gd_fdoffset(c{given})",
    "fdflags": "((gd_s32)gd_fdflags(c{given}))",
    "fdmount": "((gd_s32)gd_fdmount(c{given}))",
    "threadnice": "((gd_s32)gd_threadnice(c))",
    "threadpriority": "((gd_s32)gd_threadpriority(c))",
    "speculation": "((gd_s32)gd_speculation(c))",
    "getmajor": "((gd_u32)({0} >> 20) & 0xfff)",
    "getminor": "((gd_u32){0} & 0xfffff)",
    "alloca": "({{ void *{v} = gd_asked(c, {0}, {most}); if (!{v}) goto fault; (gd_u64){v}; }})",
    "copyin": (
        "({{ gd_u64 {w} = {1}; void *{v} = gd_asked(c, {w}, {most}); "
        "if (!{v} || !gd_load(c, {v}, {0}, {w})) goto fault; (gd_u64){v}; }})"
    ),
    "copyinstr": (
        "({{ gd_u64 {w} = {1}; char *{v} = gd_alloca(c, {strsize}); if ({w} > {strsize}) {w} = {strsize}; "
        "if (!{v} || !gd_copyin_string(c, {v}, {0}, {w})) goto fault; (const char *){v}; }})"
    ),
    "copyinto": "({{ if (!gd_copy(c, {2}, {0}, {1})) goto fault; }})",
    "bcopy": "({{ if (!gd_copy(c, {1}, {0}, {2})) goto fault; }})",
    "bcopy_string": "({{ if (!gd_copy_string(c, {1}, {0}, {2})) goto fault; }})",
    **dict.fromkeys(("d_path", "pathof", "argumentsof", "packet"), '""'),  # for clauses in a kernel only
    "progenyof": "gd_progenyof(c, {0})",
}
