"""Check one notebook with all hidden tests, for an author or a lone learner: no class, no grade book."""

from __future__ import annotations

from pathlib import Path

from autograder.assignments import TOOLBOX, code_notebook
from autograder.exercises import chapters
from autograder.sealed import NotebookResult, grade_notebook
from autograder.submission import UngradableError, chapter_of, read_submission, repair


def check_notebook(path: Path, sandboxed: bool = True) -> NotebookResult:
    """The result of the notebook in ``path``; nothing is written.

    Raises UngradableError if it is no notebook of this course, SandboxError if there is no sandbox.
    """
    notebook = read_submission(path)
    chapter = chapter_of(notebook, chapters())
    if chapter is None:
        known = ", ".join(chapters())
        raise UngradableError(f"{path}: not a notebook of this course; its chapters are {known}")
    original = code_notebook(chapter.name)
    warnings = repair(notebook, original)
    results = grade_notebook(notebook, chapter, (TOOLBOX,), sandboxed, original=original)
    return NotebookResult(chapter.name, tuple(results.values()), tuple(warnings))
