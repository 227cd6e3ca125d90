"""Only the cells that a student's functions need are run, and the scores stay the same."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.assignments import TOOLBOX, source_notebook
from autograder.exercises import chapters
from autograder.needed import needed
from autograder.sample import submission
from autograder.sealed import grade_notebook
from autograder.submission import repair
from autograder.warm import warm_kernels


@pytest.fixture(scope="module")
def kernels():
    with warm_kernels((TOOLBOX,)) as source:
        yield source


SOLVED = "def solved(x):\n    return np.abs(x)"
IMPORTS = "import numpy as np\nimport toolbox\ntoolbox.style()"


def needs(course, student):
    """Which of the course's cells run beside the student's; they stand below the student's, in this order."""
    own = [new_code_cell(source) for source in course]
    written = [new_code_cell(source) for source in student]
    original = new_notebook(cells=[new_markdown_cell("# A chapter"), *own])
    run = needed(new_notebook(cells=[*written, *own]), original)
    assert set(range(len(student))) <= run
    return {index - len(student) for index in run if index >= len(student)}


@pytest.mark.parametrize(
    ("course", "student", "expected"),
    [
        ([IMPORTS, "figure = toolbox.plot(solved(1))"], [SOLVED], {0}),
        (["a = 1", "b = a", "c = b", "d = c"], ["def f(): return c"], {0, 1, 2}),
        (["a = 1", "def a(): pass", "class a: pass", "import a", "from x import a"], ["a"], {0, 1, 2, 3, 4}),
        (["for a in (): pass", "with b as a: pass", "(a := 1)", "[(a := 1) for _ in ()]"], ["a"], {0, 1, 2, 3}),
        (["try: pass\nexcept E as a: pass", "a += 1", "del a", "(a, *b), c = d"], ["a"], {0, 1, 2, 3}),
        (["def set_it():\n    global a\n    a = 1", "def other():\n    a = 1"], ["a"], {0}),
        (["a: int = 1", "match 1:\n    case a: pass", "import a.b", "async def a(): pass"], ["a"], {0, 1, 2, 3}),
        (
            ["items = []", "items.append(1)", "items[0] = 1", "items.x.y = 1", "print(items)", "f(items)"],
            ["items"],
            {0, 1, 2, 3},
        ),
        (["import numpy as np", "np.zeros(1)", "np.testing.x = 1"], ["np.ones(1)"], {0, 2}),
        (["a = 1"], ["class K:\n    a = a"], {0}),
        (["a = 1"], ["def f(a):\n    return a"], set()),
        (["a = 1"], ["def f(x=a): pass"], {0}),
        (["a = 1"], ["@a\ndef f(): pass"], {0}),
        (["a = 1"], ["f = lambda: [a for _ in range(3)]"], {0}),
        (["a = 1"], ["def f():\n    def g():\n        return f'{a}'\n    return g"], {0}),
        (["a = 1"], ["b = 'a'  # a"], set()),
        (["a = 1", "def helper():\n    return a"], ["def f(): return helper()"], {0, 1}),
    ],
)
def test_what_a_cell_reads_is_bound(course, student, expected):
    assert needs(course, student) == expected


@pytest.mark.parametrize(
    "cell",
    [
        "%matplotlib inline",
        "!ls",
        "def broken(:",
        "eval('a')",
        "exec('a')",
        "globals()['a']",
        "print(locals(), vars())",
        "get_ipython().run_cell('a')",
        "__import__('x')",
        "import builtins\nbuiltins.eval('a')",
        "from numpy import *",
        "import __main__",
        "import sys\nsys.modules['__main__'].a",
        "def f(): return f.__globals__",
        "Out[1]",
        "x = _",
        "\0",
    ],
)
def test_a_cell_that_may_read_anything_needs_everything(cell):
    assert needs(["a = 1", "b = 2"], [cell]) == {0, 1}


def test_a_changed_cell_is_the_students_and_test_cells_are_not_run():
    solution = new_code_cell(SOLVED, metadata={"nbgrader": {"grade_id": "solved"}})
    test = new_code_cell("assert solved(1)", metadata={"nbgrader": {"grade": True, "grade_id": "test_solved"}})
    original = new_notebook(cells=[new_code_cell("a = 1"), solution, test, new_code_cell("b = 2")])
    notebook = new_notebook(cells=[new_code_cell("a = 2"), solution, test, new_code_cell("b = 2\n")])
    assert needed(notebook, original) == {0, 1}
    assert needed(original, original) == {1}


@pytest.mark.parametrize("name", chapters())
def test_of_a_chapters_own_cells_few_are_run(name):
    notebook, original = submission(chapters()[name], "full-answer"), source_notebook(name)
    repair(notebook, original)
    run = needed(notebook, original)
    own = [notebook.cells[index].source for index in run if "nbgrader" not in notebook.cells[index].metadata]
    assert len(own) <= 5


@pytest.mark.parametrize("name", chapters())
def test_the_scores_are_those_of_the_whole_notebook(name, kernels):
    chapter, original = chapters()[name], source_notebook(name)

    def points(**options):
        notebook = submission(chapter, "full-answer")
        repair(notebook, original)
        results = grade_notebook(notebook, chapter, (TOOLBOX,), kernels=kernels, **options)
        return {exercise: result.points for exercise, result in results.items()}

    assert points(original=original) == points() == {e.name: e.points for e in chapter.exercises}
