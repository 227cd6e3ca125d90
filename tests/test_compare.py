"""Messages name the first property that is broken, and never an expected value."""

import numpy as np
import pytest

from autograder.compare import difference
from autograder.wire import Foreign

VECTOR = np.array([1.0, -2.0, 4.0])


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (1.5, np.float64(1.5)),
        (1.5, np.array(1.5)),
        (1.5, np.float32(1.5)),
        (np.array(2.0), 2.0),
        (3, np.int64(3)),
        (3, 3.0),
        (2**80, float(2**80)),
        ((VECTOR, 1.0), [VECTOR, 1.0]),
        ([1.0, 2.0], np.array([1.0, 2.0])),
        (VECTOR, (VECTOR * (1 + 1e-7)).astype(np.float32)),
        (True, np.bool_(True)),
        (True, 1),
        (None, None),
        ("full", "full"),
        ({"total": 3.0, 2: "a"}, {2: "a", "total": 3}),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0])),
        (np.array([np.inf, -0.0]), np.array([np.inf, 0.0])),
    ],
)
def test_the_same_result_in_another_type_is_right(expected, given):
    assert difference(expected, given) == ""


@pytest.mark.parametrize(
    ("expected", "given", "says"),
    [
        (VECTOR, None, "returned None where an array of shape (3,) is expected"),
        (VECTOR, "x", "returned a string"),
        (VECTOR, Foreign("a generator"), "returned a generator"),
        (VECTOR, VECTOR[:2], "returned an array of shape (2,)"),
        (VECTOR, VECTOR.reshape(3, 1), "returned an array of shape (3, 1)"),
        (VECTOR, list(VECTOR), "returned a list of 3 items"),
        (VECTOR, VECTOR * 1j, "complex numbers"),
        (VECTOR, VECTOR > 0, "True and False"),
        (VECTOR, np.full(3, np.nan), "NaN"),
        (1.0, float("nan"), "NaN"),
        (1.0, float("inf"), "infinity"),
        (np.array([np.inf]), np.array([1.0]), "gone to infinity"),
        (np.array([np.nan]), np.array([1.0]), "NaN"),
        (1.0, True, "returned True or False where a number is expected"),
        (VECTOR, -VECTOR, "opposite sign"),
        (VECTOR, 10 * VECTOR, "10 times"),
        (VECTOR, [1, 1, 1.25] * VECTOR, "in 1 of 3 values"),
        (3, 4, "1.333 times"),
        (2**2000, 5, "times what it should be"),
        ((VECTOR, VECTOR), VECTOR, "where 2 results, theta, velocity, are expected"),
        ((VECTOR, VECTOR), (VECTOR,), "returned 1 items where 2 are expected"),
        ((VECTOR, VECTOR), (VECTOR, -VECTOR), "velocity: every value is right in size"),
        ({"total": 1, "states": 2}, {"total": 1}, "lacks states"),
        ({"total": 1}, {"total": 1, "states": 2}, "has states too many"),
        ({"total": 1}, {"total": 3}, "total: it is 3 times"),
        (1e-10, 3e-10, "it is 3 times"),
        (None, 0, "returned a whole number where None is expected"),
        (True, False, "not this one"),
        ("full", "none", "not this one"),
    ],
)
def test_a_wrong_result_is_described(expected, given, says):
    assert says in difference(expected, given, ("theta", "velocity"))


def test_precision_is_forgiven_to_float32_only():
    half = VECTOR.astype(np.float16) * np.float16(1.01)
    assert difference(VECTOR, half)
    assert difference(VECTOR, VECTOR * (1 + 1e-7))
    assert not difference(VECTOR, (VECTOR * (1 + 1e-7)).astype(np.float32))
    assert difference(VECTOR, (VECTOR * (1 + 1e-6)).astype(np.float32), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("given", [[1, [2, 3]], {"a": [1, (2,)]}, (), [Foreign("a set")], np.zeros((0, 3)), 1j, {}])
@pytest.mark.parametrize("expected", [1.0, VECTOR, (VECTOR, 1.0), {"total": 1}, True, None, "x", [1, 2]])
def test_nothing_that_arrives_breaks_the_comparison(expected, given):
    assert difference(expected, given)
