"""Kernels under bubblewrap.

A student's kernel sees a read-only system and Python environment, an empty home and temporary folder of its own, and
nothing else: no repository, no grade book, no environment variables, no network, no other process. It talks to the
grader over unix sockets in a folder made for it alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import psutil
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

from autograder import groups
from autograder.errors import CourseError

HERE = Path(__file__).parent
VISIBLE = ("__init__.py", "wire.py", "calls.py", "inside.py", "template.py")
HOME = "/home/student"
SEALED = "/opt/sealed"
SCRATCH_BYTES = 256 * 2**20
ENVIRONMENT = {
    "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "DEVICE": "cpu",
}


class SandboxError(CourseError):
    """No sandbox can be had on this machine; the text says what to do."""


@cache
def require_sandbox() -> None:
    """Raise SandboxError unless bubblewrap is installed and may make namespaces here."""
    if shutil.which("bwrap") is None:
        raise SandboxError("bubblewrap is not installed: run `apt install bubblewrap`, or grade with --unsandboxed")
    tried = subprocess.run([*bwrap_command(), "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SandboxError(
            f"bubblewrap cannot make a sandbox here ({reason}): allow user namespaces to this user, "
            "or grade with --unsandboxed"
        )


def bwrap_command(sockets: Path | None = None, files: tuple[Path, ...] = ()) -> list[str]:
    """The bubblewrap command that a program's command is appended to.

    sockets: folder that is shared with the grader; files: read-only files to lay into the student's folder.
    """
    command = ["bwrap", "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--uid", "65534", "--gid", "65534", "--hostname", "student", "--clearenv"]
    for name, value in (ENVIRONMENT | {"HOME": HOME, "PYTHONPATH": SEALED}).items():
        command += ["--setenv", name, value]
    for path in ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts"):
        command += ["--ro-bind-try", path, path]
    # Root owns the system's settings in /proc even inside, without capabilities: nothing in it may be written.
    command += ["--proc", "/proc", "--remount-ro", "/proc"]
    command += ["--dev", "/dev", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    for path in ("/dev/shm", "/tmp", HOME):
        command += ["--size", str(SCRATCH_BYTES), "--tmpfs", path]
    command += _python_environment()
    for name in VISIBLE:
        command += ["--ro-bind", str(HERE / name), f"{SEALED}/autograder/{name}"]
    for name, path in laid(files).items():
        command += ["--ro-bind", str(path), f"{HOME}/{name}"]
    if sockets:
        command += ["--bind", str(sockets), str(sockets)]
    return [*command, "--remount-ro", "/", "--chdir", HOME]


def _python_environment() -> list[str]:
    """Bind the interpreter and its packages, and hide the course where it lies inside of them."""
    course = HERE.parent
    binds, hidden = [], []
    for prefix in dict.fromkeys((Path(sys.base_prefix), Path(sys.prefix))):
        if prefix != Path("/usr"):
            binds += ["--ro-bind", str(prefix), str(prefix)]
        if course.is_relative_to(prefix):
            hidden += ["--tmpfs", str(course)]
    inner = ["--ro-bind", sys.prefix, sys.prefix] if hidden and Path(sys.prefix).is_relative_to(course) else []
    return binds + hidden + inner


def laid(files: tuple[Path, ...]) -> dict[str, Path]:
    """What lies in a student's folder, by its name in there.

    With it is matplotlib's list of fonts, which takes seconds to make anew.
    """
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    fonts = sorted((cache_home / "matplotlib").glob("fontlist-*.json"))
    return {path.name: path for path in files} | {f".cache/matplotlib/{path.name}": path for path in fonts}


class Source(Protocol):
    """Where kernels may be had that need not be started."""

    def fork(self, connection_file: str) -> Any:
        """A process that serves this connection, with the methods of ``Popen``; None if there is none to be had."""
        ...


class SandboxProvisioner(LocalProvisioner):
    """Takes a kernel from the manager's source, or starts one under bubblewrap.

    The kernel manager's connection file lies in the shared folder.
    """

    started = False
    bounds: tuple[Path, ...] = ()

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Put the sandbox before the kernel's own command."""
        kwargs = await super().pre_launch(**kwargs)
        kwargs["cmd"] = bwrap_command(Path(self.parent.connection_file).parent, self.parent.files) + kwargs["cmd"]
        return kwargs | {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """A kernel in a sandbox, in control groups where those can be had."""
        self.process = self.parent.source and self.parent.source.fork(self.parent.connection_file)
        if self.process:
            return self.connection_info
        connection = await super().launch_kernel(cmd, **kwargs)
        self.started = True
        self.bounds = groups.bound(self.process.pid)
        return connection

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the control groups of the ended sandbox."""
        await super().cleanup(restart)
        groups.remove(self.bounds)

    async def send_signal(self, signum: int) -> None:
        """Interrupt the kernel itself: bubblewrap in front of it would die of the signal."""
        if signum != signal.SIGINT or not self.started:
            return await super().send_signal(signum)
        for kernel in family(self.process.pid if self.process else None)[2:3]:  # after bubblewrap and its reaper
            kernel.send_signal(signum)
        return None


class LocalKernelProvisioner(LocalProvisioner):
    """Starts the same kernel without a sandbox, for machines that cannot have one; only on request."""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Start in the shared folder, with no more of the environment than a sandboxed kernel gets."""
        kwargs = await super().pre_launch(**kwargs)
        folder = Path(self.parent.connection_file).parent
        for path in self.parent.files:
            shutil.copy(path, folder)
        kwargs["env"] = ENVIRONMENT | {"HOME": str(folder), "PYTHONPATH": str(HERE.parent)}
        return kwargs | {"cwd": str(folder), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class SealedKernelManager(AsyncKernelManager):
    """Starts kernels that run :mod:`autograder.inside`.

    folder: an empty folder for the connection file and sockets; files: laid beside the student's work; source: where
    to ask for a kernel before one is started, given that the folder lies where it shares sockets.
    """

    def __init__(
        self,
        folder: Path,
        files: tuple[Path, ...] = (),
        sandboxed: bool = True,
        source: Source | None = None,
        **kwargs: Any,
    ) -> None:
        self.files, self.source = files, source
        specs = _OneKernel("course-sandbox" if sandboxed else "course-local")
        super().__init__(
            transport="ipc",
            ip=str(folder / "k"),
            connection_file=str(folder / "kernel.json"),
            kernel_spec_manager=specs,
            **kwargs,
        )


class _OneKernel(KernelSpecManager):
    def __init__(self, provisioner: str) -> None:
        super().__init__()
        self.provisioner = provisioner

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "autograder.inside", "-f", "{connection_file}"]
        metadata = {"kernel_provisioner": {"provisioner_name": self.provisioner}}
        return KernelSpec(argv=argv, display_name="sealed", language="python", metadata=metadata)


def family(pid: int | None) -> list[psutil.Process]:
    """The living process ``pid`` and all below it, outermost first."""
    try:
        first = psutil.Process(pid) if pid else None
        return [first, *first.children(recursive=True)] if first else []
    except psutil.NoSuchProcess:
        return []
