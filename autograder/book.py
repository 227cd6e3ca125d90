"""Sphinx extension: exercise cards, stubs in place of the exercise cells, and student notebooks to download.

A page imports the reference, so that it runs as it stands; what a reader sees is the stub that students start from.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from autograder import assignments, exercises, markup
from autograder.exercise import Chapter

LOGGER = logging.getLogger(__name__)
DOWNLOADS = "_downloads"
MATHJAX = "sphinx-mathjax-offline"  # the package that brings MathJax 3 with its fonts
MATHJAX_FILES = ("tex-chtml-full.js", "output/chtml/fonts")


def _chapter(docname: str) -> Chapter | None:
    return exercises.chapters().get(docname.rpartition("/")[2])


class ExerciseCard(SphinxDirective):
    """A numbered card; ``{ref}`exercise-<name>``` points to it. Number and points come from autograder/exercises."""

    required_arguments = 1
    has_content = True
    option_spec = {"minutes": directives.unchanged, "difficulty": directives.unchanged}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """The card. Its options are checked where the student notebook's are."""
        name = self.arguments[0]
        chapter = _chapter(self.env.docname)
        try:
            exercise = chapter[name] if chapter else None
        except KeyError:
            exercise = None
        if exercise is None:
            raise self.error(f"no exercise {name!r} is registered for {self.env.docname} in autograder/exercises")
        try:
            minutes, difficulty = self.options.get("minutes", ""), self.options.get("difficulty", "")
            facts = markup.exercise_facts(exercise.points, minutes, difficulty)
        except ValueError as error:
            raise self.error(str(error)) from None
        for source in (inspect.getsourcefile(exercise.reference), *Path(exercises.__file__).parent.glob("*.py")):
            self.env.note_dependency(str(source))

        label, number = f"exercise-{name}".lower(), assignments.exercise_number(chapter, name)
        card = nodes.admonition(classes=["exercise"], ids=[nodes.make_id(label)])
        card += nodes.title("", f"Exercise {number} · ", nodes.literal(name, name))
        card += nodes.paragraph("", facts, classes=["exercise-facts"])
        self.set_source_info(card)
        self.state.nested_parse(self.content, self.content_offset, card)
        labels = self.env.get_domain("std").data
        labels["labels"][label] = (self.env.docname, card["ids"][0], f"Exercise {number}")
        labels["anonlabels"][label] = (self.env.docname, card["ids"][0])
        return [card]


def show_stubs(app: Sphinx, doctree: nodes.document) -> None:
    """Put the stub in the place of each exercise cell's import, and head exercise and test cells with a caption."""
    chapter = _chapter(app.env.docname)
    if chapter is None:
        return
    name = ""
    for cell in doctree.findall(lambda node: isinstance(node, nodes.container) and "cell" in node.get("classes", ())):
        tags = set(cell.get("cell_metadata", {}).get("tags", ()))
        if not tags & {"exercise", "test"}:
            continue
        code = next(cell.findall(nodes.literal_block))
        if "exercise" in tags:
            name = code.astext().split()[-1]
            try:
                source = assignments.stub(chapter[name])
            except (KeyError, assignments.AssignmentError) as error:
                LOGGER.warning("%s", error.args[0], location=cell, type="course")
                continue
            code.rawsource = source
            code.children = []
            code += nodes.Text(source)
            caption = "Your turn: "
        else:
            caption = "Visible test of "
        caption_node = nodes.paragraph("", caption, nodes.literal(name, name), classes=["cell-caption"])
        code.parent.insert(code.parent.index(code), caption_node)


def link_downloads(app: Sphinx, doctree: nodes.document) -> None:
    """Put the links to the student notebook and the toolbox below a chapter's title."""
    title = next(doctree.findall(nodes.title), None)
    if _chapter(app.env.docname) is None or title is None:
        return
    folder = "../" * app.env.docname.count("/") + DOWNLOADS
    links = " · ".join(
        f'<a class="reference download" href="{folder}/{file}" download>{file}</a>'
        for file in (f"{app.env.docname.rpartition('/')[2]}.ipynb", "toolbox.py")
    )
    html = f'<p class="downloads">To work on it yourself, put both into one folder: {links}</p>'
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", html, format="html"))


def write_downloads(app: Sphinx) -> None:
    """Write the student notebooks that are missing or older than their sources; report a chapter that is off."""
    if app.builder.format != "html":
        return
    root = Path(app.srcdir)
    folder = Path(app.outdir) / DOWNLOADS
    folder.mkdir(parents=True, exist_ok=True)
    toolbox = root / "chapters" / "toolbox.py"
    if toolbox.exists():
        shutil.copy2(toolbox, folder)
    pages = [path for path in (root / "chapters").rglob("*") if "__pycache__" not in path.parts]
    newest = max(path.stat().st_mtime for path in (*pages, root / "_toc.yml", *_sources()) if path.is_file())
    for name in exercises.chapters():
        target = folder / f"{name}.ipynb"
        if not assignments.chapter_path(name, root).is_file():
            continue
        if target.exists() and target.stat().st_mtime > newest:
            continue
        try:
            notebook = assignments.student_notebook(name, root)
        except assignments.AssignmentError as error:
            target.unlink(missing_ok=True)
            LOGGER.warning("%s", error, type="course")
            continue
        import nbformat

        target.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def _sources() -> list[Path]:
    """The Python files that decide what a student notebook holds."""
    folders = (
        assignments.COURSE / "solutions",
        *(Path(assignments.__file__).parent / sub for sub in (".", "exercises")),
    )
    return [path for folder in folders for path in sorted(folder.glob("*.py"))]


def configure(app: Sphinx, config: Config) -> None:
    """Tie the cache of executed pages to the reference, and take MathJax from its package where that is installed."""
    if not config.nb_execution_cache_path:
        # the cache compares a page's cells only: without this, figures would outlive the solution that drew them
        root = Path(app.srcdir)
        sources = [*sorted(root.glob("chapters/*.py")), *sorted((assignments.COURSE / "solutions").glob("*.py"))]
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
        config.nb_execution_cache_path = str(Path(app.outdir).parent / ".jupyter_cache" / digest)
    if _mathjax():
        config.mathjax_path = f"mathjax/{MATHJAX_FILES[0]}"


def copy_mathjax(app: Sphinx) -> None:
    """Serve MathJax from the book itself, so that it reads the same without a network."""
    source = _mathjax()
    if app.builder.format != "html" or source is None:
        return
    for file in MATHJAX_FILES:
        target = Path(app.outdir) / "_static" / "mathjax" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if (source / file).is_dir():
            shutil.copytree(source / file, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source / file, target)


def _mathjax() -> Path | None:
    try:
        package = importlib.metadata.distribution(MATHJAX)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(package.locate_file(f"{MATHJAX}/static/mathjax")))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the hooks with Sphinx."""
    app.add_directive("exercise", ExerciseCard)
    app.connect("config-inited", configure)
    app.connect("builder-inited", write_downloads)
    app.connect("builder-inited", copy_mathjax)
    app.connect("doctree-read", show_stubs)
    app.connect("doctree-read", link_downloads)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
