"""A class: hand out assignments, grade what came back, give feedback. nbgrader does the bookkeeping.

Folders are nbgrader's own: ``source``, ``release``, ``submitted/<student>/<chapter>``, ``autograded``, ``feedback``,
and the grade book ``gradebook.db``. Beside them are ``grades.csv`` and ``reports``.
"""

from __future__ import annotations

import csv
import json
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.assignments import COURSE, TOOLBOX, source_notebook
from autograder.errors import CourseError
from autograder.exercises import chapters
from autograder.journal import Journal, Record, grading_key
from autograder.sandbox import SandboxError, require_sandbox
from autograder.submission import UngradableError, chapter_of, read_submission
from autograder.workers import Workers, run_submission

DEFAULT = COURSE / "classroom"


class ClassroomError(CourseError):
    """The class directory can't be worked with; one line that says what is wrong and what to do."""


@dataclass(frozen=True)
class Graded:
    """One student's work on one chapter, as graded; ``problem`` says why it could not be."""

    student: str
    result: dict[str, Any] | None = None
    problem: str = ""
    fresh: bool = False

    @property
    def score(self) -> float:
        """Points, 0 if the work could not be graded."""
        return self.result["score"] if self.result else 0.0


class Classroom:
    """A class directory.

    root: the folder that holds ``submitted``; sandboxed: run students' code under bubblewrap.
    """

    def __init__(self, root: Path, sandboxed: bool = True) -> None:
        self.root = root.resolve()
        config = PyFileConfigLoader("nbgrader_config.py", path=str(COURSE)).load_config()
        self.sandboxed = sandboxed
        self.journal = Journal(self.root / "journal")
        execute = {"sandboxed": sandboxed, "journal": str(self.journal.folder)}
        config.merge(Config({"CourseDirectory": {"root": str(self.root)}, "SealedExecute": execute}))
        self._config = config
        self._book = Lock()  # the grade book has one writer
        os.environ["PATH"] = f"{sys.prefix}/bin:{os.environ['PATH']}"  # nbgrader calls `alembic` by name

    def _api(self) -> NbGraderAPI:
        logging.getLogger("traitlets").setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", category=SAWarning)  # of nbgrader's own queries
        return NbGraderAPI(CourseDirectory(config=self._config), config=self._config)

    # -- handing out --------------------------------------------------------------------------------------------------

    def release(self, chapter: str) -> bool:
        """Write source and release notebooks of a chapter; False if they are there already and unchanged.

        Raises AssignmentError if the chapter is not whole, ClassroomError if somebody has worked in the release folder.
        """
        source = self.root / "source" / chapter
        release = self.root / "release" / chapter / f"{chapter}.ipynb"
        new = {source / f"{chapter}.ipynb": nbformat.writes(source_notebook(chapter)).encode()}
        new[source / TOOLBOX.name] = TOOLBOX.read_bytes()
        if release.exists() and all(path.exists() and path.read_bytes() == text for path, text in new.items()):
            return False
        self._refuse_to_overwrite(release)
        source.mkdir(parents=True, exist_ok=True)
        for path, content in new.items():
            path.write_bytes(content)
        outcome = self._api().generate_assignment(chapter, force=True, create=True)
        if not outcome["success"]:
            raise ClassroomError(f"nbgrader could not release {chapter}: {_reason(outcome)}")
        self._released(chapter).write_bytes(release.read_bytes())
        return True

    def _released(self, chapter: str) -> Path:
        """What was released last, to tell whether somebody has worked in the release folder since."""
        return self.root / "source" / f".{chapter}.released"

    def _refuse_to_overwrite(self, release: Path) -> None:
        last = self._released(release.stem)
        if release.exists() and (not last.exists() or last.read_bytes() != release.read_bytes()):
            raise ClassroomError(f"{release} was changed by hand: move it elsewhere, then release again")

    # -- grading ------------------------------------------------------------------------------------------------------

    def students(self, chapter: str) -> list[str]:
        """Who has handed in this chapter; raises ClassroomError if this is no class directory, or nobody has."""
        if not (self.root / "submitted").is_dir():
            raise ClassroomError(f"{self.root}: not a class directory; it lacks submitted/<student>/<chapter>")
        found = sorted(p.parent.name for p in self.root.glob(f"submitted/*/{chapter}") if p.is_dir())
        if not found:
            raise ClassroomError(f"nobody has handed in {chapter}: {self.root}/submitted/*/{chapter} is empty")
        return found

    def grade(self, chapter: str, students: list[str], workers: int | None = None) -> Iterator[Graded]:
        """Grade the work of each student, as it gets ready; work that has not changed since is taken as it is.

        workers: how many processes run submissions; one for each processor by default. The grade book is written here.
        Raises SandboxError if there is no sandbox, ClassroomError if a student has handed in nothing.
        """
        if self.sandboxed:
            require_sandbox()
        for student in students:
            if not (self.root / "submitted" / student / chapter).is_dir():
                raise ClassroomError(f"{student} has not handed in {chapter}: no submitted/{student}/{chapter}")
        self.release(chapter)
        to_run = []
        for student in students:
            try:
                path = self._submission(chapter, student)
            except UngradableError as error:
                yield Graded(student, problem=str(error))
                continue
            key, done = grading_key(path, chapters()[chapter]), self.result(chapter, student)
            if done and done["key"] == key and self.feedback(chapter, student).exists():
                yield Graded(student, done["result"])
            else:
                to_run.append((student, path, key))
        if to_run:
            yield from self._grade(chapter, to_run, workers or len(os.sched_getaffinity(0)))
        self._write_grades()

    def _grade(self, chapter: str, to_run: list[tuple[str, Path, str]], workers: int) -> Iterator[Graded]:
        """Each submission has a thread that waits for its turns: in a worker, at the grade book, in a worker."""
        with Workers(workers) as pool, ThreadPoolExecutor(workers + 2) as threads:
            try:
                jobs = [threads.submit(self._grade_one, pool, chapter, *one) for one in to_run]
                for job in as_completed(jobs):
                    yield job.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                pool.stop()
                raise

    def _grade_one(self, pool: Workers, chapter: str, student: str, path: Path, key: str) -> Graded:
        try:
            if not self.journal.get(key):
                kept = pool.call(run_submission, path.read_bytes(), path, chapter, self.sandboxed)
                self.journal.put(key, Record.from_json(kept))
            with self._book:
                outcome = self._api().autograde(chapter, student, force=True, create=True)
            done = self.result(chapter, student)
            if not outcome["success"] or not done:
                return Graded(student, problem=f"nbgrader could not grade it: {_reason(outcome)}")
            problem = pool.call(write_feedback, self.root, chapter, student)
            return Graded(student, done["result"], problem, fresh=True)
        except SandboxError:
            raise
        except (CourseError, OSError) as error:
            return Graded(student, problem=str(error))

    def _submission(self, chapter: str, student: str) -> Path:
        """The student's notebook under the name that nbgrader looks for."""
        folder = self.root / "submitted" / student / chapter
        wanted = folder / f"{chapter}.ipynb"
        if not wanted.exists():
            fitting = [path for path in sorted(folder.glob("*.ipynb")) if _fits(path, chapter)]
            if len(fitting) != 1:
                names = ", ".join(path.name for path in sorted(folder.iterdir())) or "nothing"
                raise UngradableError(f"{folder}: holds {names}, but not {wanted.name}; name the notebook so")
            shutil.copy2(fitting[0], wanted)
        read_submission(wanted)
        return wanted

    def result(self, chapter: str, student: str) -> dict[str, Any] | None:
        """What is kept of a graded notebook: its key, warnings and result; None if it is not graded."""
        path = self.root / "autograded" / student / chapter / f"{chapter}.ipynb"
        try:
            kept = json.loads(path.read_text())["metadata"]["course"]
        except (OSError, ValueError, KeyError):
            return None
        return kept if "result" in kept else None

    def results(self, chapter: str) -> list[Graded]:
        """All graded work of a chapter; raises ClassroomError if there is none."""
        students = sorted(path.parent.name for path in self.root.glob(f"autograded/*/{chapter}"))
        kept = [(student, self.result(chapter, student)) for student in students]
        graded = [Graded(student, done["result"]) for student, done in kept if done]
        if not graded:
            raise ClassroomError(f"nothing of {chapter} is graded in {self.root}; run `course grade {chapter}` first")
        return graded

    def feedback(self, chapter: str, student: str) -> Path:
        """The student's feedback page."""
        return self.root / "feedback" / student / chapter / f"{chapter}.html"

    def _write_grades(self) -> None:
        """Write all grades of the grade book as ``grades.csv``."""
        rows = []
        with Gradebook(self._config.CourseDirectory.get("db_url", f"sqlite:///{self.root}/gradebook.db")) as book:
            for assignment in book.assignments:
                rows += [
                    (_harmless(s["student"]), assignment.name, s["score"], s["max_score"])
                    for s in book.submission_dicts(assignment.name)
                ]
        temporary = self.root / "grades.csv.part"
        with temporary.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("student", "chapter", "score", "max_score"))
            writer.writerows(sorted(rows))
        os.replace(temporary, self.root / "grades.csv")


def write_feedback(root: Path, chapter: str, student: str) -> str:
    """Write a student's feedback page; what went wrong, or ""."""
    outcome = Classroom(root)._api().generate_feedback(chapter, student, force=True)
    return "" if outcome["success"] else f"no feedback page: {_reason(outcome)}"


def _harmless(cell: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return "'" + cell if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _fits(path: Path, chapter: str) -> bool:
    try:
        found = chapter_of(read_submission(path), chapters())
    except UngradableError:
        return False
    return found is not None and found.name == chapter


def _reason(outcome: dict[str, Any]) -> str:
    """The error in nbgrader's log that made it give up."""
    text = f"{outcome.get('log')}\n{outcome.get('error')}"
    errors = re.findall(r"^\s*((?:[\w.]*(?:Error|Exception)): .*)$", text, re.MULTILINE)
    return next((error for error in errors if "NbGraderException" not in error), "see `nbgrader autograde`")
