"""What runs inside a sandbox: an IPython kernel that also answers calls on the student's functions.

Calls come as messages of their own type, past the shell, its history, hooks and transformers. This file, ``template``,
``calls`` and ``wire`` are all of the project that a student's process can see.
"""

from __future__ import annotations

import resource
import sys
from typing import Any

from ipykernel.iostream import OutStream
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.zmqshell import ZMQInteractiveShell

from autograder.calls import perform

MAX_CELL_OUTPUT = 200_000
GIB = 2**30
LIMITS = {
    resource.RLIMIT_AS: 4 * GIB,
    resource.RLIMIT_FSIZE: GIB // 16,
    resource.RLIMIT_NOFILE: 512,
    resource.RLIMIT_NPROC: 256,
    resource.RLIMIT_CPU: 900,
    resource.RLIMIT_CORE: 0,
}


class BoundedStream(OutStream):
    """Standard output of a cell, cut while it is produced."""

    _cell: str | None = None
    _size = 0

    def write(self, string: str) -> int | None:
        """Pass on what fits into the bound, and say once that the rest is left out."""
        cell = self.parent_header.get("msg_id")
        if cell != self._cell:
            self._cell, self._size = cell, 0
        if self._size > MAX_CELL_OUTPUT:
            return len(string)
        self._size += len(string)
        if self._size > MAX_CELL_OUTPUT:
            string = string[:1000] + "\n[output cut here: it is too long]\n"
        return super().write(string)


class Shell(ZMQInteractiveShell):
    """A shell whose `exit()` ends nothing: the cells and calls after it are still to come."""

    exit_now = False  # not a trait here, so that nothing follows from setting it


class CallKernel(IPythonKernel):
    """An IPython kernel with one more kind of request: ``call_request``, whose buffers are a wire message."""

    shell_class = Shell
    msg_types = [*IPythonKernel.msg_types, "call_request"]  # noqa: RUF012

    async def call_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Make the call and send its outcome."""
        buffers = [bytes(buffer) for buffer in parent["buffers"]]
        self.session.send(stream, "call_reply", {}, parent, ident=ident, buffers=perform(buffers, self.shell.user_ns))


def set_limits() -> None:
    """Limit this process and all that it starts."""
    for limit, value in LIMITS.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def kernel_app(arguments: list[str]) -> IPKernelApp:
    """A kernel whose sockets are bound; it runs nothing until it is started."""
    app = IPKernelApp.instance(kernel_class=CallKernel)
    app.outstream_class = f"{__name__}.BoundedStream"
    app.capture_fd_output = False  # what C code and child processes write goes nowhere
    app.initialize(arguments)
    return app


def main() -> None:
    """Set the limits, then serve."""
    set_limits()
    kernel_app(sys.argv[1:]).start()


if __name__ == "__main__":
    from autograder.inside import main as run  # under its own name, so that BoundedStream is one class

    run()
