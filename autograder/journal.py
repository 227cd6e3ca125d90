"""What was graded, kept from the moment it is known: a run that is killed goes on from here.

A record is written once, whole or not at all, under a key of everything that decides it. Nothing is ever changed.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict

from autograder.assignments import COURSE, TOOLBOX, chapter_path
from autograder.exercise import Chapter
from autograder.scoring import ExerciseResult


@dataclass(frozen=True)
class Record:
    """What came of running one notebook: the results by exercise, and the outputs of its cells in their order."""

    results: dict[str, ExerciseResult]
    outputs: list[list[dict[str, Any]]]

    @classmethod
    def of(cls, notebook: NotebookNode, results: dict[str, ExerciseResult]) -> Record:
        """The record of a notebook that was run."""
        return cls(results, [cell.outputs for cell in notebook.cells if cell.cell_type == "code"])

    def to_json(self) -> dict[str, Any]:
        """As plain data, for another process or a file."""
        return {"results": {name: result.to_json() for name, result in self.results.items()}, "outputs": self.outputs}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Record:
        """The record that `to_json` gave."""
        results = {name: ExerciseResult.from_json(result) for name, result in kept["results"].items()}
        return cls(results, kept["outputs"])

    def show(self, notebook: NotebookNode) -> None:
        """Write the outputs into the same notebook, as it was before it was run."""
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell, outputs in zip(cells, self.outputs, strict=True):
            cell.outputs = [from_dict(output) for output in outputs]


class Journal:
    """The records in a folder, by key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> Record | None:
        """The record under ``key``, or None; a file that holds none counts as none."""
        try:
            return Record.from_json(json.loads((self.folder / f"{key}.json").read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, record: Record) -> None:
        """Keep a record. It is there as a whole, on the disk, or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix=".", delete=False) as file:
            try:
                json.dump(record.to_json(), file)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, self.folder / f"{key}.json")
            except BaseException:
                os.unlink(file.name)
                raise


def grading_key(submission: Path, chapter: Chapter) -> str:
    """Changes when the submitted file or anything that decides its score does."""
    return hashlib.sha256(submission.read_bytes() + _deciding_files(chapter)).hexdigest()


@cache
def _deciding_files(chapter: Chapter) -> bytes:
    """A digest of the grader, the chapter's page, its references, its hidden cases, and the toolbox."""
    parts = {TOOLBOX, chapter_path(chapter.name), *COURSE.glob("autograder/*.py")}
    for exercise in chapter.exercises:
        mistakes = (misconception.function for misconception in exercise.misconceptions)
        sources = map(inspect.getsourcefile, (exercise.reference, *exercise.variants, *mistakes))
        parts |= {path for path in map(Path, sources) if path.exists()}  # an edited function has no file of its own
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(parts))).digest()
