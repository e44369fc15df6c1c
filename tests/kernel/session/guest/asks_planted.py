# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes requests of /dev/planted: MODE (r, w) and CMD:ARGUMENT... Prints the answers, or the names of errors. With
`forever` in front, it goes on until it is killed, and prints each answer that differs from all before."""

import errno
import fcntl
import os
import sys


def answer(device: int, asked: str) -> str:
    command, argument = asked.split(":")
    try:
        return str(fcntl.ioctl(device, int(command), int(argument)))
    except OSError as error:
        return errno.errorcode[error.errno or 0]


words = sys.argv[1:]
forever = words[0] == "forever"
mode, *asked = words[forever:]
device = os.open("/dev/planted", os.O_RDWR if mode == "w" else os.O_RDONLY)
if not forever:
    print(*(answer(device, one) for one in asked))
last = ""
while forever:
    for one in asked:
        if (now := answer(device, one)) != last:
            print(now, flush=True)
            last = now
