"""Control groups: bounds for all processes of a sandbox together, where this user may set them.

``autograder.inside`` limits each process. But a limit on the number of processes does not hold for root, and many small
processes may take more memory than one may.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path("/sys/fs/cgroup")
MAX_PROCESSES = 256
MAX_MEMORY = 6 * 2**30
BOUNDS = {
    "pids": {"pids.max": MAX_PROCESSES},
    "memory": {"memory.limit_in_bytes": MAX_MEMORY, "memory.max": MAX_MEMORY},
}


def bound(pid: int) -> tuple[Path, ...]:
    """Put a process, with all that it will start, into bounded groups of its own; those that could be made."""
    groups = []
    for controller, bounds in BOUNDS.items():
        for parent in _parents(controller):
            if group := _bounded(parent / f"course-{pid}", bounds, pid):
                groups.append(group)
                break
    return tuple(dict.fromkeys(groups))


def remove(groups: tuple[Path, ...]) -> None:
    """Remove the groups of a process that has ended."""
    for group in groups:
        for _ in range(40):  # its last processes may take a moment to end
            with suppress(OSError):
                group.rmdir()
            if not group.exists():
                break
            time.sleep(0.05)


def sweep() -> None:
    """Remove the groups of processes that were killed before they could do it themselves."""
    parents = {parent for controller in BOUNDS for parent in _parents(controller)}
    for group in [group for parent in parents for group in parent.glob("course-*")]:
        if not psutil.pid_exists(int(group.name.removeprefix("course-"))):
            with suppress(OSError):
                group.rmdir()


def _parents(controller: str) -> Iterator[Path]:
    """Where a group may be made: version 1's hierarchies, within this process's own group; version 2's root."""
    own_groups = Path("/proc/self/cgroup")
    for line in own_groups.read_text().splitlines() if own_groups.exists() else ():
        _, names, own = line.split(":", 2)
        if controller in names.split(","):
            yield ROOT / controller / own.lstrip("/")
            yield ROOT / controller
    yield ROOT


def _bounded(group: Path, bounds: dict[str, int], pid: int) -> Path | None:
    with suppress(OSError):
        group.mkdir(exist_ok=True)
        known = [name for name in bounds if (group / name).exists()]
        for name in known:
            (group / name).write_text(str(bounds[name]))
        if known:
            (group / "cgroup.procs").write_text(str(pid))
            return group
    with suppress(OSError):
        group.rmdir()
    return None
