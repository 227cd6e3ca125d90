"""Is this result the expected one? If not, the first property that is broken, in a student's words.

No message contains an expected value: a result is described by type, shape and how far it is off.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from autograder.wire import Foreign

FLOAT32_TOLERANCE = 1e-5


def difference(expected: Any, given: Any, names: tuple[str, ...] = (), rtol: float = 1e-9, atol: float = 1e-12) -> str:
    """What is wrong with ``given``, or "" where it equals ``expected``.

    Lists and tuples stand for each other; numbers, numpy scalars and 0-d arrays too. Tolerances are widened where
    either side has no more than float32's precision, unless ``rtol`` is 0. ``names`` are those of a tuple's items.
    """
    if isinstance(given, Foreign):
        return f"returned {given.kind} where {describe(expected)} is expected"
    if isinstance(expected, dict):
        return _dict_difference(expected, given, rtol, atol)
    if isinstance(expected, list | tuple):
        return _list_difference(expected, given, names, rtol, atol)
    if expected is None or isinstance(expected, str | bool | np.bool_):
        return _exact_difference(expected, given)
    return _number_difference(expected, given, rtol, atol)


def describe(value: Any) -> str:
    """The kind of a value, for a message: type and shape, never content."""
    match value:
        case None:
            return "None"
        case Foreign():
            return value.kind
        case bool() | np.bool_():
            return "True or False"
        case str():
            return "a string"
        case int():
            return "a whole number"
        case dict():
            return f"a dict with the keys {', '.join(map(str, value))}"
        case list() | tuple():
            kind = "a tuple" if isinstance(value, tuple) else "a list"
            return f"{kind} of {len(value)} items"
    shape = np.shape(value)
    return f"an array of shape {shape}" if shape else "a number"


def _exact_difference(expected: Any, given: Any) -> str:
    if isinstance(given, np.ndarray | np.generic) and given.shape == ():
        given = given.item()
    if isinstance(expected, bool | np.bool_) and isinstance(given, int) and given in (0, 1):
        given = bool(given)
    if type(given) is not type(expected if not isinstance(expected, np.bool_) else bool(expected)):
        return f"returned {describe(given)} where {describe(expected)} is expected"
    return "" if given == expected else f"{describe(expected)} is right, but not this one"


def _dict_difference(expected: dict, given: Any, rtol: float, atol: float) -> str:
    if not isinstance(given, dict):
        return f"returned {describe(given)} where {describe(expected)} is expected"
    missing = [str(key) for key in expected if key not in given]
    extra = [str(key) for key in given if key not in expected]
    if missing or extra:
        parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(extra)} too many"] * bool(extra)
        return f"the dict {' and '.join(parts)}"
    found = (f"{key}: {wrong}" for key in expected if (wrong := difference(expected[key], given[key], (), rtol, atol)))
    return next(found, "")


def _list_difference(expected: Any, given: Any, names: tuple[str, ...], rtol: float, atol: float) -> str:
    if isinstance(given, np.ndarray) and given.ndim == 1 and all(_is_number(item) for item in expected):
        given = list(given)
    if not isinstance(given, list | tuple):
        wanted = f"{len(names)} results, {', '.join(names)}," if names else describe(expected)
        return f"returned {describe(given)} where {wanted} {'are' if names else 'is'} expected"
    if len(given) != len(expected):
        return f"returned {len(given)} items where {len(expected)} are expected"
    labels = names if len(names) == len(expected) else tuple(f"item {i}" for i in range(len(expected)))
    for label, wanted, got in zip(labels, expected, given, strict=True):
        if wrong := difference(wanted, got, (), rtol, atol):
            return f"{label}: {wrong}"
    return ""


def _number_difference(expected: Any, given: Any, rtol: float, atol: float) -> str:
    if isinstance(given, bool | np.bool_) or not isinstance(given, int | float | complex | np.generic | np.ndarray):
        return f"returned {describe(given)} where {describe(expected)} is expected"
    if np.shape(given) != np.shape(expected):
        return f"returned {describe(given)} where {describe(expected)} is expected"
    if isinstance(given, int) and isinstance(expected, int):
        return "" if given == expected else _off(_as_float(expected), _as_float(given))
    if np.asarray(given).dtype.kind not in "iuf" and not isinstance(given, int):
        kind = "complex numbers" if np.asarray(given).dtype.kind == "c" else "True and False"
        return f"returned {kind} where real numbers are expected"
    single = rtol > 0 and any(_precision(x) <= np.finfo(np.float32).precision for x in (expected, given))
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        want, got = (np.asarray(_as_float(x) if isinstance(x, int) else x, np.float64) for x in (expected, given))
    if np.isnan(got[~np.isnan(want)] if want.shape else got).any() and not (want.shape == () and np.isnan(want)):
        return "contains NaN (not a number)"
    if single:
        scale = np.abs(want[np.isfinite(want)]).max(initial=0.0)
        rtol, atol = max(rtol, FLOAT32_TOLERANCE), max(atol, FLOAT32_TOLERANCE / 10 * scale)
    if np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
        return ""
    return _off(want, got)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, np.ndarray | np.generic) and value.shape == ())


def _precision(value: Any) -> int:
    dtype = getattr(value, "dtype", None)
    return np.finfo(dtype).precision if dtype is not None and dtype.kind == "f" else 15


def _as_float(number: int) -> float:
    """A whole number as a float; the largest one where it is larger."""
    most = int(sys.float_info.max)
    return float(max(-most, min(number, most)))


def _off(want: Any, got: Any) -> str:
    """By how much finite numbers are off; the kinds of being off that have a name come first."""
    want, got = np.atleast_1d(np.asarray(want, float)), np.atleast_1d(np.asarray(got, float))
    if not np.isfinite(got).all():
        return "contains infinity" if np.isfinite(want).all() else "infinities are not where they should be"
    if not np.isfinite(want).all():
        return "a value should have gone to infinity or NaN"
    wide = "every value is" if want.size > 1 else "it is"
    if np.allclose(got, -want, rtol=1e-6, atol=0):
        return f"{wide} right in size, but has the opposite sign"
    nonzero = want != 0
    if nonzero.any() and not got[~nonzero].any():
        ratio = got[nonzero] / want[nonzero]
        if np.allclose(ratio, ratio[0], rtol=1e-6, atol=0):
            return f"{wide} {ratio[0]:.4g} times what it should be"
    with np.errstate(over="ignore"):
        gap, scale = np.abs(got - want), np.abs(want).max()
    wrong = int((gap > 1e-6 * max(scale, 1e-300)).sum())
    amount = f"{gap.max():.2g}" + (f" ({gap.max() / scale:.2g} of the largest value)" if scale > 0 else "")
    return f"off by up to {amount}" + (f", in {wrong} of {want.size} values" if want.size > 1 else "")
