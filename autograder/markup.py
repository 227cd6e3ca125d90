"""MyST markup → plain notebook Markdown.

Students read their notebooks in stock JupyterLab, VS Code and Colab, none of which know MyST. This module translates
the vocabulary that chapters use, and refuses the rest, so that nothing reaches a student as raw markup:

- directives: ``exercise``, ``note``, ``tip``, ``warning``, ``important``, ``admonition``, ``dropdown``, ``math``,
  ``figure``
- roles: ``ref``, ``eq``, ``numref``, ``cite``, ``cite:t``, ``cite:p``, ``doc``, ``term``, ``download``
- ``(label)=`` targets, ``$$ … $$ (label)`` equations, starred amsmath environments, ``%`` comments, ``+++``

Equations and figures are numbered as the book numbers them: in page order, after the chapter's number.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ADMONITIONS = ("note", "tip", "warning", "important", "admonition")
OPTIONS = {
    "exercise": {"minutes", "difficulty"},
    "dropdown": {"name", "open", "class", "color", "icon", "animate"},
    "math": {"label"},
    "figure": {"name", "alt", "width", "align", "class"},
    **{name: {"name", "class"} for name in ADMONITIONS},
}
IMAGE_FORMATS = (".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp")

_FENCE = re.compile(r"(?P<indent>\s*)(?:(?P<ticks>`{3,})(?P<plain>[^`]*)|(?P<marks>~{3,}|:{3,})(?P<info>.*))$")
_DIRECTIVE = re.compile(r"\{(?P<name>[\w:-]+)\}\s*(?P<argument>.*)$")
_OPTION = re.compile(r"\s*:(?P<key>[\w-]+):(?:\s+(?P<value>.*))?$")
_TARGET = re.compile(r"\s*\((?P<label>[^()\s]+)\)=\s*$")
_HEADING = re.compile(r"#{1,6}\s+(?P<title>.+?)\s*#*$")
_DISPLAY = re.compile(r"\$\$(?P<tex>.+?)\$\$\s*(?:\((?P<label>[^()\s]+)\))?", re.S)
_AMSMATH = re.compile(r"\s*\\begin\{(?P<name>align|gather|equation|multline|flalign|alignat|eqnarray)(?P<star>\*?)\}")
_TICKED_TITLE = re.compile(r"\s*`{3,}\{[^`]*`")
_UNSUPPORTED = {
    re.compile(
        r"\s*`{3,}\{.*`"
    ): "a title with `code` needs a colon fence, :::{name}; with backticks it is no directive",
    re.compile(r"\s*>\s*(?:```|:::)\s*\{"): "a directive in a quote can't be translated; use {note} or {admonition}",
    re.compile(r"\s*\[\^[^\]]+\]:"): "footnotes can't be translated",
    re.compile(r": +\S"): "definition lists can't be translated; use a table or a list",
}
_TITLED = re.compile(r"(?P<title>.+?)\s*<(?P<target>[^<>]+)>$", re.S)
# Leftmost wins, so a role inside a code span or a formula stays as it is.
_INLINE = re.compile(
    r"\{(?P<role>[a-z][\w:.+-]*)\}(?P<ticks>`+)(?P<body>[^`]+)(?P=ticks)"
    r"|(?P<code>(?<!`)(?P<span>`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)(?P=span)(?!`))"
    r"|(?P<image>!\[[^\]]*\]\((?P<path>[^)\s]+)\))"
    r"|(?P<link>\[[^\]]*\]\((?P<url>[^)\s]*)[^)]*\))"
    r"|(?<![\\$])\$(?!\$)(?P<tex>(?:(?!\n\s*\n)[^$`])+?)(?<!\\)\$(?!\$)",
    re.S,
)


class MarkupError(ValueError):
    """Markup that has no translation; the message names the directive or role, and the line."""


def _fail(line: int, problem: str) -> MarkupError:
    return MarkupError(f"line {line}: {problem}")


@dataclass(frozen=True)
class Label:
    """What a reference shows: ``{ref}`` the title, ``{eq}`` and ``{numref}`` the number."""

    title: str = ""
    number: str = ""


@dataclass(frozen=True)
class Citation:
    """A bibliography entry as it is cited: ``Polyak``, ``1964`` and an address, if it has one."""

    authors: str
    year: str
    url: str = ""


@dataclass(frozen=True)
class Book:
    """All that a page's references resolve to.

    labels: by lower-case name. titles: of the pages, by the last part of their path. citations: by key.
    points: of the exercises, by name.
    """

    labels: Mapping[str, Label] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    citations: Mapping[str, Citation] = field(default_factory=dict)
    points: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """A piece of a page.

    kind: ``directive``, ``equation``, ``target``, ``heading``, ``code`` or ``text``.
    name: the directive's name, the equation's or target's label, the heading's title.
    """

    kind: str
    line: int
    lines: tuple[str, ...] = ()
    name: str = ""
    argument: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    indent: str = ""
    body_line: int = 0


def blocks(source: str, first: int = 1) -> Iterator[Block]:
    """Split Markdown into blocks; comments and cell breaks are left out. Raises MarkupError for what isn't closed."""
    lines = source.split("\n")
    text: list[str] = []
    at = 0

    def flush() -> Iterator[Block]:
        if text:
            yield Block("text", first + at - len(text), tuple(text))
            text.clear()

    while at < len(lines):
        line = lines[at]
        block, used = _special(lines, at, first)
        if used == 0:
            text.append(line)
            at += 1
            continue
        yield from flush()
        if block:
            yield block
        at += used
    yield from flush()


def _special(lines: list[str], at: int, first: int) -> tuple[Block | None, int]:
    """The block that starts here and how many lines it takes; 0 for plain text."""
    line, number = lines[at], first + at
    if fence := _FENCE.match(line):
        return _fenced(lines, at, first, fence)
    if _TICKED_TITLE.match(line):
        raise _fail(number, f"a title with `code` needs a colon fence, :::, to be a directive: {line.strip()!r}")
    if line.lstrip().startswith("$$"):
        for end in range(at + 1, len(lines) + 1):
            if display := _DISPLAY.fullmatch("\n".join(lines[at:end]).strip()):
                indent = line[: len(line) - len(line.lstrip())]
                tex = tuple(display["tex"].split("\n"))
                return Block("equation", number, tex, display["label"] or "", indent=indent), end - at
        raise _fail(number, "display math isn't closed, or shares its lines with text; give $$ … $$ lines of its own")
    if target := _TARGET.match(line):
        return Block("target", number, name=target["label"].lower()), 1
    if heading := _HEADING.match(line):
        return Block("heading", number, (line,), heading["title"]), 1
    if amsmath := _AMSMATH.match(line):
        if not amsmath["star"]:
            raise _fail(
                number, f"amsmath {amsmath['name']}: write {amsmath['name']}*, or a {{math}} directive with :label:"
            )
        for end in range(at, len(lines)):
            if rf"\end{{{amsmath['name']}*}}" in lines[end]:
                return Block("code", number, tuple(lines[at : end + 1])), end + 1 - at
        raise _fail(number, f"amsmath {amsmath['name']}* isn't closed")
    if line.startswith("%") or line.rstrip() == "+++":
        return None, 1
    return None, 0


def _fenced(lines: list[str], at: int, first: int, fence: re.Match[str]) -> tuple[Block, int]:
    mark, info, number = fence["ticks"] or fence["marks"], (fence["plain"] or fence["info"] or "").strip(), first + at
    closing = re.compile(rf"\s*{re.escape(mark[0])}{{{len(mark)},}}\s*$")
    end = next((i for i in range(at + 1, len(lines)) if closing.match(lines[i])), None)
    if end is None:
        raise _fail(number, f"the fence {mark}{info} isn't closed")
    directive = _DIRECTIVE.match(info)
    if not directive:
        if mark[0] == ":":
            raise _fail(number, f"the fence {mark}{info} names no directive, as in {mark}{{note}}")
        return Block("code", number, tuple(lines[at : end + 1])), end + 1 - at
    name = directive["name"]
    if name not in OPTIONS:
        raise _fail(number, f"directive {{{name}}} can't be translated; use one of {', '.join(OPTIONS)}")
    indent = fence["indent"]
    body = [line.removeprefix(indent) for line in lines[at + 1 : end]]
    options: dict[str, str] = {}
    while len(options) < len(body) and (option := _OPTION.match(body[len(options)])):
        if option["key"] not in OPTIONS[name] or option["key"] in options:
            raise _fail(number, f"directive {{{name}}} has no option :{option['key']}: (or has it twice)")
        options[option["key"]] = (option["value"] or "").strip()
    if body and body[0].strip() == "---":
        raise _fail(number, f"directive {{{name}}}: write its options as :name: value")
    used = len(options)
    block = Block(
        "directive", number, tuple(body[used:]), name, directive["argument"].strip(), options, indent, number + 1 + used
    )
    return block, end + 1 - at


def walk(source: str) -> Iterator[Block]:
    """All blocks of a page, those inside directives included, in page order."""

    def inside(found: Iterable[Block]) -> Iterator[Block]:
        for block in found:
            yield block
            if block.kind == "directive" and block.name not in ("math", "figure"):
                yield from inside(blocks("\n".join(block.lines), block.body_line))

    yield from inside(blocks(source))


def scan(sources: Iterable[str | tuple[str, str]], number: str) -> dict[str, Label]:
    """Labels that a page defines.

    sources: the page's Markdown cells in order; for a code cell with a figure caption, the pair (name, caption).
    number: the chapter's number, empty if it has none.
    """
    labels: dict[str, Label] = {}
    prefix = f"{number}." if number else ""
    figures = equations = 0
    for source in sources:
        if not isinstance(source, str):
            figures += 1
            labels[source[0].lower()] = Label(source[1], f"{prefix}{figures}")
            continue
        waiting: list[str] = []  # targets whose block comes next
        for block in walk(source):
            if block.kind == "target":
                waiting.append(block.name)
                continue
            if block.kind == "text" and not "".join(block.lines).strip():
                continue
            label = Label()
            names = waiting
            if block.kind == "heading":
                label = Label(block.name)
            elif equation := _equation_label(block):
                equations += 1
                label, names = Label(number=f"{prefix}{equations}"), [*waiting, equation]
            elif block.name == "figure" and (caption := _caption(block)):
                figures += 1
                label, names = Label(caption, f"{prefix}{figures}"), [*waiting, block.options.get("name", "")]
            labels.update({name.lower(): label for name in names if name})
            waiting = []
        labels.update({name: Label() for name in waiting})
    return labels


def _equation_label(block: Block) -> str:
    if block.kind == "equation":
        return block.name
    return block.options.get("label", "") if block.name == "math" else ""


def _caption(figure: Block) -> str:
    return " ".join("\n".join(figure.lines).split())


def exercise_title(number: str, name: str) -> str:
    """An exercise card's title, here and in the book."""
    return f"Exercise {number} · `{name}`"


def exercise_facts(points: float, minutes: str, difficulty: str) -> str:
    """The line below the title, here and in the book. Raises ValueError for an option missing or out of range."""
    if not re.fullmatch(r"[1-9]\d*", minutes or ""):
        raise ValueError(f"{{exercise}} needs :minutes:, a whole number above 0, not {minutes!r}")
    if difficulty not in ("1", "2", "3"):
        raise ValueError(f"{{exercise}} needs :difficulty: 1, 2 or 3, not {difficulty!r}")
    dots = "●" * int(difficulty) + "○" * (3 - int(difficulty))
    plural = "" if points == 1 else "s"
    return f"{points:g} point{plural} · about {minutes} minutes · difficulty {difficulty} of 3 {dots}"


class Translator:
    """Translates the cells of one page, which must come in page order: captioned figures are counted."""

    def __init__(self, book: Book, number: str = "") -> None:
        self.book = book
        self.prefix = f"{number}." if number else ""
        self.figures = 0
        self.images: list[str] = []

    def cell(self, source: str) -> tuple[str, list[str]]:
        """A Markdown cell's translation, and the local images that it shows as attachments. Raises MarkupError."""
        self.images = []
        return self._markdown(source).strip("\n"), self.images

    def figure_caption(self, caption: str) -> str:
        """The caption of the next figure, as a line of its own. Raises MarkupError."""
        self.figures += 1
        return f"<small><em>Fig. {self.prefix}{self.figures}. {self._inline(' '.join(caption.split()), 1)}</em></small>"

    def _markdown(self, source: str, first: int = 1) -> str:
        parts = [self._block(block) for block in blocks(source, first)]
        return "\n".join(part for part in parts if part is not None)

    def _block(self, block: Block) -> str | None:
        match block.kind:
            case "target":
                return None
            case "code":
                return "\n".join(block.lines)
            case "equation":
                return block.indent + self._equation(block.lines, block.name)
            case "directive":
                render = getattr(self, f"_{block.name}", self._admonition)
                translated = render(block)
                return "\n".join((block.indent + line).rstrip() for line in translated.split("\n"))
            case _:
                for offset, line in enumerate(block.lines):
                    for pattern, problem in _UNSUPPORTED.items():
                        if pattern.match(line):
                            raise _fail(block.line + offset, f"{problem}: {line.strip()!r}")
                return self._inline("\n".join(block.lines), block.line)

    def _body(self, block: Block) -> str:
        return self._markdown("\n".join(block.lines), block.body_line).strip("\n")

    def _exercise(self, block: Block) -> str:
        label = self.book.labels.get(f"exercise-{block.argument}".lower())
        if label is None or block.argument not in self.book.points:
            raise _fail(block.line, f"{{exercise}} {block.argument}: no such exercise is registered for this chapter")
        try:
            facts = exercise_facts(
                self.book.points[block.argument], block.options.get("minutes", ""), block.options.get("difficulty", "")
            )
        except ValueError as error:
            raise _fail(block.line, f"{{exercise}} {block.argument}: {error}") from None
        return f"---\n\n#### {exercise_title(label.number, block.argument)}\n\n*{facts}*\n\n{self._body(block)}\n"

    def _admonition(self, block: Block) -> str:
        if "dropdown" in block.options.get("class", "").split():
            return self._dropdown(block)
        if block.name == "admonition" and not block.argument:
            raise _fail(block.line, "{admonition} needs a title")
        body = self._body(block)
        if block.name == "admonition":
            title = self._inline(block.argument, block.line)
        else:  # text on the opening line of a {note} is its first sentence
            title, body = block.name.capitalize(), f"{self._inline(block.argument, block.line)}\n{body}".strip("\n")
        quoted = f"**{title}**\n\n{body}".split("\n")
        return "\n".join(f"> {line}".rstrip() for line in quoted)

    def _dropdown(self, block: Block) -> str:
        title = html.escape(self._inline(block.argument or block.name.capitalize(), block.line), quote=False)
        title = re.sub(r"`([^`]+)`", r"<code>\1</code>", title)
        title = re.sub(r"\*([^*$]+)\*", r"<em>\1</em>", title)
        return f"<details>\n<summary><b>{title}</b></summary>\n\n{self._body(block)}\n\n</details>\n"

    def _math(self, block: Block) -> str:
        return self._equation((block.argument, *block.lines), block.options.get("label", ""))

    def _equation(self, lines: Iterable[str], label: str) -> str:
        """An equation on one line, which survives quotes and lists in every reader; aligned where Sphinx does it."""
        tex = " ".join(re.sub(r"(?<!\\)%.*", "", line).strip() for line in lines).strip()
        if r"\\" in tex and r"\begin" not in tex:
            tex = rf"\begin{{aligned}} {tex} \end{{aligned}}"
        tag = rf" \tag{{{self.book.labels[label.lower()].number}}}" if label else ""
        return f"$$ {tex}{tag} $$"

    def _figure(self, block: Block) -> str:
        shown = self._image(block.options.get("alt", ""), block.argument, block.line)
        caption = _caption(block)
        return f"{shown}\n\n{self.figure_caption(caption)}" if caption else shown

    def _image(self, alt: str, path: str, line: int) -> str:
        if re.match(r"https?://", path):
            return f"![{alt}]({path})"
        if not path.lower().endswith(IMAGE_FORMATS):
            raise _fail(line, f"image {path!r} is none of {', '.join(IMAGE_FORMATS)}")
        self.images.append(path)
        return f"![{alt}](attachment:{Path(path).name})"

    def _inline(self, text: str, first: int) -> str:
        def translated(found: re.Match[str]) -> str:
            line = first + text.count("\n", 0, found.start())
            if found["role"]:
                return self._role(found["role"], " ".join(found["body"].split()), line)
            if found["image"]:
                return self._image(found["image"][2 : found["image"].index("]")], found["path"], line)
            if found["link"] and not re.match(r"https?://|mailto:", found["url"]):
                raise _fail(line, f"link to {found['url']!r}, which no notebook can open; use {{ref}} or {{doc}}")
            if found["tex"]:  # a line break inside a formula would break it in a quote
                return " ".join(found[0].split("\n"))
            return found[0]

        return _INLINE.sub(translated, text)

    def _role(self, role: str, body: str, line: int) -> str:
        titled = _TITLED.match(body)
        text, target = (titled["title"], titled["target"].strip()) if titled else ("", body)
        match role:
            case "ref":
                title = self._label(role, target, line).title
                if not (text or title):
                    raise _fail(
                        line, f"{{ref}}`{target}`: the label stands before no heading, figure or exercise; give a text"
                    )
                return text or (title if title.startswith("Exercise ") else f"*{title}*")
            case "eq":
                return f"({self._number(role, target, line)})"
            case "numref":
                form = (text or "Fig. %s").replace("{number}", "%s")
                return form.replace("%s", self._number(role, target, line))
            case "cite" | "cite:p" | "cite:t":
                return self._cite(role, body, line)
            case "doc":
                page = target.rstrip("/").rsplit("/")[-1].removesuffix(".md")
                if page not in self.book.titles:
                    raise _fail(line, f"{{doc}}`{target}`: the table of contents has no such page")
                return text or f"*{self.book.titles[page]}*"
            case "term":
                return text or target
            case "download":
                return text or f"`{Path(target).name}`"
        raise _fail(line, f"role {{{role}}} can't be translated; use ref, eq, numref, cite, doc, term or download")

    def _label(self, role: str, target: str, line: int) -> Label:
        if target.lower() not in self.book.labels:
            raise _fail(line, f"{{{role}}}`{target}`: no page of the book defines this label")
        return self.book.labels[target.lower()]

    def _number(self, role: str, target: str, line: int) -> str:
        number = self._label(role, target, line).number
        if not number:
            raise _fail(line, f"{{{role}}}`{target}`: the label has no number")
        return number

    def _cite(self, role: str, keys: str, line: int) -> str:
        shown = []
        for key in (key.strip() for key in keys.split(",")):
            if key not in self.book.citations:
                raise _fail(line, f"{{{role}}}`{key}`: the bibliography has no such entry")
            entry = self.book.citations[key]
            text = f"{entry.authors} ({entry.year})" if role == "cite:t" else f"{entry.authors}, {entry.year}"
            shown.append(f"[{text}]({entry.url})" if entry.url else text)
        return ", ".join(shown) if role == "cite:t" else f"({'; '.join(shown)})"


def citations(bibliography: Path) -> dict[str, Citation]:
    """The entries of a BibTeX file by key; none if there is no file."""
    if not bibliography.exists():
        return {}
    from pybtex.database import parse_file
    from pybtex.richtext import Text

    def plain(tex: str) -> str:
        return str(Text.from_latex(tex)).replace("{", "").replace("}", "")

    found = {}
    for key, entry in parse_file(str(bibliography)).entries.items():
        people = entry.persons.get("author") or entry.persons.get("editor") or ()
        names = [plain(" ".join((*person.prelast_names, *person.last_names))) for person in people]
        authors = " and ".join(names) or plain(entry.fields.get("title", key))
        if len(names) > 2 or names[1:] == ["others"]:
            authors = f"{names[0]} et al."
        doi = entry.fields.get("doi", "")
        url = f"https://doi.org/{doi}" if doi else entry.fields.get("url", "")
        url = url.replace("(", "%28").replace(")", "%29")  # brackets would end the Markdown link
        found[key] = Citation(authors, plain(entry.fields.get("year", "n.d.")), url)
    return found
