"""A function with a few words of its source replaced: most mistakes are a right answer with one wrong word."""

from __future__ import annotations

import inspect
import itertools
import linecache
import sys
import textwrap
import types
from collections.abc import Callable
from functools import cache
from typing import Any

_numbers = itertools.count(1)


def edited(function: Callable[..., Any], *changes: tuple[str, str]) -> Callable[..., Any]:
    """The function (or class) as it would be with each ``(old, new)`` of its source replaced, under the same name.

    It sees what its module holds by now, and ``inspect.getsource`` gives its own text, so that it can be sent to
    another process or written into a notebook. Raises ValueError if an old text does not occur exactly once.
    """
    source = _source(function)
    for old, new in changes:
        if (found := source.count(old)) != 1:
            raise ValueError(f"{old!r} occurs {found} times in {function.__name__}; give text that occurs once")
        source = source.replace(old, new)
    filename = f"<{function.__name__}, edited {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = types.ModuleType(filename)  # of its own, because a class's source is looked up in the file of its module
    vars(module).update(vars(sys.modules[function.__module__]), __name__=filename, __file__=filename)
    sys.modules[filename] = module
    exec(compile(source, filename, "exec"), vars(module))
    return vars(module)[function.__name__]


@cache
def _source(function: Callable[..., Any]) -> str:
    """What a function is edited from; kept, for ``inspect`` reads the whole file each time."""
    return textwrap.dedent(inspect.getsource(function))
