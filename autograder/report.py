"""The class report: one page that shows an instructor where the class stands and what to teach next."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import jinja2

from autograder.classroom import Classroom, Graded
from autograder.exercise import Chapter, Misconception

TEMPLATE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ chapter.name }}: class report</title>
<style>
:root { color-scheme: light dark; --bar: #0072B2; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { background: var(--bar); height: .8rem; min-width: 1px; display: inline-block; }
td.wide { width: 45%; }
</style>
</head>
<body>
<h1>{{ chapter.name }}: class report</h1>
<p>{{ scores|length }} graded; of {{ max_score|points }} points the mean is {{ average|points }},
the median {{ middle|points }}.</p>

<h2>Scores</h2>
<table><tr><th>Points</th><th class="number">Students</th><th></th></tr>
{% for row in distribution %}<tr><td>{{ row.label }}</td><td class="number">{{ row.count }}</td>
<td class="wide"><span class="bar" style="width: {{ row.share }}%"></span></td></tr>
{% endfor %}</table>

<h2>Exercises, hardest first</h2>
<table><tr><th>Exercise</th><th class="number">Mean share of points</th><th class="number">Full marks</th>
<th></th></tr>
{% for row in exercises %}<tr><td><code>{{ row.name }}</code></td><td class="number">{{ row.share }} %</td>
<td class="number">{{ row.full }} of {{ scores|length }}</td>
<td class="wide"><span class="bar" style="width: {{ row.share }}%"></span></td></tr>
{% endfor %}</table>

<h2>Misconceptions, most frequent first</h2>
{% if misconceptions %}<table><tr><th>Exercise</th><th>Mistake</th><th class="number">Share of the class</th>
<th>Teach from</th></tr>
{% for row in misconceptions %}<tr><td><code>{{ row.exercise }}</code></td><td>{{ row.lesson }}</td>
<td class="number">{{ row.count }} ({{ row.share }} %)</td><td>{{ row.section }}</td></tr>
{% endfor %}</table>{% else %}<p>None was recognised.</p>{% endif %}

<h2>Odd submissions</h2>
{% if odd %}<table><tr><th>Student</th><th>What was odd</th></tr>
{% for row in odd %}<tr><td>{{ row.student }}</td><td>{{ row.what }}</td></tr>
{% endfor %}</table>{% else %}<p>None.</p>{% endif %}

<h2>All students</h2>
<table><tr><th>Student</th><th class="number">Points</th></tr>
{% for row in students %}<tr><td>{{ row.student }}</td><td class="number">{{ row.score|points }}</td></tr>
{% endfor %}</table>
</body>
</html>
"""


@dataclass(frozen=True)
class Mistake:
    """A misconception and how many of the class share it."""

    exercise: str
    misconception: Misconception
    count: int


def mistakes(chapter: Chapter, graded: list[Graded]) -> list[Mistake]:
    """The misconceptions of a class, most frequent first."""
    counts = Counter(
        (exercise["name"], exercise["misconception"])
        for student in graded
        for exercise in student.result["exercises"]
        if exercise["misconception"]
    )
    registered = {(e.name, m.name): m for e in chapter.exercises for m in e.misconceptions}
    return [Mistake(key[0], registered[key], n) for key, n in counts.most_common() if key in registered]


def write_report(classroom: Classroom, chapter: Chapter) -> Path:
    """Write ``reports/<chapter>.html`` for all graded work; raises ClassroomError if there is none."""
    graded = classroom.results(chapter.name)
    environment = jinja2.Environment(autoescape=True)
    environment.filters["points"] = lambda number: f"{number:.2f}".rstrip("0").rstrip(".")
    path = classroom.root / "reports" / f"{chapter.name}.html"
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(environment.from_string(TEMPLATE).render(_content(chapter, graded)))
    os.replace(temporary, path)
    return path


def _content(chapter: Chapter, graded: list[Graded]) -> dict[str, Any]:
    scores = [student.score for student in graded]
    found = mistakes(chapter, graded)
    return {
        "chapter": chapter,
        "scores": scores,
        "max_score": chapter.points,
        "average": mean(scores),
        "middle": median(scores),
        "distribution": _distribution(scores, chapter.points),
        "exercises": sorted(_exercises(chapter, graded), key=lambda row: row["share"]),
        "misconceptions": [
            {
                "exercise": mistake.exercise,
                "lesson": mistake.misconception.lesson,
                "section": mistake.misconception.section,
                "count": mistake.count,
                "share": round(100 * mistake.count / len(graded)),
            }
            for mistake in found
        ],
        "odd": [
            {"student": s.student, "what": "; ".join(s.result["warnings"])} for s in graded if s.result["warnings"]
        ],
        "students": sorted(({"student": s.student, "score": s.score} for s in graded), key=lambda row: row["student"]),
    }


def _distribution(scores: list[float], most: float, bins: int = 5) -> list[dict[str, Any]]:
    """Counts in equal bins; the last one holds the full score."""
    counts = Counter(min(int(score / most * bins), bins - 1) for score in scores)
    edges = [most * i / bins for i in range(bins + 1)]
    return [
        {
            "label": f"{edges[i]:g} to {'' if i == bins - 1 else 'under '}{edges[i + 1]:g}",
            "count": counts[i],
            "share": round(100 * counts[i] / len(scores)),
        }
        for i in range(bins)
    ]


def _exercises(chapter: Chapter, graded: list[Graded]) -> list[dict[str, Any]]:
    rows = []
    for exercise in chapter.exercises:
        shares = [
            result["points"] / result["max_points"]
            for student in graded
            for result in student.result["exercises"]
            if result["name"] == exercise.name
        ]
        if shares:
            full = sum(share == 1 for share in shares)
            rows.append({"name": exercise.name, "share": round(100 * mean(shares)), "full": full})
    return rows
