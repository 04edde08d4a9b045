"""librdmacm's event channels as descriptors of the program: run with libsidelatch-verbs.so preloaded.

Prints "all right" at the end. Each check names what it expects.
"""

import ctypes
import errno
import os
import select
import socket
import stat
import struct
import sys

DEVICE = "/dev/infiniband/rdma_cm"
GET_OPTION, GET_EVENT, DESTROY_ID, UNKNOWN = 13, 12, 1, 99
rdmacm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
rdmacm.rdma_create_event_channel.restype = ctypes.POINTER(ctypes.c_int)


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got} instead of {wanted}")


def error_of(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


def command(number, body=b"", out=0):
    return struct.pack("=IHH", number, len(body), out) + body


def take_event(channel):
    """The errno's name; None if there was an event."""
    event = ctypes.c_void_p()
    if rdmacm.rdma_get_cm_event(channel, ctypes.byref(event)) == 0:
        rdmacm.rdma_ack_cm_event(event)
        return None
    return errno.errorcode[ctypes.get_errno()]


def is_readable(descriptor, milliseconds):
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(milliseconds))


channel = rdmacm.rdma_create_event_channel()
descriptor = channel.contents.value
expect("a channel is a character device", stat.S_ISCHR(os.fstat(descriptor).st_mode), True)

# Programs that were built before glibc 2.33 ask so.
program = ctypes.CDLL(None, use_errno=True)
for name in ("__fxstat", "__fxstat64"):
    status = ctypes.create_string_buffer(144)
    expect(name, getattr(program, name)(1, descriptor, status), 0)
    expect(name + ": a character device", stat.S_ISCHR(struct.unpack_from("=I", status.raw, 24)[0]), True)

# Events.
os.set_blocking(descriptor, False)
expect("no event", take_event(channel), "EAGAIN")
expect("not readable", is_readable(descriptor, 0), False)
identifier = ctypes.c_void_p()
expect("rdma_create_id", rdmacm.rdma_create_id(channel, ctypes.byref(identifier), None, 0x0106), 0)
address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 7471) + socket.inet_aton("127.0.0.1") + bytes(8)
expect("rdma_resolve_addr", rdmacm.rdma_resolve_addr(identifier, None, address, 1000), 0)
expect("readable", is_readable(descriptor, 10000), True)

# A child has no part in it, and its parent goes on.
child = os.fork()
if child == 0:
    result = take_event(channel)
    os.close(descriptor)
    os._exit(0 if result == "EIO" else 1)
expect("in a child an inherited channel fails", os.waitpid(child, 0)[1], 0)
expect("the event", take_event(channel), None)
expect("no other event", take_event(channel), "EAGAIN")

# An identifier that ends takes its events along.
expect("rdma_resolve_route", rdmacm.rdma_resolve_route(identifier, 1000), 0)
expect("readable again", is_readable(descriptor, 10000), True)
expect("rdma_destroy_id", rdmacm.rdma_destroy_id(identifier), 0)
expect("not readable any more", is_readable(descriptor, 0), False)

# Commands that are wrong.
for what, bytes_written, wanted in (
    ("too short", b"\0\0\0", "EINVAL"),
    ("no bytes behind the header", struct.pack("=IHH", DESTROY_ID, 16, 4), "EINVAL"),
    ("a short command", command(DESTROY_ID, bytes(8), 4), "EINVAL"),
    ("no such command", command(UNKNOWN), "EINVAL"),
    ("GET_OPTION", command(GET_OPTION), "ENOSYS"),
    ("no such identifier", command(DESTROY_ID, struct.pack("=QII", 0, 12345, 0), 4), "ENOENT"),
    ("no room for the event", command(GET_EVENT, bytes(8), 4), "ENOSPC"),
):
    expect(what, error_of(lambda: os.write(descriptor, bytes_written)), wanted)

# A descriptor that another file took over is that file's.
null = os.open("/dev/null", os.O_WRONLY)
os.dup2(null, descriptor)
expect("another file", os.write(descriptor, b"x"), 1)
again = os.open(DEVICE, os.O_RDWR)
os.set_blocking(again, False)
expect("another channel", error_of(lambda: os.write(again, command(GET_EVENT, bytes(8), 400))), "EAGAIN")
os.close(again)
expect("a closed channel", error_of(lambda: os.write(again, b"x")), "EBADF")

# The kernel's netlink interface would name the kernel's devices.
expect("netlink", error_of(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)), "EPROTONOSUPPORT")
print("all right")
