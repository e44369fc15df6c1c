# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs in languages whose runtimes have threads, exceptions and generated code: their output is the same as
undisturbed, and nothing of gilk is left in them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import differences, leftovers

pytestmark = pytest.mark.stress

RUST = r"""
use std::io::BufRead;
use std::panic;
use std::thread;

#[no_mangle] #[inline(never)]
pub extern "C" fn work(x: u64) -> u64 { if x % 3 == 0 { x / 3 + 1 } else { x * 2 + 1 } }

fn deep(n: u64) -> u64 { if n == 0 { panic!("deep enough") } else { 1 + deep(n - 1) } }

fn main() {
    panic::set_hook(Box::new(|_| {}));
    println!("ready");
    for _ in std::io::stdin().lock().lines() {
        let threads: Vec<_> = (0..4u64).map(|n| {
            thread::Builder::new().stack_size(16 << 10).spawn(move || {
                let mut text = String::new();
                let mut x = n;
                for i in 0..500 { x = work(x) & 0xffff; if i % 50 == 0 { text += &x.to_string(); } }
                let caught = panic::catch_unwind(|| deep(20)).is_err();
                format!("{} {}", text, caught)
            }).unwrap()
        }).collect();
        let said: Vec<String> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        println!("{}", said.join(" "));
    }
}
"""

NODE = r"""
const crypto = require('crypto'), zlib = require('zlib');
const lines = require('readline').createInterface({ input: process.stdin });
function hot(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 31 + i) % 65521; return x; }
let chain = Promise.resolve(), turn = 0;
const once = (seed) => new Promise((done) => crypto.pbkdf2('key', 'salt' + seed, 500, 16, 'sha256', (error, key) => {
  const packed = zlib.gunzipSync(zlib.gzipSync(Buffer.from(key.toString('hex').repeat(50))));
  try { null.x; } catch (error) { done(`${hot(20000 + seed)} ${packed.length} ${error instanceof TypeError}`); }
}));
console.log('ready');
lines.on('line', () => {
  const seed = turn++;
  chain = chain.then(() => Promise.all([once(seed), once(seed + 7)])).then((said) => console.log(said.join(' ')));
});
"""

JAVA = r"""
import java.util.*;
import java.util.stream.*;

public class Kind {
    static Object nothing;
    static long hot(long n) { long x = 1; for (long i = 0; i < n; i++) x = (x * 31 + i) % 65521; return x; }

    static String one(int n) {
        int caught = 0;
        for (int i = 0; i < 200; i++) { try { nothing.hashCode(); } catch (NullPointerException e) { caught++; } }
        Map<String, Integer> seen = new TreeMap<>();
        for (int i = 0; i < 2000; i++) seen.merge("k" + (i * n) % 97, 1, Integer::sum);
        return hot(20000 + n) + " " + caught + " " + seen.size();
    }

    public static void main(String[] arguments) throws Exception {
        Scanner input = new Scanner(System.in);
        System.out.println("ready");
        while (input.hasNextLine()) {
            input.nextLine();
            System.out.println(IntStream.range(1, 9).parallel().mapToObj(Kind::one).collect(Collectors.joining(" ")));
            System.gc();
        }
    }
}
"""

PYTHON = r"""
import hashlib, sys, threading, zlib
def one(n, found):
    data = b''.join(str(i * n).encode() for i in range(3000))
    try:
        {}[n]
    except KeyError as error:
        found[n] = f'{hashlib.sha256(zlib.compress(data)).hexdigest()[:8]} {error}'
print('ready', flush=True)
for line in sys.stdin:
    found = {}
    threads = [threading.Thread(target=one, args=(n, found)) for n in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(*(found[n] for n in range(4)), flush=True)
"""


def rust(place: Path) -> list[str]:
    (place / "kind.rs").write_text(RUST)
    subprocess.run([needed("rustc"), "-O", "-o", place / "rusty", place / "kind.rs"], check=True)
    return [str(place / "rusty")]


def node(place: Path) -> list[str]:
    (place / "kind.js").write_text(NODE)
    return [needed("node"), str(place / "kind.js")]


def java(place: Path) -> list[str]:
    (place / "Kind.java").write_text(JAVA)
    if shutil.which("javac"):
        subprocess.run(["javac", "-d", place, place / "Kind.java"], check=True)
        return [needed("java"), "-cp", str(place), "Kind"]
    return [needed("java"), str(place / "Kind.java")]


def python(place: Path) -> list[str]:
    (place / "kind.py").write_text(PYTHON)
    return [needed("/usr/bin/python3"), str(place / "kind.py")]


def needed(program: str) -> str:
    found = shutil.which(program)
    if not found:
        pytest.skip(f"{program} is not installed")
    return found


#: The instruments that each gets at once: (points, instrument), some of which every line of input reaches.
LANGUAGES = {
    rust: [("rusty:work:blocks", "count"), ("libc.so.6:malloc:entry", "time")],
    node: [("libc.so.6:m*:entry", "count"), ("libc.so.6:pthread_*:entry", "time")],
    java: [("libjvm.so:JVM_*:entry", "count"), ("libc.so.6:malloc:entry", "time")],
    python: [("libc.so.6:malloc:entry", "time"), ("python3*:Py*:entry", "count")],
}


class Attending:
    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.said() == "ready"

    def said(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.poll()
        return line.rstrip("\n")

    def poke(self) -> str:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.said()


@contextlib.contextmanager
def attending(command: list[str]) -> Iterator[Attending]:
    """Run a command that answers lines; it must end well."""
    made = Attending(command)
    try:
        yield made
        made.process.communicate(timeout=250)
        assert made.process.returncode == 0
    finally:
        made.process.kill()
        made.process.communicate()


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.__name__)
def test_programs_in_other_languages_print_the_same_as_undisturbed(language: object, tmp_path: Path) -> None:
    assert callable(language)
    command, rounds = language(tmp_path), 3
    with attending(command) as program:
        undisturbed = [program.poke() for _ in range(2 * rounds)]
    with attending(command) as program:
        said, pid = [], program.process.pid
        for _ in range(rounds):
            with gilk.attach(pid) as target, target.session() as session:
                for points, instrument in LANGUAGES[language]:
                    session.insert(points, instrument)
                said.append(program.poke())
                assert sum(session.counts().values()) > 0
                assert len(session.poll()) > 0
            assert session.restored
            said.append(program.poke())
            assert (differences(pid), leftovers(pid)) == ([], [])
        assert said == undisturbed


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.__name__)
def test_a_clause_records_stacks_of_programs_in_other_languages(language: object, tmp_path: Path) -> None:
    """The allocator may be called on any stack."""
    assert callable(language)
    clause = "pid$target:libc.so.6:malloc:entry { @[ustack(5)] = count(); @n = count(); } tick-2s { exit(0); }"
    with attending(language(tmp_path)) as program:
        words = [sys.executable, "-m", "gilk", "dtrace", "-q", "-n", clause, "-p", str(program.process.pid)]
        asked = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while asked.poll() is None:
            program.poke()
        out, err = asked.communicate()
        assert (asked.returncode, "malloc" in out) == (0, True), err
        assert (differences(program.process.pid), leftovers(program.process.pid)) == ([], [])
