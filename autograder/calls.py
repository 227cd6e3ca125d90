"""One call of a student's function, and its outcome as plain data.

The same code runs in the student's sandbox and, for reference and misconceptions, in the grader. It knows nothing of
right and wrong.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import io
import linecache
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from autograder.wire import Foreign, WireError, decode, encode

MAX_OUTPUT = 1_000_000
MAX_MESSAGE = 300


@dataclass(frozen=True)
class Call:
    """What to call with what. ``probe`` is a self-contained function ``probe(answer, *args, **kwargs)``."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    probe: Callable[..., Any] | None = None

    def message(self, name: str) -> list[bytes]:
        """The call as a message to the process that holds the function ``name``."""
        source = _source(self.probe) if self.probe else None
        return encode([name, self.args, dict(self.kwargs), source, self.probe.__name__ if self.probe else None])


@functools.cache
def _source(probe: Callable[..., Any]) -> str:
    return textwrap.dedent(inspect.getsource(probe))


@dataclass(frozen=True)
class Outcome:
    """What came of a call.

    status: "returned"; "raised"; "missing" (no such function); "lost" (the process died, hung or sent nonsense).
    value, arguments: the result, and args and kwargs as they are after the call.
    error, bases: name of the exception and of the built-in exceptions that it is; detail: its text, or what was lost.
    line: the student's line that raised.
    """

    status: str
    value: Any = None
    arguments: Any = None
    error: str = ""
    bases: tuple[str, ...] = ()
    detail: str = ""
    line: str = ""


class Answer(Protocol):
    """A student's function, wherever it lives."""

    def call(self, call: Call) -> Outcome:
        """Call the function and say what came of it; never raises for what the function does."""
        ...


class OutputLimitError(RuntimeError):
    """A function printed without end."""


class _Sink(io.TextIOBase):
    """Swallows what a function prints, up to a bound."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, text: str) -> int:
        self.size += len(text)
        if self.size > MAX_OUTPUT:
            raise OutputLimitError(f"printed more than {MAX_OUTPUT:,} characters")
        return len(text)


def perform(message: list[bytes], namespace: Mapping[str, Any]) -> list[bytes]:
    """Make the call that ``message`` asks for on a function of ``namespace``; the outcome as a message."""
    name, args, kwargs, source, probe = decode(message)
    answer = namespace.get(name)
    if not callable(answer):
        return encode({"status": "missing", "detail": "" if answer is None else type(answer).__name__})
    try:
        with contextlib.redirect_stdout(_Sink()), contextlib.redirect_stderr(_Sink()):
            if source is None:
                value = answer(*args, **kwargs)
            else:
                scope: dict[str, Any] = {}
                exec(compile(source, "<probe>", "exec"), scope)
                value = scope[probe](answer, *args, **kwargs)
    except BaseException as error:  # SystemExit and the grader's interrupt included
        return encode(_raised(error))
    try:
        return encode({"status": "returned", "value": value, "arguments": (args, kwargs)})
    except WireError as error:
        return encode({"status": "returned", "value": Foreign(f"a result that cannot be sent ({error})")})


def read_outcome(message: list[bytes]) -> Outcome:
    """The outcome that a message from the other process describes; raises WireError if it describes none."""
    fields = decode(message)
    if not isinstance(fields, dict) or fields.get("status") not in {"returned", "raised", "missing"}:
        raise WireError("not an outcome")
    if not fields.keys() <= asdict(Outcome("")).keys():
        raise WireError("an outcome with unknown fields")
    if not all(isinstance(fields.get(name, ""), str) for name in ("error", "detail", "line")):
        raise WireError("an outcome whose text is no text")
    bases = fields.pop("bases", ())
    if not (isinstance(bases, tuple) and all(isinstance(base, str) for base in bases)):
        raise WireError("an outcome whose exception is none")
    return Outcome(**fields, bases=bases)


@dataclass(frozen=True)
class LocalAnswer:
    """A function in this process, called through the same wire as a student's."""

    function: Callable[..., Any]

    def call(self, call: Call) -> Outcome:
        """See :class:`Answer`."""
        return read_outcome(perform(call.message("answer"), {"answer": self.function}))


def _raised(error: BaseException) -> dict[str, Any]:
    bases = tuple(base.__name__ for base in type(error).__mro__ if base.__module__ == builtins.__name__)
    try:
        detail = str(error)
    except Exception:
        detail = ""
    return {
        "status": "raised",
        "error": type(error).__name__[:100],
        "bases": bases,
        "detail": " ".join(detail.split())[:MAX_MESSAGE],
        "line": _last_own_line(error),
    }


def _last_own_line(error: BaseException) -> str:
    """The student's line in the traceback that is nearest to the error."""
    line, traceback = "", error.__traceback__
    while traceback:
        filename = traceback.tb_frame.f_code.co_filename
        if filename not in {__file__, "<probe>"} and not filename.startswith((sys.prefix, sys.base_prefix)):
            line = linecache.getline(filename, traceback.tb_lineno).strip() or line
        traceback = traceback.tb_next
    return line[:MAX_MESSAGE]
