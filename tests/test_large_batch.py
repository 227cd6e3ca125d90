"""Chapter 03: the reference against torch and a published package, the mistakes against the hidden cases, the page."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import pytorch_optimizer
import torch
from judging import failures, outcome, pairs, same

from autograder.exercises.large_batch import CHAPTER
from solutions import large_batch

PAGE = Path(__file__).parents[1] / "chapters" / "03_large_batch.md"
SHAPES = [(5,), (4, 3), (2, 3, 4)]


def test_points():
    assert [(e.name, e.points) for e in CHAPTER.exercises] == [
        ("linear_scaled_lr", 2),
        ("warmup_lr", 2),
        ("trust_ratios", 2),
        ("lars_step", 5),
        ("lamb_step", 6),
    ]


# --- schedules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "rate"), [(256, 0.1), (8192, 3.2), (64, 0.025), (1024, 0.4)])
def test_goyal_reference_rate(batch, rate):
    assert large_batch.linear_scaled_lr(0.1, 256, batch) == pytest.approx(rate, rel=1e-15)


@pytest.mark.parametrize(("base_batch", "batch"), [(0, 8), (8, 0), (-1, 8), (8, -1), (0, 0)])
def test_no_batch_without_an_example(base_batch, batch):
    with pytest.raises(ValueError, match="batch is"):
        large_batch.linear_scaled_lr(0.1, base_batch, batch)


@pytest.mark.parametrize("warmup", [1, 3, 8])
def test_warmup_against_torch(warmup):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.7)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warmup))
    for step in range(12):
        assert large_batch.warmup_lr(step, warmup, 0.7) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-14)
        optimizer.step()
        schedule.step()


def test_no_warmup():
    assert [large_batch.warmup_lr(step, 0, 0.7) for step in range(3)] == [0.7] * 3


# --- LARS and LAMB, against torch -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), *SHAPES])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lars_is_sgd_with_a_local_rate(shape, decay):
    """With a constant global rate, LARS is PyTorch's SGD, whose gradient is scaled and decayed before every step."""
    rng = np.random.default_rng(1)
    theta, velocity, lr, trust = rng.normal(size=shape), np.zeros(shape), 0.6, 0.1
    parameter = torch.nn.Parameter(torch.tensor(theta))
    optimizer = torch.optim.SGD([parameter], lr=lr, momentum=0.8)
    for _ in range(6):
        grad = rng.normal(size=shape)
        flat, push = parameter.detach().flatten(), torch.tensor(grad) + decay * parameter.detach()
        length = flat.dot(flat) ** 0.5
        parameter.grad = push * trust * length / (torch.tensor(grad).square().sum() ** 0.5 + decay * length)
        optimizer.step()
        theta, velocity = large_batch.lars_step(theta, velocity, grad, lr, 0.8, decay, trust)
        np.testing.assert_allclose(theta, parameter.detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(velocity, lr * optimizer.state[parameter]["momentum_buffer"].numpy(), rtol=1e-12)


@pytest.mark.parametrize("shape", [(), *SHAPES])
@pytest.mark.parametrize("decay", [0.0, 0.4])
def test_lamb_is_adamw_at_the_layers_length(shape, decay):
    """LAMB steps along AdamW's step, stretched to lr times the layer's norm."""
    rng = np.random.default_rng(2)
    theta, m, v = rng.normal(size=shape), np.zeros(shape), np.zeros(shape)
    parameter = torch.nn.Parameter(torch.tensor(theta))
    optimizer = torch.optim.AdamW([parameter], lr=1.0, betas=(0.8, 0.95), eps=0.1, weight_decay=decay)
    for t in range(1, 7):
        grad = rng.normal(size=shape)
        before = parameter.detach().clone()
        parameter.grad = torch.tensor(grad)
        optimizer.step()
        step = before - parameter.detach()
        with torch.no_grad():
            parameter.copy_(before - 0.3 * before.norm() / step.norm() * step)
        theta, m, v = large_batch.lamb_step(theta, m, v, grad, t, 0.3, 0.8, 0.95, 0.1, decay)
        np.testing.assert_allclose(theta, parameter.detach().numpy(), rtol=1e-11)
        np.testing.assert_allclose(m, optimizer.state[parameter]["exp_avg"].numpy(), rtol=1e-12)
        np.testing.assert_allclose(v, optimizer.state[parameter]["exp_avg_sq"].numpy(), rtol=1e-12)


# --- LARS and LAMB, against a published package -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lars_against_package(shape, decay):
    """pytorch_optimizer has the rate outside the velocity, so the rate is constant here and velocity = lr · buffer.

    It treats arrays of fewer than two dimensions as plain SGD (next test), and writes into the gradient.
    """
    rng = np.random.default_rng(3)
    theta, velocity = rng.normal(size=shape), np.zeros(shape)
    parameter = torch.nn.Parameter(torch.tensor(theta))
    optimizer = pytorch_optimizer.LARS([parameter], lr=0.6, weight_decay=decay, momentum=0.8, trust_coefficient=0.1)
    for _ in range(6):
        grad = rng.normal(size=shape)
        parameter.grad = torch.tensor(grad)
        optimizer.step()
        theta, velocity = large_batch.lars_step(theta, velocity, grad, 0.6, 0.8, decay, 0.1)
        np.testing.assert_allclose(theta, parameter.detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(velocity, 0.6 * optimizer.state[parameter]["momentum_buffer"].numpy(), rtol=1e-12)


def test_package_leaves_vectors_to_sgd():
    parameter = torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    parameter.grad = torch.tensor([0.6, -0.8], dtype=torch.float64)
    pytorch_optimizer.LARS([parameter], lr=0.5, weight_decay=0.1).step()
    np.testing.assert_allclose(parameter.detach().numpy(), [2.7, 4.4], rtol=1e-12)
    ours, _ = large_batch.lars_step(np.array([3.0, 4.0]), np.zeros(2), np.array([0.6, -0.8]), 0.5, weight_decay=0.1)
    assert not np.allclose(ours, parameter.detach().numpy())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("decay", [0.0, 0.4])
def test_lamb_against_package(shape, decay, monkeypatch):
    """pytorch_optimizer's Lamb, brought to the paper's form.

    It has no bias correction in the direction (a huge t switches ours off), but divides the whole step by 1 - beta1^t
    after the ratio unless adam_debias is True; it limits the norm of the parameters to 10 (lifted), decays the
    parameters outside the ratio unless weight_decouple is False, and adds eps to the norm of the direction (tiny).
    """
    monkeypatch.setattr(pytorch_optimizer.Lamb, "clamp", float("inf"))
    rng = np.random.default_rng(4)
    theta, m, v = 20 * rng.normal(size=shape), np.zeros(shape), np.zeros(shape)
    parameter = torch.nn.Parameter(torch.tensor(theta))
    settings = {"betas": (0.8, 0.95), "eps": 1e-13, "weight_decay": decay, "weight_decouple": False}
    optimizer = pytorch_optimizer.Lamb([parameter], lr=0.3, adam_debias=True, **settings)
    for _ in range(6):
        grad = rng.normal(size=shape)
        parameter.grad = torch.tensor(grad)
        optimizer.step()
        theta, m, v = large_batch.lamb_step(theta, m, v, grad, 10**9, 0.3, 0.8, 0.95, 1e-13, decay)
        np.testing.assert_allclose(theta, parameter.detach().numpy(), rtol=1e-10)
        np.testing.assert_allclose(m, optimizer.state[parameter]["exp_avg"].numpy(), rtol=1e-12)
        np.testing.assert_allclose(v, optimizer.state[parameter]["exp_avg_sq"].numpy(), rtol=1e-12)


# --- properties -------------------------------------------------------------------------------------------------------


def test_toy_of_the_notes():
    """‖θ‖ = 5, ‖g‖ = 1: a local rate of 0.00499 in the paper's form, where notes give 5."""
    theta, grad = np.array([3.0, 4.0]), np.array([1.0, 0.0])
    _, velocity = large_batch.lars_step(theta, np.zeros(2), grad, 1.0, weight_decay=0.0005)
    local = velocity[0] / (grad + 0.0005 * theta)[0]
    assert f"{local:.5f}" == "0.00499"
    assert large_batch.trust_ratios([theta], [grad]) == [5.0]


@pytest.mark.parametrize("scale", [1e-3, 7.0, 1e4])
def test_scale_of_gradient_and_layer(scale):
    rng = np.random.default_rng(5)
    theta, grad, zero = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), np.zeros((3, 4))
    plain = theta - large_batch.lars_step(theta, zero, grad, 0.5)[0]
    np.testing.assert_allclose(theta - large_batch.lars_step(theta, zero, scale * grad, 0.5)[0], plain, rtol=1e-9)
    larger = scale * theta - large_batch.lars_step(scale * theta, zero, grad / scale, 0.5)[0]
    np.testing.assert_allclose(larger, scale * plain, rtol=1e-9)
    lamb = theta - large_batch.lamb_step(theta, zero, zero, grad, 1, 0.5)[0]
    assert np.linalg.norm(lamb) == pytest.approx(0.5 * np.linalg.norm(theta), rel=1e-12)


def test_package_first_step_is_ten_times_as_long():
    theta, grad, zero = np.array([3.0, 4.0]), np.array([0.2, -0.7]), np.zeros(2)
    parameter = torch.nn.Parameter(torch.tensor(theta))
    parameter.grad = torch.tensor(grad)
    pytorch_optimizer.Lamb([parameter], lr=0.01, eps=1e-13).step()
    theirs = theta - parameter.detach().numpy()
    ours = theta - large_batch.lamb_step(theta, zero, zero, grad, 1, 0.01, eps=1e-13, weight_decay=0)[0]
    np.testing.assert_allclose(theirs, 10 * ours, rtol=1e-9)


def test_lamb_without_decay_needs_no_correction():
    rng = np.random.default_rng(6)
    theta, grad, zero = rng.normal(size=9), rng.normal(size=9), np.zeros(9)
    early, late = (
        large_batch.lamb_step(theta, zero, zero, grad, t, 0.1, eps=1e-14, weight_decay=0)[0] for t in (1, 10**9)
    )
    np.testing.assert_allclose(early, late, rtol=1e-10)


def test_the_record_adds_up():
    sequences = 512 * 1_000_000
    assert sequences == 15_625 * 32_768
    assert 0.9 * sequences / 65_536 + 0.1 * sequences / 32_768 == pytest.approx(8599, rel=1e-3)
    speedup, hardware = 65.2, 1024 / 16
    assert speedup / hardware == pytest.approx(1.018, abs=1e-3)


# --- mistakes, variants, page -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning")
@pytest.mark.parametrize(("exercise", "misconception"), pairs(CHAPTER, "misconceptions"))
def test_misconception_loses_points(exercise, misconception):
    assert failures(exercise, misconception.function, looser=100)


@pytest.mark.parametrize(("exercise", "variant"), pairs(CHAPTER, "variants"))
def test_variant_is_accepted(exercise, variant):
    assert failures(exercise, variant) == []


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning")
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
        result = outcome(exercise, case, exercise.reference)
        assert result is case.raises if case.raises else not isinstance(result, type), case.name
    for names in ([c.name for c in exercise.cases], [m.name for m in exercise.misconceptions]):
        assert len(names) == len(set(names))
    assert len(exercise.misconceptions) >= 3
    assert len(exercise.variants) >= 2


def code_cells():
    return re.findall(
        r"^```\{code-cell\}[^\n]*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_figures_have_alt_text_and_captions():
    figures = [cell for cell in code_cells() if "plt.show()" in cell]
    assert len(figures) >= 6
    for cell in figures:
        assert re.search(r'alt: ?["|>]', cell), cell[:200]
        assert re.search(r"name: fig-lb-[\w-]+", cell), cell[:200]
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
        assert f"from solutions.large_batch import {exercise.name}" in cell
        assert f"{exercise.name}(" in test
        assert text.count("```{exercise} " + exercise.name + "\n") == 1
    assert text.count("solutions") == len(CHAPTER.exercises)
