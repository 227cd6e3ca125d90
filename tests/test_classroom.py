"""A class from release to report, by `course` and by `nbgrader`."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbgrader.api import Gradebook

from autograder import sample
from autograder.assignments import COURSE
from autograder.classroom import Classroom, ClassroomError
from autograder.exercises import chapters
from autograder.report import write_report

NAME = "01_descent"
CHAPTER = chapters()[NAME]
EXPECTED = {
    "full-answer": CHAPTER.points,
    "written-differently": CHAPTER.points,
    "untouched": 0,
    "tries-to-cheat": 0,
}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    root = tmp_path_factory.mktemp("class")
    sample.write(root, CHAPTER)
    odd = root / "submitted" / "=odd, one" / NAME
    odd.mkdir(parents=True)
    (odd / f"{NAME}.ipynb").write_text('{"cells": [')
    renamed = root / "submitted" / "renamed" / NAME
    renamed.mkdir(parents=True)
    shutil.copy(root / "submitted" / "untouched" / NAME / f"{NAME}.ipynb", renamed / f"{NAME} (1).ipynb")
    return Classroom(root)


@pytest.fixture(scope="module")
def graded(room):
    return {one.student: one for one in room.grade(NAME, room.students(NAME))}


def test_every_submission_gets_what_its_functions_deserve(graded):
    scores = {student: one.score for student, one in graded.items()}
    assert {student: scores[student] for student in EXPECTED} == EXPECTED
    assert 0 < scores["two-misconceptions"] < CHAPTER.points
    assert scores["renamed"] == 0
    assert graded["renamed"].result is not None
    named = [e["misconception"] for e in graded["two-misconceptions"].result["exercises"] if e["misconception"]]
    assert named == [exercise.misconceptions[0].name for exercise in CHAPTER.exercises[1:3]]


def test_what_cannot_be_graded_is_listed_and_stops_nobody(graded):
    odd = graded["=odd, one"]
    assert odd.result is None
    assert "broken" in odd.problem


def test_the_grade_book_agrees(room, graded):
    with Gradebook(f"sqlite:///{room.root}/gradebook.db") as book:
        for student, score in EXPECTED.items():
            assert book.find_submission(NAME, student).score == score
        notebook = book.find_submission_notebook(NAME, NAME, "two-misconceptions")
        points = {grade.name: grade.auto_score for grade in notebook.grades}
    result = graded["two-misconceptions"].result
    assert points == {f"test_{exercise['name']}": exercise["points"] for exercise in result["exercises"]}


def test_grades_are_quoted_and_harmless(room, graded):
    with (room.root / "grades.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["student"]: float(row["score"]) for row in rows}["full-answer"] == CHAPTER.points
    assert not [row for row in rows if row["student"].startswith("=")]


def test_feedback_tells_the_mistake_and_hides_the_tests(room, graded):
    pages = {student: room.feedback(NAME, student).read_text() for student in ("two-misconceptions", "untouched")}
    lesson = CHAPTER.exercises[1].misconceptions[0].lesson
    assert lesson.split("`")[0][:40] in pages["two-misconceptions"]
    assert "hidden checks passed" in pages["two-misconceptions"]
    assert "Not written yet" in pages["untouched"]
    for page in pages.values():
        assert page.count("cells of the course itself are run only where your own need them") == 1
        assert "HIDDEN TESTS" not in page
        assert "autograder" not in page
        assert "<script>alert" not in page


def test_work_that_has_not_changed_is_not_graded_again(room, graded):
    again = {one.student: one for one in room.grade(NAME, room.students(NAME))}
    assert not any(one.fresh for one in again.values())
    assert {s: one.score for s, one in again.items()} == {s: one.score for s, one in graded.items()}


def test_the_report_counts_scores_and_mistakes(room, graded):
    page = write_report(room, CHAPTER).read_text()
    assert "6 graded" in page
    assert CHAPTER.exercises[1].misconceptions[0].section in page
    assert "http" not in page.replace("http-equiv", "")


def test_nbgrader_itself_grades_the_same(room, graded):
    root = room.root
    config = root / "nbgrader_config.py"
    config.write_text(
        f"exec(open({str(COURSE / 'nbgrader_config.py')!r}).read().replace('__file__', "
        f"{str(COURSE / 'x')!r}.__repr__()))\nc.CourseDirectory.root = {str(root)!r}\n"
    )
    student = "two-misconceptions"
    command = [sys.executable, "-m", "nbgrader", "autograde", NAME, "--student", student, "--force"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with Gradebook(f"sqlite:///{root}/gradebook.db") as book:
        assert book.find_submission(NAME, student).score == graded[student].score


def test_releasing_again_touches_nothing(room, graded):
    before = {path: path.stat().st_mtime_ns for path in room.root.rglob("*") if path.is_file()}
    assert room.release(NAME) is False
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_work_in_the_release_folder_is_not_overwritten(tmp_path, monkeypatch):
    room = Classroom(tmp_path / "class")
    assert room.release(NAME) is True
    released = room.root / "release" / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(released, 4)
    assert not any("HIDDEN" in cell.source or "SOLUTION" in cell.source for cell in notebook.cells)
    notebook.cells.append(nbformat.v4.new_markdown_cell("my notes"))
    nbformat.write(notebook, released)
    assert room.release(NAME) is False
    (room.root / "source" / NAME / "toolbox.py").write_text("# an older one")
    with pytest.raises(ClassroomError, match="changed by hand"):
        room.release(NAME)
    assert "my notes" in released.read_text()


def run_course(*arguments, cwd=None):
    command = [str(Path(sys.prefix) / "bin" / "course"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "no such file"), ("", "empty"), ('{"cells": [', "broken"), ('{"a": 1}', "not a notebook")],
)
def test_check_refuses_what_is_no_notebook(tmp_path, content, says):
    path = tmp_path / "x.ipynb"
    if content is not None:
        path.write_text(content)
    done = run_course("check", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_check_refuses_another_courses_notebook(tmp_path):
    path = tmp_path / "x.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]), path)
    done = run_course("check", path)
    assert done.returncode == 2
    assert "not a notebook of this course" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("grade", "99_no"), "unknown chapter 99_no"),
        (("release", "99_no"), "unknown chapter 99_no"),
        (("report", NAME), "nothing of 01_descent is graded"),
        (("grade", NAME), "not a class directory"),
        (("grade", NAME, "nobody"), "has not handed in"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(tmp_path, arguments, says):
    root = tmp_path / "class"
    done = run_course(*arguments, "--classroom", root)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not root.exists()


def test_a_submission_without_the_notebook(tmp_path):
    folder = tmp_path / "submitted" / "somebody" / NAME
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("x")
    done = run_course("grade", NAME, "--classroom", tmp_path)
    assert done.returncode == 2
    assert "holds notes.txt, but not 01_descent.ipynb" in done.stderr


def test_check_prints_one_json_object_and_writes_nothing(tmp_path):
    path = tmp_path / "mine.ipynb"
    nbformat.write(sample.submission(CHAPTER, "two-misconceptions"), path)
    before = path.read_bytes()
    done = run_course("check", path, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["chapter"] == NAME
    assert result["max_score"] == CHAPTER.points
    assert [exercise["name"] for exercise in result["exercises"]] == [e.name for e in CHAPTER.exercises]
    failing = [exercise for exercise in result["exercises"] if exercise["failed"]]
    assert len(failing) == 2
    assert set(failing[0]) == {"name", "points", "max_points", "passed", "failed", "misconception", "message"}
    assert set(failing[0]["failed"][0]) == {"case", "message"}
    assert os.listdir(tmp_path) == ["mine.ipynb"]
    assert path.read_bytes() == before


def test_a_score_by_hand_survives_a_new_grading(room, graded):
    student, url = "untouched", f"sqlite:///{room.root}/gradebook.db"
    with Gradebook(url) as book:
        grade = book.find_grade("test_momentum_step", NAME, NAME, student)
        grade.manual_score = 3
        book.db.commit()
    path = room.root / "submitted" / student / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells.append(nbformat.v4.new_code_cell("# handed in again"))
    nbformat.write(notebook, path)
    (again,) = room.grade(NAME, [student])
    assert again.fresh
    with Gradebook(url) as book:
        assert book.find_grade("test_momentum_step", NAME, NAME, student).manual_score == 3
        assert book.find_submission(NAME, student).score == 3


def scores_in(root):
    with Gradebook(f"sqlite:///{root}/gradebook.db") as book:
        return {student: book.find_submission(NAME, student).score for student in EXPECTED}


def test_a_killed_run_goes_on_and_leaves_no_process(tmp_path):
    sample.write(tmp_path, CHAPTER)
    command = [Path(sys.executable).with_name("course"), "grade", NAME, "--classroom", tmp_path, "--workers", "1"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = Classroom(tmp_path).journal.folder
    while not list(journal.glob("*.json")):
        assert run.poll() is None
        time.sleep(0.05)
    started = psutil.Process(run.pid).children(recursive=True)
    run.kill()
    run.wait()
    assert started
    assert psutil.wait_procs(started, timeout=120)[1] == []
    before = {path: path.stat().st_mtime_ns for path in journal.glob("*.json")}
    graded = list(Classroom(tmp_path).grade(NAME, sorted(EXPECTED)))
    assert {one.student: one.score for one in graded} == EXPECTED == scores_in(tmp_path)
    assert before.items() <= {path: path.stat().st_mtime_ns for path in journal.glob("*.json")}.items()


def test_a_killed_worker_costs_nobody_anything(tmp_path):
    sample.write(tmp_path, CHAPTER)

    def kill_one():
        while not (workers := [p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline())]):
            time.sleep(0.05)
        time.sleep(1)
        workers[0].kill()

    killer = threading.Thread(target=kill_one)
    killer.start()
    graded = list(Classroom(tmp_path).grade(NAME, sorted(EXPECTED)))
    killer.join()
    assert {one.student: one.score for one in graded} == EXPECTED == scores_in(tmp_path)


def test_an_interrupt_ends_the_run_with_one_line(tmp_path):
    sample.write(tmp_path, CHAPTER)
    command = [Path(sys.executable).with_name("course"), "grade", NAME, "--classroom", tmp_path, "--workers", "1"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path / "journal").glob("*.json")):
        assert run.poll() is None
        time.sleep(0.05)
    started = psutil.Process(run.pid).children(recursive=True)
    run.send_signal(signal.SIGINT)
    told = run.communicate(timeout=120)[1]
    assert run.returncode == 130
    assert told.strip().splitlines()[-1] == (
        "course: stopped; what is finished is kept, and the next run goes on from there"
    )
    assert "Traceback" not in told
    assert psutil.wait_procs(started, timeout=120)[1] == []
