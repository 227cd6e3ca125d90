"""Work that several processes share: running notebooks, and writing feedback pages.

The processes are the grader's own and live as long as a run; students' code runs in their sandboxes. A process that is
killed takes down only what it had in hand, and that is tried again.
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import deepcopy
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Queue
from typing import Any, TypeVar

from nbformat import NotebookNode

from autograder import groups
from autograder.assignments import TOOLBOX, code_notebook
from autograder.errors import CourseError
from autograder.exercises import chapters
from autograder.journal import Record
from autograder.sealed import grade_notebook
from autograder.submission import parse_submission, repair
from autograder.warm import WarmKernels

ATTEMPTS = 3
T = TypeVar("T")


class WorkerLostError(CourseError):
    """The processes that tried this were killed, each time."""


def run_submission(content: bytes, path: Path, chapter: str, sandboxed: bool) -> dict[str, Any]:
    """Run what a student handed in and judge it: a record, as plain data.

    Raises UngradableError, which names ``path``, and SandboxError.
    """
    notebook, original = parse_submission(content, path), _code_notebook(chapter)
    repair(notebook, deepcopy(original))
    results = grade_notebook(
        notebook,
        chapters()[chapter],
        (TOOLBOX,),
        sandboxed,
        kernels=_kernels() if sandboxed else None,
        original=original,
    )
    return Record.of(notebook, results).to_json()


@cache
def _code_notebook(chapter: str) -> NotebookNode:
    return code_notebook(chapter)


@cache
def _kernels() -> WarmKernels:
    """This process's source of kernels. It ends with the process."""
    return WarmKernels((TOOLBOX,))


class Workers:
    """A number of processes; ``with`` ends them when their work is done."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> Workers:
        self._folder = tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True)
        self._processes = [_Process(self._folder.name) for _ in range(self.number)]
        self._free: Queue[_Process] = Queue()
        for process in self._processes:
            self._free.put(process)
        self._stopped = False
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.end()
        self._folder.cleanup()  # whatever way the processes have ended
        groups.sweep()

    def stop(self) -> None:
        """End the processes at once; whoever waits for a call is told by CancelledError."""
        self._stopped = True
        for process in self._processes:
            process.kill()

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a module's function in a free process, and wait for its result. Meant to be used from several threads.

        What the function raises is raised here; WorkerLostError, if its process was lost again and again.
        """
        process = self._free.get()
        try:
            for _ in range(ATTEMPTS):
                if self._stopped:
                    raise CancelledError
                with suppress(EOFError, OSError):
                    result, error = process.call(function, args)
                    break
                if not self._stopped:
                    process.restart()
            else:
                raise WorkerLostError(f"the process that graded it was lost {ATTEMPTS} times; see that memory suffices")
        finally:
            self._free.put(process)
        if error:
            raise error
        return result


class _Process:
    """A process that answers calls over a pipe, one at a time; EOFError or OSError tell that it has ended."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.restart()

    def restart(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, inner = context.Pipe()
        self._process = context.Process(target=_answer, args=(inner, self._folder), daemon=True)
        self._process.start()
        inner.close()

    def call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        self._pipe.send((function, args))
        return self._pipe.recv()

    def end(self) -> None:
        self._pipe.close()
        self._process.join()

    def kill(self) -> None:
        self._process.kill()


def _answer(pipe: Connection, folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the run itself ends its processes
    tempfile.tempdir = folder
    with suppress(EOFError, OSError):  # the run has ended
        while True:
            function, args = pipe.recv()
            try:
                answer = function(*args), None
            except Exception as error:
                answer = None, error
            pipe.send(answer)
