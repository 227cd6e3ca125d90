"""What an exercise is: its points, hidden cases, known mistakes and accepted variants.

This is the ground floor. Modules in ``autograder/exercises`` fill these records, the rest of the grader reads them;
nothing here knows of notebooks, kernels or nbgrader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """One hidden check: a call, and which property of its outcome counts.

    name: the property in a student's words, as it appears in their feedback ("a matrix of parameters").
    args, kwargs: plain data (numbers, strings, None, lists, tuples, dicts, numpy arrays).
    weight: share of the exercise's points, relative to the other cases.
    raises: the exception that must be raised; then no result is compared.
    unchanged: the arguments must be the same after the call, too.
    line: compare only this entry of a result that is a dict, so that a ledger is graded line by line.
    probe: replaces the exercise's probe for this case.
    rtol, atol: accepted difference to the reference; widened for results of lower precision than float64.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    raises: type[Exception] | None = None
    unchanged: bool = False
    line: str | None = None
    probe: Callable[..., Any] | None = None
    rtol: float = 1e-9
    atol: float = 1e-12


@dataclass(frozen=True)
class Misconception:
    """A mistake that students really make, as a small wrong implementation.

    name: snake_case, unique within the exercise; class reports count it.
    function: the wrong answer; self-contained, same signature as the exercise.
    lesson: one sentence, to the student, that says what went wrong.
    section: heading in the chapter where to read about it.
    """

    name: str
    function: Callable[..., Any]
    lesson: str
    section: str


@dataclass(frozen=True, eq=False)
class Exercise:
    """One graded function or class of a chapter.

    reference: the right answer, from ``solutions``; its ``__name__`` is the exercise's name.
    points: as in the course's catalogue.
    cases: ordered from one property to all, so that the first failure locates the mistake.
    misconceptions: wrong answers that must lose points and be named.
    variants: right answers written differently, which must get full marks.
    section: heading in the chapter where to read when no misconception matches.
    results: names of the results where the function returns several ("theta", "velocity").
    probe: for objects that cannot travel as plain data: ``probe(answer, *args)`` is sent to the student's process as
        source, drives the student's object there and returns plain data. It imports what it needs itself.
    builds_on: names of earlier exercises of the chapter that the reference calls. If this exercise fails, it is judged
        once more relative to the student's own versions of these.
    """

    reference: Callable[..., Any]
    points: float
    cases: tuple[Case, ...]
    misconceptions: tuple[Misconception, ...]
    variants: tuple[Callable[..., Any], ...]
    section: str
    results: tuple[str, ...] = ()
    probe: Callable[..., Any] | None = None
    builds_on: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's (or class's) name, which is the solution cell's ``grade_id``."""
        return self.reference.__name__


@dataclass(frozen=True, eq=False)
class Chapter:
    """The exercises of one chapter, in the order of the page.

    name: the page's and the assignment's name, ``01_descent``.
    """

    name: str
    exercises: tuple[Exercise, ...]

    def __getitem__(self, name: str) -> Exercise:
        for exercise in self.exercises:
            if exercise.name == name:
                return exercise
        raise KeyError(f"chapter {self.name} has no exercise {name!r}")

    @property
    def points(self) -> float:
        """Points of all exercises together."""
        return sum(exercise.points for exercise in self.exercises)
