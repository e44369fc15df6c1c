# SPDX-License-Identifier: LGPL-2.1-or-later
"""The operations that a Call or an Act of lang/ir.py can name, with the functions of the runtime for each: one row for
each.

A row has a name, then functions of lang/runtime.py, and in capitals the flags of class Does for what the operation's
own code does. A ``!`` after the name says that the operation changes something that other code can see, so the moment
of its evaluation matters. The tests fail when a printer lacks an operation.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from gilk.lang.runtime import FUNCTIONS, Does
from gilk.lang.variables import BUILT_INS, BuiltIn
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a Call or an Act. ``functions``: the functions of the runtime that its code may call. ``does``:
    the effects of the operation, including those of ``functions``. ``changes``: other code can see its effect.
    """

    name: str
    functions: tuple[str, ...]
    does: Does
    changes: bool


_STRINGS = """
    is_set          gd_is_set
    strlen          gd_strlen
    character       gd_character
    after           gd_after
    placed          gd_alloca gd_put_string
    strjoin         gd_alloca gd_strjoin
    substr          gd_alloca gd_substr
    basename        gd_alloca gd_basename
    dirname         gd_alloca gd_dirname
    cleanpath       gd_alloca gd_cleanpath
    lltostr         gd_alloca gd_lltostr
    tolower         gd_alloca gd_tolower
    toupper         gd_alloca gd_toupper
    strtok!         gd_alloca gd_strtok gd_strtok_kept gd_fail
    strchr          gd_strchr gd_fail
    strrchr         gd_strrchr gd_fail
    strstr          gd_strstr gd_fail
    index           gd_index
    rindex          gd_rindex
    strtoll         gd_strtoll
    inet_ntoa       gd_alloca gd_load gd_inet_ntoa
    inet_ntoa6      gd_alloca gd_load gd_inet_ntoa6 gd_inet_ntoa6_short
    inet_ntop       gd_alloca gd_inet_ntop
    link_ntop       gd_alloca gd_link_ntop
"""
_OTHERS = """
    rand!           gd_rand
    speculation!    gd_speculation
    alloca          gd_asked
    copyin          gd_asked gd_load
    copyinstr       gd_alloca gd_copyin_string
    copyinto!       gd_copy
    bcopy!          gd_copy
    bcopy_string!   gd_copy_string
    fdpath          gd_alloca gd_fdpath
    fdoffset        gd_fdoffset
    fdflags         gd_fdflags
    fdmount         gd_fdmount
    threadname      gd_alloca gd_threadname
    threadnice      gd_threadnice
    threadpriority  gd_threadpriority
    d_path
    pathof
    argumentsof
    progenyof
    by_processor
    getmajor
    getminor
    htons
    htonl
    htonll
    ntohs
    ntohl
    ntohll
"""
#: Operations whose values can only be recorded or be keys.
_RECORDED = """
    ustack          gd_put_ustack gd_take_ustack
    usym            gd_put_symbol
    ufunc           gd_put_symbol
    umod            gd_put_symbol
    uaddr           gd_put_symbol
    sym             gd_put_symbol
    func            gd_put_symbol
    mod             gd_put_symbol
    stack
    packet
"""
#: Operations without a value.
_ACTS = """
    speculate!      gd_speculate
    commit!         gd_commit_speculation
    discard!        gd_discard_speculation
    stop!           gd_ask_signal gd_send_signals DESTROYS
    raise!          gd_ask_signal gd_send_signals DESTROYS
    copyout!        gd_store DESTROYS
    copyoutstr!     gd_store_string DESTROYS
    chill!          gd_chill DESTROYS
"""


def _operation(row: str) -> Operation:
    name, *rest = row.split()
    functions = tuple(word for word in rest if not word.isupper())
    own = (Does[word] for word in rest if word.isupper())
    does = reduce(or_, (*own, *(FUNCTIONS[function].does for function in functions)), Does.NOTHING)
    return Operation(name.rstrip("!"), functions, does, name.endswith("!"))


def _operations(*tables: str) -> dict[str, Operation]:
    rows = (_operation(row) for table in tables for row in table.strip().splitlines())
    return {each.name: each for each in rows}


def _of_built_in(row: BuiltIn) -> Operation:
    return _operation(" ".join((row.name, *row.functions, *row.does)))


#: Operations that have a value. The variables of lang/variables.py are operations without arguments.
VALUES = {name: _of_built_in(row) for name, row in BUILT_INS.items()} | _operations(_STRINGS, _OTHERS, _RECORDED)
ACTS = _operations(_ACTS)
OPERATIONS = {**VALUES, **ACTS}
