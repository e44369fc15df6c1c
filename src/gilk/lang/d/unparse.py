# SPDX-License-Identifier: LGPL-2.1-or-later
"""From a tree back to D text, for messages and tests. Brackets surround all operands that operators join.

Chains that nest nothing get no brackets, as in ``a + b + c`` and ``a ? b : c ? d : e``; with brackets they could be too
deep for the parser.
"""

from __future__ import annotations

from collections.abc import Sequence

from gilk.lang.d import ast, items
from gilk.lang.d.literals import quoted


def program(tree: items.ProgramSyntax) -> str:
    return "\n".join(item(one) for one in tree.items) + "\n"


def item(node: items.Item) -> str:
    match node:
        case items.Clause():
            return _clause(node)
        case items.Declaration(storage=storage, base=base, declarators=found):
            names = ", ".join(declarator(one) for one in found)
            return f"{storage} {base_type(base)} {names};".strip()
        case items.Inline(base=base, declarator=one, value=value):
            return f"inline {base_type(base)} {declarator(one)} = {_operand(value)};"
        case items.Translator():
            members = " ".join(f"{one.name} = {_operand(one.value)};" for one in node.members)
            given = f"{base_type(node.input.base)} {_declared(node.name, node.input.declarator.shape)}"
            return f"translator {type_name(node.output)} < {given} > {{ {members} }};"
        case items.Pragma(kind=kind, words=words):
            return _pragma(kind, words)
        case items.ProviderDefinition(name=name, probes=probes):
            return f"provider {name} {{ {' '.join(_probe(one) for one in probes)} }};"
        case items.Unreadable():
            return ""


def _clause(node: items.Clause) -> str:
    probes = ",\n".join(one.text for one in node.probes)
    # The blanks keep a slash and a star from making a comment.
    predicate = f"\n/ {expression(node.predicate)} /" if node.predicate else ""
    return probes + predicate + (f"\n{statement(node.body)}" if node.body else "")


def _pragma(kind: str, words: Sequence[str]) -> str:
    if kind == "option":
        return f"#pragma D option {'='.join(words)}"
    first = quoted(words[0]) if kind == "binding" else words[0]
    return f"#pragma D {kind} {' '.join([first, *words[1:]])}"


def _probe(node: items.ProbeDefinition) -> str:
    translated = f" : {_shape(node.translated)}" if node.translated else ""
    return f"probe {node.name}{_shape(node.parameters)}{translated};"


def statement(node: items.Statement) -> str:
    match node:
        case items.StatementBlock(statements=found):
            return "{ " + "".join(f"{statement(one)} " for one in found) + "}"
        case items.ExpressionStatement(value=value):
            return f"{expression(value)};"
        case items.If(test=test, then=then, otherwise=None):
            return f"if ({expression(test)}) {statement(then)}"
        case items.If(test=test, then=then, otherwise=items.StatementBlock(statements=(items.If() as chained,))):
            return f"if ({expression(test)}) {statement(then)} else {statement(chained)}"
        case items.If(test=test, then=then, otherwise=otherwise):
            return f"if ({expression(test)}) {statement(then)} else {statement(otherwise or then)}"


def expression(node: ast.Expr) -> str:
    match node:
        case ast.Binary(op=op, left=left, right=right):
            chained = isinstance(left, ast.Binary) and left.op == op
            return f"{expression(left) if chained else _operand(left)} {op} {_operand(right)}"
        case ast.Comma(left=left, right=right):
            return f"{expression(left) if isinstance(left, ast.Comma) else _operand(left)}, {_operand(right)}"
        case ast.Conditional(test=test, yes=yes, no=no):
            chained = isinstance(no, ast.Conditional)
            return f"{_operand(test)} ? {_operand(yes)} : {expression(no) if chained else _operand(no)}"
        case ast.Assign(op=op, target=target, value=value):
            chained = isinstance(value, ast.Assign)
            return f"{_operand(target)} {op} {expression(value) if chained else _operand(value)}"
        case ast.Unary(op=op, operand=operand):
            return f"{op} {_prefixed(operand)}"
        case ast.Stringof(operand=operand):
            return f"stringof {_prefixed(operand)}"
        case ast.Sizeof(operand=operand):
            # A type in brackets after sizeof would be measured instead of the operand.
            return f"sizeof {_operand(operand) if isinstance(operand, ast.Cast) else _prefixed(operand)}"
        case ast.Cast(type=type_, operand=operand):
            return f"({type_name(type_)}) {_prefixed(operand)}"
    return _postfix(node)


def _postfix(node: ast.Expr) -> str:
    match node:
        case ast.Postfix(op=op, operand=operand):
            return f"{_operand(operand)}{op}"
        case ast.Index(base=base, keys=keys):
            return f"{_operand(base)}[{_list(keys)}]"
        case ast.Member(base=base, name=name, arrow=arrow):
            return f"{_operand(base)}{'->' if arrow else '.'}{name}"
        case ast.Call(name=name, arguments=arguments):
            return f"{name}({_list(arguments)})"
        case ast.Aggregate(name=name, keys=keys):
            return f"@{name}" if keys is None else f"@{name}[{_list(keys)}]"
        case ast.SizeofType(type=type_):
            return f"sizeof ({type_name(type_)})"
        case ast.Offsetof(type=type_, member=member):
            return f"offsetof({type_name(type_)}, {member})"
        case ast.Xlate(type=type_, operand=operand):
            return f"xlate <{type_name(type_)}> ({expression(operand)})"
    return _leaf(node)


def _leaf(node: ast.Expr) -> str:
    match node:
        case ast.Number():
            return _number(node)
        case ast.Text(value=value):
            return quoted(value)
        case ast.Name(name=name):
            return name
        case ast.Variable(scope=scope, name=name):
            return f"{scope}->{name}"
        case ast.Symbol(module=module, name=name):
            return f"{module}`{name}"
    raise AssertionError(node)


def _number(node: ast.Number) -> str:
    if node.suffix != "char":
        return (str(node.value) if node.decimal else hex(node.value)) + node.suffix
    data = node.value.to_bytes(8, "big").lstrip(b"\0") or b"\0"
    return "'" + "".join(f"\\{byte:03o}" for byte in data) + "'"


_JOINED = (ast.Binary, ast.Comma, ast.Conditional, ast.Assign, ast.Unary, ast.Cast, ast.Sizeof, ast.Stringof)


def _operand(node: ast.Expr) -> str:
    return f"({expression(node)})" if isinstance(node, _JOINED) else expression(node)


def _prefixed(node: ast.Expr) -> str:
    """The operand of a prefix; another prefix needs no brackets."""
    prefixes = (ast.Unary, ast.Cast, ast.Sizeof, ast.Stringof)
    return expression(node) if isinstance(node, prefixes) else _operand(node)


def _list(found: Sequence[ast.Expr]) -> str:
    return ", ".join(_operand(one) for one in found)


def type_name(node: ast.TypeName) -> str:
    return f"{base_type(node.base)} {declarator(node.declarator)}".strip()


def base_type(node: ast.BaseType) -> str:
    if isinstance(node, ast.BasicType):
        return " ".join(node.words)
    head = f"{node.kind} {node.tag}" if node.tag else node.kind
    if node.members is not None:
        return f"{head} {{ {''.join(_member(one) for one in node.members)}}}"
    if node.enumerators is not None:
        return f"{head} {{ {', '.join(_enumerator(one) for one in node.enumerators)} }}"
    return head


def _member(node: ast.MemberDeclaration) -> str:
    bits = f" : {_operand(node.bits)}" if node.bits else ""
    return f"{base_type(node.base)} {declarator(node.declarator)}{bits}; "


def _enumerator(node: ast.Enumerator) -> str:
    return f"{node.name} = {_operand(node.value)}" if node.value else node.name


def declarator(node: ast.Declarator) -> str:
    return _declared(node.name or "", node.shape)


def _declared(text: str, shape: Sequence[ast.Shape]) -> str:
    """A declaration of ``text``, built from the name outwards: a pointer goes before it, in brackets if an array or a
    function follows.
    """
    for one, after in zip(shape, (*shape, None)[1:], strict=True):
        text += "" if isinstance(one, ast.Pointer) else _shape(one)
        if isinstance(one, ast.Pointer):
            text = f"*{text}" if after is None or isinstance(after, ast.Pointer) else f"(*{text})"
    return text


def _shape(node: ast.Shape) -> str:
    match node:
        case ast.ArrayOf(size=size):
            return f"[{_operand(size) if size else ''}]"
        case ast.KeyedBy(types=types):
            return f"[{', '.join(type_name(one) for one in types)}]"
        case ast.FunctionOf(parameters=parameters, variadic=variadic):
            return f"({', '.join([*(type_name(one) for one in parameters), *(['...'] if variadic else [])])})"
    return "*"
