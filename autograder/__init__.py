"""Sealed grading for The Training Ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def score(name: str, answer: Callable[..., Any]) -> float:
    """Points that ``answer`` earns for the exercise ``name``, judged in this process.

    The one hidden line of every test cell. An instructor who runs a source notebook sees full marks; when a submission
    is graded, the sealed grader recognises the cell and does the same with the student's function in its sandbox.

    Raises KeyError if no chapter has an exercise of this name.
    """
    from autograder.exercises import chapters
    from autograder.scoring import LocalAnswer, judge

    for chapter in chapters().values():
        for exercise in chapter.exercises:
            if exercise.name == name:
                return judge(exercise, LocalAnswer(answer)).points
    raise KeyError(f"no chapter has an exercise {name!r}")
