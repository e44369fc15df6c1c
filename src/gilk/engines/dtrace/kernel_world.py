# SPDX-License-Identifier: LGPL-2.1-or-later
"""The compiler's view of a kernel: types, symbols, parameters. Nothing is read before it is asked for."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property

from gilk.engines.dtrace.btf_types import BtfTypes
from gilk.engines.dtrace.call_types import declared
from gilk.engines.dtrace.kernel_variables import VARIABLES
from gilk.engines.dtrace.named_types import completed, types_named
from gilk.engines.dtrace.parameters import placed, returned
from gilk.engines.dtrace.user_world import UserWorld
from gilk.errors import ImageError, TargetError
from gilk.image.kernel.btf import Btf
from gilk.image.kernel.kallsyms import CORE
from gilk.lang.d.meaning.world import LocalVariable, Symbol
from gilk.lang.d.probes import Description, described, is_glob
from gilk.lang.types import ALIASES, INT64, VOID, Array, Pointer, Record, Type, basic, is_scalar, size_of
from gilk.providers import IN_KERNEL
from gilk.providers.kernel.event_format import EventField, event_format
from gilk.targets.kernel.image import types
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.kernel.users import UserFile, UserProcesses
from gilk.values import dataclass

_OF_FUNCTIONS = ("fbt", "rawfbt")
_CORE_NAMES = ("", "vmlinux", "kernel")
_TEXT = frozenset("tTwW")
_LOWEST = 1 << 63  # lower addresses are offsets into the memory of each CPU


@dataclass
class KernelWorld:
    """gilk.lang.d.meaning.world.World for a kernel. Modules have their own names; the core kernel is ``vmlinux``."""

    target: KernelTarget
    users: UserProcesses
    in_kernel = True
    _types: dict[str, BtfTypes | None] = field(default_factory=dict)
    _completed: dict[str, Record] = field(default_factory=dict)

    # Providers and modules.

    def provider(self, name: str) -> bool:
        return name in ("dtrace", "profile", "cpc", *filter(None, IN_KERNEL.values())) or name in self._providers

    @cached_property
    def _providers(self) -> frozenset[str]:
        """The names of the USDT providers in the traced processes, without the pid at the end."""
        return frozenset(mark.provider for file in self._files for mark in self.users.marks(file))

    @property
    def _files(self) -> Iterator[UserFile]:
        """The files whose code the traced processes execute."""
        for _, pids in self.users.meant("*"):
            yield from self.users.files(pids)

    def module(self, name: str) -> bool:
        return any(self._of(each) is not None for each in self._modules(name)) or self._of_users.module(name)

    @cached_property
    def _of_users(self) -> UserWorld:
        return UserWorld(self.users)

    def _modules(self, name: str) -> Iterator[str]:
        """The modules that ``name`` means, each by its owner in /proc/kallsyms."""
        if name in _CORE_NAMES:
            yield CORE
        for part in self.target.kernel.snapshot.parts:
            if part.owner != CORE and name in ("", part.owner):
                yield part.owner

    def _of(self, owner: str) -> BtfTypes | None:
        """The types of a module; None if the kernel does not tell them."""
        if owner not in self._types:
            try:
                found = self._core if owner == CORE else types(self.target.link, owner, self._core)
            except (ImageError, TargetError):
                found = None
            self._types[owner] = None if found is None else BtfTypes(owner or "vmlinux", found)
        return self._types[owner]

    @cached_property
    def _core(self) -> Btf:
        return types(self.target.link)

    # Types.

    def type(self, module: str, kind: str, name: str) -> Type | None:
        found = next(types_named(map(self._of, self._modules(module)), kind, name), None)
        return found if found is not None else self._of_users.type(module, kind, name)

    def completed(self, record: Record) -> Record:
        """The record with its members; one that is only declared in the kernel may be defined in a module."""
        if self._of_users.has(record):
            return self._of_users.completed(record)
        if record.origin not in self._completed:
            self._completed[record.origin] = completed(record, self._completed_at_home, self.type)
        return self._completed[record.origin]

    def _completed_at_home(self, record: Record) -> Record:
        name = record.origin.partition(":")[0]
        known = self._of(CORE if name == "vmlinux" else name)
        return known.completed(record) if known is not None else record

    # Symbols.

    def symbol(self, module: str, name: str) -> Symbol | None:
        for owner in self._modules(module):
            row = self._rows.get((owner, name))
            if row is not None:
                address, kind = row
                return Symbol(address, self._variable(owner, name), kind in _TEXT, address < _LOWEST)
        return None

    @cached_property
    def _rows(self) -> dict[tuple[str, str], tuple[int, str]]:
        """Address and nm's letter of each symbol, by owner and name. If several share a name, the first counts."""
        symbols = self.target.kernel.snapshot.symbols
        found: dict[tuple[str, str], tuple[int, str]] = {}
        rows = zip(symbols.owners, symbols.names, symbols.addresses.tolist(), symbols.kinds, strict=True)
        for owner, name, address, kind in rows:
            found.setdefault((owner, name), (address, kind))
        return found

    def _variable(self, owner: str, name: str) -> Type | None:
        """The type of a variable: BTF has those of per-CPU variables, and kernel_variables.py some others."""
        known = self._of(owner)
        try:
            found = known.variable(name) if known is not None else None
        except ImageError:
            return None
        row = VARIABLES.get(name) if owner == CORE else None
        return found if found is not None or row is None else self._declared(row)

    def _declared(self, text: str) -> Type | None:
        """The type of a row of kernel_variables.py: words of C, stars, and a number of elements."""
        words, _, count = text.partition("[")
        name = words.rstrip(" *")
        kind, _, tag = name.partition(" ")
        found = self.type("", kind, tag) if kind in ("struct", "union", "enum") else None
        found = found or basic(tuple(name.split())) or ALIASES.get(name) or self.type("", "", name)
        for _ in range(words.count("*")):
            found = Pointer(found or VOID)  # a pointer to an unknown type is a mere address
        return Array(found, int(count.rstrip("]") or 0)) if found is not None and "[" in text else found

    # Functions.

    def arguments(self, probe: str) -> tuple[tuple[Type, int | None], ...] | None:
        """The types of a probe's arguments, with their registers; None if they are not known.

        BTF has those of functions, but not of clones like ``name.isra.0``, whose parameters differ. Functions of
        processes have those of their debug information.
        """
        description = described(probe)
        if description.provider.startswith("pid"):
            return self._of_users.arguments(probe)
        if description.provider == "rawtp":
            return self._tracepoint(description.name)
        if description.provider == "sdt":
            return self._event(description)
        if description.name == "entry" and (description.provider == "syscall" or self._is_call(description)):
            return self._call(description.function)
        if description.provider not in _OF_FUNCTIONS or description.name not in ("entry", "return"):
            return None
        if not description.function or is_glob(description.function):
            return None
        for owner in self._modules("" if is_glob(description.module) else description.module):
            if not fnmatch.fnmatchcase(owner or "vmlinux", description.module or "*"):
                continue
            found = self._function(owner, description.function)
            if found is not None:
                value, given = found
                return placed(given, value) if description.name == "entry" else ((INT64, 0), *returned(value))
        return None

    def _is_call(self, description: Description) -> bool:
        """Whether a description without a provider, as ``write:entry``, is of a system call: no function has the
        name."""
        functions = any((owner, description.function) in self._rows for owner in self._modules(""))
        return not description.provider and not functions

    def _call(self, name: str) -> tuple[tuple[Type, int | None], ...] | None:
        """The arguments of a system call; None if the kernel does not tell, or if one of their types is unknown."""
        words = declared(self.target.link, name) if name and not is_glob(name) else None
        found = [self._declared(each) for each in words or ()]
        given = [(type_, number) for number, type_ in enumerate(found) if type_ is not None and is_scalar(type_)]
        return None if words is None or len(given) < len(words) else tuple(given)

    def _tracepoint(self, name: str) -> tuple[tuple[Type, int | None], ...] | None:
        for owner in self._modules(""):
            known = self._of(owner)
            try:
                found = known.tracepoint(name) if known is not None else None
            except ImageError:
                return None
            if found is not None:
                return tuple((type_, number if is_scalar(type_) else None) for number, type_ in enumerate(found))
        return None

    def _event(self, description: Description) -> tuple[tuple[Type, int | None], ...] | None:
        """The types of the fields of an event; None if several may be meant."""
        if not description.module or is_glob(description.module) or is_glob(description.name):
            return None
        known = event_format(self.target.link, f"{description.module}/{description.name}")
        return None if known is None else tuple((self._of_field(each), n) for n, each in enumerate(known.fields))

    def _of_field(self, field: EventField) -> Type:
        """The type of an argument that is a field: the field's, or that of its address."""
        found = self._declared(field.type)
        if field.address:
            return Pointer(found or VOID)
        fits = found is not None and is_scalar(found) and size_of(found, 0) == field.size
        return found if found is not None and fits else ALIASES[field.number]

    def _function(self, owner: str, name: str) -> tuple[Type, tuple[Type, ...]] | None:
        known = self._of(owner)
        try:
            return known.function(name) if known is not None and (owner, name) in self._rows else None
        except ImageError:
            return None

    def foreign(self, probe: str) -> str:
        """The language of a function of a process, if it does not call as C does. Rust functions in the kernel that BTF
        has are called as C is."""
        return self._of_users.foreign(probe)

    def local(self, probe: str, function: str, name: str) -> LocalVariable | None:
        return LocalVariable(why="in a kernel it is not looked for")
