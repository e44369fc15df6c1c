# SPDX-License-Identifier: LGPL-2.1-or-later
"""A stock kernel in which every instruction takes one nanosecond, and the cost of a call in it while a tool is
active."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from iced_x86 import Decoder

from bench.measure import BUILD, HERE
from gilk.api.aspects import read_aspects
from gilk.engines.aspect.weaving import Weaving
from gilk.engines.dtrace.compiled import ProgramText
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.machine import OtherMachine
from gilk.image.kernel.btf import Btf, TypeKind
from gilk.image.model import FunctionSpan
from gilk.lab import VM
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.runs.elsewhere import Elsewhere
from gilk.session.kernel_session import KernelSession
from gilk.session.request import Builtin, CFunction
from gilk.targets.kernel import driver_build, driver_load
from gilk.targets.kernel.target import KernelTarget
from gilk.toolchain.kernel_instrument import run_kbuild

BATCHES = "20"
LIMIT = 900.0  # seconds that a command in the machine may take
TURNS = 20  # tenths of a second that the kernel may take to optimise a kprobe
JUMP = b"\xe9"
TRACER = """\
cd /sys/kernel/tracing
echo {function} > set_ftrace_filter
echo {tracer} > current_tracer
"""


class Scene:
    """A booted machine `vm` that counts instructions, and a kernel function to measure. The constructor loads the
    driver and builds everything."""

    function = "__task_pid_nr_ns"  # getppid calls it once, and BTF describes it

    def __init__(self, vm: VM) -> None:
        self.vm = vm
        self._calls, self._bpf = (_compiled(name) for name in ("lab_calls", "lab_bpf"))
        self._peers = _module(vm.kernel.headers)
        driver_load.load(vm.link, driver_build.build(vm.kernel.headers))
        self.target = KernelTarget(vm.link)
        self.plain = self.cost()

    def cost(self) -> float:
        """The instructions of a call in the batch that had the fewest; interrupts add to some batches."""
        return min(float(line) for line in self._run(str(self._calls), BATCHES).splitlines())

    def more(self) -> float:
        """The instructions that a call takes beyond the plain call."""
        return self.cost() - self.plain

    @cached_property
    def _span(self) -> FunctionSpan:
        return next(span for span in self.target.kernel.image.spans if span.name == self.function)

    def gilk(self, where: str, instrument: Builtin | CFunction) -> float:
        """The added instructions with gilk's ``instrument`` at ``where`` in the function, which may be several
        points."""
        with KernelSession(self.target) as session:
            probes = session.insert(f"kernel:{self.function}:{where}", instrument)
            refused = [str(probe.refusal) for probe in probes if probe.tactic is None]
            if refused:
                raise ValueError(f"{where}: {refused[0]}")
            found = self.more()
            seen = session.poll().num_rows + sum(session.counts().values())
        self.vm.link.close_driver()
        if not seen and isinstance(instrument, Builtin):
            raise ValueError(f"{where}: it was never hit")
        return found

    def clauses(self, text: str) -> float:
        """The added instructions with clauses of D in the kernel; %s in the text stands for the function."""
        machine = OtherMachine(Elsewhere(self.vm.link, lambda: None), self.target)
        source = ProgramText("script", Source("clauses", text.replace("%s", self.function)))
        consumer = Consumer([source], Macros({}, ("clauses",)), Options(), None, (), machine)
        try:
            consumer.compile()
            refused = consumer.start()
            if refused:
                raise ValueError(str(refused[0]))
            return self.more()
        finally:
            machine.close()

    def aspects(self, text: str) -> float:
        """The added instructions with aspects in the kernel; CALL in the text stands for a call of the function.
        Raises ValueError if no aspect matched."""
        call = f"call(int {self.function}(struct task_struct *task, int type, void *space))"
        with tempfile.TemporaryDirectory(prefix="gilk-bench-") as name:
            path = Path(name) / "bench.aspect"
            path.write_text(text.replace("CALL", call))
            weaving = Weaving(read_aspects(path), {}, [], kernel=self.target)
            weaving.weave()
            try:
                return self.more()
            finally:
                weaving.unweave()

    def by_peer(self, way: str, offset: int = 0) -> float:
        """The added instructions with the kernel's own mechanism ``way`` at the offset. Raises ValueError if it was
        never called."""
        with self._peer(way, offset):
            found = self.more()
            if not int(self.vm.link.read_file("/sys/module/lab_peers/parameters/hits")):
                raise ValueError(f"{way}: it was never called")
            return found

    @cached_property
    def inside(self) -> int:
        """The offset of the first instruction that runs and at which the kernel can turn a kprobe into a jump."""
        for offset in self._offsets():
            try:
                with self._peer("kprobe", offset):
                    if self._is_optimised(offset) and self.more() > 0:
                        return offset
            except ValueError:  # the kernel refuses a kprobe there
                continue
        raise ValueError(f"the kernel optimises no kprobe in {self.function}")

    def optimised(self) -> float:
        with self._peer("kprobe", self.inside):
            if not self._is_optimised(self.inside):
                raise ValueError("the kernel did not optimise it this time")
            return self.more()

    def trapped(self) -> float:
        switch = "/proc/sys/debug/kprobes-optimization"
        offset = self.inside
        self._shell(f"echo 0 > {switch}")
        try:
            return self.by_peer("kprobe", offset)
        finally:
            self._shell(f"echo 1 > {switch}")

    def _offsets(self) -> list[int]:
        """The offsets of the function's instructions after the first."""
        code = self.vm.link.read_core([(self._span.start, self._span.end - self._span.start)])[0]
        return [each.ip for each in Decoder(64, code, ip=0)][1:]

    @contextmanager
    def _peer(self, way: str, offset: int) -> Iterator[None]:
        self._run("insmod", str(self._peers), f"way={way}", f"symbol={self.function}", f"offset={offset}")
        try:
            yield
        finally:
            self._run("rmmod", "lab_peers")

    def _is_optimised(self, offset: int) -> bool:
        """Whether the kernel has written a jump there. Its list of optimised kprobes also has those that only wait
        for it."""
        for _ in range(TURNS):
            if self.vm.link.read_core([(self._span.start + offset, 1)])[0] == JUMP:
                return True
            self._run("sleep", "0.1")
        return False

    def by_bpf(self, *words: str) -> float:
        """The added instructions with a BPF program that counts in a map."""
        said = bytearray()
        process = self.vm.link.spawn([str(self._bpf), *words], said.extend, said.extend)
        while b"ready" not in said:
            if process.wait(0.1) is not None:
                raise ValueError(said.decode().strip()[-300:])
        found = self.more()
        process.end_input()
        process.wait(LIMIT)
        if int(said.split()[-1]) < 1000:
            raise ValueError(f"{words[0]}: it was never called")
        return found

    @cached_property
    def type_number(self) -> str:
        """The number by which BTF, and so BPF, knows the function."""
        found = Btf(self.vm.link.read_file("/sys/kernel/btf/vmlinux")).find(self.function, TypeKind.FUNC)
        if found is None:
            raise ValueError(f"BTF does not know {self.function}")
        return str(found.number)

    def traced(self) -> float:
        """The added instructions with the function tracer, which writes into its buffer."""
        self._shell(TRACER.format(function=self.function, tracer="function"))
        try:
            return self.more()
        finally:
            self._shell(TRACER.format(function="", tracer="nop"))

    def _shell(self, script: str) -> str:
        return self._run("sh", "-ec", script)

    def _run(self, *command: str) -> str:
        """The output of a command in the machine. Raises ValueError with its errors if it fails."""
        status, out, said = self.vm.run(command, timeout=LIMIT)
        if status:
            raise ValueError(f"{command[0]}: status {status}: {said.decode(errors='replace').strip()[-300:]}")
        return out.decode()


def _compiled(name: str) -> Path:
    """A program of bench/targets, compiled where the machine can see it."""
    product = BUILD.resolve() / name
    subprocess.run(["cc", "-O2", "-static", "-o", product, HERE / "targets" / f"{name}.c"], check=True)
    return product


def _module(headers: Path) -> Path:
    """The compiled kernel module lab_peers. Raises ValueError with the compiler's errors."""
    with tempfile.TemporaryDirectory(prefix="gilk-bench-") as name:
        place = Path(name) / "lab_peers"
        shutil.copytree(HERE / "targets" / "lab_peers", place)
        done = run_kbuild(headers, place)
        if done.returncode:
            raise ValueError(f"lab_peers does not compile: {done.stderr.strip()[-300:]}")
        return Path(shutil.copy2(place / "lab_peers.ko", BUILD.resolve()))
