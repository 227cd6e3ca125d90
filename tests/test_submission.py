"""Whatever happened to a notebook on its way, the student's work is found, and what cannot be read is named."""

import json
import random
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.assignments import source_notebook, student_notebook
from autograder.exercises import chapters
from autograder.sample import submission
from autograder.submission import UngradableError, chapter_of, read_submission, repair

CHAPTER = chapters()["01_descent"]
NAMES = [exercise.name for exercise in CHAPTER.exercises]


@pytest.fixture(scope="module")
def template():
    return source_notebook("01_descent")


@pytest.fixture
def full():
    return submission(CHAPTER, "full-answer")


def handed_in(notebook, tmp_path, template):
    """What the grader makes of a notebook: the repaired one, and the warnings."""
    path = tmp_path / "01_descent.ipynb"
    path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook))
    read = read_submission(path)
    return read, repair(read, template)


def cell_of(notebook, grade_id):
    (found,) = (c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)
    return found


def is_whole(notebook, template):
    """Every exercise has one solution cell that defines it, and below it one test cell, as the course wrote it."""
    ids = [c.metadata["nbgrader"]["grade_id"] for c in notebook.cells if "nbgrader" in c.metadata]
    assert sorted(ids) == sorted([*NAMES, *(f"test_{name}" for name in NAMES)])
    for name in NAMES:
        solution, test = cell_of(notebook, name), cell_of(notebook, f"test_{name}")
        assert re.search(rf"^(def|class) {name}\b", solution.source, re.MULTILINE)
        assert notebook.cells.index(solution) < notebook.cells.index(test)
        assert test.source == cell_of(template, f"test_{name}").source
        assert solution.metadata["nbgrader"]["schema_version"] == 3
    return True


def position(notebook, grade_id):
    return notebook.cells.index(cell_of(notebook, grade_id))


def test_a_good_notebook_is_left_as_it_is(full, tmp_path, template):
    read, warnings = handed_in(full, tmp_path, template)
    assert warnings == []
    assert is_whole(read, template)
    assert [c.source for c in read.cells if "test_" not in str(c.metadata)] == [
        c.source for c in full.cells if "test_" not in str(c.metadata)
    ]


def test_all_metadata_stripped(full, tmp_path, template):
    for cell in full.cells:
        cell.metadata = {}
    full.metadata = {}
    read, warnings = handed_in(full, tmp_path, template)
    assert is_whole(read, template)
    assert len(warnings) == len(NAMES)
    assert all("lost its mark" in warning for warning in warnings)


def test_a_duplicated_stub_does_not_undo_the_work(full, tmp_path, template):
    stub = cell_of(student_notebook("01_descent"), "sgd_step")
    full.cells.append(stub)
    read, warnings = handed_in(full, tmp_path, template)
    assert is_whole(read, template)
    assert "2 times" in warnings[0]
    assert sum("NotImplementedError" in cell.source for cell in read.cells) == 0


def test_of_two_worked_copies_the_last_counts(full, tmp_path, template):
    again = new_code_cell(
        "def sgd_step(theta, grad, lr):\n    return theta", metadata=cell_of(full, "sgd_step").metadata
    )
    full.cells.append(again)
    read, _ = handed_in(full, tmp_path, template)
    assert is_whole(read, template)
    assert cell_of(read, "sgd_step").source == again.source
    assert position(read, "test_sgd_step") > position(read, "sgd_step")


def test_a_split_cell_is_joined(full, tmp_path, template):
    index = position(full, "momentum_step")
    lines = full.cells[index].source.split("\n")
    metadata = full.cells[index].metadata
    parts = ["\n".join(lines[:-2]), "\n".join(lines[-2:])]
    full.cells[index : index + 1] = [new_code_cell(part, metadata=metadata) for part in parts]
    read, warnings = handed_in(full, tmp_path, template)
    assert is_whole(read, template)
    assert cell_of(read, "momentum_step").source == "\n".join(lines)
    assert "split" in warnings[0]


def test_deleted_and_duplicated_test_cells(full, tmp_path, template):
    del full.cells[position(full, "test_sgd_step")]
    full.cells.append(cell_of(full, "test_momentum_step"))
    read, warnings = handed_in(full, tmp_path, template)
    assert is_whole(read, template)
    assert warnings == ["the test cell of `sgd_step` was missing"]


def test_an_edited_test_cell_is_the_courses_again(full, tmp_path, template):
    cell_of(full, "test_sgd_step").source = "2.0"
    read, _ = handed_in(full, tmp_path, template)
    assert is_whole(read, template)


def test_a_deleted_solution_leaves_the_others(full, tmp_path, template):
    del full.cells[position(full, "sgd_step")]
    read, warnings = handed_in(full, tmp_path, template)
    assert "not found" in warnings[0]
    assert cell_of(read, "test_sgd_step")
    assert cell_of(read, "momentum_step")


def test_a_retyped_solution_is_code_again(full, tmp_path, template):
    index = position(full, "sgd_step")
    full.cells[index] = new_markdown_cell(full.cells[index].source, metadata=full.cells[index].metadata)
    read, warnings = handed_in(full, tmp_path, template)
    assert is_whole(read, template)
    assert cell_of(read, "sgd_step").cell_type == "code"
    assert "not a code cell" in warnings[0]


@pytest.mark.parametrize("version", [1, 2, 99, "x", None])
def test_another_schema_version(full, tmp_path, template, version):
    for cell in full.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata["nbgrader"]["schema_version"] = version
    assert is_whole(handed_in(full, tmp_path, template)[0], template)


def test_tags_ids_and_foreign_marks_are_dropped(full, tmp_path, template):
    for cell in full.cells:
        cell.metadata["tags"] = ["skip-execution", "raises-exception"]
        cell["id"] = "same"
    full.cells.append(new_code_cell("1", metadata={"nbgrader": {"grade_id": "other", "grade": True, "points": 99}}))
    read, _ = handed_in(full, tmp_path, template)
    assert is_whole(read, template)
    assert not any("tags" in cell.metadata for cell in read.cells)
    assert len({cell.id for cell in read.cells}) == len(read.cells)


def test_an_old_notebook_format(full, tmp_path, template):
    old = nbformat.convert(full, 3)
    read, _ = handed_in(dict(old), tmp_path, template)
    assert is_whole(read, template)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ('{"cells": [', "broken"),
        ("hello", "broken"),
        ('<<<<<<< HEAD\n{}\n=======\n{"a": 1}\n>>>>>>> main\n', "conflict markers"),
        ("[1, 2]", "not a notebook"),
        ('{"a": 1}', "not a notebook"),
        ('{"nbformat": 4, "cells": 7}', "not a notebook with cells"),
        ('{"nbformat": 5, "cells": []}', "newer"),
        ('{"nbformat": 3, "worksheets": 3}', "old notebook format"),
        ("[" * 100_000, "broken"),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(tmp_path, content, says):
    path = tmp_path / "x.ipynb"
    path.write_text(content)
    with pytest.raises(UngradableError) as error:
        read_submission(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UngradableError, match="no such file"):
        read_submission(tmp_path / "no.ipynb")


def test_the_chapter_is_found_without_its_name(full):
    del full.metadata["course"]
    assert chapter_of(full, chapters()) is CHAPTER
    full.cells = [new_code_cell("print('another course')")]
    assert chapter_of(full, chapters()) is None


def test_bytes_gone_wrong_are_repaired_or_refused(full, tmp_path, template):
    good = json.dumps(full).encode()
    random_bytes = random.Random(0)
    outcomes = set()
    for _ in range(100):
        bad = bytearray(good)
        for _ in range(random_bytes.randint(1, 20)):
            bad[random_bytes.randrange(len(bad))] = random_bytes.randrange(256)
        path = tmp_path / "x.ipynb"
        path.write_bytes(bytes(bad))
        try:
            read = read_submission(path)
        except UngradableError:
            outcomes.add("refused")
            continue
        repair(read, template)
        assert sum(bool(cell.metadata.get("nbgrader", {}).get("grade")) for cell in read.cells) == len(NAMES)
        outcomes.add("repaired")
    assert outcomes == {"refused", "repaired"}
