# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that ``gilk dtrace`` has preprocessed, and what cpp and the options for it say."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Dtrace


def test_scripts_are_preprocessed_on_request(dtrace: Dtrace, tmp_path: Path) -> None:
    (tmp_path / "number.h").write_text("#define NUMBER 41\n")
    script = tmp_path / "cpp.d"
    script.write_text('#include "number.h"\n#ifdef MORE\nBEGIN { trace(NUMBER + MORE); exit(0); }\n#endif\n')
    done = dtrace("-C", "-D", "MORE=1", "-X", "c", "-H", "-64", "-q", "-s", script)
    assert (done.returncode, done.stdout) == (0, "42\n")
    assert re.search(r"^\. .*number\.h$", done.stderr, re.M)
    script.write_text("#pragma D option cpp\n" + script.read_text())
    assert dtrace("-D", "MORE=2", "-q", "-s", script).stdout == "43\n"
    script.write_text("#pragma D option cpp\nBEGIN { trace(NUMBER + MORE); exit(0); }\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "number.h").write_text("#define NUMBER 100\n")
    options = ["-x", "define=NUMBER=1", "-x", "define=MORE=5", "-x", "undef=NUMBER", "-x", "define=NUMBER=3"]
    done = dtrace(*options, "-q", "-s", script)
    assert (done.returncode, "NUMBER" in done.stderr) == (1, True)  # what is undefined is so at last
    assert dtrace(*options[:4], "-q", "-s", script).stdout == "6\n"
    script.write_text("#include <number.h>\nBEGIN { trace(NUMBER); exit(0); }\n")
    assert dtrace("-x", "cpp", "-x", "incdir=more", "-q", "-s", script).stdout == "100\n"
    script.write_text('#include "number.h"\nBEGIN { nothing; }\n')
    assert f"script {script}: line 2: " in dtrace("-C", "-s", script).stderr


def test_preprocessor_complains_about_its_input_by_the_name_that_it_has_in_dtrace(
    dtrace: Dtrace, tmp_path: Path
) -> None:
    script = tmp_path / "s.d"
    script.write_text("BEGIN { trace(__FILE__); exit(0); }\n")
    assert dtrace("-C", "-q", "-s", script).stdout == "/dev/stdin\n"
    script.write_text("BEGIN\n#ifdef NOTHING\n{ exit(0); }\n")
    done = dtrace("-C", "-s", script)
    assert done.returncode == 1 and re.match(r"/dev/stdin:2:[\d:]* error: ", done.stderr)
    assert f"failed to compile script {script}: Preprocessor failed" in done.stderr


def test_preprocessor_options_reach_the_preprocessor(dtrace: Dtrace, tmp_path: Path) -> None:
    script = tmp_path / "s.d"
    script.write_text("#ifdef GIVEN\nBEGIN { exit(3); }\n#endif\n")
    assert dtrace("-x", "cpp", "-x", "cppargs=-DGIVEN", "-s", str(script)).returncode == 3
    assert dtrace("-x", "cpp", "-x", "cppargs=-UGIVEN -DGIVEN", "-s", str(script)).returncode == 3
    assert "cannot be run" in dtrace("-x", "cpp", "-x", "cpppath=/nonesuch", "-s", str(script)).stderr
    assert "failed to set -x stdc: Invalid value" in dtrace("-x", "stdc=x", "-s", str(script)).stderr
    done = dtrace("-x", "cpp", "-x", "cpppath=/bin/cat", "-s", str(script))  # its own name is what a shell would give
    assert done.returncode == 1 and done.stderr.startswith("cat: ")
    assert done.stderr.endswith(f"compile script {script}: Preprocessor failed to process input program\n")
    script.write_text("#include <endian.h>\nBEGIN { exit(__BYTE_ORDER == __LITTLE_ENDIAN); }\n")
    assert dtrace("-x", "cpp", "-s", str(script)).returncode == 1  # that header has functions of C beyond C99
    script.write_text("#pragma D option stdc=a\nBEGIN { exit(0); }\n")
    assert "Option cannot be used from within a D program" in dtrace("-s", str(script)).stderr
