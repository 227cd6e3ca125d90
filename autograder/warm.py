"""Kernels that are forked from a warm template, for whoever grades many notebooks."""

from __future__ import annotations

import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from autograder import groups
from autograder.sandbox import SCRATCH_BYTES, bwrap_command, family, laid

START_SECONDS = 300.0  # six of computing, which a busy machine may take long to give
END_SECONDS = 60.0  # a fork that left hundreds of processes ends slowly on a busy machine
MAX_FAILURES = 2  # in a row
# The template is root of bubblewrap's user namespace, which is where it may mount a /proc and map its forks' user.
AS_ROOT = ("--uid", "0", "--gid", "0", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETFCAP")


class Fork:
    """A kernel that was forked, with the methods of ``Popen`` by which jupyter_client knows a process.

    pid: its first process, with which all others of it end.
    """

    stdin = stdout = stderr = None

    def __init__(self, template: socket.socket, init: int, kernel: int) -> None:
        self.pid = init
        self.returncode: int | None = None
        self._template, self._init, self._kernel = template, psutil.Process(init), psutil.Process(kernel)

    def poll(self) -> int | None:
        """None while any process of the fork is there."""
        return self._ended(0.0)

    def wait(self, timeout: float = END_SECONDS) -> int | None:
        """Wait for the end of all its processes."""
        return self._ended(timeout)

    def send_signal(self, signum: int) -> None:
        """Interrupt the kernel; any other signal ends the fork."""
        with suppress(psutil.NoSuchProcess):
            if signum == signal.SIGINT:
                self._kernel.send_signal(signum)
            else:
                self.kill()

    def kill(self) -> None:
        """End all processes of the fork, and wait until they are gone."""
        if self.poll() is None:
            with suppress(psutil.NoSuchProcess):
                self._init.kill()
            self.wait()

    terminate = kill

    def _ended(self, seconds: float) -> int | None:
        if self.returncode is None:
            self._template.settimeout(seconds)
            try:
                self._template.recv(16)  # that it is gone; or nothing, if the template is gone with all its forks
            except (BlockingIOError, TimeoutError):
                return None
            except OSError:
                pass  # the template was ended
            self.returncode = 1
        return self.returncode


class WarmKernels:
    """A source of kernels: one template, one fork at a time.

    A template that has died is started again; where none can be had, there are no forks, and whoever asks has to start
    a kernel otherwise. All forks of a template share its control groups: as only one lives at a time, that is as good
    as one group each.

    files: laid into the folder of every student; folder: where the sockets of the kernels have to be.
    """

    def __init__(self, files: tuple[Path, ...] = ()) -> None:
        self.files = files
        self.folder = Path(tempfile.mkdtemp(prefix="course-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._fork: Fork | None = None
        with suppress(OSError):
            self._start()

    def fork(self, connection_file: str) -> Fork | None:
        """A fresh kernel that serves this connection, ready; None if there is none. The one before is ended."""
        while self._failures < MAX_FAILURES:
            try:
                if self._fork:
                    self._fork.kill()
                if not self._process or self._process.poll() is not None or (self._fork and self._fork.poll() is None):
                    self._stop()
                    self._start()
                self._fork = self._ask(connection_file)
            except (OSError, psutil.NoSuchProcess):
                self._failures += 1
                self._stop()
            else:
                self._failures = 0
                return self._fork
        return None

    def close(self) -> None:
        """End the template and all of its forks."""
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        self._socket, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        command = [*bwrap_command(self.folder, self.files), *AS_ROOT, sys.executable, "-m", "autograder.template"]
        command += [str(inner.fileno()), str(self.folder), str(SCRATCH_BYTES), *laid(self.files)]
        with inner:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[inner.fileno()],
                start_new_session=True,
            )
        self._groups = groups.bound(self._process.pid)

    def _stop(self) -> None:
        if self._process:
            first_inside = family(self._process.pid)[1:2]  # it ends when all others inside have, and bubblewrap then
            for process in first_inside or [self._process]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.wait()
            self._socket.close()
            groups.remove(self._groups)
        self._process = self._fork = None

    def _ask(self, connection_file: str) -> Fork:
        self._socket.settimeout(START_SECONDS)
        self._socket.send(connection_file.encode())
        return Fork(self._socket, self._sender(b"init"), self._sender(b"kernel"))

    def _sender(self, expected: bytes) -> int:
        """The process that sends what is expected next, by its number on this side of the sandbox."""
        credentials = struct.Struct("3i")
        message, ancillary, _, _ = self._socket.recvmsg(16, socket.CMSG_SPACE(credentials.size))
        if message != expected:
            raise ConnectionError(f"the template says {message!r}, not {expected!r}")
        return credentials.unpack(ancillary[0][2][: credentials.size])[0]


@contextmanager
def warm_kernels(files: tuple[Path, ...] = ()) -> Iterator[WarmKernels]:
    """Kernels for many notebooks, one after the other; nothing of them is left at the end.

    files: laid into the folder of every student (the toolbox).
    """
    kernels = WarmKernels(files)
    try:
        yield kernels
    finally:
        kernels.close()
