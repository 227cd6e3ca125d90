"""A warm process inside a sandbox, from which students' kernels are forked.

It imports what a notebook needs once, then serves one fork at a time. Each fork is a whole kernel in user, process,
mount and IPC namespaces of its own, with its own limits and empty scratch folders, and without capabilities. It holds
no test, no answer and nothing of a student's; what a fork does reaches neither it nor a later fork.

A fork is three processes. The *keeper* makes the namespaces and waits; *init* is the first process of the new process
namespace, so that everything in there ends with it; the *kernel* runs the student's code.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import platform
import signal
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

HEAVY = (
    *("numpy", "torch", "torch._dynamo", "matplotlib.pyplot", "matplotlib_inline.backend_inline"),
    *("ipykernel.debugger", "tornado.platform.asyncio", "tornado.queues"),
    *("IPython.core.completerlib", "IPython.core.debugger", "IPython.extensions.storemagic"),
)  # torch imports _dynamo at the first optimizer; the rest is what a kernel imports as it starts
SCRATCH = ("/dev/shm", "/home/student")  # and /tmp, which may hold the sockets: see _init
HOME = "/home/student"

_USER, _PID, _MOUNT, _IPC = 0x10000000, 0x20000000, 0x00020000, 0x08000000
_NO_SUID, _NO_DEVICES, _NO_EXEC, _READ_ONLY, _REMOUNT, _BIND = 2, 4, 8, 1, 32, 4096
_DEATH_SIGNAL, _DROP_BOUND, _NO_NEW_PRIVILEGES, _AMBIENT, _CLEAR_ALL = 1, 24, 38, 47, 4
_SET_FILE_CAPABILITIES = 31
_JOIN_SESSION_KEYRING = 1
_KEYCTL = {"x86_64": 250, "aarch64": 219}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def main() -> None:
    """Serve forks to the grader; arguments: number of its socket, the sockets' folder, size of scratch, files."""
    grader = socket.socket(fileno=int(sys.argv[1]))
    folder, size, files = sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    # When root starts bubblewrap, it covers parts of /proc, and then no fork might mount one of its own.
    _mount("proc", "/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_EXEC)
    _keep_capabilities({_SET_FILE_CAPABILITIES})  # without it, no fork might map its user
    for name in HEAVY:
        importlib.import_module(name)
    importlib.import_module("autograder.inside")
    gc.freeze()
    while connection_file := grader.recv(4096).decode():
        keeper = os.fork()
        if not keeper:
            _never_return(_keep, grader, connection_file, folder, size, files)
        os.waitpid(keeper, 0)
        grader.send(b"gone")


def _never_return(part: Callable[..., None], *arguments: object) -> None:
    """Play a part in a forked process, which ends with it."""
    try:
        part(*arguments)
    finally:
        os._exit(1)


def _keep(grader: socket.socket, connection_file: str, folder: str, size: int, files: Sequence[str]) -> None:
    """Make the namespaces, start init in them, wait for its end."""
    Path("/proc/self/oom_score_adj").write_text("1000")  # when memory ends, a fork goes before the template
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(_USER | _PID | _MOUNT | _IPC))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"65534 {user} 1")
    Path("/proc/self/gid_map").write_text(f"65534 {group} 1")
    if platform.machine() in _KEYCTL:
        _libc.syscall(_KEYCTL[platform.machine()], _JOIN_SESSION_KEYRING, None)
    init = os.fork()
    if not init:
        _never_return(_init, grader, connection_file, folder, size, files)
    _keep_capabilities(set())
    os.waitpid(init, 0)


def _init(grader: socket.socket, connection_file: str, folder: str, size: int, files: Sequence[str]) -> None:
    """Make the file system, start the kernel in it, hide the sockets before it runs anything of a student's."""
    _process_control(_DEATH_SIGNAL, signal.SIGKILL)
    _own_proc()
    sources = {name: os.open(f"{HOME}/{name}", os.O_PATH) for name in files}
    for place in SCRATCH:
        _scratch(place, size)
    for name, source in sources.items():
        _lay(source, Path(HOME, name))
        os.close(source)
    os.chdir(HOME)
    ours, theirs = socket.socketpair()
    kernel = os.fork()
    if not kernel:
        ours.close()
        _never_return(_kernel, grader, theirs, connection_file)
    theirs.close()
    if ours.recv(1):
        # Where the Python environment lies in /tmp, it stays. The kernel must not hold these files: a way out.
        python = {p: os.open(p, os.O_PATH) for p in (sys.base_prefix, sys.prefix) if Path(p).is_relative_to("/tmp")}
        _scratch("/tmp", size)
        for prefix, source in python.items():
            _lay(source, Path(prefix))
            os.close(source)
        if os.path.isdir(folder):
            _mount("tmpfs", folder, "tmpfs", _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_EXEC, "size=4k,mode=500")
        _keep_capabilities(set())
        grader.send(b"init")
        grader.close()
        ours.send(b"!")
        ours.close()
    while os.wait()[0] != kernel:
        pass


def _kernel(grader: socket.socket, init: socket.socket, connection_file: str) -> None:
    """Serve as a kernel, once its sockets are bound and out of its sight."""
    from autograder import inside

    _keep_capabilities(set())  # before there are threads, each of which has capabilities of its own
    sys.modules["numpy"].random.seed()  # forks shall not draw the same numbers
    inside.set_limits()
    app = inside.kernel_app(["-f", connection_file])
    init.send(b"!")
    if init.recv(1):
        grader.send(b"kernel")
        grader.close()
        init.close()
        app.start()


def _own_proc() -> None:
    """Mount a /proc that shows this process namespace alone; nothing in it can be written in the end.

    The kernel's settings in there may belong to the user who grades, whatever this namespace is called.
    """
    flags = _NO_SUID | _NO_DEVICES | _NO_EXEC
    _mount("proc", "/proc", "proc", flags)
    with suppress(OSError):
        Path("/proc/sys/user/max_user_namespaces").write_text("0")  # where this is refused, they are still nested
    _mount(None, "/proc", None, _REMOUNT | _BIND | _READ_ONLY | flags)


def _scratch(place: str, size: int) -> None:
    _mount("tmpfs", place, "tmpfs", _NO_SUID | _NO_DEVICES, f"size={size},mode=755")


def _lay(source: int, place: Path) -> None:
    """Bind an open file or folder to a place, read-only."""
    if stat.S_ISDIR(os.fstat(source).st_mode):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    _mount(f"/proc/self/fd/{source}", str(place), None, _BIND)
    _mount(None, str(place), None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES)


def _keep_capabilities(kept: set[int]) -> None:
    """Give up all other capabilities for good: of this thread, and of what it may ever start."""
    if not kept:
        for number in range(int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1):
            _process_control(_DROP_BOUND, number)
    _process_control(_AMBIENT, _CLEAR_ALL)
    low = sum(1 << number for number in kept)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(low, low, 0, 0, 0, 0)  # effective, permitted, inheritable; then of 32 and above
    _check(_libc.capset(header, data))
    _process_control(_NO_NEW_PRIVILEGES, 1)


def _process_control(option: int, argument: int) -> None:
    _check(_libc.prctl(option, argument, 0, 0, 0))


def _mount(source: str | None, place: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [text.encode() if text else None for text in (source, place, kind, options)]
    _check(_libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]))


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
