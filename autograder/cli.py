"""The `course` command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from autograder.errors import CourseError

if TYPE_CHECKING:
    from autograder.classroom import Classroom, Graded
    from autograder.exercise import Chapter
    from autograder.sealed import NotebookResult

CLASSROOM = click.option(
    "--classroom",
    type=click.Path(path_type=Path, file_okay=False),
    help="The class directory. [default: classroom/ of this repository]",
)
UNSANDBOXED = click.option(
    "--unsandboxed", is_flag=True, help="Run students' code without a sandbox: it can read and write what you can."
)


def _plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Bad input ends a command with one line on standard error and exit status 2."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except CourseError as error:
            click.echo(f"course: {error}", err=True)
            sys.exit(2)
        except KeyboardInterrupt:
            click.echo("course: stopped; what is finished is kept, and the next run goes on from there", err=True)
            sys.exit(130)

    return run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The Training Ledger: hand out, check and grade the course's notebooks."""


@main.command()
@click.argument("chapters", nargs=-1)
@CLASSROOM
@_plain_errors
def release(chapters: tuple[str, ...], classroom: Path | None) -> None:
    """Write nbgrader source and release notebooks."""
    room = _open(classroom)
    for chapter in _chapters(chapters):
        new = room.release(chapter.name)
        click.echo(f"{room.root / 'release' / chapter.name}{'' if new else ' (unchanged)'}")


@main.command()
@click.argument("notebook", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@UNSANDBOXED
@_plain_errors
def check(notebook: Path, as_json: bool, unsandboxed: bool) -> None:
    """Check one notebook with all hidden tests. Writes nothing."""
    from autograder.check import check_notebook

    result = check_notebook(notebook, sandboxed=not unsandboxed)
    if as_json:
        click.echo(json.dumps(result.to_json(), ensure_ascii=False))
    else:
        _show_result(result)


@main.command()
@click.argument("chapter")
@click.argument("students", nargs=-1)
@CLASSROOM
@click.option("--workers", type=click.IntRange(1), help="How many processes run submissions (one for each processor).")
@UNSANDBOXED
@_plain_errors
def grade(
    chapter: str, students: tuple[str, ...], classroom: Path | None, workers: int | None, unsandboxed: bool
) -> None:
    """Grade a chapter for a class: grade book, feedback, grades.csv and the class report."""
    from autograder.report import write_report

    (wanted,) = _chapters((chapter,))
    room = _open(classroom, not unsandboxed)
    names = list(students) or room.students(chapter)
    graded = []
    with _progress() as progress:
        task = progress.add_task(chapter, total=len(names))
        for one in room.grade(chapter, names, workers):
            graded.append(one)
            progress.advance(task)
    graded.sort(key=lambda one: names.index(one.student))
    _show_class(wanted, graded)
    if not any(one.result for one in graded):
        raise CourseError(f"none of these submissions could be graded: {graded[0].problem}")
    click.echo(f"feedback: {room.root / 'feedback'}\ngrades:   {room.root / 'grades.csv'}")
    click.echo(f"report:   {write_report(room, wanted)}")


@main.command()
@click.argument("chapter")
@CLASSROOM
@_plain_errors
def report(chapter: str, classroom: Path | None) -> None:
    """Write the class report: scores, hardest exercises, misconceptions by share."""
    from autograder.report import mistakes, write_report

    (wanted,) = _chapters((chapter,))
    room = _open(classroom)
    path = write_report(room, wanted)
    graded = room.results(chapter)
    for mistake in mistakes(wanted, graded):
        click.echo(f"{mistake.count} of {len(graded)}: {mistake.exercise}: {mistake.misconception.lesson}")
    click.echo(str(path))


@main.command()
@click.argument("chapters", nargs=-1)
@UNSANDBOXED
@click.option("--page", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Renew this page.")
@_plain_errors
def selftest(chapters: tuple[str, ...], unsandboxed: bool, page: Path | None) -> None:
    """Prove the hidden tests: reference full, stub zero, misconceptions named, variants full."""
    from autograder.catches import page as page_of
    from autograder.selftest import selftest as run

    if page and chapters:
        raise CourseError("--page is about all chapters: leave their names out")
    table = Table("Chapter", "Tried", "As it should be")
    found, problems = [], []
    for chapter in _chapters(chapters):
        findings = list(run(chapter, sandboxed=not unsandboxed))
        for kind in dict.fromkeys(finding.kind for finding in findings):
            tried = [finding for finding in findings if finding.kind == kind]
            good = sum(not finding.problem for finding in tried)
            table.add_row(chapter.name, f"{len(tried)} × {kind}", f"{good} of {len(tried)}")
        found += findings
        problems += [finding for finding in findings if finding.problem]
    Console().print(table)
    for finding in problems:
        click.echo(f"{finding.chapter} {finding.exercise}: {finding.kind} {finding.name} {finding.problem}", err=True)
    if page and not problems:
        page.write_text(page_of(page.read_text(), found))
    sys.exit(1 if problems else 0)


def _open(root: Path | None, sandboxed: bool = True) -> Classroom:
    from autograder.classroom import DEFAULT, Classroom

    return Classroom(root or DEFAULT, sandboxed)


def _chapters(names: tuple[str, ...]) -> list[Chapter]:
    from autograder.exercises import chapters

    known = chapters()
    for name in names:
        if name not in known:
            raise CourseError(f"unknown chapter {name}; the chapters are {', '.join(known)}")
    return [known[name] for name in names or known]


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _show_result(result: NotebookResult) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for warning in result.warnings:
        console.print(f"note: {warning}", markup=False)
    for exercise in result.exercises:
        mark = "✓" if exercise.points == exercise.max_points else "✗"
        console.print(
            f"{mark} {exercise.name}: {exercise.points:g} of {exercise.max_points:g}", style="bold", markup=False
        )
        console.print(f"  {exercise.message}", markup=False)
        for failure in exercise.failed:
            console.print(f"    ✗ {failure.case}: {failure.message}", markup=False)
    console.print(f"{result.chapter}: {result.score:g} of {result.max_score:g} points", style="bold", markup=False)


def _show_class(chapter: Chapter, graded: list[Graded]) -> None:
    from autograder.assignments import exercise_number

    numbers = {exercise.name: exercise_number(chapter, exercise.name) for exercise in chapter.exercises}
    table = Table(caption=", ".join(f"{number} {name}" for name, number in numbers.items()))
    table.add_column("Student", overflow="fold")
    for heading in (*numbers.values(), f"of {chapter.points:g}"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in graded:
        if one.result:
            points = {exercise["name"]: exercise["points"] for exercise in one.result["exercises"]}
            table.add_row(one.student, *(f"{points[e.name]:g}" for e in chapter.exercises), f"{one.score:g}")
        else:
            table.add_row(one.student, *("" for _ in chapter.exercises), "–")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for one in graded:
        odd = [one.problem] * bool(one.problem) + (one.result["warnings"] if one.result else [])
        for what in odd:
            console.print(f"{one.student}: {what}", markup=False)
