# SPDX-License-Identifier: LGPL-2.1-or-later
"""Confinement of the C in conditions, binds and advice for the kernel, so that it does no harm whatever its values are.

The C is read as trees (fragments.py) and written anew: memory is read by checked loads, and a division checks its
divisor. Only these, arithmetic, words of instances, own variables and some functions are allowed; everything else is
refused with its name. There are no loops, so the code ends. native/include/kernel/gilk_woven.h has the functions that
it calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from types import MappingProxyType

from gilk.lang.aspect.fragments import (
    Branching,
    Declaring,
    Doing,
    Fragment,
    LocalNames,
    Returning,
    Several,
    block,
    expression,
)
from gilk.lang.aspect.kernel.foreign import Foreign, ForeignNames
from gilk.lang.aspect.kernel_accessors import accessed
from gilk.lang.d import ast
from gilk.lang.d.unparse import type_name
from gilk.lang.types import Integer

#: Functions without effects, with their number of arguments, and below macros and inline functions of the kernel's
#: headers that only compute.
_PURE = {"pid": 0, "tid": 0, "now": 0}
_MACROS = frozenset(
    ["S_ISREG", "S_ISDIR", "S_ISLNK", "S_ISCHR", "S_ISBLK", "S_ISFIFO", "S_ISSOCK", "MAJOR", "MINOR", "MKDEV",
     "new_encode_dev", "IS_ERR", "IS_ERR_OR_NULL", "PTR_ERR", "ERR_PTR", "ntohs", "ntohl", "htons", "htonl"]
)  # fmt: skip
_TEXTS = {"strcmp": 2, "strncmp": 3, "strlen": 1}
_SWITCHES = frozenset(["aspect_on", "aspect_off"])
_NEVER = {
    "proceed": "the kernel has no `proceed`",
    "deny": "functions of the kernel have no errno: advice in place returns -EACCES, say",
    "join": "the kernel does not change groups", "leave": "the kernel does not change groups",
}  # fmt: skip
_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)(?:\.(\d*))?(hh|h|ll|l|z|j|t)?(.?)", re.DOTALL)
#: Names that are known besides those that the file binds. Names in capital letters are constants of the kernel.
_KNOWN = frozenset(["current", "jp", "true", "false"])
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
#: Names that the C around fragments consists of: a file must not define any of them.
_OURS = re.compile(r"(gilk|ilk|host)_\w*|__\w*|[us](8|16|32|64)|add|report|aspect_on|aspect_off", re.IGNORECASE)
_MACRO = "gilk_macro_"  # prefix of the names that the file defines
_DEPTH = 12  # of members in members; some of these double the text
_MOST_TEXTS = 4  # in a report
_NO_MACROS: Mapping[str, int | None] = MappingProxyType({})
_NOTHING_FOREIGN = Foreign()


class Confined(Exception):
    """The fragment has something that must not run in the kernel."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def check_name(name: str) -> None:
    """Raises Confined if the C around fragments uses the name itself."""
    if _OURS.fullmatch(name):
        raise Confined(f"{name} is a name of gilk's own")


def macro_name(name: str) -> str:
    """The name in C of a macro that the file defines; it differs from every name that the surrounding C uses."""
    return f"{_MACRO}{name}"


class ConfinedC:
    """The confinement of one fragment. ``names``: the names that have a value where it stands. ``writable``: words of
    the instance among them. ``macros``: the macros of the file for the kernel, with their number of parameters, None
    for one without brackets. ``foreign``: the names that processes may have written.
    """

    def __init__(
        self, names: Iterable[str], writable: Iterable[str] = (), macros: Mapping[str, int | None] = _NO_MACROS,
        foreign: Foreign = _NOTHING_FOREIGN,
    ) -> None:  # fmt: skip
        self._names, self._writable, self._macros = frozenset(names), set(writable), macros
        self._own: set[str] = set()
        self._depth = 0
        self._returns = False
        self.foreign = ForeignNames(foreign)

    def bound(self, name: str, text: str | None) -> None:
        """Note that from now on the name has the value of an expression; None: a value that the event itself gives."""
        self.foreign.given(name, None if text is None else expression(text))

    def _check_leads(self, node: ast.Expr) -> None:
        """Raises Confined if memory would be read at an address that a process may have chosen."""
        if names := self.foreign.lead(node):
            raise Confined(f"where {', '.join(names)} leads is not read: a process may have written that")

    def value(self, text: str) -> str:
        """The confined C of an expression. Raises Confined."""
        return self._of(self._tree(text))

    def text(self, text: str) -> str:
        """The confined C of an expression that gives the beginning of characters: an array of them, or a pointer.
        Raises Confined.
        """
        return self._characters(self._tree(text))

    def _characters(self, node: ast.Expr) -> str:
        self._check_leads(node)
        return self._start(node)

    @staticmethod
    def _tree(text: str) -> ast.Expr:
        tree = expression(text)
        if tree is None:
            raise Confined(f"`{_short(text)}` is no expression of numbers, members, pointers and operators alone")
        return tree

    def advice(self, text: str, returns: bool = False) -> str:
        """The confined C of a block, or of one call. ``returns``: it may return a value, in place of the function.
        Raises Confined.
        """
        tree = block(text)
        if tree is None:
            raise Confined(f"`{_short(text)}` has more than expressions, own variables, if and return")
        self._own, self._returns = set(), returns
        return self._statement(tree)

    # Statements.

    def _statement(self, node: Fragment) -> str:
        match node:
            case Doing(value=value):
                return f"{self._effect(value)};"
            case LocalNames(names=names):
                return " ".join(self._declared(one) for one in names)
            case Returning(value=None):
                return "return;"
            case Returning(value=value) if value is not None and self._returns:
                return f"return {self._of(value)};"
            case Returning():
                raise Confined("advice before or after a call returns nothing")
            case Branching(test=test, then=then, otherwise=otherwise):
                other = f" else {{ {self._statement(otherwise)} }}" if otherwise is not None else ""
                return f"if ({self._of(test)}) {{ {self._statement(then)} }}{other}"
            case Several(statements=statements):
                before, foreign = set(self._own), set(self.foreign.names)
                inside = " ".join(map(self._statement, statements))
                self._own = before
                self.foreign.names |= foreign
                return f"{{ {inside} }}"

    def _declared(self, one: Declaring) -> str:
        check_name(one.name)
        value = None if one.value is None else self._of(one.value)
        self._own.add(one.name)
        self.foreign.declared(one.name, one.value)
        if isinstance(one.type, Integer):
            return f"{'s' if one.type.signed else 'u'}{8 * one.type.size} {one.name} = {value or 0};"
        if value is None:
            raise Confined(f"{one.name} has no value at first")
        return f"__auto_type {one.name} = {value};"

    def _effect(self, node: ast.Expr) -> str:
        match node:
            case ast.Call(name="report", arguments=given):
                return self._report(given)
            case ast.Call(name="add", arguments=given) if len(given) > 1 and isinstance(given[0], ast.Name):
                *keys, amount = given[1:]
                texts = (*self.foreign.foreign.text_keys.get(given[0].name, ()), *(False for _ in keys))
                parts = [given[0].name, *map(self._key, keys, texts), self._of(amount)]
                return f"add({', '.join(parts)})"
            case ast.Call(name=name, arguments=(ast.Name(name=aspect),)) if name in _SWITCHES:
                return f"{name}({aspect})"
            case ast.Assign() | ast.Postfix() | ast.Unary(op="++" | "--"):
                return self._stored(node)
            case ast.Comma(left=left, right=right):
                return f"{self._effect(left)}, {self._effect(right)}"
        return f"(void)({self._of(node)})"

    def _stored(self, node: ast.Assign | ast.Postfix | ast.Unary) -> str:
        target = node.target if isinstance(node, ast.Assign) else node.operand
        if not isinstance(target, ast.Name) or target.name not in self._writable | self._own:
            raise Confined("advice in the kernel writes words of its instance and its own variables alone")
        if not isinstance(node, ast.Assign):
            return f"{target.name}{node.op}"
        if self.foreign.are_in(node.value):
            self.foreign.given(target.name, node.value)
        if node.op in ("/=", "%="):
            return f"{target.name} = {self._divided(node.op[0], target.name, self._of(node.value))}"
        return f"{target.name} {node.op} {self._of(node.value)}"

    def _key(self, node: ast.Expr, text: bool) -> str:
        """The C of a part of a table's key, which may be a ``text``. A name is written as it is, since it may be that
        of a struct.
        """
        if text:
            self._check_leads(node)
        return self._named(node.name) if isinstance(node, ast.Name) else self._start(node)

    def _report(self, given: Sequence[ast.Expr]) -> str:
        if not given or not isinstance(given[0], ast.Text):
            raise Confined("the format of a report in the kernel is a text in quotes")
        values = list(given[1:])
        texts = 0
        format_, parts = list[str](), list[str]()
        last, said = 0, given[0].value
        for found in _CONVERSION.finditer(said):
            format_.append(said[last : found.start()])
            last = found.end()
            if found[5] == "%":
                format_.append("%%")
                continue
            if not values:
                raise Confined("a report has fewer values than its format")
            texts += found[5] == "s"
            written, part = self._conversion(found, values.pop(0), texts - 1)
            format_.append(written)
            parts.append(part)
        if values or texts > _MOST_TEXTS:
            raise Confined(f"a report has more values than its format, or more than {_MOST_TEXTS} texts")
        return f"report({', '.join((_quoted(''.join((*format_, said[last:]))), *parts))})"

    def _conversion(self, found: re.Match[str], value: ast.Expr, number: int) -> tuple[str, str]:
        flags, width, precision, letter = found[1], found[2], found[3], found[5]
        shape = f"%{flags}{width[:3]}{'' if precision is None else f'.{precision[:3]}'}"
        if letter == "s":
            return f"{shape}s", f"gilk_text({number}, {self._characters(value)})"
        if letter == "p":
            return "%#lx", f"(unsigned long)({self._of(value)})"
        if letter == "c":
            return f"%{flags}{width[:3]}c", f"(int)({self._of(value)})"
        if letter in "di":
            return f"{shape}{'l' if found[4] in _LONG else ''}d", f"({_C_OF[found[4] in _LONG]})({self._of(value)})"
        if letter in "ouxX" and letter:
            long = found[4] in _LONG
            return f"{shape}{'l' if long else ''}{letter}", f"(unsigned {_C_OF[long]})({self._of(value)})"
        raise Confined(f"a report in the kernel has no conversion %{letter}")

    # Expressions.

    def _of(self, node: ast.Expr) -> str:
        with self._deeper():
            return self._written(node)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > 8 * _DEPTH:
            raise Confined("an expression is too deep")
        try:
            yield
        finally:
            self._depth -= 1

    def _written(self, node: ast.Expr) -> str:
        match node:
            case ast.Name(name=name):
                return self._named(name)
            case ast.Number() | ast.Text() | ast.SizeofType() | ast.Offsetof():
                return _leaf(node)
            case ast.Binary(op="/" | "%" as op, left=left, right=right):
                return self._divided(op, self._of(left), self._of(right))
            case ast.Binary(op=op, left=left, right=right) if op != "^^":
                return f"({self._of(left)} {op} {self._of(right)})"
            case ast.Conditional(test=test, yes=yes, no=no):
                return f"({self._of(test)} ? {self._of(yes)} : {self._of(no)})"
            case ast.Cast(type=type_, operand=operand):
                return f"(({_type(type_)})({self._of(operand)}))"
            case ast.Sizeof(operand=operand):
                return f"sizeof({self._place(operand)})" if _is_place(operand) else f"sizeof({self._of(operand)})"
            case ast.Unary(op="+" | "-" | "~" | "!" as op, operand=operand):
                return f"({op}({self._of(operand)}))"
            case ast.Unary(op="&", operand=operand) if _is_place(operand):
                return f"(&({self._place(operand)}))"
            case ast.Call():
                return self._called(node)
        if _is_direct(node):
            return self._place(node)
        if _is_place(node):
            return f"gilk_fetch({self._place(node)})"
        raise Confined(f"`{_kind(node)}` may not stand in a condition or value in the kernel")

    def _named(self, name: str) -> str:
        """The name itself. Variables of the kernel are refused, since their address may not be in memory, as that of
        per-CPU variables. Raises Confined.
        """
        bare = name in self._macros and self._macros[name] is None
        if not (name in self._names | self._own | _KNOWN or bare or _CONSTANT.fullmatch(name)):
            raise Confined(f"nothing here is called {name}: variables of the kernel are not read")
        return macro_name(name) if bare and name not in self._names | self._own else name

    @staticmethod
    def _divided(op: str, left: str, right: str) -> str:
        return f"{'gilk_divide' if op == '/' else 'gilk_remainder'}({left}, {right})"

    def _place(self, node: ast.Expr) -> str:
        """The C of an lvalue: its address is computed, and memory on the way is loaded. Raises Confined."""
        if _is_place(node) and not _is_direct(node):
            self._check_leads(node)
        match node:
            case ast.Name(name=name):
                return self._named(name)
            case ast.Member(base=base, name=name, arrow=True):
                return f"({self._of(base)})->{name}"
            case ast.Member(base=base, name=name):
                if not _is_place(base) and not isinstance(base, ast.Name):
                    raise Confined(f".{name} is of what has no address")
                return f"({self._place(base)}).{name}"
            case ast.Index(base=base, keys=(key,)):
                return f"({self._start(base)})[{self._of(key)}]"
            case ast.Unary(op="*", operand=operand):
                return f"(*({self._start(operand)}))"
        raise Confined(f"`{_kind(node)}` has no address")

    def _start(self, node: ast.Expr) -> str:
        """The C of a pointer: to a copy of an array's beginning, or the value of a pointer."""
        if _is_place(node) and not _is_direct(node):
            with self._deeper():
                return f"gilk_start({self._place(node)})"
        return self._of(node)

    def _called(self, node: ast.Call) -> str:
        name, given = node.name, node.arguments
        if name in _PURE and len(given) == _PURE[name]:
            return f"{name}()"  # a macro of gilk's, also where a value has that name: bind(pid_t tid, tid())
        if name in self._names | self._own:
            raise Confined(f"{name} is a value, and is not called")
        if name in _NEVER:
            raise Confined(_NEVER[name])
        if name in _TEXTS and len(given) == _TEXTS[name]:
            parts = [self._characters(one) if n < 2 else self._of(one) for n, one in enumerate(given)]
            return f"gilk_{name}({', '.join(parts)})"
        own = name in self._macros
        if not own and (value := accessed(node)) is not None:
            return f"({self._of(value)})"
        if name in _MACROS or (own and self._macros[name] == len(given)):
            for one in given if name in self.foreign.foreign.loading else ():
                self._check_leads(one)
            return f"{macro_name(name) if own else name}({', '.join(map(self._of, given))})"
        raise Confined(f"{name}() is called: in the kernel, conditions and advice call functions of their own alone")


_LONG = frozenset(["l", "ll", "z", "j", "t"])
_C_OF = {False: "int", True: "long"}


def _is_place(node: ast.Expr) -> bool:
    """Whether the expression is in memory."""
    return isinstance(node, ast.Member | ast.Index) or (isinstance(node, ast.Unary) and node.op == "*")


def _is_direct(node: ast.Expr) -> bool:
    """Whether the expression is a name, or a member of one, so that it is part of the match itself."""
    while isinstance(node, ast.Member) and not node.arrow:
        node = node.base
    return isinstance(node, ast.Name)


def _leaf(node: ast.Expr) -> str:
    match node:
        case ast.Number(value=value, suffix="char"):
            return str(value)
        case ast.Number(value=value, suffix=suffix, decimal=decimal):
            return (str(value) if decimal else hex(value)) + suffix
        case ast.Text(value=value):
            return _quoted(value)
        case ast.SizeofType(type=type_):
            return f"sizeof({_type(type_)})"
        case ast.Offsetof(type=type_, member=member):
            return f"offsetof({_type(type_)}, {member})"
    raise AssertionError(node)


def _type(node: ast.TypeName) -> str:
    """The text of a type that computes nothing: the length of an array could be an expression that C evaluates. Raises
    Confined."""
    _check_lengths(node)
    return type_name(node)


def _check_lengths(node: object) -> None:
    """Raises Confined if the length of an array is not a constant."""
    if isinstance(node, ast.TagType) and (node.members is not None or node.enumerators is not None):
        raise Confined("a struct, union or enumeration is declared in a type")
    if isinstance(node, ast.ArrayOf) and node.size is not None and not _is_constant(node.size):
        raise Confined("the length of an array is no number")
    for each in fields(node) if isinstance(node, ast.Node) else ():
        value = getattr(node, each.name)
        for one in value if isinstance(value, tuple) else (value,):
            _check_lengths(one)


def _is_constant(node: ast.Expr) -> bool:
    match node:
        case ast.Number():
            return True
        case ast.SizeofType(type=type_):
            _check_lengths(type_)
            return True
        case ast.Binary(left=left, right=right):
            return _is_constant(left) and _is_constant(right)
    return False


def _quoted(text: str) -> str:
    """The text as a C literal, with escapes of three octal digits, so that no digit after them belongs to them."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in data) + '"'


def _kind(node: ast.Expr) -> str:
    return str(getattr(node, "op", "")) or type(node).__name__.lower()


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) < 60 else plain[:57] + "..."
