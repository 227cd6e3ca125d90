import dataclasses
import importlib.util
import os
import re
import sys

import nbformat
import pytest
import tiny
from nbgrader.nbgraderformat import MetadataValidator

from autograder import assignments, exercises
from autograder.assignments import AssignmentError
from autograder.exercise import Exercise
from solutions import descent

NAME = tiny.CHAPTER.name
SGD_CELL = "```{code-cell} python\n:tags: [exercise]\nfrom solutions.descent import sgd_step\n```\n"
SGD_TEST = "```{code-cell} python\n:tags: [test]\nassert sgd_step(1.0, 1.0, 0.5) == 0.5\n```\n"
SGD_CARD = tiny.PAGE[tiny.PAGE.index("```{exercise} sgd_step") : tiny.PAGE.index(SGD_CELL)]
MOMENTUM_PART = tiny.PAGE[tiny.PAGE.index("```{exercise} momentum_step") :]


def register(monkeypatch, chapter=tiny.CHAPTER):
    monkeypatch.setattr(exercises, "chapters", lambda: {chapter.name: chapter})


@pytest.fixture
def course(tmp_path, monkeypatch):
    register(monkeypatch)
    return tiny.write_course(tmp_path)


def problem(course, page, toc=tiny.TOC):
    assert page != tiny.PAGE or toc != tiny.TOC, "nothing was broken"
    tiny.write_course(course, page, toc)
    with pytest.raises(AssignmentError) as caught:
        assignments.validate(NAME, course)
    message = str(caught.value)
    assert message.startswith(NAME)
    assert "\n" not in message
    return message


def test_a_sound_chapter_validates(course):
    assignments.validate(NAME, course)


def code(source):
    return "```{code-cell} python\n" + source + "\n```\n"


@pytest.mark.parametrize(
    ("old", "new", "cell", "says"),
    [
        (SGD_TEST, "", "cell 4 ('from solutions.descent import sgd_step')", "has no test cell"),
        (SGD_CELL, "", "cell 4 ('assert sgd_step", "a test cell without an exercise cell"),
        (SGD_CARD, "", "cell 4", "no {exercise} card"),
        (SGD_CARD, SGD_CARD * 2, "cell 3 ('## One step')", "second {exercise} card"),
        (SGD_CELL, SGD_CELL + SGD_TEST + SGD_CELL, "cell 6", "second exercise cell for sgd_step"),
        (SGD_TEST, SGD_TEST * 2, "cell 6 ('assert sgd_step", "a test cell without an exercise cell"),
        ("import sgd_step\n", "import sgd_step as step\n", "cell 4", "is one line"),
        ("import sgd_step\n", "import sgd_step, momentum_step\n", "cell 4", "is one line"),
        ("import sgd_step\n", "import sgd_step\nprint()\n", "cell 4", "is one line"),
        ("import sgd_step\n", "import sgd_stride\n", "cell 4", "solutions.descent has no sgd_stride"),
        ("from solutions.descent import sgd_step", "from solutions.ascent import sgd_step", "cell 4", "no module"),
        ("import sgd_step\n", "import heavy_ball_step\n", "cell 3", "has no exercise cell"),
        (":tags: [test]", ":tags: [test, exercise]", "cell 5", "is one line"),
        ("display(SVG(", "display(SVG((", "cell 6 ('from IPython.display import SVG, display')", "not valid Python"),
        ("## One step", "## A step", "cell 4", "sends readers to 'One step'"),
        ("## Two forms", "## Two forms\n\n{kbd}`x`", "cell 7 ('(two-forms)=')", "line 4: role {kbd}"),
        ("_static/dot.svg", "_static/nothing.svg", "cell 7", "nothing.svg can't be read"),
        ("{eq}`eq-two`", "{eq}`eq-three`", "cell 3", "{eq}`eq-three`"),
        (":minutes: 5", ":minutes: soon", "cell 3", ":minutes:"),
    ],
)
def test_what_is_off_is_named_with_its_cell(course, old, new, cell, says):
    message = problem(course, tiny.PAGE.replace(old, new, 1))
    assert cell in message
    assert says in message


@pytest.mark.parametrize(
    "source",
    [
        "import solutions",
        "import numpy, solutions.descent as s",
        "from solutions import descent",
        "def helper():\n    from solutions.descent import sgd_step",
        "import importlib\nm = importlib.import_module('solutions.descent')",
        "from importlib import import_module\nm = import_module(name='solutions.descent')",
        "m = __import__('solutions')",
        "%matplotlib inline\nimport solutions",
    ],
)
def test_only_exercise_cells_import_solutions(course, source):
    message = problem(course, tiny.PAGE.replace("import numpy as np", source))
    assert f"cell 2 ({source.splitlines()[0]!r})" in message
    assert "only an exercise cell may import solutions" in message


@pytest.mark.parametrize(
    "source", ["%matplotlib inline\nimport numpy", "from .solutions import x", "import solutions2"]
)
def test_other_imports_and_magics_pass(course, source):
    tiny.write_course(course, tiny.PAGE.replace("import numpy as np", source))
    assignments.validate(NAME, course)


def test_the_order_is_the_registry_s(course):
    start = tiny.PAGE.index(SGD_CARD)
    first, between = tiny.PAGE[start : tiny.PAGE.index(SGD_TEST)] + SGD_TEST, tiny.PAGE[:start]
    rest = tiny.PAGE[len(between) + len(first) :].replace(MOMENTUM_PART, "")
    assert "momentum_step stands where autograder/exercises has sgd_step" in problem(
        course, between + MOMENTUM_PART + "\n" + rest + first
    )


def test_registry_and_page_must_agree(course, monkeypatch):
    register(monkeypatch, dataclasses.replace(tiny.CHAPTER, exercises=tiny.CHAPTER.exercises[:1]))
    with pytest.raises(AssignmentError, match=r"01_tiny, cell 8 .*momentum_step is not registered"):
        assignments.validate(NAME, course)
    extra = Exercise(descent.heavy_ball_step, 1, (), (), (), "One step")
    register(monkeypatch, dataclasses.replace(tiny.CHAPTER, exercises=(*tiny.CHAPTER.exercises, extra)))
    with pytest.raises(AssignmentError, match="heavy_ball_step is registered in autograder/exercises but has no"):
        assignments.validate(NAME, course)
    register(monkeypatch, dataclasses.replace(tiny.CHAPTER, name="02_other"))
    with pytest.raises(AssignmentError, match="01_tiny: autograder/exercises has no CHAPTER"):
        assignments.validate(NAME, course)


def test_a_misconception_s_section_is_a_heading(course, monkeypatch):
    first, second = tiny.CHAPTER.exercises
    wrong = dataclasses.replace(first.misconceptions[0], section="Nowhere")
    first = dataclasses.replace(first, misconceptions=(wrong,))
    register(monkeypatch, dataclasses.replace(tiny.CHAPTER, exercises=(first, second)))
    with pytest.raises(AssignmentError, match=r"cell 4 .*misconception uphill sends readers to 'Nowhere'"):
        assignments.validate(NAME, course)


def test_a_chapter_is_in_the_table_of_contents(course):
    assert "not in _toc.yml" in problem(course, tiny.PAGE, tiny.TOC.replace("01_tiny", "student"))


def test_a_page_that_is_not_there(course):
    (course / "chapters" / f"{NAME}.md").unlink()
    with pytest.raises(AssignmentError, match=r"there is no page 01_tiny.md in chapters/"):
        assignments.read_chapter(NAME, course)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    return 1\n", "no solution markers"),
        ("    ### BEGIN SOLUTION\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n", "nested"),
        ("    ### BEGIN SOLUTION\n    return 1\n", "never closed"),
        ("    return 1\n    ### END SOLUTION\n", "without a beginning"),
        ("### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n", "no single def or class step"),
    ],
)
def test_solution_markers(course, monkeypatch, body, says):
    (course / "broken.py").write_text(f"def step():\n{body}")
    spec = importlib.util.spec_from_file_location("solutions.broken", course / "broken.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "solutions.broken", module)
    message = problem(course, tiny.PAGE.replace("solutions.descent import sgd_step", "solutions.broken import step", 1))
    assert "cell 4 ('from solutions.broken import step'): the reference solutions.broken.step" in message
    assert says in message
    with pytest.raises(AssignmentError, match=says):
        assignments.stub(Exercise(module.step, 1, (), (), (), ""))


def test_a_stub_shows_all_but_the_solution(course):
    stub = assignments.stub("sgd_step")
    assert stub.startswith('def sgd_step(theta: np.ndarray, grad: np.ndarray, lr: float) -> np.ndarray:\n    """Take')
    assert "# 1. Turn the gradient into a step" in stub
    assert stub.endswith("    # YOUR CODE HERE\n    raise NotImplementedError()")
    assert "SOLUTION" not in stub
    assert "lr * grad" not in stub
    with pytest.raises(AssignmentError, match="no chapter has an exercise 'nothing'"):
        assignments.stub("nothing")


def test_the_source_notebook(course):
    notebook = assignments.source_notebook(NAME, course)
    MetadataValidator().validate_nb(notebook)
    nbformat.validate(notebook)
    cells = {cell.id: cell for cell in notebook.cells}
    assert "    ### BEGIN SOLUTION\n    return theta - lr * grad\n" in cells["sgd_step"].source
    assert cells["sgd_step"].metadata.nbgrader == {
        "grade": False,
        "grade_id": "sgd_step",
        "locked": False,
        "schema_version": 3,
        "solution": True,
        "task": False,
    }
    test = cells["test_sgd_step"]
    assert test.source == (
        "assert sgd_step(1.0, 1.0, 0.5) == 0.5\n"
        '### BEGIN HIDDEN TESTS\n__import__("autograder").score("sgd_step", sgd_step)\n### END HIDDEN TESTS'
    )
    assert (test.metadata.nbgrader.grade, test.metadata.nbgrader.locked, test.metadata.nbgrader.points) == (
        True,
        True,
        2,
    )
    drawn = next(i for i, cell in enumerate(notebook.cells) if "SVG" in cell.source)
    assert notebook.cells[drawn].metadata == {"jupyter": {"source_hidden": True}}
    assert "<em>Fig. 1.1. What the cell draws.</em>" in notebook.cells[drawn + 1].source
    shown = next(cell for cell in notebook.cells if "attachment:dot.svg" in cell.source)
    assert list(shown.attachments["dot.svg"]) == ["image/svg+xml"]
    assert notebook.metadata.course == {"chapter": NAME}
    assert all(not cell.get("outputs") for cell in notebook.cells)


def test_the_code_alone_is_the_source_notebook_s(course):
    cells = assignments.source_notebook(NAME, course).cells
    assert assignments.code_notebook(NAME, course).cells == [cell for cell in cells if cell.cell_type == "code"]


def test_regenerating_gives_the_same_bytes(course):
    for make in (assignments.source_notebook, assignments.student_notebook):
        assert nbformat.writes(make(NAME, course)) == nbformat.writes(make(NAME, course))


def test_the_student_notebook_holds_no_answer_and_no_raw_markup(course):
    notebook = assignments.student_notebook(NAME, course)
    MetadataValidator().validate_nb(notebook)
    text = nbformat.writes(notebook)
    assert "raise NotImplementedError()" in text
    for secret in ("SOLUTION", "HIDDEN", "autograder", "lr * grad", "lr * velocity", "from solutions"):
        assert secret not in text
    assert not re.search(r"\{[a-z:]+\}`|```\{|:::|\)=$", text, re.MULTILINE)
    assert "Do (1.2), not (1.1)." in text
    assert "*Two forms* follows, then Exercise 1.2." in text
    assert "See Fig. 1.1 and Fig. 1.2." in text


def test_the_student_notebook_is_what_nbgrader_releases(course, tmp_path, monkeypatch):
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)  # nbgrader calls alembic
    folder = tmp_path / "class"
    (folder / "source" / NAME).mkdir(parents=True)
    nbformat.write(assignments.source_notebook(NAME, course), folder / "source" / NAME / f"{NAME}.ipynb")
    api = NbGraderAPI(config=Config(CourseDirectory={"root": str(folder)}))
    result = api.generate_assignment(NAME)
    assert result["success"], result["log"]
    released = nbformat.read(folder / "release" / NAME / f"{NAME}.ipynb", as_version=4)
    assert released == assignments.student_notebook(NAME, course)
