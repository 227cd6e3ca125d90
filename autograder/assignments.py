"""Chapter + solutions + exercises → nbgrader's source notebook.

An exercise cell on a page imports the reference. Here it becomes the reference's own source, with its solution markers,
and the test cell after it gets the one hidden line that scores the answer; nbgrader makes the student version of that.
"""

from __future__ import annotations

import ast
import base64
import importlib
import inspect
import mimetypes
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import yaml

from autograder import exercises, markup
from autograder.errors import CourseError
from autograder.exercise import Chapter, Exercise

if TYPE_CHECKING:  # importing nbformat takes seconds, and the book's extension loads this module at every build
    from nbformat import NotebookNode

COURSE = Path(__file__).resolve().parent.parent
TOOLBOX = COURSE / "chapters" / "toolbox.py"
BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"
HIDDEN = '### BEGIN HIDDEN TESTS\n__import__("autograder").score("{name}", {name})\n### END HIDDEN TESTS'
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class AssignmentError(CourseError):
    """A chapter that can't be handed out: one line that names the chapter and the cell, and says what to do."""


@dataclass(frozen=True)
class _Page:
    """A chapter's page beside its registered exercises."""

    name: str
    chapter: Chapter
    cells: list[NotebookNode]
    root: Path

    def error(self, problem: str, index: int | None = None) -> AssignmentError:
        if index is None:
            return AssignmentError(f"{self.name}: {problem}")
        first = textwrap.shorten(self.cells[index].source.strip().partition("\n")[0], 60, placeholder=" …")
        return AssignmentError(f"{self.name}, cell {index + 1} ({first!r}): {problem}")

    def tagged(self, tag: str) -> list[int]:
        return [i for i, cell in enumerate(self.cells) if cell.cell_type == "code" and tag in _tags(cell)]


# -- reading ----------------------------------------------------------------------------------------------------------


def chapter_path(name: str, root: Path = COURSE) -> Path:
    """Where the page of a chapter is."""
    return root / "chapters" / f"{name}.md"


def chapter_number(name: str) -> str:
    """The number that the book gives a chapter: ``1`` for ``01_descent``; empty for a page without one."""
    digits = re.match(r"\d+(?=_)", name)
    return str(int(digits[0])) if digits else ""


def exercise_number(chapter: Chapter, name: str) -> str:
    """The number of an exercise's card: ``1.2`` for the second of chapter 1. Raises KeyError if it isn't registered."""
    return f"{chapter_number(chapter.name)}.{chapter.exercises.index(chapter[name]) + 1}"


def read_chapter(name: str, root: Path = COURSE) -> NotebookNode:
    """The page of a chapter as a notebook. Raises AssignmentError if there is no such page."""
    path = chapter_path(name, root)
    if not path.is_file():
        raise AssignmentError(f"{name}: there is no page {path.name} in {path.parent.name}/")
    import jupytext

    return jupytext.read(path, fmt="md:myst")


def table_of_contents(root: Path = COURSE) -> list[str]:
    """The pages in ``_toc.yml``, root first, as they are written there."""

    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, list):
            for item in entry:
                yield from pages(item)
        elif isinstance(entry, dict):
            yield from (entry[key] for key in ("root", "file") if key in entry)
            yield from (page for key in ("parts", "chapters", "sections") for page in pages(entry.get(key, [])))

    return list(pages(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))))


def _page(name: str, root: Path) -> _Page:
    if name not in exercises.chapters():
        raise AssignmentError(f"{name}: autograder/exercises has no CHAPTER of this name; add one, or correct the name")
    return _Page(name, exercises.chapters()[name], read_chapter(name, root).cells, root)


def _tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", ()))


def _figure(cell: NotebookNode) -> tuple[str, str] | None:
    """Name and caption of the figure that a code cell draws."""
    figure = cell.metadata.get("mystnb", {}).get("figure") or {}
    return (figure.get("name", ""), figure["caption"]) if "caption" in figure else None


def _book(root: Path) -> markup.Book:
    """What references resolve to: the labels and titles of every page in the table of contents."""
    labels: dict[str, markup.Label] = {}
    titles, points = {}, {}
    for name in (Path(page).name for page in table_of_contents(root)):
        if not chapter_path(name, root).is_file():
            continue
        cells = read_chapter(name, root).cells
        sources = [c.source if c.cell_type == "markdown" else _figure(c) for c in cells]
        try:
            labels |= markup.scan((source for source in sources if source is not None), chapter_number(name))
            headings = [b.name for s in sources if isinstance(s, str) for b in markup.walk(s) if b.kind == "heading"]
        except markup.MarkupError:  # reported when that page is handed out itself; this one may not refer to it
            continue
        titles[name] = headings[0] if headings else name
        if chapter := exercises.chapters().get(name):
            for exercise in chapter.exercises:
                number = exercise_number(chapter, exercise.name)
                labels[f"exercise-{exercise.name}".lower()] = markup.Label(f"Exercise {number}", number)
                points[exercise.name] = exercise.points
    return markup.Book(labels, titles, markup.citations(root / "chapters" / "references.bib"), points)


# -- validating -------------------------------------------------------------------------------------------------------


def validate(name: str, root: Path = COURSE) -> None:
    """Check that a chapter can be handed out.

    Raises AssignmentError at the first thing that is off: exercise cell, test cell, card and registered exercise don't
    match one to one and in order; a cell imports the solutions; a reference is missing or has no proper solution
    markers; a section to read is no heading of the page; markup has no translation; _toc.yml lacks the page.
    """
    page = _page(name, root)
    if f"chapters/{name}" not in [entry.removesuffix(".md") for entry in table_of_contents(root)]:
        raise page.error(f"the page is not in _toc.yml; add `- file: chapters/{name}` there")
    found = {}
    for index in page.tagged("exercise"):
        module, exercise = _import(page, index)
        if exercise in found:
            raise page.error(f"a second exercise cell for {exercise}; remove one", index)
        found[exercise] = index
        _check_reference(page, index, module, exercise)
    _check_imports(page)
    _check_pairs(page, found)
    _check_cards(page, found)
    _check_registry(page, found)
    _check_sections(page, found)
    _translated(page)


def _import(page: _Page, index: int) -> tuple[str, str]:
    """The module and the name that an exercise cell imports."""
    try:
        body = ast.parse(page.cells[index].source).body
    except SyntaxError:
        body = []
    match body:
        case [ast.ImportFrom(module=str(module), names=[ast.alias(name=name, asname=None)], level=0)] if (
            re.fullmatch(r"solutions\.\w+", module) and name != "*"
        ):
            return module, name
    raise page.error("an exercise cell is one line, `from solutions.<module> import <name>`, and nothing else", index)


def _check_reference(page: _Page, index: int, module: str, name: str) -> None:
    try:
        reference = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise page.error(f"there is no module {error.name}; write it, or correct the import", index) from None
    except AttributeError:
        raise page.error(f"{module} has no {name}; write it, or correct the import", index) from None
    try:
        _cleared(_source(reference), name)
    except ValueError as error:
        raise page.error(f"the reference {module}.{name} {error}", index) from None


def _check_imports(page: _Page) -> None:
    for index, cell in enumerate(page.cells):
        if cell.cell_type != "code" or "exercise" in _tags(cell):
            continue
        try:
            tree = _parsed(cell.source)
        except SyntaxError as error:
            raise page.error(f"this is not valid Python ({error.msg}); correct it", index) from None
        if any(_imports_solutions(node) for node in ast.walk(tree)):
            problem = (
                "only an exercise cell may import solutions; use the name that one has imported, or tag it exercise"
            )
            raise page.error(problem, index)


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:  # perhaps for IPython's own lines
        return ast.parse(re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.MULTILINE))


def _imports_solutions(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=aliases):
            modules = [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(module), level=0):
            modules = [module]
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=args, keywords=keywords):
            if called not in ("import_module", "__import__", "run_module"):
                return False
            values = [*args, *(keyword.value for keyword in keywords)]
            modules = [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]
        case _:
            return False
    return any(module.partition(".")[0] == "solutions" for module in modules)


def _check_pairs(page: _Page, found: dict[str, int]) -> None:
    """An exercise cell, then its test cell, then the next exercise cell."""
    names = {index: name for name, index in found.items()}
    waiting: int | None = None
    for index in sorted({*names, *page.tagged("test")}):
        is_test = "test" in _tags(page.cells[index])
        if is_test and index in names:
            raise page.error("a cell is tagged exercise or test, not both", index)
        if is_test and waiting is None:
            raise page.error("a test cell without an exercise cell before it; add one, or remove the tag", index)
        if not is_test and waiting is not None:
            break
        waiting = None if is_test else index
    if waiting is not None:
        raise page.error(f"{names[waiting]} has no test cell; add a cell tagged test after it", waiting)


def _check_cards(page: _Page, found: dict[str, int]) -> None:
    cards: dict[str, int] = {}
    for index, cell in enumerate(page.cells):
        if cell.cell_type != "markdown":
            continue
        try:
            here = [block.argument for block in markup.walk(cell.source) if block.name == "exercise"]
        except markup.MarkupError as error:
            raise page.error(str(error), index) from None
        for name in here:
            if name in cards:
                raise page.error(f"a second {{exercise}} card for {name}; remove one", index)
            if name not in found:
                raise page.error(f"the card of {name} has no exercise cell; add one below it", index)
            cards[name] = index
    for name, index in found.items():
        before = [other for other, at in found.items() if at < index]
        if name not in cards or cards[name] > index:
            raise page.error(f"{name} has no {{exercise}} card above its cell; add one", index)
        if before and cards[name] < found[before[-1]]:
            raise page.error(f"the card of {name} stands above the cell of {before[-1]}; move it down", index)


def _check_registry(page: _Page, found: dict[str, int]) -> None:
    registered = [exercise.name for exercise in page.chapter.exercises]
    for name in registered:
        if registered.count(name) > 1:
            raise page.error(f"{name} is registered twice in autograder/exercises; remove one")
        if name not in found:
            raise page.error(
                f"{name} is registered in autograder/exercises but has no exercise cell; add card and cells"
            )
    for place, (name, index) in enumerate(found.items()):
        if name not in registered:
            raise page.error(
                f"{name} is not registered in autograder/exercises; add it to the chapter's CHAPTER", index
            )
        if registered[place] != name:
            problem = f"{name} stands where autograder/exercises has {registered[place]}; use one order in both"
            raise page.error(problem, index)
        if page.chapter[name].reference.__module__ != _import(page, index)[0]:
            raise page.error(f"autograder/exercises has {name} from another module; import the same one", index)
        if not page.chapter[name].points > 0:
            raise page.error(f"{name} has no points; give it more than 0 in autograder/exercises", index)


def _check_sections(page: _Page, found: dict[str, int]) -> None:
    headings = {
        block.name
        for cell in page.cells
        if cell.cell_type == "markdown"
        for block in markup.walk(cell.source)
        if block.kind == "heading"
    }
    for exercise in page.chapter.exercises:
        wanted = [(exercise.name, exercise.section)]
        wanted += [(f"{exercise.name}'s misconception {m.name}", m.section) for m in exercise.misconceptions]
        for owner, section in wanted:
            if section not in headings:
                problem = f"{owner} sends readers to {section!r}, which is no heading of the page; correct either"
                raise page.error(problem, found[exercise.name])


# -- stubs ------------------------------------------------------------------------------------------------------------


def stub(exercise: Exercise | str) -> str:
    """What a student is given of an exercise: its source with the solution replaced, by nbgrader's ClearSolutions.

    Raises AssignmentError for a name that no chapter has, and for a reference without proper solution markers.
    """
    if isinstance(exercise, str):
        named = [e for chapter in exercises.chapters().values() for e in chapter.exercises if e.name == exercise]
        if not named:
            raise AssignmentError(f"no chapter has an exercise {exercise!r}; see autograder/exercises")
        exercise = named[0]
    try:
        return _cleared(_source(exercise.reference), exercise.name)
    except ValueError as error:
        raise AssignmentError(f"the reference of {exercise.name} {error}") from None


def _source(reference: Any) -> str:
    return inspect.getsource(reference).rstrip("\n")


def _cleared(source: str, name: str) -> str:
    """The source without its solution. Raises ValueError that says what is wrong with the markers."""
    inside = cleared = False
    for line in source.split("\n"):
        if BEGIN in line:
            if inside:
                raise ValueError(f"has a nested ### {BEGIN}; close the first one before it")
            inside = cleared = True
        elif END in line:
            if not inside:
                raise ValueError(f"has an ### {END} without a beginning; add ### {BEGIN} above it")
            inside = False
    if inside:
        raise ValueError(f"has a ### {BEGIN} that is never closed; add ### {END}")
    if not cleared:
        raise ValueError(f"has no solution markers; put ### {BEGIN} and ### {END} around what students write")
    from nbformat.v4 import new_code_cell, new_notebook

    cell = new_code_cell(source, metadata={"nbgrader": _nbgrader(name, solution=True)}, id="stub")
    (cell,) = _preprocessed(new_notebook(cells=[cell]), "ClearSolutions").cells
    try:
        kept = ast.parse(cell.source).body
    except SyntaxError:
        kept = []
    if [getattr(node, "name", "") for node in kept] != [name]:
        raise ValueError(
            f"is no single def or class {name} once its solution is cut out; move the markers inside its body"
        )
    return cell.source


def _preprocessed(notebook: NotebookNode, *names: str) -> NotebookNode:
    resources: dict[str, Any] = {}
    for name in names:
        notebook, resources = getattr(_nbgrader_preprocessors(), name)().preprocess(notebook, resources)
    return notebook


@cache
def _nbgrader_preprocessors() -> ModuleType:
    return importlib.import_module("nbgrader.preprocessors")  # pulls in all of nbgrader: only when it is needed


# -- notebooks --------------------------------------------------------------------------------------------------------


def source_notebook(name: str, root: Path = COURSE) -> NotebookNode:
    """The chapter as nbgrader's source notebook, with solutions and hidden lines; equal for equal input.

    Raises AssignmentError if the chapter doesn't validate.
    """
    validate(name, root)
    page = _page(name, root)
    return _assembled(page, _translated(page))


def code_notebook(name: str, root: Path = COURSE) -> NotebookNode:
    """The code cells of the source notebook alone, without checks: all that grading compares a submission with."""
    page = _page(name, root)
    notebook = _assembled(page, [(cell, "", {}) for cell in page.cells])
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return notebook


def _assembled(page: _Page, translated: list[tuple[NotebookNode, str, dict[str, Any]]]) -> NotebookNode:
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells, last = [], ""
    for index, (cell, text, attachments) in enumerate(translated):
        identity, metadata = f"cell-{index:03d}", {}
        if cell.cell_type == "markdown":
            shown = new_markdown_cell(text, id=identity)
            if attachments:
                shown.attachments = attachments
            cells.append(shown)
            continue
        source = cell.source
        if "exercise" in _tags(cell):
            identity = last = _import(page, index)[1]
            source = _source(page.chapter[last].reference)
            metadata["nbgrader"] = _nbgrader(last, solution=True)
        elif "test" in _tags(cell):
            identity = f"test_{last}"
            source = f"{source.rstrip()}\n{HIDDEN.format(name=last)}"
            metadata["nbgrader"] = _nbgrader(identity, points=page.chapter[last].points)
        if FOLDED & _tags(cell):
            metadata["jupyter"] = {"source_hidden": True}
        if "raises-exception" in _tags(cell):
            metadata["tags"] = ["raises-exception"]
        cells.append(new_code_cell(source, metadata=metadata, id=identity))
        if text:
            cells.append(new_markdown_cell(text, id=f"caption-{index:03d}"))
    metadata = {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}, "course": {"chapter": page.name}}
    return new_notebook(cells=cells, metadata=metadata)


def student_notebook(name: str, root: Path = COURSE) -> NotebookNode:
    """The chapter as students get it: what ``nbgrader generate_assignment`` writes, without a grade book.

    Raises AssignmentError if the chapter doesn't validate.
    """
    return _preprocessed(
        source_notebook(name, root),
        "LockCells",
        "ClearSolutions",
        "ClearOutput",
        "CheckCellMetadata",
        "ClearHiddenTests",
        "ClearMarkScheme",
        "ComputeChecksums",
        "CheckCellMetadata",
    )


def _nbgrader(grade_id: str, *, solution: bool = False, points: float | None = None) -> dict[str, Any]:
    metadata = {"grade": not solution, "grade_id": grade_id, "locked": not solution, "schema_version": 3}
    metadata |= {"solution": solution, "task": False}
    return metadata if points is None else metadata | {"points": points}


def _translated(page: _Page) -> list[tuple[NotebookNode, str, dict[str, Any]]]:
    """Each cell beside its translated Markdown (a code cell's: its figure's caption) and attachments."""
    translator = markup.Translator(_book(page.root), chapter_number(page.name))
    translated = []
    for index, cell in enumerate(page.cells):
        text, images = "", []
        try:
            if cell.cell_type == "markdown":
                text, images = translator.cell(cell.source)
            elif figure := _figure(cell):
                text = translator.figure_caption(figure[1])
            attachments = dict(_attachment(page.root / "chapters" / image) for image in images)
        except markup.MarkupError as error:
            raise page.error(str(error), index) from None
        except OSError as error:
            raise page.error(
                f"the image {Path(str(error.filename)).name} can't be read; correct its path", index
            ) from None
        translated.append((cell, text, attachments))
    return translated


def _attachment(image: Path) -> tuple[str, dict[str, str]]:
    kind = mimetypes.guess_type(image.name)[0] or "application/octet-stream"
    return image.name, {kind: base64.b64encode(image.read_bytes()).decode("ascii")}
