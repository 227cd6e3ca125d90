"""Chapter 01: the reference against PyTorch, the mistakes against the hidden cases, the page against the registry."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from judging import failures, outcome, pairs, same

from autograder.exercises.descent import CHAPTER
from solutions import descent

PAGE = Path(__file__).parents[1] / "chapters" / "01_descent.md"


def test_points():
    promised = [
        ("sgd_step", 2),
        ("momentum_step", 4),
        ("heavy_ball_step", 3),
        ("heavy_ball_lr", 2),
        ("train_epoch", 5),
    ]
    assert [(e.name, e.points) for e in CHAPTER.exercises][: len(promised)] == promised


@pytest.mark.parametrize("shape", [(), (4,), (3, 2)])
@pytest.mark.parametrize("mu", [0.0, 0.5, 0.9])
def test_against_torch(shape, mu):
    rng = np.random.default_rng(0)
    theta, velocity = rng.normal(size=shape), np.zeros(shape)
    parameter = torch.nn.Parameter(torch.tensor(theta))
    optimizer = torch.optim.SGD([parameter], lr=0.3, momentum=mu, dampening=0)
    for _ in range(7):
        grad = rng.normal(size=shape)
        parameter.grad = torch.tensor(grad)
        optimizer.step()
        plain = descent.sgd_step(theta, grad, 0.3)
        theta, velocity = descent.heavy_ball_step(theta, velocity, grad, 0.3, mu)
        if mu == 0:
            np.testing.assert_array_equal(plain, theta)
        else:
            np.testing.assert_allclose(optimizer.state[parameter]["momentum_buffer"].numpy(), velocity, rtol=1e-14)
        np.testing.assert_allclose(parameter.detach().numpy(), theta, rtol=1e-13)


@pytest.mark.parametrize("beta", [0.0, 0.6, 0.9, 0.99])
def test_two_forms_walk_one_path(beta):
    curvature = np.array([1.0, 25.0])
    average = ball = np.array([10.0, 1.0])
    v_average = v_ball = np.zeros(2)
    for _ in range(50):
        average, v_average = descent.momentum_step(average, v_average, curvature * average, 0.05, beta)
        rate = descent.heavy_ball_lr(0.05, beta)
        ball, v_ball = descent.heavy_ball_step(ball, v_ball, curvature * ball, rate, beta)
        np.testing.assert_allclose(ball, average, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(v_ball * (1 - beta), v_average, rtol=1e-9, atol=1e-12)


def test_train_epoch_lowers_the_loss():
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    batches = list(zip(x.split(16), (x @ torch.ones(3, 1)).split(16), strict=True))
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = descent.train_epoch(model, torch.nn.MSELoss(), batches, optimizer)
    for _ in range(20):
        last = descent.train_epoch(model, torch.nn.MSELoss(), iter(batches), optimizer)
    assert len(first) == len(last) == 4
    assert all(isinstance(loss, float) for loss in first)
    assert max(last) < 1e-3 * min(first)


@pytest.mark.parametrize(("exercise", "misconception"), pairs(CHAPTER, "misconceptions"))
def test_misconception_loses_points(exercise, misconception):
    assert failures(exercise, misconception.function, looser=100)


@pytest.mark.parametrize(("exercise", "variant"), pairs(CHAPTER, "variants"))
def test_variant_is_accepted(exercise, variant):
    assert failures(exercise, variant) == []


@pytest.mark.parametrize("exercise", CHAPTER.exercises, ids=lambda e: e.name)
def test_misconceptions_differ(exercise):
    results = {m.name: [outcome(exercise, c, m.function) for c in exercise.cases] for m in exercise.misconceptions}
    for a, b in combinations(results, 2):
        assert any(
            not same(x, y, 1e3 * case.rtol, 1e3 * case.atol)
            for case, x, y in zip(exercise.cases, results[a], results[b], strict=True)
        ), (a, b)


@pytest.mark.parametrize("exercise", CHAPTER.exercises, ids=lambda e: e.name)
def test_cases_run_and_names_are_unique(exercise):
    for case in exercise.cases:
        assert not isinstance(outcome(exercise, case, exercise.reference), type), case.name
    for names in ([c.name for c in exercise.cases], [m.name for m in exercise.misconceptions]):
        assert len(names) == len(set(names))
    assert len(exercise.misconceptions) >= 3
    assert len(exercise.variants) >= 2


def test_sections_are_headings_of_the_page():
    headings = set(re.findall(r"^#+ (.+?)\s*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    for exercise in CHAPTER.exercises:
        for section in (exercise.section, *(m.section for m in exercise.misconceptions)):
            assert section in headings, section


def code_cells():
    return re.findall(
        r"^```\{code-cell\}[^\n]*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_figures_have_alt_text_and_captions():
    figures = [cell for cell in code_cells() if "plt.show()" in cell]
    assert len(figures) >= 5
    for cell in figures:
        assert re.search(r'alt: ?["|>]', cell), cell[:200]
        assert re.search(r"name: fig-[\w-]+", cell), cell[:200]
        assert "caption:" in cell, cell[:200]
        assert cell.rstrip().endswith("plt.show()"), cell[-200:]


def test_each_exercise_has_its_card_its_cell_and_its_test():
    text = PAGE.read_text(encoding="utf-8")
    cells = code_cells()
    kinds = [
        (kind, cell)
        for cell in cells
        for kind in ("exercise", "test")
        if re.search(rf"tags: \[[^]]*\b{kind}\b[^]]*\]", cell)
    ]
    assert [kind for kind, _ in kinds] == ["exercise", "test"] * len(CHAPTER.exercises)
    for exercise, (_, cell), (_, test) in zip(CHAPTER.exercises, kinds[::2], kinds[1::2], strict=True):
        assert f"from solutions.descent import {exercise.name}" in cell
        assert f"{exercise.name}(" in test
        assert text.count("```{exercise} " + exercise.name + "\n") == 1
    assert text.count("solutions") == len(CHAPTER.exercises)
