"""The page "What our tests catch": what the selftest has tried, as a page of the book.

It names hidden checks and mistakes, as a student's feedback does. It holds no lesson, no argument and no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autograder.assignments import exercise_number
from autograder.errors import CourseError
from autograder.exercise import Chapter, Exercise
from autograder.exercises import chapters
from autograder.selftest import Finding

MARK = "% Below this line: as `course selftest --page` writes it.\n"
Kept = Mapping[tuple[str, str], float]
"""Points that a mistake keeps, by the names of exercise and mistake."""


def page(text: str, findings: Iterable[Finding]) -> str:
    """The page's text with all below its mark written anew, from what `selftest` found in one or more chapters.

    Raises CourseError if the text has no such mark.
    """
    above, mark, _ = text.partition(MARK)
    if not mark:
        raise CourseError(f"this is not the page: it lacks the line {MARK.strip()!r}")
    return above + mark + "\n" + tables(findings)


def tables(findings: Iterable[Finding]) -> str:
    """What the selftest found, as MyST Markdown."""
    findings = list(findings)
    tried = {finding.chapter for finding in findings}
    kept = {(f.exercise, f.name): f.points for f in findings if f.kind == "misconception"}
    shown = [chapter for chapter in chapters().values() if chapter.name in tried]
    exercises = [exercise for chapter in shown for exercise in chapter.exercises]
    total = (
        f"All in all: {len(exercises)} exercises, {sum(len(e.cases) for e in exercises):,} hidden checks, "
        f"{len(kept):,} mistakes, {sum(len(e.variants) for e in exercises)} variants.\n"
    )
    return "\n".join([total, *(_section(chapter, kept) for chapter in shown)])


def _section(chapter: Chapter, kept: Kept) -> str:
    lines = [
        f"## {chapter.name}\n\nPage: {{doc}}`{chapter.name}`.\n",
        "| exercise | points | checks | mistakes | they keep | variants |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    folds = []
    for exercise in chapter.exercises:
        title = f"{exercise_number(chapter, exercise.name)} `{exercise.name}`"
        points = sorted(kept[exercise.name, m.name] for m in exercise.misconceptions)
        lines.append(
            f"| {title} | {exercise.points:g} | {len(exercise.cases)} | {len(points)} "
            f"| {points[-1]:g}, {points[len(points) // 2]:g} | {len(exercise.variants)} |"
        )
        folds.append(_fold(title, exercise, kept))
    return "\n".join([*lines, "", *folds])


def _fold(title: str, exercise: Exercise, kept: Kept) -> str:
    by_points: dict[float, list[str]] = {}
    for misconception in exercise.misconceptions:
        by_points.setdefault(kept[exercise.name, misconception.name], []).append(f"`{misconception.name}`")
    mistakes = "\n".join(f"- keep {points:g}: {', '.join(by_points[points])}" for points in sorted(by_points))
    checks = "; ".join(case.name for case in exercise.cases)
    body = f"**Checks.** {checks}.\n\n**Mistakes**, by the points that they keep:\n\n{mistakes}"
    return f":::{{dropdown}} {title}\n{body}\n:::\n"
