# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs as Debian ships them do real work while every block of theirs, and of libc's, is counted.

Each first runs plainly: what it prints and how it ends must be the same.
"""

from __future__ import annotations

import os
import random
import shlex
import time
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import Command, differences, leftovers, plain, redirected, run

BASH = r"""
set -e
fib() { local n=$1; if ((n < 2)); then echo $n; else echo $(( $(fib $((n - 1))) + $(fib $((n - 2))) )); fi; }
declare -A seen
trap 'echo leaving $?' EXIT
for i in {1..200}; do seen[$((i * 7 % 31))]+="$i,"; done
for key in $(printf '%s\n' "${!seen[@]}" | sort -n); do echo "$key ${seen[$key]}"; done
cat <<END | while read -r a b; do echo "$b:$a"; done
one 1
two 2
$(fib 8) fib
END
( exit 3 ) || echo "subshell $?"
text="The quick brown fox"; echo "${text//o/0} ${text^^} ${text:4:5} ${#text}"
[[ $text =~ (q[a-z]+) ]] && echo "${BASH_REMATCH[1]}"
trap 'echo usr1' USR1; kill -USR1 $$; sleep 0.01
printf '%05d %x %s\n' 42 255 done | tr a-z A-Z
diff <(seq 5) <(seq 2 6) || true
case $text in *fox) echo animal;; *) echo none;; esac
echo $((2**40 % 1000003)) && ! false
"""

SQL = r"""
create table a(id integer primary key, name text, value real);
create table b(id integer primary key, a integer references a, note text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
  insert into a select i, 'name-' || (i * 7919 % 1000), i * 0.5 from n;
insert into b select id, (id * 31) % 3000 + 1, printf('%08x', id * 2654435761 % 4294967296) from a;
create index names on a(name);
select name, count(*), round(sum(value), 2) from a group by name order by 2 desc, 1 limit 20;
select a.name, b.note from a join b on b.a = a.id where a.value between 100 and 110 order by b.note limit 30;
update a set value = value * 2 where name like 'name-1%';
delete from b where id % 7 = 0;
select count(*), sum(length(note)) from b;
select group_concat(name, '|') from (select distinct substr(name, 1, 6) as name from a order by 1);
pragma integrity_check;
"""

PERL = r"""
use strict; my %h; my $text = join ' ', map { sprintf "%s%d", chr(97 + $_ % 26), $_ * 7919 % 1009 } 1..3000;
$h{$1} += $2 while $text =~ /\b([a-z])(\d+)\b/g;
print "$_ $h{$_}\n" for sort { $h{$b} <=> $h{$a} || $a cmp $b } keys %h;
(my $t = $text) =~ s/(\d+)/<$1>/g; print length($t), "\n";
my @s = sort { $a->[1] <=> $b->[1] } map { [$_, ($_ * 31) % 977] } 1..2000; print join(",", map { $_->[0] } @s[0..9]), "\n";
eval { die { code => 7 } }; print "caught $@->{code}\n"; local $SIG{ALRM} = sub { die "alarm\n" };
print pack("N*", 1..4) eq "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4" ? "packed\n" : "broken\n";
print scalar reverse("abc"), " ", join("-", split //, "split"), " ", `echo from a shell`; printf "%.6f %s\n", sin(1), 2**0.5;
"""

PYTHON = r"""
import json, re, subprocess, threading, collections, hashlib, zlib, decimal
data = {"k%d" % i: [i, i * 0.5, str(i), None, True] for i in range(400)}
text = json.dumps(data, sort_keys=True); assert json.loads(text) == data
print(len(text), hashlib.sha256(text.encode()).hexdigest(), zlib.crc32(text.encode()))
print(collections.Counter(re.findall(r"[0-9]{2}", text)).most_common(5))
found = []
def work(n): found.append(sum(i * i % 7 for i in range(2000)) + n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]; print(sorted(found))
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout)
def gen():
    try: yield from range(3)
    finally: print("closed")
print(list(gen()), decimal.Decimal(2).sqrt(), sorted({3, 1, 2}), "%s" % [x for x in map(str, range(5))])
try: 1 / 0
except ZeroDivisionError as e: print(repr(e))
"""


def commands(directory: Path) -> dict[str, tuple[Command, bytes]]:
    """The command line and the input of each program."""
    content = directory / "content"
    if not content.exists():
        chance = random.Random(1)
        words = [chance.randbytes(chance.randrange(3, 12)) for _ in range(2000)]
        content.write_bytes(b"".join(chance.choice(words) for _ in range(90_000)))
    pipe = "set -o pipefail; {0} -c content > packed && {0} -dc packed | cmp - content && cksum packed"
    return {
        "bash": (["bash", "-c", BASH], b""),
        "sqlite3": (["sqlite3", ":memory:"], SQL.encode()),
        "perl": (["perl", "-e", PERL], b""),
        "gzip": (["gzip", "-c", str(content)], b""),
        "gzip-d": (["gzip", "-tv"], plain(["gzip", "-nc", content]).stdout),
        "xz": (["xz", "-T1", "-1", "-c", str(content)], b""),
        "xz-d": (["xz", "-dc"], plain(["xz", "-1", "-c", content]).stdout),
        "openssl": (["openssl", "dgst", "-sha256", str(content)], b""),
        "openssl-enc": (["openssl", "enc", "-aes-256-cbc", "-K", "00" * 32, "-iv", "11" * 16, "-in", str(content)], b""),
        "python3": (["/usr/bin/python3", "-c", PYTHON], b""),
        "gdb": (
            ["gdb", "-q", "-nx", "-batch", "-ex", "info functions ^open", "-ex", "disassemble main", "-ex", "p 6*7",
             "-ex", "python print(sum(range(100)))", "/usr/bin/env"], b"",
        ),
        "pipe": (["bash", "-c", f"cd {shlex.quote(str(directory))}; " + pipe.format("gzip -n")], b""),
    }  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


def compared(name: str, inserts: list[str], work: Path) -> None:
    command, stdin = commands(work)[name]
    if command[0] == "/usr/bin/python3" and not Path(command[0]).exists():
        pytest.skip("the distribution's Python is not installed")
    expected = plain(command, stdin)
    ran = run(inserts, command, stdin, timeout=1500)
    assert (ran.status, ran.stdout) == (expected.status, expected.stdout)
    assert ran.stderr == expected.stderr
    assert ran.report["restored"] is True, ran.report["notes"]
    assert ran.report["drops"] == 0
    assert sum(ran.report["counts"].values()) > 1000


#: The smaller programs run always; under `make stress` all do, with libc.
QUICK = ["gzip", "xz-d"]
ALL = ["bash", "sqlite3", "perl", "gzip", "gzip-d", "xz", "xz-d", "openssl", "openssl-enc", "python3", "gdb", "pipe"]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.stress) for name in ALL]
)
def test_every_block_of_a_stock_program_is_counted(name: str, work: Path) -> None:
    compared(name, ["*:blocks=count"], work)


@pytest.mark.stress
@pytest.mark.parametrize("name", ALL)
def test_every_block_of_a_stock_program_and_libc_is_counted(name: str, work: Path) -> None:
    compared(name, ["*:blocks=count", "libc.so.6:*:blocks=count"], work)


LONG = [pytest.param(name, marks=pytest.mark.stress) for name in ("bash", "openssl-enc", "python3")]


@pytest.mark.parametrize("name", ["sqlite3", *LONG])
def test_every_entry_of_a_stock_program_and_libc_is_counted(name: str, work: Path) -> None:
    compared(name, ["*:entry=count", "libc.so.6:*:entry=count"], work)


@pytest.mark.stress
@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("openssl", "libcrypto.so*"),
        ("openssl-enc", "libcrypto.so*"),
        ("sqlite3", "libsqlite3.so*"),
        ("xz", "liblzma.so*"),
    ],
)
def test_every_block_of_a_stock_programs_library_is_counted(name: str, library: str, work: Path) -> None:
    compared(name, [f"{library}:*:blocks=count"], work)


@pytest.mark.stress
def test_openssl_signs_and_verifies_with_every_block_counted(work: Path) -> None:
    key, signature = work / "key.pem", work / "signature"
    assert (
        run(["*:blocks=count", "libcrypto.so*:*:entry=count"], ["openssl", "genrsa", "-out", str(key), "1024"]).status
        == 0
    )
    sign = ["openssl", "dgst", "-sha256", "-sign", str(key), "-out", str(signature), str(work / "content")]
    assert run(["*:blocks=count", "libcrypto.so*:*:blocks=count"], sign, timeout=1500).status == 0
    (work / "public.pem").write_bytes(plain(["openssl", "rsa", "-in", key, "-pubout"]).stdout)
    verified = plain(
        ["openssl", "dgst", "-sha256", "-verify", work / "public.pem", "-signature", signature, work / "content"]
    )
    assert verified.stdout == b"Verified OK\n"


@pytest.mark.stress
def test_a_hundred_thousand_points_in_a_stock_program() -> None:
    """All points are put into one running process at once. It goes on with its work, and is restored."""
    program = Path("/usr/bin/python3").resolve()
    script = "import json, time\nend = time.time() + 3600\nwhile not open('{stop}').read():\n    json.loads(json.dumps(list(range(50))))\nprint('done')\n"
    stop = Path(f"/tmp/gilk-stop-{os.getpid()}")
    stop.write_text("")
    try:
        with redirected() as (out, _), gilk.launch([str(program), "-c", script.format(stop=stop)]) as target:
            pid = target.pid
            with target.session(points=1 << 19) as session:
                probes = session.insert("*:blocks", gilk.count) + session.insert("libc.so.6:*:blocks", gilk.count)
                spliced = sum(probe.tactic is not None for probe in probes)
                assert spliced >= 100_000, spliced
                target.resume()
                time.sleep(5)
                before = sum(session.counts().values())
                time.sleep(1)
                assert sum(session.counts().values()) > before
            assert session.restored is True
            assert differences(pid) == []
            assert leftovers(pid) == []
            stop.write_text("x")
            while (end := target.process.wait(block=False)) is None:
                time.sleep(0.05)
            assert end.code == 0
            out.seek(0)
            assert out.read() == b"done\n"
    finally:
        stop.unlink()
