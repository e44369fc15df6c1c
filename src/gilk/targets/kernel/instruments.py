# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compiled instruments in a kernel: they are modules, loaded when a session first needs them, and unloaded after it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from gilk.errors import TargetError
from gilk.targets.kernel.driver_build import headers_of
from gilk.targets.kernel.link import Link, RelayLink
from gilk.toolchain.compilers import directory
from gilk.toolchain.kernel_instrument import KernelInstrument, compile_for_kernel
from gilk.values import dataclass

_LOGS = {"pair": "ilk_log_pair", "string": "ilk_log_string", "registers": "ilk_log_registers"}


class SymbolSource(Protocol):
    """The part of a Driver that instruments use."""

    @property
    def symbols(self) -> dict[str, int]: ...


@dataclass(frozen=True)
class LoadedInstrument:
    """An instrument in the kernel. ``plain``: the address of its code, ``size`` bytes long, that patches call directly;
    0 when it has to be called with registers, or by way of the guard."""

    name: str
    entry: int
    plain: int
    size: int


class KernelInstruments:
    """The compiled instruments of one session. ``release`` is the kernel's, as uname -r gives it.

    Raises TargetError `driver-load-failed`, and the errors of compile_for_kernel().
    """

    def __init__(self, link: Link, release: str, driver: SymbolSource) -> None:
        self._link = link
        self._release = release
        self._driver = driver
        self._loaded: dict[tuple[Path, str, str | None], LoadedInstrument] = {}

    def get(self, source: Path, function: str, rings: int, text: str | None = None) -> LoadedInstrument:
        """The instrument, compiled and loaded if it was not yet; its records go to the session's ``rings``.

        ``text``: the content of the file, which need not exist then.
        """
        key = (source, function, text)
        if key not in self._loaded:
            name = f"gilk_{secrets.token_hex(6)}"
            made = compile_for_kernel(source, function, name, headers_of(self._release), text)
            self._loaded[key] = self._load(made, rings)
        return self._loaded[key]

    def _load(self, made: KernelInstrument, rings: int) -> LoadedInstrument:
        text = load_module(self._link, self._driver, made.name, made.content, rings)
        plain = 0 if made.takes_registers or made.calls_out else text + made.plain
        return LoadedInstrument(made.name, text + made.entry, plain, made.plain_size)

    def unload(self) -> None:
        """Unload all instruments, once no code leads to them any more."""
        while self._loaded:
            _, instrument = self._loaded.popitem()
            with contextlib.suppress(OSError, TargetError):
                self._link.run(["rmmod", instrument.name])


def load_module(
    link: Link, driver: SymbolSource, name: str, content: bytes, rings: int, more: Sequence[str] = ()
) -> int:
    """Have the kernel load a module that logs into ``rings``; returns the address of its code. ``more``: NAME=VALUE of
    other parameters. Raises TargetError `driver-load-failed`."""
    addresses = {each: driver.symbols[symbol] for each, symbol in _LOGS.items()}
    values = [f"set={rings}", *(f"{each}={address:#x}" for each, address in addresses.items()), *more]
    with _placed(link, name, content) as path:
        status, _, said = link.run(["insmod", path, *values])
    if status:
        reason = said.decode(errors="replace").strip()
        raise TargetError("driver-load-failed", f"the kernel does not load the instrument: {reason}")
    return int(link.read_file(f"/sys/module/{name}/sections/.text"), 16)


@contextlib.contextmanager
def _placed(link: Link, name: str, content: bytes) -> Iterator[str]:
    """A context with the path of the module as a file on the machine of ``link``."""
    if isinstance(link, RelayLink):
        path = f"/dev/shm/{name}.ko"
        status, _, said = link.run(["sh", "-c", f"umask 077; cat > {path}"], content)
        if status:
            raise TargetError("driver-load-failed", f"cannot write {path}: {said.decode(errors='replace').strip()}")
        try:
            yield path
        finally:
            link.run(["rm", "-f", path])
        return
    with directory() as place:
        file = place / f"{name}.ko"
        file.write_bytes(content)
        yield str(file)
