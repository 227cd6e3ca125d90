"""Read what a student handed in, and lay it out as the grader needs it.

Notebooks come back with cells duplicated, split, retyped or deleted, with metadata stripped or of another version. What
counts is the student's code: :func:`repair` finds it, and puts the course's own test cells where they belong.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from autograder.errors import CourseError
from autograder.exercise import Chapter

MAX_FILE = 50_000_000
MAX_CELLS = 2_000
NEW_CELL = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class UngradableError(CourseError):
    """The input cannot be graded; the text is one line that says what is wrong and what to do."""


def read_submission(path: Path) -> NotebookNode:
    """The notebook in ``path`` with well-formed cells: type, source and metadata; no outputs.

    Raises UngradableError if the file is missing, empty, too large, not JSON or not a notebook.
    """
    if not path.is_file():
        raise UngradableError(f"{path}: no such file; name a notebook (.ipynb)")
    if path.stat().st_size > MAX_FILE:
        raise UngradableError(f"{path}: larger than {MAX_FILE // 10**6} MB; clear its outputs and save it again")
    return parse_submission(path.read_bytes(), path)


def parse_submission(content: bytes, path: Path) -> NotebookNode:
    """The same for what a file holds; ``path`` is only named in errors."""
    text = content.decode("utf-8", errors="replace")
    if not text.strip():
        raise UngradableError(f"{path}: the file is empty; save the notebook and hand it in again")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        conflict = re.search(r"^<{7} .*^>{7} ", text, re.MULTILINE | re.DOTALL)
        why = "holds conflict markers of a merge" if conflict else "is no complete notebook (its JSON is broken)"
        raise UngradableError(f"{path}: the file {why}; hand in a copy that opens in JupyterLab") from None
    return _well_formed(path, content)


def _well_formed(path: Path, content: Any) -> NotebookNode:
    version = content.get("nbformat") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise UngradableError(f"{path}: not a notebook; name the .ipynb file of a chapter")
    if version > 4:
        raise UngradableError(f"{path}: notebook format {version} is newer than this course knows; save it as format 4")
    if version < 4:
        try:
            content = nbformat.convert(nbformat.from_dict(content), 4)
        except Exception:  # the converter stumbles in many ways over what is no notebook
            raise UngradableError(
                f"{path}: an old notebook format that cannot be read; save it in JupyterLab"
            ) from None
    cells = content.get("cells")
    if not isinstance(cells, list) or len(cells) > MAX_CELLS:
        raise UngradableError(f"{path}: not a notebook with cells; hand in a copy that opens in JupyterLab")
    notebook = new_notebook(cells=[_cell(cell) for cell in cells if isinstance(cell, dict)])
    metadata = content.get("metadata")
    chapter = metadata.get("course", {}) if isinstance(metadata, dict) else {}
    if isinstance(chapter, dict) and isinstance(chapter.get("chapter"), str):
        notebook.metadata["course"] = {"chapter": chapter["chapter"]}
    return notebook


def _cell(cell: dict[str, Any]) -> NotebookNode:
    source = cell.get("source", "")
    source = "".join(map(str, source)) if isinstance(source, list) else str(source)
    kind = cell.get("cell_type")
    metadata = cell.get("metadata")
    grade_id = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = grade_id.get("grade_id") if isinstance(grade_id, dict) else None
    node = NEW_CELL.get(kind if isinstance(kind, str) else "code", new_code_cell)(source)
    if isinstance(grade_id, str):
        node.metadata["nbgrader"] = {"grade_id": grade_id}
    return node


def chapter_of(notebook: NotebookNode, chapters: dict[str, Chapter]) -> Chapter | None:
    """The chapter that a notebook as read belongs to: by its own word, else by its exercises; None if unknown."""
    said = notebook.metadata.get("course", {}).get("chapter")
    if said in chapters:
        return chapters[said]

    def found(chapter: Chapter) -> int:
        names = [exercise.name for exercise in chapter.exercises]
        return sum(any(_grade_id(c) == name or _defines(c, name) for c in notebook.cells) for name in names)

    best = max(chapters.values(), key=found, default=None)
    return best if best and found(best) else None


def repair(notebook: NotebookNode, template: NotebookNode) -> list[str]:
    """Lay out a notebook as read, in place, like its template; what was odd about it, one line each.

    template: the chapter's source notebook, whose solution and test cells carry nbgrader's metadata. Afterwards every
    test cell of the template stands in the notebook once, behind the solution cell that it belongs to.
    """
    warnings: list[str] = []
    cells = list(notebook.cells)
    for test in (cell for cell in template.cells if _is_grade(cell)):
        grade_id = _grade_id(test)
        name = grade_id.removeprefix("test_")
        visible = test.source.split("### BEGIN HIDDEN TESTS")[0].strip()
        copies = [c for c in cells if _grade_id(c) == grade_id or (c.source.strip() == visible and visible)]
        if not copies:
            warnings.append(f"the test cell of `{name}` was missing")
        where = cells.index(copies[-1]) if copies else len(cells)
        solution = next(cell for cell in template.cells if _grade_id(cell) == name)
        chosen = _choose(cells, name, solution, warnings)
        if chosen:
            where = max(where, cells.index(chosen) + 1)
        cells.insert(where, new_code_cell(test.source, metadata=test.metadata))
        cells = [c for c in cells if not any(c is copy for copy in copies)]
    known = {_grade_id(cell) for cell in template.cells}
    for cell in cells:
        if len(cell.metadata.get("nbgrader", {})) == 1 or _grade_id(cell) not in known:
            cell.metadata.pop("nbgrader", None)
    notebook.cells = cells
    notebook.metadata["kernelspec"] = template.metadata["kernelspec"]
    return warnings


def _choose(cells: list[NotebookNode], name: str, solution: NotebookNode, warnings: list[str]) -> NotebookNode | None:
    """The student's cell for the exercise ``name``, marked as such; ``cells`` is mended around it."""
    stub = _without_solution(solution.source)
    marked = [cell for cell in cells if _grade_id(cell) == name]
    if len(marked) > 1:
        worked = [cell for cell in marked if _squeeze(cell.source) != _squeeze(stub)] or marked[:1]
        whole = "\n".join(cell.source for cell in worked)
        if not all(_compiles(cell.source) for cell in worked) and _compiles(whole):
            warnings.append(f"the cell of `{name}` was split; its parts were joined")
            worked[0].source, worked = whole, worked[:1]
        else:
            warnings.append(f"the cell of `{name}` was there {len(marked)} times; the last one with work in it counts")
        for extra in marked:
            if not any(extra is cell for cell in worked):
                cells.remove(extra)
        marked = worked
    elif not marked:
        marked = [cell for cell in cells if cell.cell_type == "code" and _defines(cell, name)]
        found = "found by its name" if marked else "not found"
        warnings.append(f"the cell of `{name}` had lost its mark; it was {found}")
    if not marked:
        return None
    chosen = marked[-1]
    if chosen.cell_type != "code":
        warnings.append(f"the cell of `{name}` was not a code cell; it was made one")
        position = cells.index(chosen)
        cells[position] = chosen = new_code_cell(chosen.source)
    for cell in marked:
        cell.metadata.pop("nbgrader", None)
    chosen.metadata["nbgrader"] = dict(solution.metadata["nbgrader"])
    return chosen


def _without_solution(source: str) -> str:
    stub = "# YOUR CODE HERE\nraise NotImplementedError()"
    return re.sub(r"### BEGIN SOLUTION.*?### END SOLUTION", stub, source, flags=re.DOTALL)


def _squeeze(source: str) -> str:
    return re.sub(r"\s+", "", source)


def _compiles(source: str) -> bool:
    try:
        compile(source, "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _defines(cell: NotebookNode, name: str) -> bool:
    return bool(re.search(rf"^(def|class) {re.escape(name)}\b", cell.source, re.MULTILINE))


def _grade_id(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def _is_grade(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))
