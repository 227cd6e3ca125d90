"""Grade one notebook: the student's cells run in a sealed kernel, the hidden cases and the comparison here.

The notebook is a repaired one (see :mod:`autograder.submission`): every exercise has one solution cell and one test
cell. Student cells run in the page's order; where a test cell stands, its exercise is judged by calls into the kernel.
Visible asserts are the student's own check and earn nothing, so they are not run: every hidden case decides for itself.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty
from typing import Any

import psutil
import zmq.asyncio
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.calls import Call, Outcome, read_outcome
from autograder.exercise import Chapter
from autograder.needed import needed
from autograder.sandbox import SandboxError, SealedKernelManager, family, require_sandbox
from autograder.scoring import NOT_DEFINED, ExerciseResult, judge
from autograder.warm import WarmKernels
from autograder.wire import WireError

MAX_FRAME = 40_000_000
MAX_OUTPUTS = 2_000_000
MAX_LOSSES = 2
GRACE = 2.0
POLL = 0.2
IDLE = 3
MAX_LEFT_BEHIND = 32
AFTER_TROUBLE = 5  # seconds a cell may take once one, or a call, had to be stopped: most likely it is the same loop


@dataclass(frozen=True)
class Limits:
    """Seconds: of computing in a cell, and in one call of a student's function; by the clock, of a whole notebook."""

    cell: float = 30.0
    call: float = 10.0
    notebook: float = 900.0


@dataclass(frozen=True)
class NotebookResult:
    """What one notebook earned. ``warnings`` say what was odd about it."""

    chapter: str
    exercises: tuple[ExerciseResult, ...]
    warnings: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """Points earned."""
        return round(sum(result.points for result in self.exercises), 2)

    @property
    def max_score(self) -> float:
        """Points that can be earned."""
        return sum(result.max_points for result in self.exercises)

    def to_json(self) -> dict[str, Any]:
        """As `course check --json` prints it."""
        head = {"chapter": self.chapter, "score": self.score, "max_score": self.max_score}
        return head | {"exercises": [e.to_json() for e in self.exercises], "warnings": list(self.warnings)}


def grade_notebook(
    notebook: NotebookNode,
    chapter: Chapter,
    files: tuple[Path, ...] = (),
    sandboxed: bool = True,
    limits: Limits | None = None,
    kernels: WarmKernels | None = None,
    original: NotebookNode | None = None,
) -> dict[str, ExerciseResult]:
    """Run a repaired notebook and judge its exercises; outputs of the student's cells are written into ``notebook``.

    files: laid into the student's folder (the toolbox); kernels: warm ones, made with the same files, for whoever
    grades many notebooks; without them, or where they fail, a kernel is started; original: the chapter's source
    notebook: of its own cells, those that the student's work does not need are not run then.
    Raises SandboxError if there is no sandbox and ``sandboxed`` is true.
    """
    if sandboxed:
        require_sandbox()
    results: dict[str, ExerciseResult] = {}
    to_run = needed(notebook, original) if original else range(len(notebook.cells))
    with sealed_session(notebook, files, sandboxed, limits or Limits(), kernels) as session:

        def judge_here(name: str) -> None:
            exercise = chapter[name]
            earlier = {other: RemoteAnswer(session, other) for other in exercise.builds_on}
            results[name] = judge(exercise, RemoteAnswer(session, name), earlier)

        for index, cell in enumerate(notebook.cells):
            if name := judged_by(cell):
                judge_here(name)
            elif cell.cell_type == "code" and index in to_run:
                session.run(index)
        for name, result in results.items():
            if _is_missing(result):
                judge_here(name)  # perhaps defined further down than its test
            if _is_missing(results[name]) and (error := _error_in_cell(notebook, name)):
                results[name] = replace(results[name], message=f"Not defined, since its cell failed: {error}")
    return results


def _is_missing(result: ExerciseResult) -> bool:
    return bool(result.failed) and all(failure.message == NOT_DEFINED for failure in result.failed)


def _error_in_cell(notebook: NotebookNode, name: str) -> str:
    """What the solution cell of an exercise raised, or ""."""
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == name:
            errors = [output for output in cell.outputs if output.output_type == "error"]
            return f"{errors[0].ename}: {errors[0].evalue}"[:300] if errors else ""
    return ""


def judged_by(cell: NotebookNode) -> str:
    """The exercise that a test cell judges, or ""."""
    metadata = cell.metadata.get("nbgrader", {})
    return metadata["grade_id"].removeprefix("test_") if metadata.get("grade") else ""


@dataclass
class RemoteAnswer:
    """A student's function in its kernel. After it was stopped twice, no more of it is run."""

    session: SealedSession
    name: str
    losses: int = 0

    def call(self, call: Call) -> Outcome:
        """See :class:`autograder.calls.Answer`."""
        if self.losses >= MAX_LOSSES:
            return Outcome("lost", detail="not run, since your function had to be stopped before")
        outcome = self.session.call(self.name, call)
        self.losses += outcome.status == "lost"
        return outcome


@contextmanager
def sealed_session(
    notebook: NotebookNode,
    files: tuple[Path, ...],
    sandboxed: bool,
    limits: Limits,
    kernels: WarmKernels | None = None,
) -> Iterator[SealedSession]:
    """A kernel for ``notebook`` that is gone, with its folder, at the end."""
    session = SealedSession(notebook, files, sandboxed, limits, kernels)
    try:
        session.start()
        yield session
    finally:
        session.stop()


@dataclass
class SealedSession:
    """A student's kernel, which is replaced when it dies or hangs; the cells that ran well are run again then."""

    notebook: NotebookNode
    files: tuple[Path, ...]
    sandboxed: bool
    limits: Limits
    kernels: WarmKernels | None = None
    ran: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.limits.notebook
        self.cell_seconds = self.limits.cell
        self.client: _Client | None = None
        self.folder: Path | None = None

    def start(self) -> None:
        """Start a fresh kernel."""
        source = self.kernels if self.sandboxed else None
        self.folder = Path(tempfile.mkdtemp(prefix="course-", dir=source.folder if source else None))
        self.context = zmq.asyncio.Context()
        self.context.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME)
        manager = SealedKernelManager(self.folder, self.files, self.sandboxed, source, context=self.context)
        self.client = _Client(
            self.notebook,
            km=manager,
            timeout=None,  # time is kept here, see _execute
            allow_errors=True,
            store_widget_state=False,
        )
        try:
            self.client.start_new_kernel()
            self.client.start_new_kernel_client()
        except (RuntimeError, OSError) as error:
            raise SandboxError(f"the student's Python process did not start ({error}); try again") from None
        if self.sandboxed:
            shutil.rmtree(self.folder)  # the sockets are connected; a removed folder takes no files of a student's

    def stop(self) -> None:
        """End the kernel and everything that it started."""
        if self.client and self.client.kc:
            manager, channels = self.client.km, self.client.kc
            channels.stop_channels()
            run_sync(manager.shutdown_kernel)(now=True)
            self.context.destroy(linger=0)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.client = self.folder = None

    def run(self, index: int) -> None:
        """Run a student's cell. If it ends or hangs the kernel, its outputs say so and a fresh kernel goes on."""
        cell = self.notebook.cells[index]
        if time.monotonic() > self.deadline:
            cell.outputs = [_error("TimeLimit", f"not run: the notebook took more than {self.limits.notebook:.0f} s")]
            return
        problem = run_sync(self._execute)(cell, index, self.cell_seconds)
        if problem:
            self.cell_seconds = min(self.cell_seconds, AFTER_TROUBLE)
            cell.outputs = [*cell.outputs, _error(*problem)]
            self._renew()
        else:
            self.ran.append(index)

    async def _execute(self, cell: NotebookNode, index: int, seconds: float) -> tuple[str, str] | None:
        """Run a cell in the kernel that there is; what happened, if the kernel is of no more use then."""
        running = asyncio.ensure_future(self.client.async_execute_cell(cell, index))
        watch = Stopwatch(self._processes)
        stopped: float | None = None
        while not (await asyncio.wait({running}, timeout=POLL))[0]:
            if stopped is not None and watch.wall > stopped + GRACE:
                running.cancel()
                break
            if stopped is None and watch.over(seconds):
                stopped = watch.wall
                await self.client.km.interrupt_kernel()
        if stopped is not None:
            return "TimeLimit", f"this cell did not finish within {seconds:.0f} s"
        try:
            await running
        except DeadKernelError:
            return "KernelDied", "this cell ended the Python process"
        except Exception as error:  # a hostile kernel can make the protocol stumble in many ways
            return "KernelFailed", f"the kernel sent something that is no output ({type(error).__name__})"
        if len(self._processes()) > MAX_LEFT_BEHIND:
            return "ProcessLimit", "this cell left too many processes behind"
        return None

    def _renew(self) -> None:
        """A fresh kernel in the state that the cells so far lead to."""
        self.stop()
        self.start()
        self.client.nb = deepcopy(self.notebook)
        for index in self.ran:
            if run_sync(self._execute)(self.client.nb.cells[index], index, self.limits.cell):
                self.ran.remove(index)
                return self._renew()
        self.client.nb = self.notebook
        return None

    def call(self, name: str, call: Call) -> Outcome:
        """Call a function in the kernel; if that ends or hangs the kernel, a fresh one goes on."""
        if time.monotonic() > self.deadline:
            return Outcome("lost", detail="not run: the notebook took too long as a whole")
        outcome, alive = run_sync(self._call)(call.message(name))
        if outcome.status == "lost":
            self.cell_seconds = min(self.cell_seconds, AFTER_TROUBLE)
        if not alive:
            self._renew()
        return outcome

    async def _call(self, message: list[bytes]) -> tuple[Outcome, bool]:
        channels = self.client.kc
        sent = channels.session.send(channels.shell_channel.socket, "call_request", {}, buffers=message)
        request = sent["header"]["msg_id"]
        watch: Stopwatch | None = None  # set when a call takes its time: most do not, and a look costs more
        stopped: float | None = None
        while True:
            try:
                reply = await channels.shell_channel.get_msg(timeout=POLL)
                if reply["parent_header"].get("msg_id") == request:
                    outcome = read_outcome([bytes(buffer) for buffer in reply["buffers"]])
                    return (outcome if stopped is None else self._too_long()), True
            except Empty:
                pass
            except WireError as error:
                return Outcome("lost", detail=f"gave a result that is no plain data ({error})"), True
            except Exception:  # whatever else a hostile kernel makes the protocol stumble over
                return Outcome("lost", detail="broke the connection to its Python process"), False
            if not await self.client.km.is_alive():
                return Outcome("lost", detail="ended the Python process (an exit, a crash, or out of memory)"), False
            watch = watch or Stopwatch(self._processes)
            if stopped is not None and watch.wall > stopped + GRACE:
                return self._too_long(), False
            if stopped is None and watch.over(self.limits.call):
                stopped = watch.wall
                await self.client.km.interrupt_kernel()

    def _too_long(self) -> Outcome:
        return Outcome("lost", detail=f"did not finish within {self.limits.call:.0f} seconds: look for an endless loop")

    def _processes(self) -> list[psutil.Process]:
        process = getattr(self.client.km.provisioner, "process", None)
        return family(process.pid if process else None)


class Stopwatch:
    """Keeps the time of processes fairly: while they wait for a processor that others have, it stands still.

    processes: gives the processes that there are.
    """

    def __init__(self, processes: Callable[[], list[psutil.Process]]) -> None:
        self._processes = processes
        self._started = time.monotonic()
        self._computed, self._waited = self._read()

    @property
    def wall(self) -> float:
        """Seconds by the clock."""
        return time.monotonic() - self._started

    def over(self, seconds: float) -> bool:
        """Whether they have computed for longer than this, or taken IDLE times as long, mostly asleep."""
        computed, waited = self._read()
        return computed - self._computed > seconds or self.wall - (waited - self._waited) > IDLE * seconds

    def _read(self) -> tuple[float, float]:
        """Seconds that all have computed, and the most that one has waited for a processor."""
        computed, waited = 0.0, 0.0
        for process in self._processes():
            with suppress(psutil.NoSuchProcess, OSError):
                times = process.cpu_times()
                computed += times.user + times.system
                waited = max(waited, int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9)
        return computed, waited


class _Client(NotebookClient):
    """nbclient with a bound on what a cell's outputs may hold."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sizes: dict[int, int] = {}

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        if msg["msg_type"] not in {"status", "execute_input"}:
            self.sizes[cell_index] = self.sizes.get(cell_index, 0) + len(str(msg["content"]))
            if self.sizes[cell_index] > MAX_OUTPUTS:
                return None
        return super().process_message(msg, cell, cell_index)


def _error(name: str, text: str) -> NotebookNode:
    return new_output("error", ename=name, evalue=text, traceback=[f"{name}: {text}"])
