# SPDX-License-Identifier: LGPL-2.1-or-later
"""The compiler's view of a process: types, symbols, parameters. Nothing is read before it is asked for."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from gilk.engines.dtrace import own_kernel
from gilk.engines.dtrace.named_types import HasTypes, completed, types_named
from gilk.engines.dtrace.parameters import CallSignature, returned
from gilk.engines.dtrace.renamed import Renamed
from gilk.errors import ImageError
from gilk.image.model import ElfSymbol as Row
from gilk.image.model import FunctionSpan, Image, SymbolKind
from gilk.lang.d.meaning.world import LocalVariable, Symbol
from gilk.lang.d.probes import described, is_glob
from gilk.lang.types import INT64, Record, Type
from gilk.providers import IN_PROCESS
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.dtrace.debug_types import DebugTypes
    from gilk.engines.dtrace.image_debug import ImageDebug
    from gilk.engines.dtrace.signatures import FunctionNames
    from gilk.targets.base import Loaded, Target

#: The providers that are always there; programs and libraries may have others (USDT).
_PROVIDERS = frozenset(("dtrace", "profile", "cpc", *filter(None, IN_PROCESS.values())))
_CODE = (SymbolKind.FUNC, SymbolKind.IFUNC)


class HasImages(Protocol):
    """The part of a process that the compiler's questions need."""

    @property
    def pid(self) -> int: ...
    def loaded(self) -> Sequence[Loaded]: ...
    def image(self, path: Path) -> Image: ...


def _of_file(loaded: Loaded) -> ImageDebug | None:
    from gilk.engines.dtrace.image_debug import image_debug  # imported here: few programs need it

    return image_debug(loaded.path)


@dataclass
class SymbolContext:
    """gilk.lang.d.meaning.world.World for a process or for none. Answers are kept. Types that the process does not have
    are those of the kernel that gilk runs on.

    ``read_debug``: reads an image's debug information; it may raise ImageError.
    """

    process: HasImages | None
    number: int = 0  # the pid by which programs name the process, if not its own (renamed.py)
    read_debug: Callable[[Loaded], ImageDebug | None] = _of_file
    in_kernel = False
    _read: dict[str, ImageDebug | None] = field(default_factory=dict)  # by the path of the image
    _names: dict[str, FunctionNames] = field(default_factory=dict)  # likewise
    _asked: dict[tuple[str, str, str], Type | None] = field(default_factory=dict)
    _completed: dict[str, Record] = field(default_factory=dict)
    _locals: dict[tuple[str, str, str], LocalVariable | None] = field(default_factory=dict)

    @property
    def _goes_by(self) -> int:
        return self.number or (self.process.pid if self.process is not None else 0)

    # Images.

    def _images(self, module: str) -> Iterator[Loaded]:
        """The images that ``module`` means: ``1234`lib``, ``lib``, ``1234`` or nothing."""
        if self.process is None:
            return
        first, _, rest = module.partition("`")
        if first.isdecimal():
            if int(first) != self._goes_by:
                return
            module = rest
        for loaded in self.process.loaded():
            if loaded.is_meant(module):
                yield loaded

    def _debug(self, loaded: Loaded) -> DebugTypes | None:
        found = self._image_debug(loaded)
        return None if found is None else found.types

    def _image_debug(self, loaded: Loaded) -> ImageDebug | None:
        key = str(loaded.path)
        if key not in self._read:
            try:
                self._read[key] = self.read_debug(loaded)
            except ImageError:
                self._read[key] = None
        return self._read[key]

    def provider(self, name: str) -> bool:
        if name in _PROVIDERS or self.process is None:
            return name in _PROVIDERS
        from gilk.providers import usdt  # imported here: it imports all of splicing

        return name in usdt.names(self.process.loaded())

    def module(self, name: str) -> bool:
        if any(self._debug(loaded) is not None for loaded in self._images(name)):
            return True
        return name == own_kernel.NAME and own_kernel.own_kernel() is not None

    # Types.

    def type(self, module: str, kind: str, name: str) -> Type | None:
        key = (module, kind, name)
        if key not in self._asked:
            self._asked[key] = next(types_named(self._with_types(module), kind, name), None)
        return self._asked[key]

    def _with_types(self, module: str) -> Iterator[HasTypes | None]:
        yield from map(self._debug, self._images(module))
        if module in ("", own_kernel.NAME):
            yield own_kernel.own_kernel()

    def completed(self, record: Record) -> Record:
        """The record with its members; it may be defined in another image than the one that names it."""
        if record.origin not in self._completed:
            self._completed[record.origin] = completed(record, self._completed_at_home, self.type)
        return self._completed[record.origin]

    def _completed_at_home(self, record: Record) -> Record:
        path = record.origin.partition(":")[0]
        kernel = own_kernel.own_kernel() if path == own_kernel.NAME else None
        if kernel is not None:
            return kernel.completed(record)
        for loaded in self._process_images(""):
            if str(loaded.path).replace(":", "_") == path:
                self._debug(loaded)  # a variable of a function may have brought the type
        return next((each.completed(record) for key, each in self._known() if key == path), record)

    def _known(self) -> list[tuple[str, DebugTypes]]:
        found = self._read.items()
        return [(key.replace(":", "_"), each.types) for key, each in found if each is not None]

    # Symbols.

    def symbol(self, module: str, name: str) -> Symbol | None:
        for loaded in self._images(module):
            image = self._image(loaded)
            row = _row(image, name) if image is not None else None
            if image is not None and row is not None:
                return self._symbol(loaded, image, row)
        return None

    def _image(self, loaded: Loaded) -> Image | None:
        assert self.process is not None
        try:
            return self.process.image(loaded.path)
        except ImageError:
            return None

    def _symbol(self, loaded: Loaded, image: Image, row: Row) -> Symbol:
        if row.kind in _CODE:
            return Symbol(row.address + loaded.bias, None, code=True)
        return Symbol(self._address(loaded, row), self._variable(loaded, image, row))

    def _address(self, loaded: Loaded, row: Row) -> int:
        """The address of a variable. If the main program has a copy of it (R_X86_64_COPY), that is the one, for
        libraries too."""
        if row.exported and not loaded.main:
            for main in self._images("a.out"):
                image = self._image(main)
                own = _row(image, row.name) if image is not None else None
                if own is not None and own.exported and own.kind is SymbolKind.OBJECT:
                    return own.address + main.bias
        return row.address + loaded.bias

    def _variable(self, loaded: Loaded, image: Image, row: Row) -> Type | None:
        """The type of a variable, which debug information may have under any of its names."""
        debug = self._debug(loaded)
        if debug is None:
            return None
        aliases = [each.name for each in image.symbols if each.address == row.address and each.name != row.name]
        for name in dict.fromkeys((row.name, *aliases)):
            try:
                found = debug.variable(name)
            except ImageError:
                return None
            if found is not None:
                return found
        return None

    # Functions.

    def arguments(self, probe: str) -> tuple[tuple[Type, int | None], ...] | None:
        description = described(probe)
        if description.provider != f"pid{self._goes_by}" or is_glob(description.module + description.function):
            return None
        if description.name not in ("entry", "return") or not description.function:
            return None
        for loaded in self._images(description.module):
            if self._foreign(loaded, description.function):
                return None
            found = self._signature(loaded, description.function)
            if found is not None:
                return found.arguments if description.name == "entry" else ((INT64, 0), *returned(found.result))
        return None

    def foreign(self, probe: str) -> str:
        description = described(probe)
        if self.process is None or not (description.provider or description.function):
            return ""
        if not fnmatch.fnmatchcase(f"pid{self._goes_by}", description.provider or "*"):
            return ""
        named = "" if is_glob(description.function) else description.function
        found = (self._foreign(loaded, named) for loaded in self._process_images(description.module))
        return next(filter(None, found), "")

    def local(self, probe: str, function: str, name: str) -> LocalVariable | None:
        if self.process is None:
            return LocalVariable(why="that takes a process, by -p or -c")
        from gilk.engines.dtrace import local_sites  # imported here, as above

        key = (probe, function, name)
        if key not in self._locals:
            process, renamed = cast("Target", self.process), Renamed(self._goes_by, self.process.pid)
            self._locals[key] = local_sites.found(process, renamed.there(described(probe)), function, name)
        return self._locals[key]

    def _process_images(self, module: str) -> Iterator[Loaded]:
        if self.process is not None:
            yield from (loaded for loaded in self.process.loaded() if loaded.is_meant(module))

    def _foreign(self, loaded: Loaded, name: str) -> str:
        """The language of the functions of that name, if they do not call as C does; if the name is empty, of any
        function of the image."""
        from gilk.engines.dtrace import signatures  # imported here, as above

        debug = self._image_debug(loaded)
        if debug is None:
            return ""
        if not name:
            return debug.types.foreign()
        try:
            found = (signatures.language(debug, span, name) for span in self._named(loaded, name))
            return next(filter(None, found), "")
        except ImageError:
            return ""

    def _signature(self, loaded: Loaded, name: str) -> CallSignature | None:
        """The signature of the functions of that name; None if it is not known, or if theirs differ."""
        from gilk.engines.dtrace import signatures  # imported here, as above

        debug = self._image_debug(loaded)
        if debug is None:
            return None
        try:
            found = [signatures.signature(debug, span) for span in self._named(loaded, name)]
        except ImageError:
            return None
        return found[0] if found and all(each == found[0] for each in found) else None

    def _named(self, loaded: Loaded, name: str) -> list[FunctionSpan]:
        """The functions of an image that the name means in a description of a pid probe."""
        from gilk.engines.dtrace.signatures import FunctionNames  # imported here, as above

        image, key = self._image(loaded), str(loaded.path)
        if image is None:
            return []
        if key not in self._names:
            self._names[key] = FunctionNames(image)
        return self._names[key].meant(name)


def _row(image: Image, name: str) -> Row | None:
    found = (row for row in image.named(name) if row.address)
    return min(found, key=lambda row: row.local, default=None)
