"""Sealed grading as steps of `nbgrader autograde`; `nbgrader_config.py` puts them into its two passes.

Everything around them stays nbgrader's: grade book, late penalties, manual scores, Formgrader, feedback.
"""

from __future__ import annotations

import html
import textwrap
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Unicode

from autograder.assignments import TOOLBOX, source_notebook
from autograder.exercise import Chapter
from autograder.exercises import chapters
from autograder.journal import Journal, grading_key
from autograder.scoring import ExerciseResult
from autograder.sealed import NotebookResult, grade_notebook, judged_by
from autograder.submission import read_submission, repair

NOT_RUN = "For grading, cells of the course itself are run only where your own need them; the others show no output."


class SubmissionExporter(NotebookExporter):
    """Reads notebooks as students hand them in: tolerant of what nbformat stumbles over."""

    def from_filename(self, filename: str, resources: dict | None = None, **kwargs: Any) -> tuple[str, dict]:
        """Read, convert and run the preprocessors; raises UngradableError if the file holds no notebook."""
        if self._graded_copy(filename):
            return super().from_filename(filename, resources, **kwargs)
        notebook = read_submission(Path(filename))
        chapter = chapters()[resources["nbgrader"]["assignment"]]
        notebook.metadata["course"] = {"key": grading_key(Path(filename), chapter)}
        return self.from_notebook_node(notebook, resources, **kwargs)

    def _graded_copy(self, filename: str) -> bool:
        """Whether this is nbgrader's second pass, over the copy that the first has written."""
        course = self.parent.coursedir
        return Path(filename).resolve().is_relative_to(Path(course.root, course.autograded_directory).resolve())


class Repair(NbGraderPreprocessor):
    """Lays a submission out like the assignment, before nbgrader looks at its metadata."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Repair the notebook; what was odd is logged and kept in its metadata."""
        warnings = repair(nb, original(resources["nbgrader"]["assignment"]))
        for warning in warnings:
            self.log.warning("%s: %s", resources["nbgrader"]["student"], warning)
        nb.metadata["course"]["warnings"] = warnings
        return nb, resources


class SealedExecute(NbGraderPreprocessor):
    """Runs the student's cells in a sandbox and judges the exercises here; takes the place of nbgrader's Execute."""

    sandboxed = Bool(True, help="Run students' code under bubblewrap.").tag(config=True)
    journal = Unicode("", help="Folder of records; what it holds is not run again.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Grade the notebook; points and messages become the outputs of its test cells."""
        chapter = chapters()[resources["nbgrader"]["assignment"]]
        kept = Journal(Path(self.journal)).get(nb.metadata["course"]["key"]) if self.journal else None
        if kept:
            results = kept.results
            kept.show(nb)
        else:
            results = grade_notebook(nb, chapter, (TOOLBOX,), self.sandboxed, original=original(chapter.name))
        for cell in nb.cells:
            if name := judged_by(cell):
                cell.source = cell.source.split("### BEGIN HIDDEN TESTS")[0].rstrip()
                cell.outputs = _score_outputs(results[name], float(cell.metadata["nbgrader"]["points"]))
                cell.execution_count = None
        result = NotebookResult(chapter.name, tuple(results.values()), tuple(nb.metadata["course"]["warnings"]))
        nb.metadata["course"]["result"] = result.to_json()
        nb.cells.insert(0, new_markdown_cell(_summary(chapter, result), id="result"))
        return nb, resources


class SanitizeStudents(SanitizeHTML):
    """Makes what a student wrote or printed harmless in a browser; the course's own text stays as it is."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Show a student's own text as it was typed, not rendered, and keep outputs that are no scripts."""
        own = {cell.source for cell in original(resources["nbgrader"]["assignment"]).cells}
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = self.sanitize_code_outputs(cell.outputs)
            elif cell.source not in own and cell.id != "result":
                cell.cell_type = "markdown"
                cell.source = textwrap.indent(cell.source, "    ", lambda line: True)
        return nb, resources


def original(chapter: str) -> NotebookNode:
    """The chapter's source notebook; made once in a process, since that takes a second."""
    return deepcopy(_original(chapter))


@cache
def _original(chapter: str) -> NotebookNode:
    return source_notebook(chapter)


def _summary(chapter: Chapter, result: NotebookResult) -> str:
    """The head of the feedback page. It holds nothing that a student wrote."""
    lines = [f"## Your result: {result.score:g} of {result.max_score:g} points", ""]
    for exercise in result.exercises:
        registered = {m.name: m for m in chapter[exercise.name].misconceptions}
        named = registered.get(exercise.misconception)
        checks = f"{len(exercise.passed)} of {len(exercise.passed) + len(exercise.failed)} hidden checks passed."
        lesson = f" {named.lesson} Read the section “{named.section}”." if named else ""
        points = f"{exercise.points:g} of {exercise.max_points:g} points"
        lines.append(f"- [`{exercise.name}`](#test_{exercise.name}), **{points}**: {checks}{lesson}")
    lines += [f"- Note: {html.escape(warning)}" for warning in result.warnings]
    return "\n".join([*lines, "", NOT_RUN])


def _score_outputs(result: ExerciseResult, max_points: float) -> list[NotebookNode]:
    """What nbgrader reads as the score, and above it what the student reads."""
    lines = [result.message, *(f"✗ {f.case}: {f.message}" for f in result.failed), *(f"✓ {p}" for p in result.passed)]
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines[1:])
    data = {"text/plain": "\n".join(lines), "text/html": f"<p><b>{html.escape(lines[0])}</b></p><ul>{items}</ul>"}
    points = min(result.points, max_points)
    return [new_output("display_data", data), new_output("execute_result", {"text/plain": repr(float(points))})]
