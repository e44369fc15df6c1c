/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starts the given program between its own calls, and passes on that program's output. */
#include "kind.h"

int main(int argc, char **argv)
{
	for (int i = 0; i < 2; i++) {
		FILE *said = popen(argc > 1 ? argv[1] : "false", "r");
		char line[64];

		while (said && fgets(line, sizeof line, said))
			fputs(line, stdout);
		if (!said || pclose(said))
			return 1;
	}
	return attend(1, steadily);
}
