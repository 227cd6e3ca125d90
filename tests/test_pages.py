"""The pages around the chapters: errata, glossary, formula sheet, teaching, assistants, corrections."""

import importlib
import re
from datetime import date
from fractions import Fraction
from math import ceil, floor, log2, sqrt

import pytest
import torch
import yaml

from autograder.assignments import COURSE
from autograder.exercises import chapters
from solutions import adaptive, large_batch, memory

PAGES = COURSE / "chapters"


def text(name):
    return (PAGES / f"{name}.md").read_text()


def in_the_book():
    parts = yaml.safe_load((COURSE / "_toc.yml").read_text())["parts"]
    return {entry["file"].removeprefix("chapters/") for part in parts for entry in part["chapters"]}


def rows(page, heading, level="##"):
    """Cells of the tables below a heading, header lines and rules left out."""
    part = re.split(rf"^{level} ", page, flags=re.MULTILINE)
    (section,) = [p for p in part if p.startswith(heading + "\n")]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
        if not re.match(r"\|[-: |]+$", line)
    ]


# -- all pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["errata", "glossary", "formulas", "teaching", "assistants", "corrections"])
def test_the_page_is_in_the_book_and_linked(name):
    assert name in in_the_book()
    elsewhere = [page for page in PAGES.glob("*.md") if page.stem != name]
    assert [page.stem for page in elsewhere if re.search(rf"\{{doc\}}`([^`]*<)?{name}>?`", page.read_text())]


def test_a_section_that_is_named_exists():
    """Errata name a chapter's heading in quotes: it has to be there, word for word."""
    named = re.findall(r"\*Taught in\* (.*)", text("errata"))
    found = [
        (chapter, heading)
        for line in named
        for chapter, rest in re.findall(r"\{doc\}`(\d\d_\w+)`((?:(?: and|,) \"[^\"]+\")*)", line)
        for heading in re.findall(r'"([^"]+?)[,.]?"', rest)
    ]
    assert len(found) >= 15
    missing = [
        pair for pair in found if not re.search(rf"^#+ {re.escape(pair[1])}$", text(pair[0]), flags=re.MULTILINE)
    ]
    assert missing == []


# -- errata ----------------------------------------------------------------------------------------------------------


def errata():
    body = text("errata").split("## Before you repeat a number")[0]
    parts = re.split(r"^### ", body, flags=re.MULTILINE)[1:]
    return {part.splitlines()[0]: part for part in parts}


@pytest.mark.parametrize("title", errata())
def test_an_erratum_is_whole(title):
    part = errata()[title]
    said, right, taught = (part.find(mark) for mark in ("**Said.**", "**Right.**", "*Taught in*"))
    cell = part.find("```{code-cell} python")
    assert 0 < said < right < cell < taught
    code = part[cell:taught]
    assert re.search(r"^\s*assert ", code, flags=re.MULTILINE), "the check has no assert"
    assert "print(" in code, "the check shows nothing"
    assert "solutions" not in code


@pytest.mark.parametrize(
    "topic",
    [
        "too small", "0.999", "dampening", "L√L", "order does not matter", "65,536", "multiply the learning rate",
        "twice the parameters", "4N", "activations are FP32", "12 bytes", "84 GB", "14 cards", "falls to $1/N_d$",
        "underflows", "diverges", "cannot represent", "must be in FP32", "6ND", "6BD^2L", "MFU of 0.5", "6NB", "MAC",
        "accumulation saves", "O(L^2)", "sbhp", "3,311,616", "cut off", "bare ratio", "afterwards",
    ],
)  # fmt: skip
def test_the_topic_is_among_the_errata(topic):
    assert [title for title, part in errata().items() if topic in part]


# -- glossary --------------------------------------------------------------------------------------------------------


def glossary():
    (block,) = re.findall(r"^```\{glossary\}\n(.*?)^```$", text("glossary"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^(\S.*)\n  (.+)$", block, flags=re.MULTILINE)


def test_the_glossary_is_sorted_and_without_duplicates():
    terms = [term.casefold() for term, _ in glossary()]
    assert terms == sorted(terms)
    assert len(set(terms)) == len(terms)
    assert 60 <= len(terms) <= 120


@pytest.mark.parametrize(("term", "meaning"), glossary(), ids=lambda value: value[:20])
def test_an_entry_is_short_and_names_a_chapter(term, meaning):
    assert re.search(r"(Chapter (0[1-8])\.|<0[1-8]_\w+>`\.|\{doc\}`which_16`\.)$", meaning)
    assert meaning.count(". ") <= 3, "one or two sentences, and the chapter"


def test_every_chapter_has_terms():
    meanings = " ".join(meaning for _, meaning in glossary())
    for number in range(1, 9):
        assert len(re.findall(rf"Chapter 0{number}\b", meanings)) >= 4, number


def test_every_term_in_use_is_in_the_glossary():
    known = {term for term, _ in glossary()}
    used = {
        (page.stem, re.sub(r".*<(.*)>", r"\1", term))
        for page in PAGES.glob("*.md")
        for term in re.findall(r"\{term\}`([^`]+)`", page.read_text())
    }
    assert {pair for pair in used if pair[1] not in known} == set()


# -- formula sheet ---------------------------------------------------------------------------------------------------


def test_every_row_says_where_it_is_derived():
    page = text("formulas")
    derived = [
        row
        for heading in re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
        for row in rows(page, heading)
        if len(row) > 2 and row[-1] != "chapter"
    ]
    assert len(derived) > 50
    assert [row for row in derived if not re.fullmatch(r"0[1-8]|\{doc\}`0[1-8] <0[1-8]_\w+>`", row[-1])] == []


def test_the_ledger_table_agrees_with_the_reference():
    checked = 0
    for optimizers, copies, each, seven, _ in rows(text("formulas"), "The memory ledger")[1:4]:
        for optimizer in optimizers.split(", "):
            ledger = memory.memory_ledger(1, optimizer)
            assert (ledger["states"] // 4, ledger["total"]) == (int(copies), int(each))
            assert memory.memory_ledger(7 * 10**9, optimizer)["total"] == int(seven) * 10**9
            checked += 1
    assert checked == 8


def test_the_zero_table_agrees_with_the_reference():
    found = [row for row in rows(text("formulas"), "The memory ledger") if re.fullmatch("[0-3]", row[0])]
    assert len(found) == 4
    for stage, _, formula, _ in found:
        code = re.sub(r"(\d)N", r"\1*N", formula.strip("$")).replace("N_d", "cards")
        for cards in (1, 8, 64):
            assert eval(code, {"N": 7e9, "cards": cards}) == memory.zero_ledger(7 * 10**9, cards, int(stage))["total"]


def test_the_precision_table_agrees_with_torch():
    table = {row[0]: row[1:4] for row in rows(text("formulas"), "Precision")}
    power = re.compile(r"\$2\^\{?(-?\d+)\}?\$")
    for column, dtype in enumerate((torch.float32, torch.bfloat16, torch.float16)):
        info = torch.finfo(dtype)
        assert int(table["bytes"][column]) == info.bits // 8
        assert 2.0 ** -int(table["fraction bits $f$"][column]) == info.eps
        assert 2.0 ** int(power.match(table["spacing above 1, $2^{-f}$"][column])[1]) == info.eps
        for row, value in (
            ("largest number", info.max),
            ("smallest normal number", info.tiny),
            ("smallest subnormal number", info.tiny * info.eps),
        ):
            assert float(table[row][column]) == pytest.approx(value, rel=3e-4)
        lost = torch.tensor(2.0 ** int(power.match(table["added to 1, swallowed up to"][column])[1]), dtype=dtype)
        one = torch.ones((), dtype=dtype)
        assert one + lost == 1
        assert one + lost * 1.25 > 1


def test_the_update_rules_of_the_sheet_are_the_references():
    """The sheet's rules, evaluated as they stand there, on numbers that tell them apart."""
    sheet = {row[0]: row[1:3] for row in rows(text("formulas"), "Optimizers") if len(row) == 4}
    theta, g, eta, beta, mu, eps, lam, t = 2.0, 3.0, 0.1, 0.5, 0.5, 0.25, 0.5, 2
    m, v = 1.0, 4.0

    def value(formula, **given):
        code = re.search(r"(?:\\leftarrow|=) (.*)", formula.strip("$"))[1]
        for old, new in (
            (r"\\(?:bigl|bigr|,|;)", ""),
            (r"\\hat (\w)", r"\1hat"),
            (r"\\sqrt\{(\w+)\}", r"sqrt(\1)"),
            (r"\\sqrt (\w+)", r"sqrt(\1)"),
            (r"\\varepsilon", "eps"),
            (r"\\lambda\s*\\theta", "lam*theta"),
            (r"\\eta\s*", "eta*"),
            (r"\\theta", "theta"),
            (r"\\beta_?(\d?)", r"beta\1"),
            (r"\\mu", "mu"),
            (r"\^2", "**2"),
            (r"(beta\d?|mu) (\w)", r"\1*\2"),
            (r"\) (\w)", r")*\1"),
            (r"\$", ""),
        ):
            code = re.sub(old, new, code)
        known = {"theta": theta, "g": g, "eta": eta, "beta": beta, "beta1": beta, "beta2": 0.75, "mu": mu}
        return eval(code, known | {"eps": eps, "lam": lam, "sqrt": sqrt} | given)

    accumulated = value(sheet["AdaGrad"][0], s=v)
    assert accumulated == adaptive.adagrad_step(theta, v, g, eta, eps)[1]
    assert value(sheet["AdaGrad"][1], s=accumulated) == pytest.approx(adaptive.adagrad_step(theta, v, g, eta, eps)[0])
    average = value(sheet["RMSProp"][0], v=v)
    expected = adaptive.rmsprop_step(theta, v, g, eta, beta, eps)
    assert (average, value(sheet["RMSProp"][1], v=average)) == pytest.approx((expected[1], expected[0]))

    first, second = re.findall(r"\$([^$]*)\$", sheet["Adam"][0])
    m_new, v_new = value(first, m=m), value(second, v=v)
    corrected = {"mhat": m_new / (1 - beta**t), "vhat": v_new / (1 - 0.75**t)}
    expected = adaptive.adam_step(theta, m, v, g, t, eta, beta, 0.75, eps)
    assert (value(sheet["Adam"][1], **corrected), m_new, v_new) == pytest.approx(expected)
    expected = adaptive.adamw_step(theta, m, v, g, t, eta, beta, 0.75, eps, lam)
    assert value(sheet["AdamW"][1], **corrected) == pytest.approx(expected[0])


LATER = [
    ("precision", "spacing", r"2^{\lfloor \log_2 \lvert x\rvert \rfloor - f}",
     lambda x, f: 2.0 ** (floor(log2(abs(x))) - f), [(1.5, 7), (-0.75, 10), (300.0, 7)]),
    ("flops", "matmul_flops", "2mkn", lambda m, k, n: 2 * m * k * n, [(3, 5, 7)]),
    ("flops", "linear_forward_flops", "2BD^2", lambda b, d, _: 2 * b * d * d, [(3, 5, 5)]),
    ("flops", "linear_backward_flops", "4BD^2", lambda b, d, _: 4 * b * d * d, [(3, 5, 5)]),
    ("flops", "mlp_training_flops", "2BD^2(3L-1)", lambda b, d, n: 2 * b * d * d * (3 * n - 1), [(8, 64, 5)]),
    ("flops", "training_flops", "6NT", lambda n, t: 6 * n * t, [(7e9, 2e12)]),
    ("flops", "training_days", r"F / (n\,P \cdot \text{MFU} \cdot 86400)", lambda f, n, p, u: f / (n * p * u * 86400),
     [(6.3e24, 1024, 989.5e12, 0.5)]),
    ("flops", "transformer_flops_per_token", "6N + 12Lds", lambda n, depth, d, s: 6 * n + 12 * depth * d * s,
     [(124_439_808, 12, 768, 1024)]),
    ("flops", "attainable_flops", r"\min(P,\; R\,F/Q)", lambda f, q, p, r: min(p, r * f / q),
     [(1e9, 1e6, 1e12, 1e11), (1e6, 1e6, 1e12, 1e11)]),
    ("checkpointing", "checkpoint_memory", r"\lceil L/k \rceil + k", lambda n, k: ceil(n / k) + k,
     [(100, 10), (10, 3)]),
    ("checkpointing", "recompute_cost", "L(L+1)/2", lambda n, _: n * (n + 1) // 2, [(7, None)]),
    ("planning", "transformer_parameters", "Vh + sh + L(12h^2 + 13h) + 2h",
     lambda n, h, v, s: v * h + s * h + n * (12 * h * h + 13 * h) + 2 * h, [(12, 768, 50257, 1024)]),
    ("planning", "transformer_activation_bytes", r"L\,s b h\,(34 + 5as/h)",
     lambda b, s, h, n, a: n * s * b * h * 34 + n * 5 * a * s * s * b, [(2, 1024, 768, 12, 12)]),
    ("planning", "gpu_hours", r"6NT / (P \cdot \text{MFU} \cdot 3600)", lambda n, t, p, u: 6 * n * t / (p * u * 3600),
     [(7e9, 2e12, 312e12, 0.4)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name", "formula", "function", "arguments"), LATER, ids=lambda value: str(value)[:24]
)
def test_a_formula_of_the_sheet_is_the_references(module, name, formula, function, arguments):
    assert formula in text("formulas")
    reference = getattr(importlib.import_module(f"solutions.{module}"), name)
    for given in arguments:
        assert reference(*given) == pytest.approx(function(*given), rel=1e-12)


def test_the_worked_rows_are_right():
    page = text("formulas")
    (params,) = re.findall(r"\$V = 50257\$, \$s = 1024\$: ([\d,]+) parameters", page)
    L, h, V, s = 12, 768, 50257, 1024
    assert int(params.replace(",", "")) == V * h + s * h + L * (12 * h * h + 13 * h) + 2 * h
    (days,) = re.findall(r"MFU 0.5: ([\d.]+) days", page)
    assert round(6 * 70e9 * 15e12 / (1024 * 989.5e12 * 0.5 * 86400), 1) == float(days)


def test_the_warm_up_of_the_sheet_is_the_references():
    (row,) = [row for row in rows(text("formulas"), "Batches and schedules") if row[0].startswith("warm-up")]
    assert r"\min\bigl(1, (i+1)/w\bigr)" in row[1]
    for step in (0, 2, 3, 4, 9):
        assert large_batch.warmup_lr(step, 4, 0.5) == 0.5 * min(1, (step + 1) / 4)


# -- teaching --------------------------------------------------------------------------------------------------------


def plan():
    return {row[0]: row[1:] for row in rows(text("teaching"), "A term's plan") if re.match(r"\d\d_", row[0])}


@pytest.mark.parametrize("name", chapters())
def test_the_plan_agrees_with_the_chapter(name):
    read, do, exercises, points = plan()[name]
    minutes = re.search(r"\*\*Time\.\*\* About (\d+) minutes to read, (\d+) to do", text(name)).groups()
    assert (read, do) == minutes
    assert int(exercises) == len(chapters()[name].exercises)
    assert Fraction(points) == Fraction(chapters()[name].points)


def collected(section):
    """File names given as examples below a heading, each with what the patterns printed there make of it."""
    part = text("teaching").split(f"### {section}\n")[1].split("\n### ")[0]
    (examples,) = re.findall(r"```text\n(.*?)```", part, flags=re.DOTALL)
    patterns = re.findall(r"named_regexp='([^']+)'", part)
    return [[re.match(p, f"/class/extracted/some name/{name}") for name in examples.splitlines()] for p in patterns]


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        ("From Canvas", [["4711", "4712", "4713", "4714"]]),
        ("From Moodle", [["1001", "1002", "1003", "1004"], ["Jane Doe", "Richard Roe", "Ana Díaz", "Kim Lee"]]),
    ],
)
def test_the_printed_patterns_find_the_students(section, wanted):
    for matches, students in zip(collected(section), wanted, strict=True):
        assert [match and match["student_id"] for match in matches] == students
        assert all("01_descent" in match["file_id"] and "/" not in match["file_id"] for match in matches)


def test_the_printed_patterns_take_no_junk():
    (canvas,), (moodle, by_name) = ([m[0].re for m in collected(s)] for s in ("From Canvas", "From Moodle"))
    assert not canvas.match("/class/extracted/submissions/doejane_4711_90214_toolbox.py")
    for pattern in (moodle, by_name):
        assert not pattern.match("/c/x/Kim Lee_1004_assignsubmission_file/handin/__MACOSX/._01_descent.ipynb")


def test_the_printed_penalty_does_what_it_says():
    (code,) = [c for c in re.findall(r"```python\n(.*?)```", text("teaching"), flags=re.DOTALL) if "TenPercent" in c]

    class Settings:
        class AssignLatePenalties:
            plugin_class = None

    exec(code, {"c": Settings})
    penalty = Settings.AssignLatePenalties.plugin_class().late_submission_penalty
    hour, day = 3600, 86400
    late = (60, hour, hour + 1, day + hour, day + 2 * hour, 30 * day)
    assert [penalty("s", 20.0, seconds) for seconds in late] == [0, 0, 2, 2, 4, 20]


# -- corrections -----------------------------------------------------------------------------------------------------


def test_corrections_are_dated_newest_first_and_say_what_happens_to_grades():
    entries = re.split(r"^### ", text("corrections").split("## Report one")[0], flags=re.MULTILINE)[1:]
    days = [date.fromisoformat(entry[:10]) for entry in entries]
    assert days
    assert days == sorted(days, reverse=True)
    for entry in entries:
        assert all(
            mark in entry for mark in ("**Where.**", "**What was wrong.**", "**What holds now.**", "**Grades.**")
        )


# -- assistants ------------------------------------------------------------------------------------------------------


def test_the_policy_answers_what_a_reader_asks():
    page = text("assistants")
    for heading in ("Why", "What is fine", "What is not", "Prompts that help you learn", "Say what you used",
                    "What the instructor sees", "For instructors"):  # fmt: skip
        assert f"\n## {heading}\n" in page


# -- the catalogue's topics ------------------------------------------------------------------------------------------

TOPICS = {
    "01": ["SGD", "momentum", "optimizer.state|holds"],
    "02": ["AdaGrad", "RMSProp", "bias correction", "L2", "AdamW"],
    "03": ["variance|noise", "linear scaling", "warm-up|Warm up", "LARS", "LAMB", "When not to use"],
    "04": ["7 billion", "70 billion", "75 %|0.75", "stage 1", r"D \\times D|D\^2", "activations"],
    "05": ["swallow", "stall", "master"],
    "06": ["4BD", "6BD|6BN", "144|143.9", "6ND"],
    "07": ["accumulat", r"sqrt ?\{?L", r"L\(L\+1\)|L \(L"],
}


@pytest.mark.parametrize("name", chapters())
def test_the_catalogues_topics_are_on_the_page(name):
    page = text(name)
    assert [topic for topic in TOPICS.get(name[:2], []) if not re.search(topic, page, flags=re.IGNORECASE)] == []
