# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs of runtimes with collectors, stacks, exceptions and generated code of their own, with an instrument at every
function and in a trace: they print what they print undisturbed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.behaviour.harness import run_gilk

pytestmark = pytest.mark.stress

OCAML = r"""
exception Found of int
let rec deep n = if n = 0 then 0 else 1 + deep (n - 1)
let () =
  let table = Hashtbl.create 10 in
  for i = 0 to 50000 do Hashtbl.replace table (string_of_int i) (Array.make 3 i) done;
  Gc.full_major ();
  (try Hashtbl.iter (fun _ a -> if a.(0) = 777 then raise (Found a.(1))) table with Found n -> Printf.printf "%d\n" n);
  (try ignore (Array.get [|1|] 5) with Invalid_argument s -> print_endline s);
  Printf.printf "%d %d\n" (Hashtbl.length table) (deep 50000)
"""

RUBY = r"""
table = {}
20000.times { |i| table["k#{i}"] = [i, i.to_s * 3] }
GC.start
threads = 4.times.map { |t| Thread.new { (1..2000).map { |x| (x * t).to_s.reverse }.join.size } }
puts table.size, threads.map(&:value).sum
begin; raise "caught"; rescue => e; puts e.message; end
fiber = Fiber.new { 3.times { |i| Fiber.yield i }; :done }
4.times { p fiber.resume }
puts `echo child`
"""

PHP = r"""<?php
$words = [];
for ($i = 0; $i < 50000; $i++) $words[] = str_repeat(chr(65 + $i % 26), $i % 50);
usort($words, fn($x, $y) => strcmp($x, $y));
echo md5(implode($words)), "\n";
try { throw new Exception("caught"); } catch (Exception $e) { echo $e->getMessage(), "\n"; }
function numbers() { for ($i = 0; $i < 5; $i++) yield $i; }
foreach (numbers() as $x) echo $x;
echo preg_replace('/(\w+) (\w+)/', '$2 $1', " hello world"), "\n";
"""

LUA = r"""
local words = {}
for i = 1, 50000 do words[i] = tostring(i * 7919 % 10007) end
table.sort(words)
print(words[1], words[50000])
local numbers = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i) end end)
for i = 1, 5 do io.write(numbers(), " ") end
print(pcall(error, "caught"))
collectgarbage()
"""

GUILE = r"""
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(define (collect i found)
  (if (= i 0) (length found)
    (collect (- i 1) (cons (number->string i) (if (= 0 (modulo i 1000)) '() found)))))
(display (list (fib 22) (collect 200000 '()))) (newline)
(display (call-with-current-continuation
  (lambda (leave) (dynamic-wind (lambda () #f) (lambda () (leave 42)) (lambda () #f))))) (newline)
"""

LISP = r"""
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(let ((table (make-hash-table :test 'equal)))
  (dotimes (i 100000) (setf (gethash (format nil "~a" i) table) i))
  (sb-ext:gc :full t)
  (print (list (fib 24) (hash-table-count table))))
(print (handler-case (/ 1 0) (division-by-zero () :division)))
(print (handler-case (car (read-from-string "1")) (type-error () :type)))
(terpri)
"""

PROLOG = r"""
:- initialization(main).
fib(0, 0). fib(1, 1). fib(N, F) :- N > 1, A is N - 1, B is N - 2, fib(A, X), fib(B, Y), F is X + Y.
main :- fib(17, F), numlist(1, 5000, L), foldl([X, A, B] >> (B is A + X), L, 0, S), print(F-S), nl,
    catch(_ is foo + 1, _, (print(caught), nl)), halt.
"""

SHELL = """#!/bin/bash
for f in $(ls *.txt); do echo $f; if [ $a == "b" ]; then cat $f | grep x; fi; done
"""

#: The text of a program by the command that runs it: FILE stands for its file. Words before the first "--" make a
#: program of it, which is run then.
RUNTIMES = {
    "haskell": (SHELL, "t.sh", "shellcheck FILE"),
    "ocaml": (OCAML, "t.ml", "ocamlopt -o t FILE -- ./t"),
    "ruby": (RUBY, "t.rb", "ruby FILE"),
    "php": (PHP, "t.php", "php FILE"),
    "luajit": (LUA, "t.lua", "luajit FILE"),
    "guile": (GUILE, "t.scm", "guile --no-auto-compile FILE"),
    "sbcl": (LISP, "t.lisp", "sbcl --script FILE"),
    "prolog": (PROLOG, "t.pl", "swipl FILE"),
}


@pytest.fixture(params=RUNTIMES)
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The command of a program, to be run in ``tmp_path``."""
    text, file, words = RUNTIMES[request.param]
    (tmp_path / file).write_text(text)
    before, _, after = words.replace("FILE", file).rpartition("-- ")
    if before:
        subprocess.run(before.split(), cwd=tmp_path, check=True, capture_output=True)
    assert before or shutil.which(after.split()[0]), "tools/setup stress installs it"
    return after.split()


@pytest.mark.parametrize("how", ["count", "time", "trace"])
def test_programs_of_other_runtimes_print_the_same(command: list[str], how: str, tmp_path: Path) -> None:
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    words = ["trace", "-o", "t.parquet"] if how == "trace" else ["run", "-i", f"*:*:entry={how}"]
    done = run_gilk(*words, "--json", "--", *command, cwd=tmp_path)
    *said, report = done.stdout.splitlines()
    assert (done.returncode, "\n".join(said).rstrip()) == (alone.returncode, alone.stdout.rstrip()), done.stderr
    told = json.loads(report)
    assert told["restored"] is True
    hits = {"trace": lambda: told["trace"]["calls"], "time": lambda: told["records"]}
    assert hits.get(how, lambda: sum(told["counts"].values()))() > 1000
