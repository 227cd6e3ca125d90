"""A two-exercise course in a folder of its own, for the tests of what reads chapters."""

import shutil
from pathlib import Path

from autograder.assignments import COURSE
from autograder.exercise import Chapter, Exercise, Misconception
from solutions import descent


def uphill(theta, grad, lr):
    return theta + lr * grad


CHAPTER = Chapter(
    "01_tiny",
    (
        Exercise(
            descent.sgd_step, 2, (), (Misconception("uphill", uphill, "You went uphill.", "One step"),), (), "One step"
        ),
        Exercise(descent.momentum_step, 4, (), (), (), "Two forms"),
    ),
)

PAGE = """\
---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

(tiny)=
# A tiny chapter

{cite:t}`polyak` rolled a ball; {doc}`preface` says why. {ref}`two-forms` follows, then {ref}`exercise-momentum_step`.

```{code-cell} python
import numpy as np
```

## One step

$$ a = b $$ (eq-one)

:::{dropdown} A hint about `lr`
```{math}
:label: eq-two
a &= b \\\\
c &= d
```
:::

```{exercise} sgd_step
:minutes: 5
:difficulty: 1

Do {eq}`eq-two`, not {eq}`eq-one`.
```

```{code-cell} python
:tags: [exercise]
from solutions.descent import sgd_step
```

```{code-cell} python
:tags: [test]
assert sgd_step(1.0, 1.0, 0.5) == 0.5
```

```{code-cell} python
---
mystnb:
  figure: {name: fig-cell, caption: "What the cell draws."}
tags: [hide-input]
---
from IPython.display import SVG, display
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'))
```

(two-forms)=
## Two forms

```{figure} _static/dot.svg
:name: fig-dot
:alt: a dot

What the file shows.
```

See {numref}`fig-cell` and {numref}`fig-dot`.

```{exercise} momentum_step
:minutes: 10
:difficulty: 2

The same, with a velocity.
```

```{code-cell} python
:tags: [exercise]
from solutions.descent import momentum_step
```

```{code-cell} python
:tags: [test]
assert len(momentum_step(1.0, 0.0, 1.0, 0.5)) == 2
```
"""

TOC = """\
format: jb-book
root: chapters/preface
parts:
  - caption: Chapters
    numbered: 2
    chapters:
      - file: chapters/01_tiny
      - file: chapters/references
"""

BIB = "@article{polyak, author={Polyak, Boris T.}, title={A ball}, journal={J}, year={1964}, doi={10.1/a(b)c}}\n"


def write_course(root: Path, page: str = PAGE, toc: str = TOC) -> Path:
    """Write the course; its page and table of contents may be broken ones."""
    chapters = root / "chapters"
    (chapters / "_static").mkdir(parents=True, exist_ok=True)
    (chapters / "_static" / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    (chapters / "01_tiny.md").write_text(page)
    (chapters / "preface.md").write_text("# Preface\n\nWelcome.\n")
    (chapters / "references.md").write_text("# References\n\n```{bibliography}\n```\n")
    (chapters / "references.bib").write_text(BIB)
    (chapters / "toolbox.py").write_text("DEVICE = 'cpu'\n")
    (root / "_toc.yml").write_text(toc)
    shutil.copy(COURSE / "_config.yml", root)
    for asset in ("course.css", "logo.svg"):
        shutil.copy(COURSE / "chapters" / "_static" / asset, chapters / "_static")
    return root
