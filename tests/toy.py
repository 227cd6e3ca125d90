"""A chapter small enough to see the grader's own behaviour in it."""

import numpy as np
from nbformat.v4 import new_code_cell, new_notebook

from autograder.exercise import Case, Chapter, Exercise, Misconception


def double(x):
    return 2 * x


def squared(x):
    return x**2


def half(x):
    return x / 2


def added(x):
    return x + x


def quadruple(x):
    return double(double(x))


def sixteenfold(x):
    return 16 * x


def is_negative(x):
    return x < 0


def root(x):
    if x < 0:
        raise ValueError("x must not be negative")
    return x**0.5


DOUBLE = Exercise(
    reference=double,
    points=4,
    cases=(
        Case("a number", (3.0,)),
        Case("an array", (np.array([1.0, 5.0]),)),
        Case("leaves its arguments unchanged", (np.array([1.0, 5.0]),), unchanged=True, weight=2),
    ),
    misconceptions=(
        Misconception("squared", squared, "You squared it.", "Doubling"),
        Misconception("half", half, "You halved it.", "Doubling"),
    ),
    variants=(added,),
    section="Doubling",
)
QUADRUPLE = Exercise(
    reference=quadruple,
    points=2,
    cases=(Case("a number", (3.0,)), Case("an array", (np.array([1.0, 5.0]),))),
    misconceptions=(Misconception("sixteenfold", sixteenfold, "Four, not sixteen.", "Doubling"),),
    variants=(),
    section="Doubling",
    builds_on=("double",),
)
ROOT = Exercise(
    reference=root,
    points=2,
    cases=(Case("a number", (4.0,)), Case("a negative number", (-1.0,), raises=ValueError)),
    misconceptions=(),
    variants=(),
    section="Roots",
)
CHAPTER = Chapter("00_toy", (DOUBLE, QUADRUPLE, ROOT))

ANSWERS = {
    "double": "def double(x):\n    return 2 * x",
    "quadruple": "def quadruple(x):\n    return 4 * x",
    "root": "def root(x):\n    if x < 0:\n        raise ValueError('x')\n    return x ** 0.5",
}


def notebook(before=(), chapter=CHAPTER, **answers):
    """A repaired notebook with these answers, and cells to run ``before`` them."""
    cells = [new_code_cell(source) for source in ("import numpy as np", *before)]
    for name in [exercise.name for exercise in chapter.exercises]:
        cells.append(new_code_cell((ANSWERS | answers)[name]))
        cells.append(new_code_cell("", metadata={"nbgrader": {"grade": True, "grade_id": f"test_{name}"}}))
    return new_notebook(cells=cells)
