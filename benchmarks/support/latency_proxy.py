"""A TCP proxy on the loopback interface that delays what clients send by a latency.

    python -m benchmarks.support.latency_proxy <port of the server> <milliseconds>

It prints its own port. Bytes on the way do not delay each other, so that only round trips cost time.
"""

import asyncio
import sys


async def _forward(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float
) -> None:
    loop = asyncio.get_running_loop()
    travelling: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def arrive() -> None:
        while True:
            due, data = await travelling.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()

    arriving = asyncio.create_task(arrive())
    try:
        while data := await source.read(1 << 18):
            travelling.put_nowait((loop.time() + seconds, data))
        travelling.put_nowait((loop.time() + seconds, b""))
        await arriving
    except OSError:
        arriving.cancel()


async def serve(server_port: int, seconds: float) -> None:
    """Serve until the process is ended."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection("127.0.0.1", server_port)
        await asyncio.gather(_forward(reader, to_there, seconds), _forward(there, writer, 0))
        for each in (writer, to_there):
            each.close()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
