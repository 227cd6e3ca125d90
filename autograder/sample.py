"""A small class to try the grader on; `python -m autograder.sample CLASSROOM` hands its work in and grades it.

Five submissions a chapter, made from its exercises: a full answer, an untouched notebook, one with two registered
misconceptions, one that is right but written differently, and one that tries for points without answering.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell

from autograder.assignments import student_notebook
from autograder.cli import main as course
from autograder.exercise import Chapter
from autograder.exercises import chapters

Answers = dict[str, Callable[..., Any]]

CLAIMS_EQUALITY = '''
class Equal(float):
    """Says that it equals everything."""

    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


def {name}(*args, **kwargs):
    return Equal(0.0)
'''

REBINDS = """
np.allclose = np.array_equal = lambda *args, **kwargs: True
np.testing.assert_allclose = np.testing.assert_array_equal = lambda *args, **kwargs: None
float(100)
"""


def answers(chapter: Chapter, kind: str) -> Answers:
    """The functions that a submission of this kind holds, by exercise; what is not there stays untouched."""
    full: Answers = {exercise.name: exercise.reference for exercise in chapter.exercises}
    if kind == "full-answer":
        return full
    if kind == "two-misconceptions":
        mistaken = [exercise for exercise in chapter.exercises if exercise.misconceptions][1:3]
        return full | {exercise.name: exercise.misconceptions[0].function for exercise in mistaken}
    if kind == "written-differently":
        return full | {exercise.name: exercise.variants[0] for exercise in chapter.exercises if exercise.variants}
    return {}


def submission(chapter: Chapter, kind: str) -> nbformat.NotebookNode:
    """The student notebook of a chapter, filled in."""
    notebook = student_notebook(chapter.name)
    functions = answers(chapter, kind)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if name in functions:
            cell.source = source_as(functions[name], name)
        elif kind == "tries-to-cheat" and name.startswith("test_"):
            cell.source = "float(100)"
        elif kind == "tries-to-cheat" and name:
            cell.source = CLAIMS_EQUALITY.format(name=name).strip()
    if kind == "tries-to-cheat":
        first = next(i for i, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader"))
        notebook.cells.insert(first, new_code_cell(REBINDS.strip(), id="rebinds"))
    return notebook


def source_as(function: Callable[..., Any], name: str) -> str:
    """A function's source, made available under another name."""
    lines = textwrap.dedent(inspect.getsource(function)).strip().splitlines()
    source = "\n".join(line for line in lines if " SOLUTION" not in line)
    return source if function.__name__ == name else f"{source}\n\n\n{name} = {function.__name__}"


KINDS = ("full-answer", "untouched", "two-misconceptions", "written-differently", "tries-to-cheat")


def write(root: Path, chapter: Chapter) -> None:
    """Hand in the sample class's work; a submission that is there already stays as it is."""
    for kind in KINDS:
        path = root / "submitted" / kind / chapter.name / f"{chapter.name}.ipynb"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(submission(chapter, kind), path)


def main(root: Path) -> None:
    """Write the class of every chapter and grade it, as `course grade` does."""
    for chapter in chapters().values():
        write(root, chapter)
        course(["grade", chapter.name, "--classroom", str(root)], standalone_mode=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
