#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Make manual pages of docs/cli: `tools/manual.py DIRECTORY` writes gilk.1, gilk-COMMAND.1 and gilk-grammar.7 there.

It knows the Markdown that those pages use: headings, paragraphs, lists, tables, code, links, and marked words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from gilk.cli.main import COMMANDS
from gilk.version import VERSION

DOCS = Path(__file__).parents[1] / "docs/cli"
_GRAMMAR = "points, images, times and events, as all commands of gilk take them"
_INLINE = re.compile(r"``(?P<quoted>.+?)``|`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|\*(?P<weak>[^*\s][^*]*)\*")
_LINK = re.compile(r"\[((?:[^\[\]`]|`[^`]*`|\[[^\]]*\])+)\]\(([^)\s]+)\)")
_CELL = re.compile(r"(?<!\\)\|")
Block = list[str]


def pages() -> dict[str, str]:
    """The text of each manual page, by the name of its file."""
    found = {"gilk.1": _overview()}
    for path in sorted(DOCS.glob("*.md")):
        name, section = path.stem, "7" if path.stem == "grammar" else "1"
        brief = _GRAMMAR if name == "grammar" else _brief(COMMANDS[name])
        found[f"gilk-{name}.{section}"] = page(name, section, brief, path.read_text())
    return found


def page(name: str, section: str, brief: str, text: str) -> str:
    """The manual page that the Markdown ``text`` becomes."""
    body, titled = list[str](), False
    for block in _blocks(text.splitlines()):
        if block[0].startswith("    ") and not titled:
            body += [".SH SYNOPSIS", *_code(block)]
            titled = True
        else:
            body += _formatted(block)
    return "\n".join([*_head(name, section, brief), *_described(body), *_see(name, text)]) + "\n"


def _overview() -> str:
    lines = [*_head("", "1", "put code of your choice anywhere in a running program, and take it out again")]
    lines += [".SH SYNOPSIS", ".B gilk", r"\fICOMMAND\fP ...", ".SH COMMANDS"]
    for name, brief in COMMANDS.items():
        lines += [".TP", rf"\fB{_plain(f'gilk-{name}')}\fP(1)", _line(_inline(brief))]
    return "\n".join([*lines, ".SH SEE ALSO", r"\fBgilk\-grammar\fP(7)"]) + "\n"


def _brief(text: str) -> str:
    return text[0].lower() + text[1:].rstrip(".")


def _head(name: str, section: str, brief: str) -> list[str]:
    full = f"gilk-{name}" if name else "gilk"
    title = f'.TH "{full.upper()}" "{section}" "" "gilk {VERSION}" "gilk"'
    return [title, ".SH NAME", rf"{_plain(full)} \- {_inline(brief)}"]


def _described(body: list[str]) -> list[str]:
    """The lines of the page with the synopsis first, and the heading DESCRIPTION above the first text after it."""
    if ".SH SYNOPSIS" not in body:
        return [".SH DESCRIPTION", *body]
    start = body.index(".SH SYNOPSIS")
    end = body.index(".fi", start) + 1
    return [*body[start:end], ".SH DESCRIPTION", *body[:start], *body[end:]]


def _see(name: str, text: str) -> list[str]:
    found = {Path(target.partition("#")[0]).stem for _, target in _LINK.findall(text) if _is_page(target)}
    others = [r"\fBgilk\fP(1)", *(_reference(each) for each in sorted(found - {name}))]
    return [".SH SEE ALSO", ", ".join(others)]


def _is_page(target: str) -> bool:
    file = target.partition("#")[0]
    return file.endswith(".md") and "/" not in file


def _reference(name: str) -> str:
    return rf"\fB{_plain(f'gilk-{name}')}\fP({7 if name == 'grammar' else 1})"


def _blocks(lines: list[str]) -> Iterator[Block]:
    """The paragraphs, lists, tables and code blocks of the text, each with its lines."""
    block = Block()
    fenced = False
    for line in [*lines, ""]:
        ends = line.startswith("```") if fenced else not line
        heading = not fenced and line.startswith("#")
        begins = not fenced and (
            heading or line.startswith("```") or _kind(line) != _kind(block[-1] if block else line)
        )
        if begins and block:
            yield block
            block = []
        fenced = not ends if fenced else line.startswith("```")
        if line or fenced:
            block.append(line)
        if block and (ends or heading):
            yield block
            block = []


def _kind(line: str) -> str:
    """The kind of a line: "|" in a table, spaces in indented code, else "". Lines of one kind belong together."""
    return "|" if line.startswith("|") else "    " if line.startswith("    ") else ""


def _formatted(block: Block) -> list[str]:
    first = block[0]
    if first.startswith("```"):
        return _code([f"    {line}" for line in block[1:-1]])
    if first.startswith("# "):
        return []
    if first.startswith("#"):
        heading, _, title = first.partition(" ")
        return [f".{'SH' if heading == '##' else 'SS'} {_inline(title)}"]
    kinds: dict[str, Callable[[Block], list[str]]] = {"|": _table, "    ": _code}
    return kinds.get(_kind(first), _list if first.startswith("- ") else _paragraph)(block)


def _code(block: Block) -> list[str]:
    return [".PP", ".in +4", ".nf", *(_line(_plain(line.removeprefix("    "))) for line in block), ".fi", ".in"]


def _paragraph(block: Block) -> list[str]:
    return [".PP", *_lines(" ".join(block))]


def _list(block: Block) -> list[str]:
    items = re.split(r"\n- ", "\n".join(block).removeprefix("- "))
    return [line for item in items for line in (r".IP \(bu 2", *_lines(" ".join(item.split())))]


def _table(block: Block) -> list[str]:
    """A table as tagged paragraphs: the first column has the tags; the other columns follow, from the third on with
    their headings."""
    rows = [[cell.strip().replace(r"\|", "|") for cell in _CELL.split(line)[1:-1]] for line in block]
    headings, lines = rows[0], list[str]()
    for tag, *cells in rows[2:]:
        told = [cells[0], *(f"{title}: {cell}" for title, cell in zip(headings[2:], cells[1:], strict=False) if cell)]
        lines += [".TP", _line(_inline(tag) or r"\&"), *(_lines("; ".join(told)) or [r"\&"])]
    return lines


def _lines(text: str) -> list[str]:
    return [_line(_inline(text))] if text else []


def _line(text: str) -> str:
    """The line, escaped if roff would take it for a request."""
    return rf"\&{text}" if text.startswith((".", "'")) else text


def _plain(text: str) -> str:
    """The text with roff's special characters escaped."""
    named = {"\\": r"\e", "-": r"\-", "^": r"\(ha", "~": r"\(ti", "`": r"\(ga", "'": r"\(aq"}
    return "".join(named.get(character, character) for character in text)


def _inline(text: str) -> str:
    """The text of a line: code and bold words become bold, otherwise marked words italic, and links are replaced by
    their texts."""
    text = _LINK.sub(lambda link: _linked(*link.groups()), text)
    made, at = "", 0
    for found in _INLINE.finditer(text):
        made += _plain(text[at : found.start()])
        strong = found["quoted"] or found["code"] or found["bold"]
        made += rf"\fB{_plain(strong)}\fP" if strong else rf"\fI{_plain(found['weak'])}\fP"
        at = found.end()
    return made + _plain(text[at:])


def _linked(said: str, target: str) -> str:
    """The text of a link, with the address if the text does not have it and the link leads to a website."""
    if target.startswith("http") and target.partition("://")[2] not in said:
        return f"{said} <{target}>"
    return said


if __name__ == "__main__":
    into = Path(sys.argv[1])
    into.mkdir(parents=True, exist_ok=True)
    for file, content in pages().items():
        (into / file).write_text(content)
    print(f"{len(pages())} manual pages in {into}")
