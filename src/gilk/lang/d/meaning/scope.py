# SPDX-License-Identifier: LGPL-2.1-or-later
"""The meanings of names in a program, and the places of its variables. A scope grows from the beginning of the text to
its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace

from gilk.lang import ir
from gilk.lang.d import ast, tree
from gilk.lang.d.meaning import keying
from gilk.lang.d.meaning.extent import NOTHING, Extent, Measure
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.meaning.world import Nothing, World
from gilk.lang.data import Aggregating, Aggregation, Datum
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import ALIASES, Array, Enumeration, Record, Type, align_of, size_of, text
from gilk.values import dataclass

#: The bytes of clause-local variables, which are on the stack of the thread that fires the probe.
_MOST_LOCAL = 1 << 12
LARGEST_VARIABLE = 1 << 24  # bytes of one variable
_MOST_FRAMES = 4096


@dataclass(frozen=True)
class Inline:
    """An inline. ``value`` is that of an inline without ``parameters``; ``text`` is None for these, and the expression
    of an inline with parameters.
    """

    type: Type
    value: ir.Expression
    measure: Measure = NOTHING
    parameters: tuple[tuple[str, Type], ...] = ()
    text: ast.Expr | None = None


@dataclass(frozen=True, slots=True)
class Frames:
    """The options about stacks: ``usual`` is ustackframes, ``kernels`` is stackframes, for a kernel's stack,
    ``javas`` is jstackframes, and ``most`` is maxframes.
    """

    usual: int = 100
    most: int = 1000
    kernels: int = 20
    javas: int = 50

    def limited(self, wanted: int | None = None) -> int:
        """A number of frames: at least one, and no more than a record can hold."""
        return max(min(self.usual if wanted is None else wanted, self.most, _MOST_FRAMES), 1)


@dataclass
class Scope:
    """The names of a program. ``this_size`` and ``globals_size``: the bytes of variables so far.

    ``stacks``: something looks at the stack of the process. ``alone``: no process fires the probes of the present
    clause, which gilk fires itself. ``copies``: calls of the clause that copy to memory, each with the number of the
    argument that says where, and that argument. ``by_processor``: the option aggpercpu. ``scratchsize``:
    the option, in bytes, as is ``pcapsize``. ``version``: the option, a version of D; "" is the newest. ``locals``: the
    variables of functions that the program names, each with the number that is its index.
    """

    strsize: int = 256
    world: World = field(default_factory=Nothing)
    frames: Frames = Frames()
    stacks: bool = False
    alone: bool = False
    copies: list[tuple[ast.Call, int, ir.Expression]] = field(default_factory=list)
    by_processor: bool = False
    scratchsize: int = 64 << 10
    pcapsize: int = 1514
    version: str = ""
    typedefs: dict[str, Type] = field(default_factory=lambda: dict(ALIASES))
    tags: dict[str, Record | Enumeration] = field(default_factory=dict)
    enumerators: dict[str, int] = field(default_factory=dict)
    inlines: dict[str, Inline] = field(default_factory=dict)
    parameters: dict[str, ir.Expression] = field(default_factory=dict)
    extent: Extent = field(default_factory=Extent)
    variables: dict[tuple[str, str], tree.Variable] = field(default_factory=dict)
    aggregations: dict[str, Aggregation] = field(default_factory=dict)
    locals: list[tree.NamedLocal] = field(default_factory=list)
    globals_size: int = 0
    this_size: int = 0
    _functions: dict[str, str] = field(default_factory=dict)  # by the name of an aggregation
    _keys: dict[str, tuple[Type, ...]] = field(default_factory=dict)
    _looked_up: int = 0
    _bound: int = 0

    def size(self, type_: Type) -> int:
        return size_of(type_, self.strsize)

    # Parameters of inlines and translators.

    def fresh(self, type_: Type) -> ir.Bound:
        """A new parameter, which has no value yet."""
        self._bound += 1
        return ir.Bound(type_, self._bound)

    def has_parameters(self, name: str) -> bool:
        """Whether the name means an inline that has parameters."""
        if name in self.parameters or name not in self.inlines:
            return False
        return self.inlines[name].text is not None

    @contextmanager
    def bound(self, parameters: Mapping[str, ir.Expression]) -> Iterator[None]:
        """Have these parameters, and no others, in the block."""
        outer, self.parameters = self.parameters, dict(parameters)
        yield
        self.parameters = outer

    # Variables.

    def variable(self, scope: str, name: str) -> tree.Variable | None:
        return self.variables.get((scope, name))

    def declare(self, span: Span, variable: tree.Variable) -> tree.Variable:
        """Declare a variable, which is given a place; a second declaration must be the same. Raises Rejected."""
        known = self.variables.get((variable.scope, variable.name))
        if known is not None:
            if (known.type, known.keys) != (variable.type, variable.keys):
                both = f"\t current: {_declared(variable)}\n\tprevious: {_declared(known)}"
                raise Rejected(Tag.D_DECL_IDRED, span, f"identifier redeclared: {_named(variable)}\n{both}")
            return known
        placed = self._placed(span, variable)
        self.variables[variable.scope, variable.name] = placed
        return placed

    def has_room(self, type_: Type) -> bool:
        """Whether there is room for another clause-local variable of that type."""
        return self.this_size + self.size(type_) + 8 <= _MOST_LOCAL

    def _placed(self, span: Span, variable: tree.Variable) -> tree.Variable:
        if variable.scope == "this" and variable.keys is not None:
            raise Rejected(Tag.D_ARR_LOCAL, span, f"local associative arrays are not supported: this->{variable.name}")
        if isinstance(variable.type, Record | Array) and self.size(variable.type) > LARGEST_VARIABLE:
            what = f"{text(variable.type)} takes more than {LARGEST_VARIABLE} bytes: {_named(variable)}"
            raise Rejected(Tag.D_DECL_ARRSUB, span, what)
        if variable.scope == "self" or variable.keys is not None:
            self._looked_up += 1
            return replace(variable, number=self._looked_up)
        size, align = self.size(variable.type), min(align_of(variable.type), 8)
        if variable.scope == "this":
            offset = -(-self.this_size // align) * align
            self.this_size = offset + size
            if self.this_size > _MOST_LOCAL:
                what = f"clause-local variables take more than {_MOST_LOCAL} bytes: {variable.name}"
                raise Rejected(Tag.D_DECL_ARRSUB, span, what)
        else:
            offset = -(-self.globals_size // align) * align
            self.globals_size = offset + size
        return replace(variable, offset=offset)

    # Aggregations.

    def aggregate(self, span: Span, name: str, function: str) -> None:
        """Note that an aggregation uses that function. Raises Rejected if it has used another one before."""
        known = self._functions.setdefault(name, function)
        if known != function:
            both = f"\t current: @{name} = {function}( )\n\tprevious: @{name} = {known}( )"
            raise Rejected(Tag.D_AGG_REDEF, span, f"aggregation redefined: @{name}\n{both}")

    def check_keys(self, span: Span, name: str, keys: tuple[Type, ...]) -> None:
        """Raises Rejected unless the keys of an aggregation are like those of its earlier uses."""
        known = self._keys.get(name)
        if known is None:
            keying.check(span, "aggregation", keys)
            self._keys[name] = keys
        else:
            keying.check_alike(span, f"@{name}", known, keys)

    def aggregation(
        self,
        name: str,
        what: Aggregating,
        keys: tuple[Datum, ...],
        key_size: int,
        processor: Datum | None = None,
    ) -> Aggregation:
        """The aggregation of that name, as it was first made."""
        known = self.aggregations.get(name)
        if known is None:
            known = Aggregation(len(self.aggregations) + 1, name, what, keys, key_size, processor)
            self.aggregations[name] = known
        return known


def _named(variable: tree.Variable) -> str:
    return variable.name if variable.scope == "global" else f"{variable.scope}->{variable.name}"


def _declared(variable: tree.Variable) -> str:
    keys = "" if variable.keys is None else f"[{', '.join(text(key) for key in variable.keys)}]"
    return f"{text(variable.type)} {_named(variable)}{keys}"
