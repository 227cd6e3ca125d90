"""The built book, as it lies in _build/html: no answer, no hidden case, and everything that should be there."""

import html
import inspect
import json
import re
from pathlib import Path

import pytest

from autograder.assignments import COURSE
from autograder.exercises import chapters

BOOK = COURSE / "_build" / "html"
EXERCISES = [exercise for chapter in chapters().values() for exercise in chapter.exercises]


def squeezed(text):
    """Code without markup, entities and white space."""
    return re.sub(r"\s+", "", html.unescape(re.sub(r"<[^>]*>", "", text)))


@pytest.fixture(scope="module")
def published():
    assert (BOOK / "index.html").exists(), "no book: run `make book` first"
    paths = [path for path in sorted(BOOK.rglob("*")) if path.is_file() and not vendored(path)]
    texts = {path: path.read_text(errors="ignore") for path in paths if path.suffix in TEXT}
    return {path: (text, squeezed(text.replace("\\n", "\n").replace('\\"', '"'))) for path, text in texts.items()}


TEXT = {".html", ".js", ".ipynb", ".py", ".json", ".txt", ".md", ".inv", ".css", ""}


def vendored(path: Path) -> bool:
    return "mathjax" in str(path).lower() or "vendor" in path.parts


def solution(exercise):
    source = inspect.getsource(exercise.reference)
    return [part.strip() for part in re.findall(r"### BEGIN SOLUTION(.*?)### END SOLUTION", source, re.DOTALL)]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_no_line_of_a_solution_is_published(published, exercise):
    assert solution(exercise)
    lines = [line.strip() for region in solution(exercise) for line in region.splitlines()]
    telling = [line for line in lines if len(squeezed(line)) > 10 and not re.fullmatch(r"[\w.]+\(\)", line)]
    assert telling
    found = [(str(path), line) for path, (_, code) in published.items() for line in telling if squeezed(line) in code]
    assert found == []


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_no_hidden_case_is_published(published, exercise):
    secrets = ["BEGIN HIDDEN", "autograder.score(", *(m.lesson for m in exercise.misconceptions)]
    secrets += [inspect.getsource(m.function) for m in exercise.misconceptions]
    secrets += [inspect.getsource(v) for v in exercise.variants]
    found = [(str(path), s) for path, (_, code) in published.items() for s in secrets if squeezed(s) in code]
    assert found == []


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_the_stub_is_shown(published, exercise):
    pages = [code for path, (_, code) in published.items() if path.suffix == ".html"]
    wanted = squeezed(f"def {exercise.name}(") if inspect.isfunction(exercise.reference) else f"class{exercise.name}"
    assert any(wanted in code and "raiseNotImplementedError()" in code for code in pages)


@pytest.mark.parametrize("name", chapters())
def test_a_student_notebook_can_be_downloaded(published, name):
    page = published[BOOK / "chapters" / f"{name}.html"][0]
    (link,) = set(re.findall(rf'href="([^"]*{name}\.ipynb)"', page))
    notebook = json.loads((BOOK / "chapters" / link).resolve().read_text())
    assert notebook["metadata"]["course"]["chapter"] == name
    assert (BOOK / "_downloads" / "toolbox.py").exists()


def test_no_page_shows_an_error(published):
    pages = {path: text for path, (text, _) in published.items() if path.suffix == ".html"}
    assert len(pages) > len(chapters())
    assert [str(path) for path, text in pages.items() if "Traceback (most recent call last)" in text] == []


def test_every_figure_has_a_text_alternative(published):
    images = [
        (path.name, tag)
        for path, (text, _) in published.items()
        if path.suffix == ".html"
        for tag in re.findall(r"<img[^>]*_images/[^>]*>", text)
    ]
    assert images
    assert [found for found in images if not re.search(r'alt="[^"]{3,}"', found[1])] == []
