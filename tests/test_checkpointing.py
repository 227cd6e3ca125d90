"""Chapter 07: the reference against autograd and PyTorch, the mistakes against the hidden cases, the page."""

import importlib.util
import math
import re
from itertools import combinations, pairwise
from pathlib import Path

import jupytext
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judging import outcome, same
from torch.utils.checkpoint import checkpoint

from autograder.calls import LocalAnswer
from autograder.exercises.checkpointing import CHAPTER, hold_one_segment, run_layers
from autograder.scoring import judge
from solutions import checkpointing

PAGE = Path(__file__).parents[1] / "chapters" / "07_checkpointing.md"
SPEC = importlib.util.spec_from_file_location("toolbox", PAGE.with_name("toolbox.py"))
toolbox = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(toolbox)


def network(seed, rows, widths):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, widths[0])), [rng.normal(size=shape) for shape in pairwise(widths)]


def by_autograd(x, weights, grad_y):
    leaves = [torch.tensor(w, requires_grad=True) for w in weights]
    h = torch.tensor(x)
    for leaf in leaves:
        h = torch.relu(h @ leaf)
    return h.detach().numpy(), [g.numpy() for g in torch.autograd.grad(h, leaves, torch.tensor(grad_y))]


def test_points():
    assert [(e.name, e.points) for e in CHAPTER.exercises] == [
        ("accumulate_gradients", 4),
        ("forward_keep_all", 2),
        ("backward", 4),
        ("forward_checkpointed", 3),
        ("backward_checkpointed", 6),
        ("checkpoint_memory", 2),
        ("recompute_cost", 2),
        ("best_interval", 2),
        ("checkpoint_sequential", 4),
    ]


# -- the reference -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 50), st.sampled_from([(), (3,), (3, 2)]))
def test_accumulated_gradient(rows, micro_batch, shape):
    rng = np.random.default_rng(rows)
    xs, ys = rng.normal(size=(rows, *shape)), rng.normal(size=(rows, *shape))
    handed = []

    def grad_fn(x, y):
        handed.append(len(x))
        return np.mean(x * y, axis=0)

    result = checkpointing.accumulate_gradients(grad_fn, xs, ys, micro_batch)
    np.testing.assert_allclose(result, np.mean(xs * ys, axis=0), rtol=1e-12, atol=1e-14)
    assert np.shape(result) == shape
    assert sum(handed) == rows
    assert max(handed) <= micro_batch


@pytest.mark.parametrize("micro_batch", [0, -1, -100])
def test_accumulate_refuses(micro_batch):
    with pytest.raises(ValueError, match="it can be 1 or more"):
        checkpointing.accumulate_gradients(None, np.ones(3), np.ones(3), micro_batch)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=9), st.integers(1, 5), st.integers(0, 99))
def test_by_hand_against_autograd(widths, rows, seed):
    x, weights = network(seed, rows, widths)
    y, activations = checkpointing.forward_keep_all(x, weights)
    grad_y = np.random.default_rng(seed + 1).normal(size=y.shape)
    right, grads = by_autograd(x, weights, grad_y)
    np.testing.assert_allclose(y, right, rtol=1e-12, atol=1e-12)
    plain = checkpointing.backward(activations, weights, grad_y)
    for ours, theirs in zip(plain, grads, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    for every in range(1, len(weights) + 1):
        again, checkpoints = checkpointing.forward_checkpointed(x, weights, every)
        assert list(checkpoints) == list(range(0, len(weights), every))
        assert checkpointing.checkpoint_memory(len(weights), every) == len(checkpoints) + every
        np.testing.assert_array_equal(again, y)
        for ours, theirs in zip(
            checkpointing.backward_checkpointed(checkpoints, weights, every, grad_y), plain, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_best_interval():
    assert [checkpointing.best_interval(depth) for depth in (1, 2, 3, 10, 64, 1000)] == [1, 1, 1, 2, 8, 28]
    for depth in range(1, 400):
        least = checkpointing.checkpoint_memory(depth, checkpointing.best_interval(depth))
        assert least == math.ceil(2 * math.sqrt(depth))
    within = [k for k in range(1, 1001) if checkpointing.checkpoint_memory(1000, k) <= 1.1 * 64]
    assert (within[0], within[-1]) == (20, 50)


@pytest.mark.parametrize("depth", [1, 2, 9, 50])
def test_recompute_cost_is_what_starting_over_takes(depth):
    assert checkpointing.recompute_cost(depth, None) == sum(i + 1 for i in range(depth))
    assert {checkpointing.recompute_cost(depth, every) for every in range(1, depth + 1)} == {depth}


@pytest.mark.parametrize(("depth", "segments"), [(5, 2), (7, 3), (8, 7), (16, 4)])
@pytest.mark.parametrize("needs_grad", [True, False])
def test_checkpoint_sequential(depth, segments, needs_grad):
    x, weights = network(1, 4, [5] * (depth + 1))

    def plain(layers, x, segments):
        for layer in layers:
            x = layer(x)
        return x

    for report in ("output", "gradients", *["input"] * needs_grad):
        ours, theirs = (
            run_layers(answer, x, weights, segments, report, needs_grad)
            for answer in (checkpointing.checkpoint_sequential, plain)
        )
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b)
    ours = checkpointing.checkpoint_sequential
    assert run_layers(ours, x, weights, segments, "forwards", needs_grad) == [2] * depth
    assert run_layers(ours, x, weights, segments, "segments", needs_grad) == segments


# -- the instruments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 3, 4, 7, 20])
def test_live_tensors(every):
    """The formula, and one gradient on its way."""
    layers = [torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.ReLU()) for _ in range(20)]

    def loss():
        h = torch.ones(16, 4)
        for start in range(0, 20, every):
            h = checkpoint(torch.nn.Sequential(*layers[start : start + every]), h, use_reentrant=False)
        return h.sum()

    with toolbox.live_tensors(at_least=256) as live:
        loss().backward()
    assert live.peak == 256 * (checkpointing.checkpoint_memory(20, every) + 1)
    assert live.timeline[0] == live.timeline[-1] == 0


def test_live_tensors_leaves_out_views_and_what_was_there():
    weight = torch.ones(8, 8)
    with toolbox.live_tensors() as live:
        kept = weight.t() @ weight
        view = kept[0]
        weight.add_(1)
    assert live.peak == view.untyped_storage().nbytes() == 256


def test_numpy_peak():
    result, most = toolbox.numpy_peak(lambda: np.ones(10_000).sum() + np.ones(50_000).sum())
    assert result == 60_000
    assert 400_000 <= most < 420_000


def test_the_memory_case_refuses_who_holds_everything():
    exercise = CHAPTER["backward_checkpointed"]
    holds = next(m for m in exercise.misconceptions if m.name == "everything_again").function
    with pytest.raises(MemoryError, match="at once"):
        hold_one_segment(holds, 1024, 4, 96, 8)
    result = judge(exercise, LocalAnswer(holds))
    assert len(result.failed) == 1


# -- the hidden cases --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", CHAPTER.exercises, ids=lambda e: e.name)
def test_misconceptions_differ(exercise):
    results = {m.name: [outcome(exercise, c, m.function) for c in exercise.cases] for m in exercise.misconceptions}
    for a, b in combinations(results, 2):
        assert any(
            not same(x, y, 1e3 * case.rtol, 1e3 * case.atol)
            for case, x, y in zip(exercise.cases, results[a], results[b], strict=True)
        ), (a, b)


def test_torchs_helper_loses_one_case_only():
    exercise = CHAPTER["checkpoint_sequential"]
    helper = next(m for m in exercise.misconceptions if m.name == "torchs_own_helper")
    (failure,) = judge(exercise, LocalAnswer(helper.function)).failed
    assert failure.case == "each layer's forward runs twice"


def test_a_mistake_in_the_memory_costs_once():
    exercise = CHAPTER["best_interval"]
    wrong = next(m for m in CHAPTER["checkpoint_memory"].misconceptions if m.name == "short_segment_not_counted")
    scope = {"checkpoint_memory": wrong.function}
    exec("def built(depth):\n    return min(range(1, depth + 1), key=lambda k: checkpoint_memory(depth, k))", scope)
    alone = judge(exercise, LocalAnswer(scope["built"]))
    together = judge(exercise, LocalAnswer(scope["built"]), {"checkpoint_memory": LocalAnswer(wrong.function)})
    assert alone.points < together.points == exercise.points
    assert "costs only once" in together.message


# -- the page ----------------------------------------------------------------------------------------------------------


def test_sections_are_headings_of_the_page():
    headings = set(re.findall(r"^#+ (.+?)\s*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    for exercise in CHAPTER.exercises:
        for section in (exercise.section, *(m.section for m in exercise.misconceptions)):
            assert section in headings, section


def test_figures_and_code():
    cells = [c for c in jupytext.read(PAGE, fmt="md:myst").cells if c.cell_type == "code"]
    assert [line for c in cells for line in c.source.splitlines() if len(line) > 80] == []
    figures = [c for c in cells if "plt.show()" in c.source]
    assert len(figures) >= 6
    for cell in figures:
        assert cell.source.rstrip().endswith("plt.show()")
        assert cell.metadata["mystnb"]["figure"]["name"].startswith("fig-")
        assert len(cell.metadata["mystnb"]["figure"]["caption"]) > 40
        assert len(cell.metadata["mystnb"]["image"]["alt"]) > 40
