"""Plain data travels exactly, and nothing else does."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograder import wire
from autograder.wire import Foreign, WireError, decode, encode


def same(a, b):
    """Equal in type, dtype, shape and bits, NaN included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return a.hex() == b.hex() and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(map(type, a)) == list(map(type, b)) and all(map(same, a.items(), b.items()))
    return a == b


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([np.float32(1.5), np.int64(7), np.bool_(True)])
)
arrays = hnp.arrays(
    st.sampled_from(["<f4", "<f8", "<f2", "<i8", "<i4", "|u1", "|b1"]), hnp.array_shapes(min_dims=0, max_dims=3)
)
keys = st.integers(-5, 5) | st.text(max_size=5)
values = st.recursive(
    scalars | arrays,
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(values)
def test_round_trip_is_exact(value):
    assert same(decode(encode(value)), value)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
tags = st.sampled_from(
    ["none", "bool", "int", "float", "complex", "str", "foreign", "list", "tuple", "dict", "array", "scalar"]
)


@settings(max_examples=500)
@given(st.lists(tags | junk, max_size=5) | junk, st.lists(st.binary(max_size=40), max_size=3))
def test_arbitrary_descriptions_are_decoded_or_refused(tree, buffers):
    try:
        value = decode([json.dumps(tree).encode(), *buffers])
    except WireError:
        return
    assert same(decode(encode(value)), value) or "Foreign" in repr(value) or "nan" in repr(value)


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=60), max_size=3))
def test_arbitrary_bytes_are_refused(buffers):
    with pytest.raises(WireError):
        decode(buffers)


@pytest.mark.parametrize(
    "tree",
    [
        ["array", "<f8", [2**40], 0],
        ["array", "<f8", [-1], 0],
        ["array", "<f8", [1.0], 0],
        ["array", "<f8", [1], 7],
        ["array", "|O8", [1], 0],
        ["array", "O", [1], 0],
        ["array", "<M8", [1], 0],
        ["array", ">f8", [1], 0],
        ["int", "1" * 5000],
        ["float", "zz" * 8],
        ["dict", [["none"]]],
    ],
)
def test_sizes_and_types_are_checked_before_use(tree):
    with pytest.raises(WireError):
        decode([json.dumps(tree).encode(), bytes(8)])


def test_depth_count_and_size_are_bounded():
    deep = []
    for _ in range(100):
        deep = [deep]
    for value in (deep, [0] * (wire.MAX_NODES + 1), [np.zeros(wire.MAX_ARRAY_BYTES // 16)] * 3):
        with pytest.raises(WireError):
            encode(value)
    with pytest.raises(WireError):
        decode([b"[" * 100_000])
    assert isinstance(decode(encode(np.zeros(wire.MAX_ARRAY_BYTES, "f8"))), Foreign)


def test_tensors_arrive_as_arrays():
    assert same(decode(encode(torch.tensor(1.5))), np.array(1.5, "f4"))
    assert same(decode(encode(torch.ones(2, 3, dtype=torch.bfloat16))), np.ones((2, 3), "f4"))
    assert same(decode(encode(torch.ones(2, requires_grad=True))), np.ones(2, "f4"))


class LyingFloat(float):
    def __eq__(self, other):
        return True

    def hex(self):
        return (2.0).hex()

    def __float__(self):
        return 2.0

    __hash__ = float.__hash__


class LyingArray(np.ndarray):
    def __array__(self, *args, **kwargs):
        return np.ones(2)

    def tobytes(self):
        return bytes(16)

    def astype(self, *args, **kwargs):
        return np.ones(2)

    shape = (2,)


def test_subclasses_are_sent_as_what_they_hold():
    assert same(decode(encode(LyingFloat(1.0))), 1.0)
    assert same(decode(encode(np.zeros(3).view(LyingArray))), np.zeros(3))
    assert same(decode(encode(np.matrix([[1.0]]))), np.array([[1.0]]))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ((i for i in ()), "a generator"),
        (object(), "an object"),
        ({1}, "a set"),
        (np.array([object()]), "an array of Python objects"),
        (np.datetime64("2020"), "an array of dtype datetime64[Y]"),
        (2**5000, "an integer of 5001 bits"),
    ],
)
def test_what_does_not_travel_is_named(value, kind):
    assert decode(encode(value)) == Foreign(kind)
