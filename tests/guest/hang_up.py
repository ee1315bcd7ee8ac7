#!/usr/bin/env -S python3 -S
# SPDX-License-Identifier: GPL-2.0-only
"""Ask the daemon at localhost:9817 again and again, and hang up before the answer was read."""

import socket
import struct

RESET = struct.pack("ii", 1, 0)  # struct linger: close() sends RST, and drops what is unsent

for number in range(30):
    client = socket.create_connection(("localhost", 9817))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    page = "metrics" if number % 2 else "healthz"
    client.send(f"GET /{page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    if number % 3 == 0:
        client.shutdown(socket.SHUT_WR)
    if number % 3 == 1:
        client.recv(1)
    client.close()
