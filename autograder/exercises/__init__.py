"""The graded exercises: one module a chapter, each with a ``CHAPTER``."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from autograder.exercise import Chapter


@cache
def chapters() -> dict[str, Chapter]:
    """All chapters by name, in the order of their names (``01_descent`` first)."""
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    return {chapter.name: chapter for chapter in sorted((m.CHAPTER for m in modules), key=lambda c: c.name)}
