import pytest

from autograder.markup import Book, Citation, Label, MarkupError, Translator, citations, scan

BOOK = Book(
    labels={
        "eq-sgd": Label(number="1.2"),
        "forms": Label("Two forms"),
        "fig-path": Label("The path", "1.3"),
        "here": Label(),
        "exercise-sgd_step": Label("Exercise 1.1", "1.1"),
    },
    titles={"02_adaptive": "A step size for every parameter"},
    citations={
        "polyak": Citation("Polyak", "1964", "https://doi.org/10.1/x"),
        "kingma": Citation("Kingma and Ba", "2015"),
    },
    points={"sgd_step": 2},
)


def translate(source):
    return Translator(BOOK, "1").cell(source)[0]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("see {ref}`forms`", "see *Two forms*"),
        ("see {ref}`the other <forms>`", "see the other"),
        ("do {ref}`exercise-sgd_step`", "do Exercise 1.1"),
        ("by {eq}`eq-sgd`", "by (1.2)"),
        ("in {numref}`fig-path`", "in Fig. 1.3"),
        ("in {numref}`figure %s <fig-path>`", "in figure 1.3"),
        ("{cite:t}`polyak` rolls", "[Polyak (1964)](https://doi.org/10.1/x) rolls"),
        ("a ball {cite}`polyak,kingma`", "a ball ([Polyak, 1964](https://doi.org/10.1/x); Kingma and Ba, 2015)"),
        ("next: {doc}`02_adaptive`", "next: *A step size for every parameter*"),
        ("a {term}`learning rate`", "a learning rate"),
        ("get {download}`files/toolbox.py`", "get `toolbox.py`"),
        ("a role {ref}`across\nlines <forms>`", "a role across lines"),
        ("write ``{nope}`x` `` literally", "write ``{nope}`x` `` literally"),
        ("a formula $a +\nb$ on one line", "a formula $a + b$ on one line"),
        ("(forms)=\n## Two forms", "## Two forms"),
        ("% a comment\ntext\n+++", "text"),
        ("$$\na = b\n$$ (eq-sgd)", r"$$ a = b \tag{1.2} $$"),
        (
            "```{math}\n:label: eq-sgd\na &= b \\\\\nc &= d % why\n```",
            r"$$ \begin{aligned} a &= b \\ c &= d \end{aligned} \tag{1.2} $$",
        ),
        ("```{note}\nOne.\n\nTwo.\n```", "> **Note**\n>\n> One.\n>\n> Two."),
        ("```{admonition} Guess *first*\n:class: tip\nGo.\n```", "> **Guess *first***\n>\n> Go."),
        ("```python\n{ref}`x` $$ (a)=\n% kept\n```", "```python\n{ref}`x` $$ (a)=\n% kept\n```"),
        ("- item\n\n  ```{tip}\n  Inside.\n  ```", "- item\n\n  > **Tip**\n  >\n  > Inside."),
    ],
)
def test_translations(source, expected):
    assert translate(source) == expected


def test_dropdown_becomes_details_whose_markdown_still_renders():
    text = translate(":::{dropdown} Is `a < b` *right*?\nYes: **bold** and {eq}`eq-sgd`.\n:::\nafter")
    assert (
        "<summary><b>Is <code>a &lt; b</code> <em>right</em>?</b></summary>\n\nYes: **bold** and (1.2).\n\n</details>\n"
        in text
    )
    assert text.endswith("\nafter")


def test_exercise_card():
    text = translate("```{exercise} sgd_step\n:minutes: 5\n:difficulty: 2\n\nDo {eq}`eq-sgd`.\n```")
    assert "#### Exercise 1.1 · `sgd_step`\n\n*2 points · about 5 minutes · difficulty 2 of 3 ●●○*\n\nDo (1.2)." in text


def test_figures_are_counted_and_their_files_collected():
    translator = Translator(BOOK, "1")
    assert "Fig. 1.1. Drawn *here*." in translator.figure_caption("Drawn\n*here*.")
    text, images = translator.cell("```{figure} _static/dot.svg\n:alt: a dot\n\nA dot.\n```\n\n![inline](a/b.png)")
    assert "![a dot](attachment:dot.svg)" in text
    assert "Fig. 1.2. A dot." in text
    assert "![inline](attachment:b.png)" in text
    assert images == ["_static/dot.svg", "a/b.png"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("fine\n\n```{mermaid}\nx\n```", "line 3: directive {mermaid}"),
        ("{kbd}`x`", "role {kbd}"),
        ("one\ntwo {ref}`nowhere`", "line 2: {ref}`nowhere`"),
        ("{ref}`here`", "give a text"),
        ("{eq}`forms`", "has no number"),
        ("{cite}`nobody`", "no such entry"),
        ("{doc}`99_nothing`", "no such page"),
        ("```{note}\nnever closed", "isn't closed"),
        ("$$ a = b", "isn't closed"),
        ("```{note}\n:colour: red\nx\n```", "no option :colour:"),
        ("```{exercise} nobody\n:minutes: 5\n:difficulty: 1\n```", "no such exercise"),
        ("```{exercise} sgd_step\n:minutes: 5\n:difficulty: 4\n```", ":difficulty: 1, 2 or 3"),
        ("```{exercise} sgd_step\n:difficulty: 1\n```", ":minutes:"),
        ("[page](other.md)", "link to 'other.md'"),
        ("```{dropdown} Is `x` it?\nx\n```", "colon fence"),
        ("> ```{note}\n> x\n> ```", "in a quote"),
        ("[^1]: a footnote", "footnotes"),
        (r"\begin{align}" + "\na\n" + r"\end{align}", "align*"),
        ("````{note}\nx\n\n```{nope}\n```\n````", "line 4: directive {nope}"),
        ("![x](data.csv)", "image 'data.csv'"),
    ],
)
def test_what_has_no_translation_is_named(source, problem):
    with pytest.raises(MarkupError) as caught:
        translate(source)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_scan_numbers_in_page_order_also_inside_directives():
    labels = scan(
        [
            "(start)=\n# Start\n\n$$ a $$ (eq-a)\n\n$$ b $$\n\n:::{tip}\n```{math}\n:label: eq-c\nc\n```\n:::",
            ("fig-one", "One"),
            "```{figure} two.svg\n:name: fig-two\n\nTwo\n```\n\n(plain)=\ntext",
        ],
        "3",
    )
    assert labels["start"] == Label("Start")
    assert (labels["eq-a"].number, labels["eq-c"].number) == ("3.1", "3.2")
    assert (labels["fig-one"].number, labels["fig-two"].number) == ("3.1", "3.2")
    assert labels["plain"] == Label()


def test_citations_from_bibtex(tmp_path):
    (tmp_path / "r.bib").write_text(
        "@article{a, author={Erd{\\H o}s, Paul and Ba, Jimmy and Xu, Li}, title={T}, year=2015, doi={10.1/x(1)}}\n"
        "@misc{b, author={{NVIDIA}}, title={T}, year=2023, url={https://x.y}}\n"
        "@misc{c, author={Loshchilov, Ilya and Hutter, Frank}, title={T}, year=2019}\n"
    )
    found = citations(tmp_path / "r.bib")
    assert found["a"] == Citation("Erdős et al.", "2015", "https://doi.org/10.1/x%281%29")
    assert found["b"] == Citation("NVIDIA", "2023", "https://x.y")
    assert found["c"] == Citation("Loshchilov and Hutter", "2019")
    assert citations(tmp_path / "none.bib") == {}
