"""A student's results against the reference's: points, what failed and why, and the mistake by name.

Wrong answers are data: the same cases that judge a student run on the reference and on every registered misconception,
and a failing student is told which of these gives the same results.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from autograder.calls import Answer, Call, LocalAnswer, Outcome
from autograder.compare import describe, difference
from autograder.exercise import Case, Exercise, Misconception
from autograder.wire import Foreign

NOT_DEFINED = "not defined"
NOT_WRITTEN = "Not written yet: replace `raise NotImplementedError()` by your own code."


@dataclass(frozen=True)
class Failure:
    """A hidden check that failed, and what a student reads about it."""

    case: str
    message: str


@dataclass(frozen=True)
class ExerciseResult:
    """What one exercise earned. ``misconception`` is the registered name, or None."""

    name: str
    points: float
    max_points: float
    passed: tuple[str, ...]
    failed: tuple[Failure, ...]
    misconception: str | None
    message: str

    def to_json(self) -> dict[str, Any]:
        """As `course check --json` prints it."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> ExerciseResult:
        """The result that `to_json` has written, perhaps through a file."""
        failed = tuple(Failure(**failure) for failure in kept["failed"])
        return cls(**{**kept, "passed": tuple(kept["passed"]), "failed": failed})


def judge(exercise: Exercise, answer: Answer, earlier: Mapping[str, Answer] | None = None) -> ExerciseResult:
    """Run the hidden cases of ``exercise`` on ``answer``.

    earlier: the student's own functions by name, for exercises that build on others: where a case fails, the reference
    is run once more on those, and a result that equals this one counts.
    """
    outcomes = [answer.call(_call(exercise, case)) for case in exercise.cases]
    truths = _run(exercise, exercise.reference)
    wrong = [
        _wrong(case, truth, outcome, exercise.results)
        for case, truth, outcome in zip(exercise.cases, truths, outcomes, strict=True)
    ]
    forwarded = False
    if any(wrong) and exercise.builds_on and earlier:
        relative = _relative_truths(exercise, earlier)
        for index, (case, truth) in enumerate(zip(exercise.cases, relative, strict=True)):
            if wrong[index] and truth and not _wrong(case, truth, outcomes[index], exercise.results):
                wrong[index], forwarded = "", True
    if not any(not text and not case.raises for text, case in zip(wrong, exercise.cases, strict=True)):
        wrong = [text or "counts only together with a right result" for text in wrong]
    returned = [(c, o, t) for c, o, t in zip(exercise.cases, outcomes, truths, strict=True) if o.status == "returned"]
    if _one_value(_judged(c, o) for c, o, _ in returned) and not _one_value(_judged(c, t) for c, _, t in returned):
        wrong = [text or "gives the same value whatever it is given" for text in wrong]
    named = _name_misconception(exercise, outcomes, wrong) if any(wrong) else None
    return _result(exercise, wrong, named, forwarded, _first_word(outcomes))


def not_judged(exercise: Exercise, reason: str) -> ExerciseResult:
    """The result of an exercise that could not be run at all."""
    failed = tuple(Failure(case.name, "not run") for case in exercise.cases)
    return ExerciseResult(exercise.name, 0.0, exercise.points, (), failed, None, reason)


def _result(
    exercise: Exercise, wrong: list[str], named: Misconception | None, forwarded: bool, first: str
) -> ExerciseResult:
    cases = exercise.cases
    share = sum(c.weight for c, w in zip(cases, wrong, strict=True) if not w) / sum(c.weight for c in cases)
    passed = tuple(c.name for c, w in zip(cases, wrong, strict=True) if not w)
    failed = tuple(Failure(c.name, w) for c, w in zip(cases, wrong, strict=True) if w)
    message = f"{len(passed)} of {len(cases)} hidden checks passed."
    if first:
        message = first
    elif named:
        message += f" {named.lesson} Read the section “{named.section}”."
    elif failed:
        message += f" First failure, {failed[0].case}: {failed[0].message}. Read the section “{exercise.section}”."
    if forwarded:
        message += f" Judged relative to your own {', '.join(exercise.builds_on)}: that mistake costs only once."
    points = exercise.points if not failed else round(exercise.points * share, 2)
    return ExerciseResult(exercise.name, points, exercise.points, passed, failed, named and named.name, message)


def _first_word(outcomes: list[Outcome]) -> str:
    """The message where there is nothing to compare: no function, or the stub."""
    if all(o.status == "missing" for o in outcomes):
        kind = outcomes[0].detail
        return f"This name holds {kind}, not a function." if kind else "Not defined: its cell is missing or failed."
    if all("NotImplementedError" in o.bases for o in outcomes):
        return NOT_WRITTEN
    return ""


def _call(exercise: Exercise, case: Case) -> Call:
    return Call(case.args, case.kwargs, case.probe or exercise.probe)


@cache
def _run(exercise: Exercise, function: Callable[..., Any]) -> tuple[Outcome, ...]:
    """What the reference or a misconception gives for every case."""
    return tuple(LocalAnswer(function).call(_call(exercise, case)) for case in exercise.cases)


def _wrong(case: Case, truth: Outcome, given: Outcome, names: tuple[str, ...]) -> str:
    """What a student reads about a failed case; "" where it passes."""
    if given.status == "missing":
        return NOT_DEFINED
    if given.status == "lost":
        return given.detail
    if case.raises:
        if given.status == "raised" and case.raises.__name__ in given.bases:
            return ""
        did = f"raised {given.error}" if given.status == "raised" else f"returned {describe(given.value)}"
        return f"{did} where a {case.raises.__name__} is expected"
    if given.status == "raised":
        said = f": {given.detail}" if given.detail else ""
        return f"raised {given.error}{said}" + (f", at `{given.line}`" if given.line else "")
    if wrong := difference(_judged(case, truth), _judged(case, given), names, case.rtol, case.atol):
        return f"{case.line}: {wrong}" if case.line else wrong
    if case.unchanged and difference(truth.arguments, given.arguments, (), 0.0, 0.0):
        return "changes its arguments in place: work on new arrays"
    return ""


def _judged(case: Case, outcome: Outcome) -> Any:
    """The part of a result that a case is about."""
    if case.line is None:
        return outcome.value
    if not isinstance(outcome.value, dict):
        return Foreign(describe(outcome.value))
    return outcome.value.get(case.line, Foreign("no such line"))


def _name_misconception(exercise: Exercise, outcomes: list[Outcome], wrong: list[str]) -> Misconception | None:
    """The registered mistake whose results are most like these, if it explains a failure and more than half of all."""
    best, most = None, 0.5
    for misconception in exercise.misconceptions:
        theirs = _run(exercise, misconception.function)
        alike = [_alike(case, *pair) for case, *pair in zip(exercise.cases, theirs, outcomes, strict=True)]
        share = sum(alike) / len(alike)
        if share > most and any(same and text for same, text in zip(alike, wrong, strict=True)):
            best, most = misconception, share
    return best


def _alike(case: Case, theirs: Outcome, given: Outcome) -> bool:
    if theirs.status != given.status or theirs.error != given.error:
        return False
    if difference(_judged(case, theirs), _judged(case, given), (), case.rtol, case.atol):
        return False
    return not (case.unchanged and difference(theirs.arguments, given.arguments, (), 0.0, 0.0))


def _relative_truths(exercise: Exercise, earlier: Mapping[str, Answer]) -> list[Outcome | None]:
    """What the reference gives on the student's own earlier functions; None where nothing can be concluded from it.

    Where these make the reference give one and the same value for everything, a constant would pass: nothing counts.
    """
    answer = LocalAnswer(_on_earlier(exercise, earlier))
    truths = [answer.call(_call(exercise, case)) for case in exercise.cases]
    constant = _one_value(truth.value for truth in truths if truth.status == "returned")
    return [truth if truth.status == "returned" and not constant else None for truth in truths]


def _one_value(results: Iterable[Any]) -> bool:
    """Whether all results consist of one and the same number, string or so on."""
    return len({leaf for result in results for leaf in _leaves(result)}) <= 1


def _leaves(value: Any) -> Iterator[Any]:
    """The single numbers, strings and so on in a result."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield from value.ravel().tolist() if isinstance(value, np.ndarray) else [value]


def _on_earlier(exercise: Exercise, earlier: Mapping[str, Answer]) -> Callable[..., Any]:
    """The reference, calling the student's own functions in place of the earlier references."""
    names = {name: _caller(earlier[name]) for name in exercise.builds_on if name in earlier}
    reference = exercise.reference
    function = types.FunctionType(
        reference.__code__,
        {**reference.__globals__, **names},
        reference.__name__,
        reference.__defaults__,
        reference.__closure__,
    )
    function.__kwdefaults__ = reference.__kwdefaults__
    return function


def _caller(answer: Answer) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        outcome = answer.call(Call(args, kwargs))
        if outcome.status != "returned":
            raise RuntimeError("the earlier function gave no result")
        return outcome.value

    return call
