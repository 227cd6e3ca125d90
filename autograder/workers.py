"""Work that several processes share: running notebooks, and writing feedback pages.

The processes are the grader's own and live as long as a run; students' code runs in their sandboxes. A process that is
killed takes down only what it had in hand, and that is tried again.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from nbformat import NotebookNode
from pebble import ProcessExpired, ProcessPool

from autograder.assignments import TOOLBOX, code_notebook
from autograder.errors import CourseError
from autograder.exercises import chapters
from autograder.journal import Record
from autograder.sealed import grade_notebook
from autograder.submission import parse_submission, repair

ATTEMPTS = 3
T = TypeVar("T")


class WorkerLostError(CourseError):
    """The processes that tried this were killed, each time."""


def run_submission(content: bytes, path: Path, chapter: str, sandboxed: bool) -> dict[str, Any]:
    """Run what a student handed in and judge it: a record, as plain data.

    Raises UngradableError, which names ``path``, and SandboxError.
    """
    notebook = parse_submission(content, path)
    repair(notebook, deepcopy(_code_notebook(chapter)))
    results = grade_notebook(notebook, chapters()[chapter], (TOOLBOX,), sandboxed)
    return Record.of(notebook, results).to_json()


@cache
def _code_notebook(chapter: str) -> NotebookNode:
    return code_notebook(chapter)


class Workers:
    """A pool of processes; ``with`` ends them when their work is done."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> Workers:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPool(self.number, initializer=_ignore_interrupts, context=context)
        self._waited_for: WeakSet[Future[Any]] = WeakSet()
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()
        self._pool.join()

    def stop(self) -> None:
        """End the processes at once; whoever waits for a call is told by CancelledError."""
        for future in self._waited_for:
            future.cancel()
        self._pool.stop()
        self._pool.join()

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a module's function in a free process, and wait for its result. Meant to be used from several threads.

        What the function raises is raised here; WorkerLostError, if its process was lost again and again.
        """
        for _ in range(ATTEMPTS):
            future = self._pool.schedule(function, args)
            self._waited_for.add(future)
            with suppress(ProcessExpired):
                return future.result()
        raise WorkerLostError(f"the process that graded it was lost {ATTEMPTS} times; see that memory suffices")


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the run itself ends its workers
