"""Started in a network namespace of its own: bring loopback up, hand its one listener out, become the command.

`inside.py FD PORT COMMAND…`: FD is a Unix socket, over which a listener on 127.0.0.1:PORT goes to the model outside.
"""

import errno
import fcntl
import os
import socket
import struct
import sys

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_DOCUMENTATION_ADDRESS = ("192.0.2.1", 9)


def main() -> None:
    descriptor, port, *command = sys.argv[1:]
    bring_loopback_up()
    require_nothing_else()
    with socket.create_server(("127.0.0.1", int(port))) as listener, socket.socket(fileno=int(descriptor)) as outside:
        socket.send_fds(outside, [b"listener"], [listener.fileno()])
    os.execv(command[0], command)


def bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def require_nothing_else() -> None:
    """Nothing is sent: connecting a datagram socket only looks for a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        if any_socket.connect_ex(_DOCUMENTATION_ADDRESS) != errno.ENETUNREACH:
            sys.exit("the network namespace has a way out of loopback")


if __name__ == "__main__":
    main()
