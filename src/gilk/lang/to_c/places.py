# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printer of C that reads and writes variables, and stores values in records and keys."""

from __future__ import annotations

from collections.abc import Callable

from gilk.lang import ir
from gilk.lang.data import Datum, Kind
from gilk.lang.facts import LARGE_KEY
from gilk.lang.nulls import Nulls
from gilk.lang.to_c.emit import FreshNames, c_type
from gilk.lang.types import Enumeration, Integer, String, Type, is_scalar, size_of

Emit = Callable[[ir.Expression], str]


class PlacePrinter:
    """A printer of places. ``emit`` prints an expression. All C that it prints may jump to ``fault``, a label of the
    function.
    """

    def __init__(self, emit: Emit, names: FreshNames, strsize: int, globals_start: int, nulls: Nulls) -> None:
        self._emit = emit
        self._name = names
        self._strsize = strsize
        self._globals_start = globals_start
        self._nulls = nulls

    def size(self, type_: Type) -> int:
        return size_of(type_, self._strsize)

    def address(self, place: ir.Place) -> str:
        if place.scope == "this":
            return f"(t + {place.offset})"
        return f"((gd_u8 *)gd_global(c, {self._globals_start + place.offset}))"

    # Reading.

    def read(self, target: ir.Target) -> str:
        match target:
            case ir.Place(type=String()) if self._nulls.is_marked(target):
                return f"gd_text((const char *){self.address(target)})"
            case ir.Place():
                return self._at(target.type, self.address(target))
            case ir.Keyed():
                return self._keyed(target)
            case ir.Part():
                return self._part(target)
            case ir.Field():
                return self._emit(target)

    def _at(self, type_: Type, address: str, bits: int = 0, shift: int = 0) -> str:
        if isinstance(type_, String):
            return f"((const char *){address})"
        if not is_scalar(type_):
            return f"((gd_u64){address})"
        whole = f"(*({c_type(type_)} *){address})"
        return bit_field(whole, type_, bits, shift) if bits else whole

    def _keyed(self, target: ir.Keyed) -> str:
        key, variable = self.key(target.keys, target.layout, target.key_size), self.variable(target)
        value = self._name()
        if is_scalar(target.type):
            load = f"gd_dynamic_load(c, {variable}, {key[1]}, {target.key_size}, &{value}, sizeof {value});"
            return f"({{ {key[0]}{c_type(target.type)} {value}; {load} {value}; }})"
        load = f"gd_dynamic_load(c, {variable}, {key[1]}, {target.key_size}, {value}, {self.size(target.type)});"
        room = f"gd_u8 *{value} = gd_alloca(c, {self.size(target.type)}); if (!{value}) goto fault;"
        if isinstance(target.type, String):
            return f"({{ {key[0]}{room} {load[:-1]} ? (const char *){value} : 0; }})"
        return f"({{ {key[0]}{room} {load} (gd_u64){value}; }})"

    def _part(self, target: ir.Part) -> str:
        whole = self._whole(target)
        at = self._name("p")
        return (
            f"({{ gd_u8 *{at} = {whole}; {self._moved(at, target)}"
            f"{self._at(target.type, at, target.bits, target.shift)}; }})"
        )

    def start(self, target: ir.Place | ir.Part) -> str:
        """A C pointer to the beginning of a variable or a part of one."""
        if isinstance(target, ir.Place):
            return self.address(target)
        at = self._name("p")
        return f"({{ gd_u8 *{at} = {self._whole(target)}; {self._moved(at, target)}{at}; }})"

    def _whole(self, target: ir.Part) -> str:
        if isinstance(target.whole, ir.Place):
            return self.address(target.whole)
        return f"(gd_u8 *){self._keyed(target.whole)}"

    def _moved(self, at: str, target: ir.Part) -> str:
        """C that moves a pointer to the part, and checks its indices."""
        text = f"{at} += {target.offset}; " if target.offset else ""
        for index, count, size in target.indices:
            number = self._name("i")
            text += (
                f"gd_u64 {number} = {self._emit(index)}; "
                f"if ({number} >= {count}) {{ gd_fail(c, GD_FAULT_INDEX, {number}); goto fault; }} "
                f"{at} += {number} * {size}; "
            )
        return text

    def variable(self, target: ir.Keyed) -> str:
        return f"{target.variable}{'u | GD_SELF' if target.by_thread else 'u'}"

    def key(self, keys: tuple[ir.Expression, ...], layout: tuple[Datum, ...], size: int) -> tuple[str, str]:
        """C that fills in a key, and the name of the C variable with the key."""
        if not keys:
            return "", "0"
        name = self._name("k")
        text = self._room(name, size, size)
        for key, datum in zip(keys, layout, strict=True):
            text += self.datum(f"((gd_u8 *){name})", key, datum)
        return text, name

    def stack_key(self, keys: tuple[ir.Expression, ...], layout: tuple[Datum, ...], size: int) -> tuple[str, str, str]:
        """C that fills in a key that ends with a stack, the name of its C variable, and that of its length, which
        covers only the frames that exist.
        """
        name, used, stack = self._name("k"), self._name("n"), layout[-1]
        text = self._room(name, size, stack.offset)
        for key, datum in zip(keys[:-1], layout[:-1], strict=True):
            text += self.datum(f"((gd_u8 *){name})", key, datum)
        taken = f"gd_take_ustack(c, {name} + {stack.offset // 8}, {stack.size // 8})"
        return f"{text}gd_u32 {used} = {stack.offset} + {taken}; if (c->fault) goto fault; ", name, used

    def _room(self, name: str, size: int, zeroed: int) -> str:
        """C that declares a key whose first ``zeroed`` bytes are 0; a large key is not on the thread's stack."""
        words = -(-size // 8)
        if size <= LARGE_KEY:
            return f"gd_u64 {name}[{words}] = {{ 0 }}; "
        return f"gd_u64 *{name} = gd_alloca(c, {8 * words}); if (!{name}) goto fault; gd_zero({name}, {zeroed}); "

    def datum(self, base: str, value: ir.Expression, datum: Datum) -> str:
        """C that stores a value in its place in a record or key."""
        to = f"({base} + {datum.offset})"
        if datum.kind is Kind.INT:
            return f"*({c_type(value.type)} *){to} = {self._emit(value)}; "
        if datum.kind is Kind.STRING:
            return f"gd_put_string({to}, {self._emit(value)}, {datum.size}); "
        if datum.kind is Kind.FLOAT and isinstance(value, ir.Place):
            return f"gd_bcopy({to}, (const void *){self.address(value)}, {datum.size}); "
        if datum.kind in (Kind.BYTES, Kind.FLOAT) and isinstance(value, ir.Field):
            return f"if (!gd_load(c, {to}, {self._emit(value.address)}, {datum.size})) goto fault; "
        if datum.kind is Kind.BYTES:
            return f"gd_bcopy({to}, (const void *){self._emit(value)}, {datum.size}); "
        if datum.kind is Kind.STACK:
            return f"*(gd_u64 *){to} = 0; "  # that of the kernel, which is empty where no process fires the probe
        if datum.kind is Kind.USTACK:
            return f"gd_put_ustack(c, (gd_u64 *){to}, {datum.size // 8}); if (c->fault) goto fault; "
        return f"gd_put_{datum.kind}(c, (gd_u64 *){to}, {datum.size // 8}, {self._symbol(value)}); "

    def _symbol(self, value: ir.Expression) -> str:
        assert isinstance(value, ir.Call)
        return self._emit(value.arguments[0])

    # Writing.

    def write(self, target: ir.Target, value: str) -> str:
        """Statements that store ``value``, a C expression without effects."""
        match target:
            case ir.Place(type=String()) if self._nulls.is_marked(target):
                return f"gd_put_text((char *){self.address(target)}, {value}, {self._strsize}); "
            case ir.Place():
                return self._store(target.type, self.address(target), value)
            case ir.Keyed():
                return self._write_keyed(target, value)
            case ir.Part():
                return self._write_part(target, value)
            case ir.Field():
                return self._write_memory(target, value)

    def _store(self, type_: Type, address: str, value: str, bits: int = 0, shift: int = 0) -> str:
        if isinstance(type_, String):
            return f"gd_put_string({address}, {value}, {self._strsize}); "
        if not is_scalar(type_):
            return f"gd_bcopy({address}, (const void *){value}, {self.size(type_)}); "
        if not bits:
            return f"*({c_type(type_)} *){address} = {value}; "
        mask = ((1 << bits) - 1) << shift
        place = f"*({_unsigned(type_)} *){address}"
        return (
            f"{place} = ({_unsigned(type_)})(({place} & ~{mask:#x}UL) | ((gd_u64){value} << {shift} & {mask:#x}UL)); "
        )

    def _write_keyed(self, target: ir.Keyed, value: str) -> str:
        """Statements that store ``value`` in a looked-up variable; 0 or NULL deletes the variable."""
        key, variable, size = (
            self.key(target.keys, target.layout, target.key_size),
            self.variable(target),
            target.key_size,
        )
        if is_scalar(target.type):
            return (
                f"{key[0]}if ({value}) gd_dynamic_store(c, {variable}, {key[1]}, {size}, &{value}, sizeof {value}); "
                f"else gd_dynamic_delete(c, {variable}, {key[1]}, {size}); "
            )
        bytes_ = self.size(target.type)
        if not isinstance(target.type, String):
            return (
                f"{key[0]}if ({value}) "
                f"gd_dynamic_store(c, {variable}, {key[1]}, {size}, (const void *){value}, {bytes_}); "
                f"else gd_dynamic_delete(c, {variable}, {key[1]}, {size}); "
            )
        room = self._name("s")
        return (
            f"{key[0]}if ({value}) {{ gd_u8 *{room} = gd_alloca(c, {bytes_}); if (!{room}) goto fault; "
            f"gd_put_string({room}, {value}, {bytes_}); "
            f"gd_dynamic_store(c, {variable}, {key[1]}, {size}, {room}, {bytes_}); }} "
            f"else gd_dynamic_delete(c, {variable}, {key[1]}, {size}); "
        )

    def _write_memory(self, target: ir.Field, value: str) -> str:
        """Statements that store ``value`` in the scratch memory of the function; other memory is a fault."""
        at, whole, size = self._name("a"), self._name("w"), self.size(target.type)
        text = f"gd_u64 {at} = {self._emit(target.address)}; "
        if not is_scalar(target.type):
            return f"{text}if (!gd_assign(c, {at}, (const void *){value}, {size})) goto fault; "
        kind = _unsigned(target.type)
        if not target.bits:
            return f"{text}{kind} {whole} = ({kind}){value}; if (!gd_assign(c, {at}, &{whole}, {size})) goto fault; "
        text += f"{kind} {whole}; if (!gd_load(c, &{whole}, {at}, {size})) goto fault; "
        text += self._store(target.type, f"&{whole}", value, target.bits, target.shift)
        return f"{text}if (!gd_assign(c, {at}, &{whole}, {size})) goto fault; "

    def _write_part(self, target: ir.Part, value: str) -> str:
        at, whole = self._name("p"), self._name("w")
        text = f"gd_u8 *{whole} = {self._whole(target)}, *{at} = {whole}; {self._moved(at, target)}"
        text += self._store(target.type, at, value, target.bits, target.shift)
        if isinstance(target.whole, ir.Keyed):
            text += self._write_keyed(target.whole, whole)
        return text


def bit_field(whole: str, type_: Type, bits: int, shift: int) -> str:
    size = 8 * (type_.size if isinstance(type_, Integer) else 4)
    up = size - bits - shift
    kind = c_type(type_)
    if isinstance(type_, Enumeration) and all(value >= 0 for _, value in type_.names):
        kind = "gd_u32"  # as compilers do it
    return f"(({kind})(({kind})((gd_u64){whole} << {up}) >> {size - bits}))"


def _unsigned(type_: Type) -> str:
    size = type_.size if isinstance(type_, Integer) else 4 if isinstance(type_, Enumeration) else 8
    return {1: "gd_u8", 2: "gd_u16", 4: "gd_u32", 8: "gd_u64"}[size]
