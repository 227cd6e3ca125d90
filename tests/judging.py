"""A chapter's cases run on any answer, compared without the grader: what the chapters' own tests share."""

import copy

import numpy as np
import pytest


def outcome(exercise, case, answer):
    """What the grader would compare: the result, the arguments after the call, or the exception's type."""
    args, kwargs = copy.deepcopy((case.args, dict(case.kwargs)))
    probe = case.probe or exercise.probe
    try:
        result = probe(answer, *args, **kwargs) if probe else answer(*args, **kwargs)
    except Exception as error:
        return type(error)
    return (args, kwargs) if case.unchanged else result


def same(a, b, rtol, atol):
    if isinstance(a, (list, tuple)) and isinstance(b, np.ndarray) and b.ndim == 1:
        b = list(b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], rtol, atol) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, rtol, atol) for x, y in zip(a, b, strict=True))
    if any(isinstance(value, (list, tuple, dict, str, type, type(None))) for value in (a, b)):
        return a == b if type(a) is type(b) else False
    a, b = np.asarray(a), np.asarray(b)
    if np.float32 in (a.dtype, b.dtype):
        rtol, atol = max(rtol, 1e-5), max(atol, 1e-6)
    return a.shape == b.shape and np.allclose(a, b, rtol=rtol, atol=atol)


def failures(exercise, answer, looser=1):
    return [
        case.name
        for case in exercise.cases
        if not same(
            outcome(exercise, case, exercise.reference),
            outcome(exercise, case, answer),
            case.rtol * looser,
            case.atol * looser,
        )
    ]


def pairs(chapter, kind):
    return [
        pytest.param(exercise, item, id=f"{exercise.name}-{getattr(item, 'name', None) or item.__name__}")
        for exercise in chapter.exercises
        for item in getattr(exercise, kind)
    ]
