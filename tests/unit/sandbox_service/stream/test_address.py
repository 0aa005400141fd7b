"""A connection to a node that vanished breaks when that node's lease is over, and not hours later."""

import asyncio
import socket

from sandbox_service.config import StoreConfig
from sandbox_service.stream.address import keep_alive


async def test_the_kernel_gives_up_a_vanished_peer_by_the_end_of_a_lease():
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
    try:
        keep_alive(transport)
        sock = transport.get_extra_info("socket")

        def option(name: int) -> int:
            return int(sock.getsockopt(socket.IPPROTO_TCP, name))

        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        silent_s = option(socket.TCP_KEEPIDLE) + option(socket.TCP_KEEPINTVL) * option(socket.TCP_KEEPCNT)
        assert silent_s <= StoreConfig().lease_s
        assert option(socket.TCP_USER_TIMEOUT) <= 1000 * StoreConfig().lease_s
    finally:
        transport.close()
        server.close()
        await server.wait_closed()
