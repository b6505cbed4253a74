"""A TCP proxy on the loopback interface that delays what clients send by a latency.

    python -m benchmarks.support.latency_proxy <port of the server> <milliseconds>

It prints its own port. Bytes on the way do not delay each other, so that only round trips cost time.
The kernel moves responses from socket to socket, so that the proxy takes little of the processor that
the server and its clients need.
"""

import os
import socket
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

_AT_ONCE = 1 << 20


def _end(source: socket.socket, target: socket.socket) -> None:
    """Tell the target that nothing more comes, and close what is closed on both sides."""
    for each, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with suppress(OSError):
            each.shutdown(how)


def _answer(server: socket.socket, client: socket.socket) -> None:
    """Move what the server sends to the client at once."""
    out, into = os.pipe()
    with suppress(OSError):
        while count := os.splice(server.fileno(), into, _AT_ONCE):
            while count:
                count -= os.splice(out, client.fileno(), count)
    os.close(out)
    os.close(into)
    _end(server, client)


def _receive(
    client: socket.socket, travelling: "SimpleQueue[tuple[float, bytes]]", seconds: float
) -> None:
    with suppress(OSError):
        while data := client.recv(_AT_ONCE):
            travelling.put((time.monotonic() + seconds, data))
    travelling.put((time.monotonic() + seconds, b""))


def _deliver(
    client: socket.socket, server: socket.socket, travelling: "SimpleQueue[tuple[float, bytes]]"
) -> None:
    """Send what the client sent to the server when it is due."""
    data = b" "
    with suppress(OSError):
        while data:
            due, data = travelling.get()
            time.sleep(max(0.0, due - time.monotonic()))
            server.sendall(data)
    _end(client, server)


def serve(server_port: int, seconds: float) -> None:
    """Serve until the process is ended."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", server_port))
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        travelling: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        for work in (
            partial(_answer, server, client),
            partial(_receive, client, travelling, seconds),
            partial(_deliver, client, server, travelling),
        ):
            threading.Thread(target=work, daemon=True).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]), float(sys.argv[2]) / 1000)
