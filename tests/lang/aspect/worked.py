# SPDX-License-Identifier: LGPL-2.1-or-later
"""The examples of examples/aspects as automata, written down by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gilk.lang.aspect.automaton import (
    AliasAccess,
    Alternative,
    Automaton,
    BoundName,
    ControlFlow,
    Element,
    GlobalAccess,
    Sharing,
    Word,
)
from tests.lang.aspect.automata import calling, element, qualifier, sequence

#: The name in C++.
REQUEST = "clientProcessRequest(ConnStateData*, RefCount<Http::One::RequestParser> const&, Http::Stream*)"


def exactly(function: str, *names: str) -> Any:
    return replace(calling("x", *names), function=function, exact=True)


def either(*alternatives: tuple[Any, ...], common: tuple[str, ...] = (), **others: Any) -> Element:
    """An element of several alternatives, each a point and qualifiers; the ``common`` qualifiers follow its own."""
    made = tuple(Alternative(point, tuple(map(qualifier, (*own, *common)))) for point, *own in alternatives)
    return replace(element(alternatives[0][0], **others), alternatives=made)


ACCOUNTING = sequence(
    element(
        exactly(REQUEST, "void *conn", "void *parser", "void *context"),
        "pid_t who = pid()", "void *http = AT(context, 0x10)", "struct in6_addr client = CLIENT(conn)",
        places=("A",),
    ),
    element(
        calling("vfs_read", "struct file *file", "char *buf", "size_t count", "loff_t *pos"),
        "return ssize_t n", "S_ISREG(file->f_inode->i_mode)", "pid() == who",
        after="{ if (n > 0) add(bytes, client, n); }", places=("K",), star=True,
    ),
    element(exactly("ClientHttpRequest::logRequest()", "void *http"), places=("A",)),
    unique=("who",),
)  # fmt: skip

RACE = sequence(
    element(
        calling("libc:stat", "const char *p", "struct stat *st"),
        "return int r", "r == 0", "pid_t tid = tid()", "char path[256] = p", "unsigned long dev = st->st_dev",
        "ino_t ino = st->st_ino",
        places=("A",),
    ),
    either(
        *(
            (
                calling("vfs_rename", "struct renamedata *rd"),
                f"ino_t gone = INO(rd->{which})", f"unsigned on = DEV(rd->{which})",
            )
            for which in ("new_dentry", "old_dentry")
        ),
        (
            calling("vfs_unlink", "struct user_namespace *ns", "struct inode *dir", "struct dentry *d",
                "struct inode **del"),
            "ino_t gone = INO(d)", "unsigned on = DEV(d)",
        ),
        common=("gone == ino && on == dev && tid() != tid",),
        before="{ by = pid(); }", places=("K",), star=True,
    ),
    element(
        calling("libc:open", "const char *q", "int flags"), "char path[256] = q", "pid_t tid = tid()",
        inplace="""{
        struct stat now; int fd = proceed();
        if (fd >= 0 && (fstat(fd, &now) || now.st_ino != ino || now.st_dev != dev)) {
            close(fd); report("race on %s, by %d", path, by); deny(EACCES); }
        if (by) report("%s is the same file, and %d was at it", path, by);
        return fd; }""",
        places=("A",),
    ),
    unique=("tid", "path"), words=(Word(BoundName("by", "pid_t")),), within=10_000_000_000,
)  # fmt: skip

CHUNKED = sequence(
    element(
        calling("ngx_http_parse_chunked", "void *r", "void *b", "chunked *ctx"),
        inplace="""{
        long rc = proceed(r, b, ctx);
        if (ctx->size < 0 || ctx->length < 0) { report("chunk of %ld bytes refused", ctx->size); return -1; }
        return rc; }""",
        places=("A",),
    )
)

FINALIZED = sequence(
    element(calling("libsqlite3:sqlite3_finalize", "void *s"), "s", places=("A",)),
    either(
        (calling("libsqlite3:sqlite3_step", "void *s"),), (calling("libsqlite3:sqlite3_reset", "void *s"),),
        inplace='{ report("%p used", s); return 21; }', places=("A",), star=True,
    ),
    element(
        calling("libsqlite3:sqlite3_prepare_v2", "void *db", "char *sql", "int n", "void **out", "char **tail"),
        "return int r", "void *s = *out",
        places=("A",),
    ),
    unique=("s",),
)  # fmt: skip

STATUS = sequence(
    element(
        ControlFlow(
            False, (calling("source_file", "const char *name", "int flags"),),
            GlobalAccess(True, "last_command_exit_value", ctype="int"),
        ),
        "value int v", "old int o", "v && !o",
        after='{ report("%s: status %d", name, v); }', places=("A",),
    )
)  # fmt: skip

_STORE = element(
    AliasAccess(True, "end", "gap", "char"), "size unsigned long w", "offset long o",
    inplace='{ report("%ld at %ld of %ld", w, (long)n + o, n); }', places=("A",), star=True,
)  # fmt: skip
OVERFLOW = sequence(
    element(
        calling("libc:malloc", "size_t n"), "return void *b", "b", "char *end = (char *)b + n",
        "long gap = (long)(malloc_usable_size(b) - n) + 8",
        places=("A",),
    ),
    replace(_STORE, alternatives=(replace(_STORE.alternatives[0], within=("a.out", "libc:mem*", "libc:str*")),)),
    element(calling("libc:free", "void *b"), places=("A",)),
    instances=100_000, bounded=True, sharing=Sharing.PROCESS,
    until=(element(calling("libc:realloc", "void *b", "size_t m"), places=("A",)),),
)  # fmt: skip

FIX = sequence(
    element(
        calling("planted_ioctl", "struct file *f", "unsigned cmd", "unsigned long arg"), "!f->private_data",
        inplace="{ return -ENODEV; }", places=("K",),
    )
)  # fmt: skip

#: The paper's own accounting, which ends at the first read, and charges all open instances of a process.
PAPER = sequence(
    element(
        calling("clientProcessRequest", "struct clientHttpRequest *http"),
        "long pid = GET_PID", "long IP_CLIENT = http->request->client_addr", places=("A",),
    ),
    element(
        calling("vfs_read", "struct file *file", "char *buf", "size_t count", "loff_t *pos"),
        "!isSocket(file) && !isPipe(file)", "pid == current->pid",
        before="addClientReadDiskAccess(current->pid, IP_CLIENT, count)", places=("K",),
    ),
)  # fmt: skip

NULL_ARGUMENT = sequence(element(calling("foo", "int *a"), "a == 0", before='{printf("null argument\\n"); exit(0);}'))

WORKED: dict[str, Automaton] = {
    "accounting": ACCOUNTING, "race": RACE, "chunked": CHUNKED, "finalized": FINALIZED, "status": STATUS,
    "overflow": OVERFLOW, "fix": FIX,
}  # fmt: skip
