import io
import json
import re
from pathlib import Path

import pytest
import tiny
from jupyter_book.config import get_final_config
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from autograder import exercises
from autograder.assignments import COURSE


def build(root, **overrides):
    """Build with the course's own configuration; nitpicky, and no warning allowed. Returns the warnings."""
    cli = {"external_toc_path": str(root / "_toc.yml"), "latex_individualpages": False, "nitpicky": True}
    config, _ = get_final_config(user_yaml=root / "_config.yml", cli_config=cli | overrides, sourcedir=root)
    warnings = io.StringIO()
    out = root / "_build" / "html"
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            srcdir=root,
            confdir=None,
            outdir=out,
            doctreedir=root / "_build" / ".doctrees",
            buildername="html",
            confoverrides=config,
            status=io.StringIO(),
            warning=warnings,
        )
        app.build()
    return app, warnings.getvalue()


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A built tiny book, with its cells executed; Sphinx's application and the page's HTML."""
    root = tiny.write_course(tmp_path_factory.mktemp("book"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exercises, "chapters", lambda: {tiny.CHAPTER.name: tiny.CHAPTER})
        patch.setenv("PYTHONPATH", str(COURSE))
        app, warnings = build(root)
        assert not warnings
        yield app, (Path(app.outdir) / "chapters" / "01_tiny.html").read_text()


def text(html):
    return re.sub(r"<[^>]+>", "", html)


def test_exercise_cells_appear_as_stubs(book):
    page = text(book[1])
    assert "def sgd_step(theta: np.ndarray, grad: np.ndarray, lr: float)" in page
    assert page.count("raise NotImplementedError()") == 2
    assert "# 1. Turn the gradient into a step" in page
    assert "from solutions" not in page


def test_no_solution_is_anywhere_in_the_output(book):
    out = Path(book[0].outdir)
    files = [path for path in out.rglob("*") if path.is_file() and path.suffix not in (".woff", ".woff2", ".ttf")]
    assert any(path.name == "searchindex.js" for path in files)
    for path in files:
        content = path.read_bytes()
        for secret in (b"theta - lr * grad", b"(1 - beta) * grad", b"BEGIN SOLUTION", b"HIDDEN TESTS", b"__import__("):
            assert secret not in content, path


def test_cards_are_numbered_and_can_be_pointed_to(book):
    page = book[1]
    assert re.search(r'<div class="exercise admonition" id="exercise-momentum-step">', page)
    assert "Exercise 1.2 · momentum_step" in text(page)
    assert "4 points · about 10 minutes · difficulty 2 of 3 ●●○" in text(page)
    assert re.search(
        r'<a class="reference internal" href="#exercise-momentum-step"><span[^>]*>Exercise 1.2</span>', page
    )


def test_cells_have_captions(book):
    assert "Your turn: sgd_step" in text(book[1])
    assert "Visible test of momentum_step" in text(book[1])


def test_the_notebook_and_the_book_number_alike(book):
    app, page = book
    notebook = (Path(app.outdir) / "_downloads" / "01_tiny.ipynb").read_text()
    assert re.findall(r'eqno">\((1\.\d)\)', page) == re.findall(r"tag\{(1\.\d)\}", notebook) == ["1.1", "1.2"]
    captions = re.findall(r'caption-number">Fig\. (1\.\d) </span><span class="caption-text">([^<]*)<', page)
    assert captions == re.findall(r"<em>Fig\. (1\.\d)\. ([^<]*)<", notebook)
    assert captions == [("1.1", "What the cell draws."), ("1.2", "What the file shows.")]


def test_downloads_are_there_and_linked(book):
    app, page = book
    for file in ("01_tiny.ipynb", "toolbox.py"):
        assert f'href="../_downloads/{file}"' in page
        assert (Path(app.outdir) / "_downloads" / file).is_file()
    notebook = json.loads((Path(app.outdir) / "_downloads" / "01_tiny.ipynb").read_text())
    assert notebook["metadata"]["course"] == {"chapter": "01_tiny"}


def test_a_page_depends_on_its_reference_and_the_registry(book):
    seen = {Path(path).name for path in book[0].env.dependencies["chapters/01_tiny"]}
    assert {"descent.py", "__init__.py"} <= seen


def test_a_second_build_reads_no_page_again(book):
    app, _ = book
    download = Path(app.outdir) / "_downloads" / "01_tiny.ipynb"
    before = download.stat().st_mtime_ns
    again, warnings = build(Path(app.srcdir))
    assert not warnings
    assert list(again.builder.get_outdated_docs()) == []
    assert download.stat().st_mtime_ns == before


def test_the_execution_cache_belongs_to_the_solutions_and_the_toolbox(book):
    root = Path(book[0].srcdir)
    before = book[0].config.nb_execution_cache_path
    (root / "chapters" / "toolbox.py").write_text("DEVICE = 'other'\n")
    app, _ = build(root, nb_execution_mode="off")
    assert Path(app.config.nb_execution_cache_path).parent == Path(before).parent
    assert app.config.nb_execution_cache_path != before


def test_a_broken_chapter_is_reported_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(exercises, "chapters", lambda: {tiny.CHAPTER.name: tiny.CHAPTER})
    root = tiny.write_course(tmp_path, tiny.PAGE.replace("import sgd_step", "import sgd_stride"))
    app, warnings = build(root, nb_execution_mode="off")
    assert (
        "01_tiny, cell 4 ('from solutions.descent import sgd_stride'): solutions.descent has no sgd_stride" in warnings
    )
    assert not (Path(app.outdir) / "_downloads" / "01_tiny.ipynb").exists()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("{exercise} sgd_step", "{exercise} sgd_stride", "no exercise 'sgd_stride' is registered for chapters/01_tiny"),
        (":difficulty: 1", ":difficulty: 7", ":difficulty: 1, 2 or 3, not '7'"),
    ],
)
def test_a_broken_card_is_reported(tmp_path, monkeypatch, old, new, says):
    monkeypatch.setattr(exercises, "chapters", lambda: {tiny.CHAPTER.name: tiny.CHAPTER})
    _, warnings = build(tiny.write_course(tmp_path, tiny.PAGE.replace(old, new)), nb_execution_mode="off")
    assert says in warnings
