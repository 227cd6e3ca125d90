"""Does the grader tell right from wrong? Every exercise's reference, stub, misconceptions and variants, judged.

The reference must get full marks, the stub none, every misconception must lose points and be named, every variant must
get full marks. In the end reference and stubs go through a sealed notebook too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autograder.assignments import TOOLBOX, source_notebook, stub, validate
from autograder.calls import LocalAnswer
from autograder.exercise import Chapter, Exercise
from autograder.sample import submission
from autograder.scoring import NOT_WRITTEN, ExerciseResult, judge
from autograder.sealed import grade_notebook
from autograder.submission import repair


@dataclass(frozen=True)
class Finding:
    """One thing that was tried. ``problem`` is "" where the grader did right."""

    chapter: str
    exercise: str
    kind: str
    name: str
    points: float
    problem: str


def selftest(chapter: Chapter, sandboxed: bool = True) -> Iterator[Finding]:
    """Try everything that a chapter registers; raises AssignmentError if the chapter is not whole."""
    validate(chapter.name)
    yield from functions(chapter)
    for kind, share in (("full-answer", 1.0), ("untouched", 0.0)):
        notebook = submission(chapter, kind)
        original = source_notebook(chapter.name)
        repair(notebook, original)
        results = grade_notebook(notebook, chapter, (TOOLBOX,), sandboxed, original=original)
        for exercise in chapter.exercises:
            problem = _expect(results[exercise.name], share * exercise.points)
            yield Finding(chapter.name, exercise.name, "sealed", kind, results[exercise.name].points, problem)


def functions(chapter: Chapter) -> Iterator[Finding]:
    """Try references, stubs, variants and misconceptions in this process, without a notebook."""
    for exercise in chapter.exercises:
        yield from _functions(chapter, exercise)


def _functions(chapter: Chapter, exercise: Exercise) -> Iterator[Finding]:
    def finding(kind: str, name: str, function: Callable[..., Any], check: Callable[[ExerciseResult], str]) -> Finding:
        result = judge(exercise, LocalAnswer(function))
        return Finding(chapter.name, exercise.name, kind, name, result.points, check(result))

    def right(result: ExerciseResult) -> str:
        return _expect(result, exercise.points)

    def unwritten(result: ExerciseResult) -> str:
        return _expect(result, 0.0) or ("" if result.message == NOT_WRITTEN else f"says: {result.message}")

    yield finding("reference", exercise.name, exercise.reference, right)
    yield finding("stub", exercise.name, _stub_function(exercise), unwritten)
    for variant in exercise.variants:
        yield finding("variant", variant.__name__, variant, right)
    for misconception in exercise.misconceptions:

        def named(result: ExerciseResult, wanted: str = misconception.name) -> str:
            if result.points >= exercise.points:
                return "gets full marks"
            return "" if result.misconception == wanted else f"is taken for {result.misconception}"

        yield finding("misconception", misconception.name, misconception.function, named)
    for kind, registered, wanted in (("misconception", exercise.misconceptions, 3), ("variant", exercise.variants, 2)):
        if len(registered) < wanted:
            problem = f"{len(registered)} registered, at least {wanted} are needed"
            yield Finding(chapter.name, exercise.name, kind, "", 0.0, problem)


def _expect(result: ExerciseResult, points: float) -> str:
    return "" if result.points == points else f"gets {result.points} points, not {points}: {result.message}"


def _stub_function(exercise: Exercise) -> Callable[..., Any]:
    scope = dict(vars(sys.modules[exercise.reference.__module__]))
    exec(compile(stub(exercise), f"<stub of {exercise.name}>", "exec"), scope)
    return scope[exercise.name]
