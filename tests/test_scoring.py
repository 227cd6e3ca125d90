"""Points, named mistakes and errors carried forward, on functions in this process."""

import numpy as np
import toy

import autograder
from autograder.calls import LocalAnswer
from autograder.exercise import Case, Exercise
from autograder.exercises import chapters
from autograder.scoring import NOT_WRITTEN, judge


def judged(exercise, function, **earlier):
    return judge(exercise, LocalAnswer(function), {name: LocalAnswer(f) for name, f in earlier.items()})


def test_right_answers_get_full_marks():
    result = judged(toy.DOUBLE, toy.added)
    assert (result.points, result.failed, result.misconception) == (4, (), None)
    assert result.message == "3 of 3 hidden checks passed."


def test_credit_is_partial_and_the_mistake_is_named():
    def in_place(x):
        x *= 2
        return x

    assert judged(toy.DOUBLE, in_place).points == 2
    result = judged(toy.DOUBLE, toy.squared)
    assert result.points == 0
    assert result.misconception == "squared"
    assert "You squared it. Read the section “Doubling”." in result.message


def test_a_mistake_in_one_case_does_not_take_a_name_that_does_not_fit():
    def only_numbers(x):
        return 2 * x if np.shape(x) == () else x + 1

    result = judged(toy.DOUBLE, only_numbers)
    assert (result.points, result.misconception) == (1, None)


def test_the_stub_is_told_kindly():
    def stub(x):
        raise NotImplementedError

    result = judged(toy.DOUBLE, stub)
    assert (result.points, result.message) == (0, NOT_WRITTEN)


def test_raising_counts_only_beside_a_right_result():
    def refuses(x):
        raise ValueError("no")

    assert judged(toy.ROOT, toy.root).points == 2
    assert judged(toy.ROOT, lambda x: abs(x) ** 0.5).points == 1
    assert judged(toy.ROOT, refuses).points == 0


def test_a_constant_earns_nothing_where_it_happens_to_be_right():
    sign = Exercise(
        toy.is_negative, 2, (Case("below", (-1.0,)), Case("above", (2.0,)), Case("nought", (0.0,))), (), (), "Signs"
    )
    assert judged(sign, lambda x: x < 1).points == 1.33
    result = judged(sign, lambda x: False)
    assert result.points == 0
    assert [failure.message for failure in result.failed][1:] == ["gives the same value whatever it is given"] * 2


def test_one_mistake_costs_once():
    def triple(x):
        return 3 * x

    def quadruple(x):
        return triple(triple(x))

    result = judged(toy.QUADRUPLE, quadruple, double=triple)
    assert result.points == 2
    assert "your own double" in result.message
    assert judged(toy.QUADRUPLE, quadruple).points == 0
    assert judged(toy.QUADRUPLE, toy.sixteenfold, double=triple).points == 0
    assert judged(toy.QUADRUPLE, lambda x: 0 * x, double=lambda x: 0.0).points == 0


def test_a_ledger_is_graded_line_by_line():
    def ledger(n):
        return {"parameters": 2 * n, "total": 6 * n}

    cases = (Case("parameters", (5,), line="parameters"), Case("total", (5,), line="total"))
    exercise = Exercise(ledger, 2, cases, (), (), "Ledgers")
    assert judged(exercise, lambda n: {"parameters": 2 * n, "total": 7 * n}).points == 1
    assert (
        judged(exercise, lambda n: {"parameters": 2 * n}).failed[0].message.startswith("total: returned no such line")
    )
    assert judged(exercise, lambda n: 2 * n).points == 0


def test_no_message_holds_an_expected_value():
    result = judged(toy.DOUBLE, lambda x: 7.0 * x + 0.123)
    told = " ".join([result.message, *(failure.message for failure in result.failed)])
    assert "6.0" not in told
    assert "10.0" not in told


def test_exceptions_are_told_with_the_students_line():
    def broken(x):
        return x + undefined  # noqa: F821

    message = judged(toy.DOUBLE, broken).failed[0].message
    assert message == "raised NameError: name 'undefined' is not defined, at `return x + undefined  # noqa: F821`"


def test_the_hidden_line_scores_in_this_process():
    exercise = chapters()["01_descent"]["sgd_step"]
    assert autograder.score("sgd_step", exercise.reference) == exercise.points
    assert autograder.score("sgd_step", lambda theta, grad, lr: theta) == 0
