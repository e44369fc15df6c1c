# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program that opens a library, and closes it again, on demand."""

from __future__ import annotations

from pathlib import Path

from tests.programs.build import build, compile_text

#: For each byte of input the program opens its argument and calls plugin_hot in it, or closes it; then it writes the
#: byte.
_SOURCE = """
#include <dlfcn.h>
#include <unistd.h>
int main(int count, char **words)
{
	void *plugin = 0;
	char byte;
	while (read(0, &byte, 1) == 1) {
		if (plugin)
			plugin = dlclose(plugin), (void *)0;
		else if (!((int (*)(int))dlsym(plugin = dlopen(words[1], RTLD_NOW), "plugin_hot"))(3))
			return 1;
		write(1, &byte, 1);
	}
	return 0;
}
"""


def opener(place: Path) -> tuple[Path, Path]:
    """Build the program in ``place``. Returns its path, and that of a library to be its argument."""
    return compile_text(place, "opens", _SOURCE, "-O1", "-w"), build("plugin")
