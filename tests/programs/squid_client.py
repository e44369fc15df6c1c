# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clients of the proxy at PORT. Standard input has [client's address, URL] of each request, as JSON. The requests
are made one after the other, on a connection for each client. Prints the number of bytes in the answers to each
client."""

import http.client
import json
import sys
import time
from collections import Counter

PATIENCE = 240.0  # seconds until the proxy listens, and for an answer


def connected(client: str, port: int) -> http.client.HTTPConnection:
    until = time.monotonic() + PATIENCE
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE, source_address=(client, 0))
        try:
            connection.connect()
            return connection
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def main(port: int, asked: list[tuple[str, str]]) -> None:
    connections = {client: connected(client, port) for client in sorted({client for client, _ in asked})}
    sums = Counter[str]()
    for client, url in asked:
        connections[client].request("GET", url)
        answer = connections[client].getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{url}: {answer.status}")
        sums[client] += len(body)
    print(json.dumps(sums))


main(int(sys.argv[1]), json.load(sys.stdin))
