"""Functions made from others by replacing words."""

import inspect
import linecache

import pytest
import toy

from autograder.calls import Call, LocalAnswer
from autograder.edited import edited


def test_an_edit_changes_the_function_and_its_source_alone():
    triple = edited(toy.double, ("2 * x", "3 * x"))
    assert (triple.__name__, triple(5), toy.double(5)) == ("double", 15, 10)
    linecache.checkcache()
    assert inspect.getsource(triple) == "def double(x):\n    return 3 * x\n"


def test_it_sees_its_module_and_leaves_it_as_it_is():
    before = dict(vars(toy))
    thrice = edited(toy.quadruple, ("double(double(x))", "double(x) + x"))
    assert thrice(5) == 15
    assert vars(toy) == before


def test_edits_follow_each_other_and_can_be_edited_again():
    cube = edited(toy.squared, ("x**2", "y"), ("return", "y = x**3\n    return"))
    assert cube(2) == 8
    assert edited(cube, ("x**3", "x**4"))(2) == 16


def test_it_travels_as_a_probe_does():
    probe = edited(probe_twice, ("answer(answer(x))", "answer(x)"))
    assert LocalAnswer(toy.double).call(Call((5,), probe=probe)).value == 10


def probe_twice(answer, x):
    return answer(answer(x))


class Doubled:
    """Remembers a number."""

    def __init__(self, x):
        super().__init__()
        self.x = toy.double(x)


def test_a_class_has_its_own_source_too():
    added = edited(edited(Doubled, ("double(x)", "half(x)")), ("= toy", "= 1 + toy"))
    assert (added(4).x, Doubled(4).x) == (3, 8)
    assert inspect.getsource(added).endswith("        self.x = 1 + toy.half(x)\n")


@pytest.mark.parametrize("old", ["3 * x", "x"])
def test_an_edit_that_fits_nowhere_or_twice_is_refused(old):
    with pytest.raises(ValueError, match=r"occurs [02] times in double; give text that occurs once"):
        edited(toy.double, (old, "y"))
