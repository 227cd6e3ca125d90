"""Chapter 05: the reference against PyTorch's own casts and scaler, the mistakes against the hidden cases, the page."""

import importlib.util
import math
from pathlib import Path

import jupytext
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from autograder.calls import LocalAnswer
from autograder.exercises.precision import CHAPTER
from autograder.scoring import judge
from solutions import precision

PAGES = Path(__file__).parents[1] / "chapters"
SPEC = importlib.util.spec_from_file_location("toolbox", PAGES / "toolbox.py")
toolbox = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(toolbox)
FORMATS = {torch.bfloat16: 7, torch.float16: 10, torch.float32: 23, torch.float64: 52}


def torch_bf16(x):
    return torch.tensor(np.asarray(x, np.float32)).to(torch.bfloat16).to(torch.float32).numpy()


def test_points():
    assert [(e.name, e.points) for e in CHAPTER.exercises] == [
        ("bf16_round", 5),
        ("spacing", 2),
        ("is_swallowed", 2),
        ("master_weight_step", 4),
        ("flushes_to_zero", 2),
        ("choose_loss_scale", 3),
        ("update_loss_scale", 3),
    ]


# -- the reference -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lower", [0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1234])
def test_rounding_of_every_upper_half(lower):
    """All 65,536 upper halves: normal and subnormal numbers, zeros, infinities, NaN; with ties and their neighbours."""
    words = (np.arange(2**16, dtype=np.uint32) << 16) | np.uint32(lower)
    x = words.view(np.float32)
    rounded = precision.bf16_round(x)
    assert rounded.dtype == np.float32
    np.testing.assert_array_equal(rounded, torch_bf16(x))
    finite = ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(rounded[finite]), np.signbit(x[finite]))
    assert not (rounded.view(np.uint32) & 0xFFFF).any()


@given(st.floats(width=32))
def test_rounding_of_any_float32(x):
    for number in (x, np.float32(x), np.array(x), np.array([[x]], np.float32)):
        rounded = precision.bf16_round(number)
        assert rounded.shape == np.shape(number)
        np.testing.assert_array_equal(rounded, torch_bf16(number))
        np.testing.assert_array_equal(precision.bf16_round(rounded), rounded)


def test_rounding_needs_no_contiguous_array_and_changes_nothing():
    x = np.linspace(-3, 3, 60, dtype=np.float32).reshape(6, 10)
    before = x.copy()
    np.testing.assert_array_equal(precision.bf16_round(x[::2, ::-3].T), torch_bf16(x)[::2, ::-3].T)
    np.testing.assert_array_equal(x, before)
    assert precision.bf16_round([]).shape == (0,)


def test_rounding_is_silent(recwarn):
    for word in (0xFFFFFFFF, 0x7F7FFFFF, 0x7F800000, 0xFFFF8000, 0):
        precision.bf16_round(np.array(word, np.uint32).view(np.float32))
    assert not recwarn.list


@pytest.mark.parametrize("dtype", FORMATS)
@given(st.floats(1e-4, 6e4), st.sampled_from([1, -1]))
def test_spacing_is_the_way_to_the_next_number(dtype, size, sign):
    here = torch.tensor(sign * size, dtype=torch.float64).to(dtype)
    beyond = torch.nextafter(here, torch.tensor(sign * math.inf, dtype=dtype))
    assert precision.spacing(here.item(), FORMATS[dtype]) == abs(beyond.double() - here.double()).item()


@pytest.mark.parametrize("exponent", [-1000, -126, -31, -29, 0, 3, 29, 47, 127, 1000])
def test_spacing_at_powers_of_two_and_just_below(exponent):
    x = 2.0**exponent
    assert precision.spacing(x, 7) == 2.0 ** (exponent - 7)
    assert precision.spacing(-math.nextafter(x, 0), 7) == 2.0 ** (exponent - 8)
    assert precision.spacing(x, 52) == math.ulp(x)


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, np.float32(0)])
def test_spacing_refuses_zero(zero):
    with pytest.raises(ValueError, match=r"it can be"):
        precision.spacing(zero, 7)


@given(st.integers(-(2**8), 2**8), st.integers(-20, 20), st.integers(-(2**14), 2**14), st.integers(-12, 0))
def test_swallowed_as_torch_adds(significand, exponent, update, down):
    weight = math.ldexp(significand, exponent)
    update = math.ldexp(update, exponent + down)
    before = torch.tensor(weight, dtype=torch.bfloat16)
    assert before.item() == weight
    added = torch.tensor(weight + update, dtype=torch.float32)
    if added.item() == weight + update:
        assert precision.is_swallowed(weight, update) is (added.to(torch.bfloat16) == before).item()


@pytest.mark.parametrize(("weight", "ratio"), [(1.0, 256), (1.5, 384), (1.984375, 508), (2.0, 256), (0.25, 256)])
def test_the_ratio_that_is_swallowed(weight, ratio):
    """An even weight swallows weight/256 at powers of two; the ratio rises to almost 512 just below the next."""
    assert precision.is_swallowed(weight, weight / ratio)
    assert not precision.is_swallowed(weight, weight / ratio * 1.001)


def test_ratio_just_below_a_power_of_two():
    half = precision.spacing(1.9921875, 7) / 2
    assert 1.9921875 / half == 510
    assert precision.is_swallowed(1.9921875, half * 0.999)
    assert not precision.is_swallowed(1.9921875, half)


@given(st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=6), st.floats(1e-6, 2))
def test_master_step_is_torchs_sgd_in_float32(numbers, lr):
    master = np.array(numbers, np.float32)
    grad = precision.bf16_round(master[::-1])
    parameter = torch.nn.Parameter(torch.tensor(master))
    parameter.grad = torch.tensor(grad)
    torch.optim.SGD([parameter], lr=lr).step()
    new, weight = precision.master_weight_step(master, grad, lr)
    assert new.dtype == weight.dtype == np.float32
    np.testing.assert_allclose(new, parameter.detach().numpy(), rtol=1e-6, atol=5e-6)  # torch may fuse
    np.testing.assert_array_equal(weight, torch_bf16(new))


@given(st.floats(width=32))
def test_flushing_as_torch_casts(x):
    cast = torch.tensor(x, dtype=torch.float32).to(torch.float16).item()
    assert precision.flushes_to_zero(x) is (x != 0 and cast == 0)


@given(st.floats(-(2.0**-23), 2.0**-23))
def test_flushing_as_numpy_casts(x):
    assert precision.flushes_to_zero(x) is bool(x != 0 and np.float16(x) == 0)


@given(st.lists(st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), max_size=4), max_size=4))
def test_loss_scale_is_the_largest_that_fits(numbers):
    grads = [np.array(row) for row in numbers]
    scale = precision.choose_loss_scale(grads)
    sizes = [abs(number) for row in numbers for number in row if abs(number) > 1e-290]
    if not any(number for row in numbers for number in row):
        assert scale == 1.0
    elif sizes:
        assert math.frexp(scale)[0] == 0.5
        assert max(sizes) * scale <= 65504 < max(sizes) * scale * 2


@pytest.mark.parametrize(("largest", "scale"), [(65504.0, 1), (65505.0, 0.5), (32752.0, 2), (2.0**-30, 2.0**45)])
def test_loss_scale_at_the_edge(largest, scale):
    assert precision.choose_loss_scale([np.array([-largest, largest / 3])]) == scale


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6), st.sampled_from([2.0, 4.0]))
def test_dynamic_scale_is_torchs(overflows, interval, growth):
    theirs, tracker = torch.tensor([1024.0]), torch.tensor([0], dtype=torch.int32)
    scale, clean = 1024.0, 0
    for overflow in overflows:
        torch._amp_update_scale_(theirs, tracker, torch.tensor([float(overflow)]), growth, 0.25, interval)
        scale, clean = precision.update_loss_scale(scale, overflow, clean, growth, 0.25, interval)
        if scale > 1e30:
            break
        assert (scale, clean) == (theirs.item(), tracker.item())


# -- what the page shows -----------------------------------------------------------------------------------------------


def test_what_a_thousand_steps_do():
    found = {}
    for dtype in FORMATS:
        weight = torch.nn.Parameter(torch.ones((), dtype=dtype))
        optimizer = torch.optim.AdamW([weight], lr=1e-4, weight_decay=0, foreach=False, fused=False)
        for _ in range(1000):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
        found[dtype] = weight.item()
    assert found[torch.bfloat16] == found[torch.float16] == 1.0
    assert found[torch.float32] == pytest.approx(0.9, abs=5e-5)
    assert found[torch.float64] == pytest.approx(0.9, abs=1e-6)


def test_bits_of_a_number():
    assert toolbox.bits(torch.tensor(-1.5)) == ("1", "01111111", "1" + 22 * "0")
    assert toolbox.bits(torch.tensor(1.0, dtype=torch.float16)) == ("0", "01111", 10 * "0")
    assert toolbox.bits(torch.tensor(6.5, dtype=torch.bfloat16)) == ("0", "10000001", "1010000")
    with pytest.raises(ValueError, match="float64"):
        toolbox.bits(torch.tensor(1.0, dtype=torch.float64))


# -- the hidden cases --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["is_swallowed", "flushes_to_zero"])
def test_every_hidden_case_of_a_yes_or_no_holds_both(name):
    for case in CHAPTER[name].cases:
        answers = [CHAPTER[name].reference(*each) for each in case.args[0]]
        assert set(answers) == {True, False}, case.name


@pytest.mark.parametrize("constant", [True, False, 0.0, 1.0, (1.0, 0), None])
def test_a_constant_earns_nothing(constant):
    for exercise in CHAPTER.exercises:
        assert judge(exercise, LocalAnswer(lambda *args, **kwargs: constant)).points == 0


@pytest.mark.parametrize("name", ["is_swallowed", "master_weight_step"])
@pytest.mark.parametrize("mistake", ["cuts_off", "ties_away", "float16", "eight_bits_of_fraction"])
def test_a_mistake_in_the_rounding_costs_once(name, mistake):
    exercise = CHAPTER[name]
    wrong = next(m.function for m in CHAPTER["bf16_round"].misconceptions if m.name == mistake)
    built = {
        "is_swallowed": lambda weight, update: wrong(weight + update) == weight,
        "master_weight_step": lambda master, grad, lr: (
            master - np.float32(lr) * grad,
            wrong(master - np.float32(lr) * grad),
        ),
    }[name]
    alone = judge(exercise, LocalAnswer(built))
    together = judge(exercise, LocalAnswer(built), {"bf16_round": LocalAnswer(wrong)})
    assert alone.points <= together.points == exercise.points
    if alone.points < exercise.points:
        assert "costs only once" in together.message


# -- the page ----------------------------------------------------------------------------------------------------------


def cells():
    return jupytext.read(PAGES / "05_precision.md", fmt="md:myst").cells


def test_figures_have_alt_text_and_captions():
    figures = [c for c in cells() if c.cell_type == "code" and "plt.show()" in c.source]
    assert figures
    for cell in figures:
        assert cell.source.rstrip().endswith("plt.show()")
        assert cell.metadata["mystnb"]["figure"]["name"].startswith("fig-")
        assert len(cell.metadata["mystnb"]["figure"]["caption"]) > 40
        assert len(cell.metadata["mystnb"]["image"]["alt"]) > 40


def test_lines_of_code_are_short():
    long = [line for c in cells() if c.cell_type == "code" for line in c.source.splitlines() if len(line) > 80]
    assert long == []


def test_every_section_that_a_lesson_names_is_on_the_page():
    headings = {
        line.lstrip("# ")
        for cell in cells()
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("##")
    }
    for exercise in CHAPTER.exercises:
        assert {exercise.section, *(m.section for m in exercise.misconceptions)} <= headings
