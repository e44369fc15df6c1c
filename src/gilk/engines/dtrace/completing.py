# SPDX-License-Identifier: LGPL-2.1-or-later
"""Completion: the words that may be written at a place of a D program: D's own, the program's, and names of the
process or kernel.

A process or kernel is only looked at. Names that a description cannot have are not offered.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import Final

from gilk.arch.syscalls import NAMES as SYSTEM_CALLS
from gilk.engines.dtrace import libraries
from gilk.engines.dtrace.consumer import Consumer
from gilk.errors import GilkError
from gilk.image import demangle
from gilk.image.lookup import SourceName
from gilk.lang.d.meaning.locals import MODULE as LOCAL
from gilk.lang.d.passes.state import Invocation
from gilk.lang.d.probes import Description, described
from gilk.lang.d.writing.offered import OfferedWord, chosen, is_fit, own_words, takes_aggregations
from gilk.lang.d.writing.opening import Opening, OpeningKind, opening
from gilk.lang.d.writing.outline import ItemPart, OutlineItem, outline
from gilk.lang.d.writing.partial import PartialProgram
from gilk.lang.types import Record, Type, text
from gilk.providers import IN_PROCESS, own
from gilk.targets.base import Loaded
from gilk.targets.process import Process
from gilk.values import dataclass

MOST: Final = 100  # how many words are offered
_PLACES: Final = 64  # how many places of a clause are looked at for variables
_TICKS: Final = (
    ("tick-1s", "once a second"), ("tick-10s", "every ten seconds"), ("tick-100ms", "ten times a second"),
    ("profile-97", "97 times a second, in each thread that runs"), ("profile-997", "997 times a second, likewise"),
)  # fmt: skip
_IN_FIELD = re.compile(r"[-$\w.`]+", re.ASCII)
_IN_FUNCTION = re.compile(r"[-$\w.`]+(?:::[-$\w.`]+)*", re.ASCII)
_NAMED = {
    "self": re.compile(r"\bself\s*->\s*(\w+)", re.ASCII),
    "this": re.compile(r"\bthis\s*->\s*(\w+)", re.ASCII),
    "@": re.compile(r"@([A-Za-z_]\w*)", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class Offered:
    """Words that may replace the letters from ``start`` to ``end``. ``left_out``: how many more words there are."""

    start: int
    end: int
    kind: str
    words: tuple[OfferedWord, ...]
    left_out: int = 0


def words(consumer: Consumer, source: str, at: int) -> Offered:
    """The words that may stand at letter ``at`` of the program ``source``.

    ``consumer``: of this program, or of another one with the same request.
    """
    there = opening(source, at)
    fit = (word for word in _all(consumer, source, there) if is_fit(there, word))
    found, left = chosen(fit, there.prefix, MOST)
    if [each.text for each in found] == [source[there.start : there.end]]:
        found = []  # the word is already complete
    return Offered(there.start, there.end, str(there.kind), tuple(found), left)


def _all(consumer: Consumer, source: str, there: Opening) -> Iterator[OfferedWord]:
    yield from own_words(there)
    match there.kind:
        case OpeningKind.NOTHING | OpeningKind.AGGREGATING | OpeningKind.MACRO | OpeningKind.OPTION:
            return
        case OpeningKind.PROBE:
            yield from _of_probes(consumer, there)
        case OpeningKind.SYMBOL if there.word.partition("`")[0] == LOCAL:
            yield from _locals(consumer, source, there)
        case OpeningKind.SYMBOL:
            yield from _symbols(consumer, there.word)
        case OpeningKind.AGGREGATION:
            yield from _aggregations(source, there)
        case OpeningKind.MEMBER:
            yield from _members(_understood(consumer, source, there), source, there)
        case _:
            yield from _declared(_understood(consumer, source, there), there)
            yield from _seen(source, there)
            if there.kind in (OpeningKind.STATEMENT, OpeningKind.EXPRESSION) and not consumer.options.flag("nolibs"):
                own = libraries.inlines(consumer.own_libraries)
                yield from (OfferedWord(name, "inline", "of a library") for name in own)
            if consumer.there is not None and there.kind in (OpeningKind.STATEMENT, OpeningKind.EXPRESSION):
                yield from _kernels().facts()
            elif consumer.process is not None and there.kind is OpeningKind.EXPRESSION:
                yield OfferedWord(LOCAL, "keyword", "local`k: a variable of the function", goes_on=True)


# The program's own names.


def _understood(consumer: Consumer, source: str, there: Opening) -> PartialProgram:
    options = consumer.options
    directories, own, world = consumer.library_directories, consumer.own_libraries, consumer.world
    wanted = [] if options.flag("nolibs") else libraries.wanted([source], directories, consumer.process, own, world)
    found = PartialProgram.begin(Invocation(consumer.macros, options), world, wanted)
    others = outline(source, there.start).items
    found.add(source[each.start : each.end] for each in others if not _same(each, there.item))
    return found


def _same(one: OutlineItem, other: OutlineItem | None) -> bool:
    return other is not None and one.start == other.start


def _declared(program: PartialProgram, there: Opening) -> Iterator[OfferedWord]:
    scope = program.names.scope
    scoped = there.word if there.kind is OpeningKind.SCOPED else "global"
    if there.kind is OpeningKind.TAG:
        yield from (OfferedWord(tag, there.word) for tag, one in scope.tags.items() if _kind_of_tag(one) == there.word)
        return
    if there.kind in (OpeningKind.TYPE, OpeningKind.EXPRESSION):
        yield from _types(scope.typedefs, there)
    if there.kind is OpeningKind.TYPE:
        return
    for (kind, name), variable in scope.variables.items():
        if kind == scoped:
            keys = "" if variable.keys is None else f"[{', '.join(map(text, variable.keys))}]"
            yield OfferedWord(name, "variable", f"{text(variable.type)}{keys}")
    if scoped == "global":
        yield from (OfferedWord(name, "inline", text(one.type)) for name, one in scope.inlines.items())
        yield from (OfferedWord(name, "constant", str(value)) for name, value in scope.enumerators.items())


def _types(known: Mapping[str, Type], there: Opening) -> Iterator[OfferedWord]:
    """The types that may stand there: in an expression only after a bracket, where a cast may be meant."""
    cast = there.kind is OpeningKind.EXPRESSION
    if not cast or there.opens_bracket:
        yield from (OfferedWord(name, "type", text(type_), goes_on=cast) for name, type_ in known.items())


def _kind_of_tag(one: object) -> str:
    return one.kind if isinstance(one, Record) else "enum"


def _seen(source: str, there: Opening) -> Iterator[OfferedWord]:
    """Names that occur anywhere in the text, even if it does not compile."""
    if there.kind is OpeningKind.SCOPED:
        yield from (OfferedWord(name, "variable") for name in _others(source, there, _NAMED[there.word]))
    elif takes_aggregations(there):
        yield from (OfferedWord(f"@{each.text.lstrip('@')}", each.kind) for each in _aggregations(source, there))


def _others(source: str, there: Opening, named: re.Pattern[str]) -> Iterable[str]:
    """The names that ``named`` finds in the text, without the one that is being written."""
    return dict.fromkeys(one[1] for one in named.finditer(source) if not one.start() <= there.start < one.end())


def _aggregations(source: str, there: Opening) -> Iterator[OfferedWord]:
    yield from (OfferedWord(f"@{name}", "aggregation") for name in _others(source, there, _NAMED["@"]))


def _members(program: PartialProgram, source: str, there: Opening) -> Iterator[OfferedWord]:
    for clause in _with_base(source, there):
        found = program.type_of(clause)
        if found is not None:
            for member in program.members(found, there.arrow):
                yield OfferedWord(member.name, "member", text(member.type))
            return


def _with_base(source: str, there: Opening) -> Iterator[str]:
    """The clause, made complete so that it compiles, up to the expression whose members are wanted; then the expression
    alone."""
    item, base = there.item, source[slice(*there.base)]
    if item is None or there.part not in (ItemPart.BODY, ItemPart.PREDICATE):
        return
    pieces = [piece for piece in item.pieces if piece.span.start < there.base[0]]
    head = source[item.start : _end_of_descriptions(item)]
    if there.part is ItemPart.BODY:
        last = next((each for each in reversed(pieces) if each.text in ("{", "}", ";")), None)
        before = source[item.start : last.span.end] if last is not None else head
        depth = sum((each.text == "{") - (each.text == "}") for each in pieces)
        yield f"{before} {base}; {'}' * depth}"
    yield f"{head} {{ {base}; }}"


def _end_of_descriptions(item: OutlineItem) -> int:
    ends = item.start
    for piece in item.pieces:
        if piece.text in ("/", "{"):
            break
        ends = piece.span.end
    return ends


# The process's names.


def _locals(consumer: Consumer, source: str, there: Opening) -> Iterator[OfferedWord]:
    """The variables of functions that can be read at the probes of the clause; behind a function, those of its inlined
    calls."""
    if consumer.process is None or there.item is None:
        return
    from gilk.engines.dtrace.readable_locals import readable_at  # imported here: few programs need it

    head = f"{source[there.item.start : _end_of_descriptions(there.item)]} {{ }}"
    probes = _understood(consumer, source, there).probes_of(head)
    function = there.word.partition("`")[2]
    with suppress(GilkError):
        for each in readable_at(consumer.process, [described(probe) for probe in probes], _PLACES):
            if each.function == function:
                yield OfferedWord(each.name, "local", each.type)
            elif not function:
                yield OfferedWord(each.function, "function", "inlined there", goes_on=True)


def _of_probes(consumer: Consumer, there: Opening) -> Iterator[OfferedWord]:
    fields, process = there.fields, consumer.process
    if there.word == "declaration":
        return
    if not fields:
        yield from _providers(process) if consumer.there is None else (*_providers(None), *_kernels().providers())
        return
    if len(fields) == 1 and not _is_provider(consumer, fields[0]):
        yield from (OfferedWord(name, "probe") for name in ("entry", "return"))
        return
    provider = fields[0]
    if provider in ("profile", "dtrace", ""):
        yield from _clocks(provider, len(fields))
    elif len(fields) == 3 and _provider_of(provider) in ("pid", "syscall"):
        yield from (OfferedWord(name, "probe") for name in ("entry", "return"))
    elif consumer.there is not None:
        yield from _kernels().fields(consumer.there, fields) if len(fields) <= len(_FIELDS) else ()
    elif process is not None:
        with suppress(GilkError):
            yield from _FIELDS[len(fields) - 1](process, fields) if len(fields) <= len(_FIELDS) else ()


def _providers(process: Process | None) -> Iterator[OfferedWord]:
    yield from (OfferedWord(each.name, "probe", "of the tracing itself") for each in own.PROBES)
    yield from (OfferedWord(name, "probe", what) for name, what in _TICKS)
    yield from (OfferedWord(name, "provider") for name in ("dtrace", "profile"))
    if process is None:
        return
    yield OfferedWord("pid$target", "provider", "functions of the process")
    yield from (OfferedWord(name, "provider") for name in IN_PROCESS.values() if name not in ("", "pid"))
    with suppress(GilkError):
        yield from (OfferedWord(f"{name}$target", "provider", "of the program's own probes") for name in _usdt(process))


def _usdt(process: Process) -> list[str]:
    from gilk.providers import usdt

    return [name for name in sorted(usdt.names(process.loaded())) if _IN_FIELD.fullmatch(name)]


def _is_provider(consumer: Consumer, name: str) -> bool:
    process = consumer.process
    if consumer.there is not None and _kernels().is_provider(_provider_of(name)):
        return True
    known = {"", "dtrace", "profile", *IN_PROCESS.values()}
    plain = _provider_of(name)
    with suppress(GilkError):
        return name in known or plain in known or (process is not None and plain in _usdt(process))
    return False


def _kernels() -> ModuleType:
    from gilk.engines.dtrace import completing_kernel  # imported here: few programs are about a kernel

    return completing_kernel


def _provider_of(name: str) -> str:
    return re.sub(r"(\$target|\d+)\Z", "", name)


def _clocks(provider: str, place: int) -> Iterator[OfferedWord]:
    if place < 3:
        return
    if provider != "profile":
        yield from (OfferedWord(each.name, "probe") for each in own.PROBES)
    if provider != "dtrace":
        yield from (OfferedWord(name, "probe", what) for name, what in _TICKS)


def _modules(process: Process, fields: tuple[str, ...]) -> Iterator[OfferedWord]:
    plain = _provider_of(fields[0])
    if plain in ("syscall", "proc"):
        yield OfferedWord("vmlinux", "module")
        return
    for loaded in process.loaded():
        name = "a.out" if loaded.main else loaded.name
        if _IN_FIELD.fullmatch(name) and (plain == "pid" or _has_marks(loaded, plain)):
            yield OfferedWord(name, "module", str(loaded.path))


def _has_marks(loaded: Loaded, provider: str) -> bool:
    from gilk.providers import usdt

    return any(mark.provider == provider for mark in usdt.marks_of(loaded.path))


def _functions(process: Process, fields: tuple[str, ...]) -> Iterator[OfferedWord]:
    plain = _provider_of(fields[0])
    if plain == "syscall":
        yield from (OfferedWord(name, "function") for name in SYSTEM_CALLS.values())
    elif plain == "pid":
        for loaded in process.loaded():
            if loaded.is_meant(fields[1]):
                with suppress(GilkError):
                    yield from _of_image(process, loaded)
    elif plain not in ("proc", ""):
        yield from _of_keys(process, fields, 2)


def _of_image(process: Process, loaded: Loaded) -> tuple[OfferedWord, ...]:
    return _function_words(process.image(loaded.path).content, process, loaded)


@lru_cache(maxsize=64)
def _function_words(_content: bytes, process: Process, loaded: Loaded) -> tuple[OfferedWord, ...]:
    """The functions by the names that a description can have: C++ names have no parameters, and come with `:entry`."""
    names = dict.fromkeys(span.name for span in process.image(loaded.path).spans)
    mangled = [name for name in names if demangle.is_mangled(name)]
    plain = dict(zip(mangled, demangle.without_parameters(mangled), strict=True))
    found = (SourceName(name, plain.get(name, name)).plain for name in names)
    return tuple(
        OfferedWord(f"{name}:entry" if ":" in name else name, "function", loaded.name)
        for name in dict.fromkeys(found)
        if _IN_FUNCTION.fullmatch(name)
    )


def _names(process: Process, fields: tuple[str, ...]) -> Iterator[OfferedWord]:
    return _of_keys(process, fields, 3)


def _of_keys(process: Process, fields: tuple[str, ...], place: int) -> Iterator[OfferedWord]:
    """The names, functions or names of probes by ``place``, of the process's probes that fit the fields so far."""
    provider = fields[0].replace("$target", str(process.pid))
    module, function = (*fields[1:], "")[:2]
    meant = Description(provider, module, function, "")
    for file in IN_PROCESS:
        if file != "pid":
            for probe in importlib.import_module(f"gilk.providers.{file}").probes(process, meant):
                if _IN_FIELD.fullmatch(probe.key[place]):
                    yield OfferedWord(probe.key[place], "probe" if place == 3 else "function")


_FIELDS: Final[tuple[Callable[[Process, tuple[str, ...]], Iterator[OfferedWord]], ...]] = (_modules, _functions, _names)


def _symbols(consumer: Consumer, module: str) -> Iterator[OfferedWord]:
    """The variables and functions of the images that ``module`` means."""
    process = consumer.process
    if consumer.there is not None:
        yield from _kernels().symbols(consumer.there, module)
    for loaded in process.loaded() if process is not None else ():
        if loaded.is_meant(module):
            with suppress(GilkError):
                for row in process.image(loaded.path).symbols if process is not None else ():
                    if row.address and re.fullmatch(r"[A-Za-z_]\w*", row.name, re.ASCII):
                        yield OfferedWord(row.name, "symbol", loaded.name)
