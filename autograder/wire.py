"""Plain data between the grader and a student's process.

A message is a list of byte buffers. The first holds JSON that describes a tree of values, the others hold the raw
contents of arrays. Only a fixed list of types travels: None, bool, int, float, complex, str, list, tuple, dict, numpy
arrays and scalars, torch tensors (which arrive as numpy arrays). Anything else arrives as :class:`Foreign`, a note of
its type. Nothing is pickled, and no attribute is looked up by a name that came over the wire.

Both sides run this file, so it imports numpy and the standard library alone. The encoder reads subclasses by the
methods of their built-in base: a float that lies about arithmetic is sent as the number that it holds. The decoder
trusts nothing: every size is checked before anything is allocated, and whatever is malformed raises WireError.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_DEPTH = 16
MAX_NODES = 20_000
MAX_DESCRIPTION = 4_000_000
MAX_ARRAY_BYTES = 32_000_000
MAX_TEXT = 100_000
MAX_INT_BITS = 4096
DTYPES = frozenset("?bhilqBHILQefdFD")
_INT_FORM, _FLOAT_FORM = "x", "<d"

_WIDE = {"g": "d", "G": "D"}

# Kept from before any student's code runs: a notebook may rebind numpy's names.
_asarray, _frombuffer, _empty, _ndarray, _generic = np.asarray, np.frombuffer, np.empty, np.ndarray, np.generic


class WireError(ValueError):
    """The value or message is not plain data within bounds."""


@dataclass(frozen=True)
class Foreign:
    """Stands for a value that does not travel: ``kind`` says what it was, for a person."""

    kind: str


def encode(value: Any) -> list[bytes]:
    """The buffers of a message that carries ``value``.

    Raises WireError if the value is nested too deeply or too large.
    """
    writer = _Writer()
    tree = writer.node(value, 0)
    return [json.dumps(tree).encode(), *writer.buffers]


def decode(buffers: Sequence[bytes | memoryview]) -> Any:
    """The value that a message carries, made of new plain objects.

    Raises WireError for everything that :func:`encode` would not write.
    """
    if not buffers or len(buffers[0]) > MAX_DESCRIPTION:
        raise WireError("no description, or one that is too long")
    if sum(len(b) for b in buffers[1:]) > MAX_ARRAY_BYTES:
        raise WireError(f"arrays of more than {MAX_ARRAY_BYTES} bytes")
    try:
        tree = json.loads(bytes(buffers[0]))
    except (ValueError, RecursionError) as error:
        raise WireError("the description is not JSON") from error
    reader = _Reader(buffers[1:])
    return reader.value(tree, 0)


class _Writer:
    def __init__(self) -> None:
        self.buffers: list[bytes] = []
        self.nodes = 0
        self.size = 0

    def node(self, value: Any, depth: int) -> list:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise WireError("nested too deeply, or more than can be compared")
        kind = type(value)
        if value is None:
            return ["none"]
        if kind is Foreign:
            return ["foreign", value.kind]
        if kind is bool:
            return ["bool", value]
        if issubclass(kind, int):
            if int.bit_length(value) > MAX_INT_BITS:
                return ["foreign", f"an integer of {int.bit_length(value)} bits"]
            return ["int", int.__format__(value, _INT_FORM)]
        if issubclass(kind, _generic):
            return self.array("scalar", value)
        if issubclass(kind, float):
            return ["float", struct.pack(_FLOAT_FORM, value).hex()]
        if issubclass(kind, complex):
            real, imag = complex.real.__get__(value), complex.imag.__get__(value)
            return ["complex", struct.pack("<dd", real, imag).hex()]
        if issubclass(kind, str):
            text = str.__str__(value)
            self.grow(len(text))
            return ["str", text[:MAX_TEXT]]
        if issubclass(kind, list | tuple):
            base = list if issubclass(kind, list) else tuple
            return [base.__name__, [self.node(item, depth + 1) for item in base.__iter__(value)]]
        if issubclass(kind, dict):
            pairs = dict.items(value)
            return ["dict", [[self.node(k, depth + 1), self.node(v, depth + 1)] for k, v in pairs]]
        if issubclass(kind, _ndarray):
            return self.array("array", value)
        torch = sys.modules.get("torch")
        tensor = getattr(torch, "Tensor", None)
        if isinstance(tensor, type) and issubclass(kind, tensor):
            return self.tensor(torch, value, depth)
        return ["foreign", f"{'an' if kind.__name__[:1] in 'aeiouAEIOU' else 'a'} {kind.__name__[:100]}"]

    def tensor(self, torch: Any, value: Any, depth: int) -> list:
        plain = value.detach().cpu()
        if plain.dtype == torch.bfloat16:
            plain = plain.float()  # numpy has no bfloat16; every bfloat16 is a float32
        array = plain.resolve_conj().resolve_neg().numpy()
        if not issubclass(type(array), _ndarray):
            return ["foreign", "a tensor"]
        return self.node(array, depth + 1)

    def array(self, tag: str, value: Any) -> list:
        plain = _asarray(value)
        if plain.dtype.char in _WIDE:
            plain = plain.astype(_WIDE[plain.dtype.char])
        dtype = plain.dtype.newbyteorder("<")
        if dtype.char not in DTYPES:
            return ["foreign", "an array of Python objects" if dtype.char == "O" else f"an array of dtype {dtype}"]
        if plain.nbytes > MAX_ARRAY_BYTES:
            return ["foreign", f"an array of shape {plain.shape}, too large to compare"]
        self.grow(plain.nbytes)
        self.buffers.append(plain.astype(dtype, order="C").tobytes())
        return [tag, dtype.str, list(plain.shape), len(self.buffers) - 1]

    def grow(self, size: int) -> None:
        self.size += size
        if self.size > MAX_ARRAY_BYTES:
            raise WireError(f"more than {MAX_ARRAY_BYTES} bytes")


class _Reader:
    def __init__(self, buffers: Sequence[bytes | memoryview]) -> None:
        self.buffers = buffers
        self.nodes = 0

    def value(self, tree: Any, depth: int) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH + 1 or self.nodes > MAX_NODES:
            raise WireError("nested too deeply, or too many values")
        match tree:
            case ["none"]:
                return None
            case ["bool", bool(flag)]:
                return flag
            case ["int", str(text)] if len(text) <= MAX_INT_BITS // 4 + 2:
                return self.parse(lambda: int(text, 16))
            case ["float", str(text)] if len(text) == 16:
                return self.parse(lambda: struct.unpack(_FLOAT_FORM, bytes.fromhex(text))[0])
            case ["complex", str(text)] if len(text) == 32:
                return self.parse(lambda: complex(*struct.unpack("<dd", bytes.fromhex(text))))
            case ["str", str(text)] if len(text) <= MAX_TEXT:
                return text
            case ["foreign", str(kind)]:
                return Foreign(kind[:200])
            case ["list", list(items)]:
                return [self.value(item, depth + 1) for item in items]
            case ["tuple", list(items)]:
                return tuple(self.value(item, depth + 1) for item in items)
            case ["dict", list(pairs)]:
                return dict(self.pair(pair, depth) for pair in pairs)
            case [("array" | "scalar") as tag, str(dtype), list(shape), int(index)]:
                array = self.array(dtype, shape, index)
                return array[()] if tag == "scalar" and array.shape == () else array
        raise WireError("an unknown kind of value")

    @staticmethod
    def parse(make: Any) -> Any:
        try:
            return make()
        except (ValueError, struct.error) as error:
            raise WireError("a malformed number") from error

    def pair(self, pair: Any, depth: int) -> tuple[Any, Any]:
        if not (isinstance(pair, list) and len(pair) == 2):
            raise WireError("a malformed dictionary")
        key = self.value(pair[0], depth + 1)
        try:
            hash(key)
        except TypeError:
            key = Foreign(f"a key of type {type(key).__name__}")
        return key, self.value(pair[1], depth + 1)

    def array(self, code: str, shape: list, index: int) -> np.ndarray:
        if len(code) != 3 or len(shape) > 32 or not 0 <= index < len(self.buffers):
            raise WireError("a malformed array")
        try:
            dtype = np.dtype(code)
        except (TypeError, ValueError) as error:
            raise WireError("an unknown dtype") from error
        if dtype.char not in DTYPES or dtype.byteorder == ">":
            raise WireError("a dtype that does not travel")
        if not all(type(n) is int and 0 <= n <= MAX_ARRAY_BYTES for n in shape):
            raise WireError("a malformed shape")
        raw = self.buffers[index]
        if math.prod(shape) * dtype.itemsize != len(raw):
            raise WireError("an array whose size is not that of its shape")
        array = _empty(tuple(shape), dtype)
        array.reshape(-1)[:] = _frombuffer(raw, dtype)
        return array
