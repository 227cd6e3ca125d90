"""Chapter 06: the reference against PyTorch and published tables, the mistakes against the hidden cases, the page."""

import importlib.util
import re
import time
from pathlib import Path

import jupytext
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from autograder.calls import LocalAnswer
from autograder.exercises.flops import CHAPTER
from autograder.scoring import judge
from solutions import flops

PAGES = Path(__file__).parents[1] / "chapters"
SPEC = importlib.util.spec_from_file_location("toolbox", PAGES / "toolbox.py")
toolbox = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(toolbox)
SIZES = st.integers(1, 12)


def test_points():
    assert [(e.name, e.points) for e in CHAPTER.exercises] == [
        ("matmul_flops", 1),
        ("linear_forward_flops", 1),
        ("linear_backward", 4),
        ("linear_backward_flops", 2),
        ("mlp_training_flops", 3),
        ("training_flops", 1),
        ("training_days", 2),
        ("model_flops_utilization", 2),
        ("transformer_flops_per_token", 3),
        ("attainable_flops", 3),
    ]


# -- the reference against PyTorch -------------------------------------------------------------------------------------


def counted(model, x):
    """FLOPs of forward and of backward on the meta device, where nothing is computed."""
    with FlopCounterMode(display=False) as counter:
        y = model(x)
        forward = counter.get_total_flops()
        y.sum().backward()
    return forward, counter.get_total_flops() - forward


def stack(depth, width):
    layers = [(torch.nn.Linear(width, width, bias=False, device="meta"), torch.nn.ReLU()) for _ in range(depth)]
    return torch.nn.Sequential(*(part for pair in layers for part in pair))


@pytest.mark.parametrize(("batch", "d_in", "d_out"), [(1, 1, 1), (6, 5, 7), (64, 128, 32), (4096, 12288, 49152)])
def test_a_layer(batch, d_in, d_out):
    layer = torch.nn.Linear(d_in, d_out, bias=False, device="meta")
    forward, backward = counted(layer, torch.ones(batch, d_in, device="meta", requires_grad=True))
    assert flops.matmul_flops(batch, d_in, d_out) == flops.linear_forward_flops(batch, d_in, d_out) == forward
    assert flops.linear_backward_flops(batch, d_in, d_out) == backward


@pytest.mark.parametrize("input_grad", [False, True])
@pytest.mark.parametrize(("batch", "width", "depth"), [(8, 64, 5), (1, 1, 1), (3, 7, 2), (4096, 8192, 80)])
def test_a_stack(batch, width, depth, input_grad):
    x = torch.ones(batch, width, device="meta", requires_grad=input_grad)
    assert flops.mlp_training_flops(batch, width, depth, input_grad) == sum(counted(stack(depth, width), x))


def test_the_well_known_numbers_of_the_stack():
    assert flops.mlp_training_flops(8, 64, 5) == 917_504
    assert flops.mlp_training_flops(8, 64, 5, input_grad=True) == 983_040 == flops.training_flops(5 * 64**2, 8)


@given(SIZES, SIZES, SIZES)
def test_backward_is_autograds(batch, d_in, d_out):
    rng = np.random.default_rng(batch + 100 * d_in + 10_000 * d_out)
    x, w, grad_y = (rng.normal(size=shape) for shape in ((batch, d_in), (d_in, d_out), (batch, d_out)))
    x_torch, w_torch = (torch.tensor(a, requires_grad=True) for a in (x, w))
    (x_torch @ w_torch).backward(torch.tensor(grad_y))
    grad_x, grad_w = flops.linear_backward(x, w, grad_y)
    np.testing.assert_allclose(grad_x, x_torch.grad, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(grad_w, w_torch.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("s", [16, 64, 256])
def test_a_transformer_layer(s):
    """12 h² parameters, attention written out: 72 b s h² (1 + s / 6h) FLOPs."""
    b, h, a = 2, 32, 4

    def products(x, qkv, out, up, down):
        q, k, v = (x @ qkv).view(b, s, 3, a, h // a).permute(2, 0, 3, 1, 4)
        mixed = torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
        x = x + mixed.transpose(1, 2).reshape(b, s, h) @ out
        return torch.relu(x @ up) @ down

    shapes = ((b, s, h), (h, 3 * h), (h, h), (h, 4 * h), (4 * h, h))
    arrays = [torch.ones(*shape, device="meta", requires_grad=True) for shape in shapes]
    total = sum(counted(lambda x: products(x, *arrays[1:]), arrays[0]))
    each = flops.transformer_flops_per_token(12 * h * h, 1, h, s)
    assert b * s * each == total == 72 * b * s * h * h + 12 * b * s * s * h


# -- the reference against published numbers ---------------------------------------------------------------------------


def test_144_days():
    run = flops.training_flops(70e9, 15e12)
    assert run == 6.3e24
    assert round(flops.training_days(run, 1024, 989.5e12, 0.5), 2) == 143.93


@pytest.mark.parametrize("mfu", [0, -0.1, 1.0001, 50, float("nan")])
def test_an_impossible_share_is_refused(mfu):
    with pytest.raises(ValueError, match="it can be"):
        flops.training_days(1e20, 8, 1e14, mfu)


@given(st.floats(1e15, 1e26), st.integers(1, 10**5), st.floats(1e9, 1e16), st.floats(0.01, 1))
def test_days_and_utilization_undo_each_other(total, cards, peak, mfu):
    seconds = 86_400 * flops.training_days(total, cards, peak, mfu)
    assert flops.model_flops_utilization(total / seconds, 1.0, cards, peak) == pytest.approx(mfu)


@pytest.mark.parametrize(
    ("millions", "billions", "printed"),
    [(125, 300, 2.25e20), (356, 300, 6.41e20), (1320, 300, 2.38e21), (174_600, 300, 3.14e23), (355, 2000, 4.26e21)],
)
def test_table_d1_of_the_gpt_3_paper(millions, billions, printed):
    assert flops.training_flops(millions * 1e6, billions * 1e9) == pytest.approx(printed, rel=0.003)


@pytest.mark.parametrize(
    ("speed", "size", "layers", "d", "cards", "peak", "bare", "whole"),
    [
        (65_430, 530e9, 105, 20480, 2240, 312e12, 29.7, 30.2),
        (238_300, 540e9, 118, 48 * 256, 6144, 275e12, 45.7, 46.2),
    ],
)
def test_appendix_b_of_the_palm_paper(speed, size, layers, d, cards, peak, bare, whole):
    for printed, n_layers in ((bare, 0), (whole, layers)):
        each = flops.transformer_flops_per_token(size, n_layers, d, 2048)
        share = 100 * flops.model_flops_utilization(speed, each, cards, peak)
        assert share == pytest.approx(printed, abs=0.08)


@pytest.mark.parametrize(
    ("size", "layers", "width", "s", "speed", "printed"),
    [
        (1_315_950_592, 24, 2048, 2048, 44_123, 40.6),
        (64_862_437_376, 80, 8192, 2048, 1_058, 43.36),
        (6_918_905_856, 32, 4096, 65_536, 1_956, 28.59),
    ],
)
def test_mosaicmls_table(size, layers, width, s, speed, printed):
    each = flops.transformer_flops_per_token(size, layers, width, s)
    assert 100 * flops.model_flops_utilization(speed, each, 1, 989.5e12) == pytest.approx(printed, abs=0.03)


@given(*(st.floats(1e-3, 1e15) for _ in range(4)))
def test_the_roof(work, moved, peak, bandwidth):
    rate = flops.attainable_flops(work, moved, peak, bandwidth)
    assert rate <= peak
    assert rate == pytest.approx(work / max(work / peak, moved / bandwidth))


@given(*(st.integers(1, 10**6) for _ in range(4)))
def test_counts_are_whole_numbers(a, b, c, d):
    counts = (
        flops.matmul_flops(a, b, c),
        flops.linear_forward_flops(a, b, c),
        flops.linear_backward_flops(a, b, c),
        flops.mlp_training_flops(a, b, c),
        flops.transformer_flops_per_token(a, b, c, d),
    )
    assert all(type(count) is int for count in counts)


# -- the toolbox -------------------------------------------------------------------------------------------------------


def test_fastest_takes_the_best_of_its_repeats():
    waits = iter([0.5, 0.3, 0.02, 0.3, 0.3])
    assert 0.02 <= toolbox.fastest(lambda: time.sleep(next(waits)), repeats=4) < 0.3
    assert next(waits, None) is None


@pytest.mark.parametrize(
    ("number", "shown"),
    [(9.895e14, "990 TFLOP/s"), (3.35e12, "3.35 TFLOP/s"), (12, "12 FLOP/s"), (1500, "1.5 kFLOP/s"), (0, "0 FLOP/s")],
)
def test_metric(number, shown):
    assert toolbox.metric(number, "FLOP/s") == shown


# -- the hidden cases --------------------------------------------------------------------------------------------------


def test_a_mistake_in_the_product_costs_once():
    wrong = next(m.function for m in CHAPTER["matmul_flops"].misconceptions if m.name == "multiplications_only")
    scope = {"matmul_flops": wrong}
    exec("def built(batch, d_in, d_out):\n    return 2 * matmul_flops(d_out, batch, d_in)\n", scope)
    exercise = CHAPTER["linear_backward_flops"]
    alone = judge(exercise, LocalAnswer(scope["built"]))
    together = judge(exercise, LocalAnswer(scope["built"]), {"matmul_flops": LocalAnswer(wrong)})
    assert alone.points < together.points == exercise.points
    assert "costs only once" in together.message


# -- the page ----------------------------------------------------------------------------------------------------------

CELLS = jupytext.read(PAGES / "06_flops.md", fmt="md:myst").cells


def test_figures_have_alt_text_and_captions():
    figures = [c for c in CELLS if c.cell_type == "code" and "plt.show()" in c.source]
    assert len(figures) >= 8
    for cell in figures:
        assert cell.source.rstrip().endswith("plt.show()")
        assert cell.metadata["mystnb"]["figure"]["name"].startswith("fig-")
        assert len(cell.metadata["mystnb"]["figure"]["caption"]) > 40
        assert len(cell.metadata["mystnb"]["image"]["alt"]) > 40


def test_cells_that_time_are_not_compared():
    for cell in CELLS:
        if cell.cell_type == "code" and re.search(r"\bfastest\(|\bmachine\b", cell.source):
            assert "nbval-ignore-output" in cell.metadata["tags"]
            assert "not compared" in cell.source


def test_every_section_that_a_lesson_names_is_on_the_page():
    headings = {line.lstrip("#").strip() for c in CELLS if c.cell_type == "markdown" for line in c.source.splitlines()}
    for exercise in CHAPTER.exercises:
        assert {exercise.section, *(m.section for m in exercise.misconceptions)} <= headings
