# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of aspects about the functions of woven_program.py, and calls of these functions, both made from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.behaviour.woven_program import TWINS, Command, Twin, Value

HEAD = "%{ struct pair { long x, y; }; %}\ntable sums key(long) sum;\ntable pairs key(long, long) max;\n"
#: Groups of functions for one file: a call of the first one makes calls of the others.
TOGETHER = (
    ("one",), ("one", "two"), ("two", "three"), ("outer", "one"), ("outer", "two"), ("deep",), ("deep", "one"),
    ("text", "one"), ("both", "two"), ("nothing", "one"), ("eight",), ("real",), ("narrow", "two"), ("outer",),
)  # fmt: skip
_NUMBERS = (0, 1, 1, 2, 2, 3, -1, 1 << 40)
_TEXTS = ("a", "ab", "abcd", "b", "bcdefgh")
_PRINTED = {"char *": "%s", "int": "%d", "unsigned char": "%d", "double": "%.3f", "long": "%ld"}


_NUMERIC = ("int", "unsigned char", "long")


@dataclass(frozen=True)
class WovenCase:
    text: str
    commands: tuple[Command, ...]


def case(seed: int) -> WovenCase:
    chance = random.Random(seed)
    functions = [TWINS[name] for name in chance.choice(TOGETHER)]
    short = chance.random() < 0.3
    aspects = [_AspectMaker(chance, functions, n, short).text() for n in range(chance.randint(2, 5))]
    commands = tuple(_command(chance, functions) for _ in range(48))
    return WovenCase(HEAD + "\n".join(aspects) + "\n", commands)


def _command(chance: random.Random, functions: Sequence[Twin]) -> Command:
    twin = chance.choice(functions)
    return Command(twin.name, tuple(_value(chance, type_) for type_ in twin.parameters))


def _value(chance: random.Random, type_: str) -> Value:
    match type_:
        case "const char *":
            return chance.choice(_TEXTS)
        case "struct pair":
            return f"{chance.choice(_NUMBERS)},{chance.choice(_NUMBERS)}"
        case "double":
            return chance.choice((0.25, 1.5, -2.0))
        case "int" | "unsigned char":
            return chance.choice((0, 1, 2, 255))
    return chance.choice(_NUMBERS)


@dataclass
class _Way:
    """An alternative of an element: its text, and the names that it binds, with their types."""

    text: str
    binds: dict[str, str]


@dataclass
class _AspectMaker:
    """Makes the text of an aspect. ``known`` has the names of numbers that are bound by the elements so far. If
    ``short``, instances may be too old at once; then no function runs twice, because the model has one time for both
    runs."""

    chance: random.Random
    functions: Sequence[Twin]
    number: int
    short: bool
    known: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    serial: int = 0

    def some(self, probability: float) -> bool:
        return self.chance.random() < probability

    def text(self) -> str:
        sequence = self.some(0.65)
        words = [("w", "long", "0"), ("v", "int", "3")][: self.chance.randrange(3)] if self.some(0.7) else []
        if not sequence:
            return f"aspect s{self.number}: {self._element(0, True)};"
        self.words = []
        elements, keyed = list[str](), self.some(0.7)
        length = self.chance.randint(2, 4)
        for at in range(length):
            repeated = 0 < at < length - 1 and self.some(0.5)
            elements.append(self._element(at, at == length - 1, repeated, keyed, words))
        until = f" until {self._until()}" if self.some(0.3) else ""
        within = self.chance.choice(["", "", " within 1ns" if self.short else "", " within 10000min"])
        return f"aspect s{self.number}: {self._options(words)}seq({'; '.join(elements)}){until}{within};"

    def _options(self, words: Sequence[tuple[str, str, str]]) -> str:
        options = [self.chance.choice(["", "", "perthread ", "perprocess "])]
        if self._first and self.some(0.4):
            options.append(f"unique({self.chance.choice(self._first)}) ")
        options.append(f"instances {self.chance.choice([1, 2, 3, 12])} ")
        if words:
            options.append(f"var({', '.join(f'{type_} {name} = {first}' for name, type_, first in words)}) ")
        return "".join(options)

    def _until(self) -> str:
        self.known = dict.fromkeys(self._first, "long")
        return self._way(True, 9).text

    # Elements.

    def _element(
        self, at: int, last: bool, repeated: bool = False, keyed: bool = False,
        words: Sequence[tuple[str, str, str]] = (),
    ) -> str:  # fmt: skip
        ways = [self._way(keyed, at) for _ in range(1 + self.some(0.2))]
        if len(ways) == 2 and (set(ways[0].binds) ^ set(ways[1].binds)):
            ways = ways[:1]
        common = ways[0].binds
        match = ways[0].text if len(ways) == 1 else f"({' || '.join(one.text for one in ways)})"
        self.words = [name for name, _, _ in words]
        before = dict(self.known)
        self.known |= common
        returns = "return(" in match
        advice = self._advice(ways, returns) if self.some(0.8) else ""
        if repeated:
            self.known = before
        if at == 0:
            self._first = [name for name, type_ in common.items() if type_ == "long"]
        return match + advice + (" *" if repeated else "")

    def _way(self, keyed: bool, at: int) -> _Way:
        twin = self.chance.choice(self.functions)
        binds: dict[str, str] = {}
        declared = list[str]()
        longs = [n for n, type_ in enumerate(twin.parameters) if type_ == "long"]
        key = self.chance.choice(longs) if keyed and longs and self.some(0.8) else None
        for n, type_ in enumerate(twin.parameters):
            name = "p" if type_ == "struct pair" else "k" if n == key else f"e{at}_{n}"
            constant = "const " if type_ in ("long", "int") and self.some(0.1) else ""
            if self.some(0.85):
                declared.append(f"{constant}{type_} {name}".replace("* ", "*"))
                binds[name] = type_
            else:
                declared.append(constant + type_)
        text = f"call({twin.result} {twin.name}({', '.join(declared)}))"
        fresh = {name: type_ for name, type_ in binds.items() if type_ in _PRINTED}
        text += self._qualifiers(twin, fresh, at, binds)
        return _Way(text, fresh)

    def _qualifiers(self, twin: Twin, fresh: dict[str, str], at: int, binds: dict[str, str]) -> str:
        text = ""
        if "const char *" in binds.values() and self.some(0.5):
            name = next(name for name, type_ in binds.items() if type_ == "const char *")
            text += f" && if ({name}[0] == 'a')"
        if "const char *" in binds.values() and self.some(0.7):
            name = next(name for name, type_ in binds.items() if type_ == "const char *")
            fresh[f"t{at % 2}"] = "char *"
            text += f" && bind(char t{at % 2}[4], {name})"
        if "p" in binds and self.some(0.7):
            text += f" && bind(long e{at}_x, p.x + p.y * 2)"
            fresh[f"e{at}_x"] = "long"
        if twin.result != "void" and self.some(0.25):
            text += f" && return(e{at}_r)"
            fresh[f"e{at}_r"] = twin.result
        if self.some(0.3):
            text += f" && bind(long e{at}_b, {self._number({**self.known, **fresh})})"
            fresh[f"e{at}_b"] = "long"
        if any(type_ in _NUMERIC for type_ in self.known.values()) and self.some(0.2):
            text += f" && bind({self._a_known()}, {self._number({**self.known, **fresh})})"
        for _ in range(self.chance.choice([0, 0, 1, 1, 2])):
            text += f" && if ({self._condition({**self.known, **fresh}, at > 0)})"
        return text

    def _a_known(self) -> str:
        name = self.chance.choice(sorted(name for name, type_ in self.known.items() if type_ in _NUMERIC))
        return f"{self.known[name]} {name}"

    # Expressions.

    def _number(self, names: dict[str, str]) -> str:
        integers = sorted(name for name, type_ in names.items() if type_ in _NUMERIC)
        one = self.chance.choice([*integers, *integers, "1", "2", "7"])
        other = self.chance.choice([*integers, "1", "3", "pid() * 0"])
        return self.chance.choice(
            [one, f"{one} + {other}", f"{one} - {other}", f"({one} & 3) * {other}", f"{one} > {other}"]
        )

    def _condition(self, names: dict[str, str], words: bool) -> str:
        left = self._number(names)
        if words and self.words and self.some(0.4):
            left = self.chance.choice(self.words)
        form = self.chance.choice(["{} <= {}", "{} >= {}", "{} != {}", "({} & 1) == {}"])
        return form.format(f"({left})", self.chance.choice([0, 1, 1, 2]))

    # Advice.

    def _advice(self, ways: Sequence[_Way], returns: bool) -> str:
        twins = [TWINS[one.text.split("(")[1].split()[-1]] for one in ways]
        when = self.chance.choice(["before", "inplace", "inplace", "after"])
        if returns:
            when = "after"
        alike = len({(one.result, one.parameters) for one in twins}) == 1
        if when == "inplace" and not (alike and twins[0].result != "void"):
            when = "before"
        statements = " ".join(self._statement() for _ in range(self.chance.randint(1, 3)))
        if when == "inplace":
            statements += " " + self._ending(twins)
        word = when if when != "before" or self.some(0.5) else ""
        return f" then {word} {{ {statements} }}"

    def _label(self) -> str:
        self.serial += 1
        return f"{self.number}.{self.serial}"

    def _statement(self) -> str:
        kind = self.chance.choice(["report", "report", "word", "add", "if", "local", "off"])
        if kind == "word" and self.words:
            return f"{self.chance.choice(self.words)} {self.chance.choice(['=', '+='])} {self._number(self._all)};"
        if kind == "add":
            return self.chance.choice(
                [f"add(sums, {self._number(self._all)}, {self._number(self._all)});",
                 f"add(pairs, {self._number(self._all)}, 4, {self._number(self._all)});"]
            )  # fmt: skip
        if kind == "if":
            return f"if ({self._condition(self._all, True)}) {{ {self._report()} }} else {self._report()}"
        if kind == "local":
            return (
                f'long l{self.serial} = {self._number(self._all)}; report("{self._label()} %ld", l{self.serial - 1});'
            )
        if kind == "off" and self.some(0.3):
            return f"aspect_{self.chance.choice(['on', 'off'])}(s{self.chance.randrange(self.number + 1)});"
        return self._report()

    @property
    def _all(self) -> dict[str, str]:
        return self.known | {name: "long" if name == "w" else "int" for name in self.words}

    def _report(self) -> str:
        names = sorted(self._all)
        chosen = self.chance.sample(names, min(len(names), self.chance.randint(0, 3)))
        forms = "".join(f" {_PRINTED[self._all[name]]}" for name in chosen)
        return f'report("{self._label()}{forms}"{"".join(f", {name}" for name in chosen)});'

    def _ending(self, twins: Sequence[Twin]) -> str:
        """The end of the advice. proceed() gets arguments that depend on bound names alone, so that it gets the same
        each time."""
        twin = twins[0]
        passed = self._passed(twin)
        leaf = all(one.leaf for one in twins) and not self.short
        forms = [
            "return proceed();",
            f"return proceed({passed});",
            f"return {self._number(self.known)};",
            "deny(13);",
            "",
        ]
        forms += [f"if ({self._condition(self.known, False)}) return 5; return proceed();"] * 2
        forms += [f"{twin.result} r = proceed({passed}); {self._report()} return r + 100;"] * 2
        if leaf:
            forms += [f"{twin.result} r = proceed({passed}); r += proceed({passed}); return r;"] * 3
            forms += ["proceed(); return proceed() + 1;"]
        if self.words:
            word = self.chance.choice(self.words)
            forms += [
                f'{word} += 1; {twin.result} r = proceed(); {word} += 10; report("{self._label()} {_PRINTED["int" if word == "v" else "long"]}", {word}); return r;'
            ] * 4
        return self.chance.choice(forms)

    def _passed(self, twin: Twin) -> str:
        integers = sorted(name for name, type_ in self.known.items() if type_ in _NUMERIC)
        given = []
        for type_ in twin.parameters:
            if type_ not in _PRINTED or twin.name == "deep":
                return ""
            if type_ == "double":
                doubles = sorted(f"{name} + 1" for name, type_ in self.known.items() if type_ == "double")
                given.append(self.chance.choice([*doubles, *doubles, "1", "2"]))  # the model cannot read 0.5
            else:
                given.append(self.chance.choice([*integers, *integers, "1", "2"]))
        return ", ".join(given)
