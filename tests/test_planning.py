"""Chapter 08: the reference against PyTorch and published tables, the mistakes against the hidden cases, the page."""

import importlib.util
import math
from itertools import product
from pathlib import Path

import jupytext
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from autograder.calls import LocalAnswer
from autograder.exercises.planning import CHAPTER
from autograder.scoring import judge
from solutions import memory, planning

PAGES = Path(__file__).parents[1] / "chapters"
SPEC = importlib.util.spec_from_file_location("toolbox", PAGES / "toolbox.py")
toolbox = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(toolbox)
GB = 10**9
PLANS = list(product(("none", "selective", "full"), range(4)))
SIZES = st.integers(1, 64)


def test_points():
    assert [(e.name, e.points) for e in CHAPTER.exercises] == [
        ("transformer_parameters", 3),
        ("transformer_activation_bytes", 4),
        ("memory_per_gpu", 4),
        ("smallest_plan", 5),
        ("gpu_hours", 2),
    ]


# -- the reference -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 50), st.integers(1, 50))
def test_parameters_of_torchs_layers(n_layers, heads, vocab, seq_len):
    """nn.TransformerEncoderLayer has the same arrays as a layer of GPT-2."""
    width = 4 * heads
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, norm_first=True, device="meta")
    parts = [nn.Embedding(vocab, width, device="meta"), nn.Embedding(seq_len, width, device="meta")]
    parts += [*([layer] * n_layers), nn.LayerNorm(width, device="meta")]
    counted = sum(weight.numel() for part in parts for weight in part.parameters())
    assert planning.transformer_parameters(n_layers, width, vocab, seq_len) == counted


@pytest.mark.parametrize(
    ("sizes", "published"),
    [
        ((12, 768, 50257, 1024), 124_439_808),
        ((24, 1024, 50257, 1024), 354_823_168),
        ((36, 1280, 50257, 1024), 774_030_080),
        ((48, 1600, 50257, 1024), 1_557_611_200),
        ((96, 12288, 50257, 2048), 174_604_259_328),
        ((24, 2048, 50368, 2048), 1_315_950_592),
        ((32, 2560, 50368, 2048), 2_651_837_440),
        ((32, 4096, 50368, 2048), 6_658_859_008),
        ((40, 5120, 50368, 2048), 12_853_954_560),
        ((48, 7168, 50368, 2048), 29_975_214_080),
        ((80, 8192, 50368, 2048), 64_862_437_376),
    ],
)
def test_published_parameters(sizes, published):
    assert planning.transformer_parameters(*sizes) == published


@given(SIZES, SIZES, SIZES, SIZES, SIZES)
def test_activations_add_up_from_the_papers_pieces(b, s, h, n_layers, a):
    sbh, square = s * b * h, a * s * s * b
    attention = 2 * sbh + 4 * sbh + 2 * square + square + (2 * square + 2 * sbh) + 2 * sbh + sbh
    mlp = 2 * sbh + 8 * sbh + 8 * sbh + sbh
    norms = 2 * sbh + 2 * sbh
    kept = planning.transformer_activation_bytes
    assert kept(b, s, h, n_layers, a) == n_layers * (attention + mlp + norms)
    assert kept(b, s, h, n_layers, a, "none") - kept(b, s, h, n_layers, a, "selective") == 5 * square * n_layers
    assert kept(b, s, h, n_layers, a, "full") == 2 * sbh * n_layers
    assert isinstance(kept(b, s, h, n_layers, a), int)


@pytest.mark.parametrize("recompute", ["", "None", "half", "SELECTIVE", None])
def test_activations_refuse(recompute):
    with pytest.raises(ValueError, match="it can be none, selective, full"):
        planning.transformer_activation_bytes(1, 2, 3, 4, 5, recompute)


def test_shares_of_the_papers_section_5():
    """Selective recomputation saves 70 % for GPT-3 and 65 % for MT-NLG."""
    for heads, width, n_layers, saved in ((96, 12288, 96, 70), (128, 20480, 105, 65)):
        sizes = (1, 2048, width, n_layers, heads)
        kept = {r: planning.transformer_activation_bytes(*sizes, r) for r in ("none", "selective")}
        assert round(100 * (1 - kept["selective"] / kept["none"])) == saved


@given(st.integers(0, 10**12), st.integers(1, 4096), st.integers(0, 3), st.integers(0, 8))
def test_a_card_holds_chapter_04s_ledger_and_the_activations(n_params, n_gpus, stage, micro_batch):
    model = {"n_params": n_params, "n_layers": 3, "width": 8, "heads": 2, "seq_len": 5, "micro_batch": micro_batch}
    cluster = {"n_gpus": n_gpus, "gpu_bytes": 1, "peak_flops": 1.0}
    for recompute in ("none", "selective", "full"):
        states = memory.zero_ledger(n_params, n_gpus, stage)["total"]
        kept = planning.transformer_activation_bytes(micro_batch, 5, 8, 3, 2, recompute)
        found = planning.memory_per_gpu(model, cluster, stage, recompute)
        assert isinstance(found, float)
        assert math.isclose(found, states + kept, rel_tol=1e-12)


@pytest.mark.parametrize(("stage", "recompute"), [(4, "none"), (-1, "full"), (1, "some")])
def test_a_card_refuses(stage, recompute):
    model = {"n_params": 1, "n_layers": 1, "width": 1, "heads": 1, "seq_len": 1, "micro_batch": 1}
    with pytest.raises(ValueError, match="it can be"):
        planning.memory_per_gpu(model, {"n_gpus": 1, "gpu_bytes": 1, "peak_flops": 1}, stage, recompute)


@given(st.integers(0, 10**6), st.integers(1, 64), st.integers(0, 20), st.integers(0, 2 * 10**7))
def test_the_plan_fits_and_no_earlier_one_does(n_params, n_gpus, micro_batch, gpu_bytes):
    model = {"n_params": n_params, "n_layers": 2, "width": 16, "heads": 2, "seq_len": 64, "micro_batch": micro_batch}
    cluster = {"n_gpus": n_gpus, "gpu_bytes": gpu_bytes, "peak_flops": 1.0}
    plan = planning.smallest_plan(model, cluster)
    bills = [planning.memory_per_gpu(model, cluster, stage, recompute) for recompute, stage in PLANS]
    if plan is None:
        assert min(bills) > gpu_bytes
    else:
        place = PLANS.index((plan["recompute"], plan["stage"]))
        assert plan["bytes_per_gpu"] == bills[place] <= gpu_bytes
        assert all(bill > gpu_bytes for bill in bills[:place])


@pytest.mark.parametrize(
    ("n_params", "tokens", "peak", "hours", "percent"),
    [
        (6_738_415_616, 2e12, 312e12, 184_320, 39.1),
        (13_015_864_320, 2e12, 312e12, 368_640, 37.7),
        (68_976_648_192, 2e12, 312e12, 1_720_320, 42.8),
        (8_030_261_248, 15e12, 989.5e12, 1.3e6, 15.6),
        (70_553_706_496, 15e12, 989.5e12, 6.4e6, 27.9),
        (405_853_388_800, 15.6e12, 989.5e12, 30.84e6, 34.6),
    ],
)
def test_utilisation_of_the_llama_runs(n_params, tokens, peak, hours, percent):
    assert round(100 * planning.gpu_hours(n_params, tokens, peak, 1.0) / hours, 1) == percent


def test_144_days():
    assert round(planning.gpu_hours(70e9, 15e12, 989.5e12, 0.5) / 24 / 1024, 1) == 143.9


def test_plan_of_thirteen_billion_on_eight_cards():
    model = {"n_params": 12_853_954_560, "n_layers": 40, "width": 5120, "heads": 40, "seq_len": 2048}
    cluster = {"n_gpus": 8, "gpu_bytes": 80 * GB, "peak_flops": 989.5e12}
    plans = [planning.smallest_plan({**model, "micro_batch": b}, cluster) for b in (1, 2, 3, 64)]
    assert [(p["recompute"], p["stage"]) for p in plans] == [
        ("none", 3),
        ("selective", 2),
        ("selective", 3),
        ("full", 3),
    ]
    assert planning.smallest_plan({**model, "micro_batch": 65}, cluster) is None


# -- the hidden cases --------------------------------------------------------------------------------------------------


def mistake(exercise, name):
    return next(m.function for m in CHAPTER[exercise].misconceptions if m.name == name)


def test_a_mistake_in_the_activations_costs_once():
    wrong = mistake("transformer_activation_bytes", "one_head")

    def built(model, cluster, stage, recompute):
        kept = wrong(
            model["micro_batch"], model["seq_len"], model["width"], model["n_layers"], model["heads"], recompute
        )
        whole = (16, 4, 2, 0)[stage]
        return model["n_params"] * (whole + (16 - whole) / cluster["n_gpus"]) + kept

    exercise = CHAPTER["memory_per_gpu"]
    alone = judge(exercise, LocalAnswer(built))
    together = judge(exercise, LocalAnswer(built), {"transformer_activation_bytes": LocalAnswer(wrong)})
    assert alone.points < together.points == exercise.points
    assert "costs only once" in together.message


def test_a_mistake_in_the_bill_costs_once():
    wrong = mistake("memory_per_gpu", "activations_shared")

    def built(model, cluster):
        for recompute, stage in PLANS:
            size = wrong(model, cluster, stage, recompute)
            if size <= cluster["gpu_bytes"]:
                return {"recompute": recompute, "stage": stage, "bytes_per_gpu": size}
        return None

    exercise = CHAPTER["smallest_plan"]
    alone = judge(exercise, LocalAnswer(built))
    together = judge(exercise, LocalAnswer(built), {"memory_per_gpu": LocalAnswer(wrong)})
    assert alone.points < together.points == exercise.points


def unregistered_answers():
    """Right answers that nobody registered, and wrong ones, with whether they are right."""
    import numpy as np

    def ints(n_layers, width, vocab, seq_len):
        return int(vocab * width + seq_len * width + n_layers * (12 * width**2 + 13 * width) + 2 * width)

    def floats(n_layers, width, vocab, seq_len):
        return 12.0 * n_layers * width**2 * (1 + 13 / (12 * width) + (vocab + seq_len + 2) / (12 * n_layers * width))

    def narayanan(n_layers, width, vocab, seq_len):
        return 12 * n_layers * width**2 * (1 + 13 / (12 * width) + (vocab + seq_len) / (12 * n_layers * width))

    def array_of_one(n_params, n_tokens, peak_flops, mfu):
        return np.array(6 * n_params * n_tokens / peak_flops / mfu / 3600.0)

    def single(n_params, n_tokens, peak_flops, mfu):
        return np.float32(6 * n_params * n_tokens / peak_flops / mfu / 3600.0)

    def constant(n_params, n_tokens, peak_flops, mfu):
        return 4.0

    return [
        ("transformer_parameters", ints, True),
        ("transformer_parameters", narayanan, False),
        ("gpu_hours", array_of_one, True),
        ("gpu_hours", single, True),
        ("gpu_hours", constant, False),
    ]


@pytest.mark.parametrize(("name", "answer", "right"), unregistered_answers())
def test_answers_that_nobody_registered(name, answer, right):
    exercise = CHAPTER[name]
    assert (judge(exercise, LocalAnswer(answer)).points == exercise.points) is right


# -- the page ----------------------------------------------------------------------------------------------------------


def cells():
    return jupytext.read(PAGES / "08_planning.md", fmt="md:myst").cells


@pytest.fixture(scope="module")
def block():
    """The layer that the page measures on."""
    scope = {"math": math, "nn": nn, "torch": torch, "F": nn.functional}
    scope["checkpoint"] = importlib.import_module("torch.utils.checkpoint").checkpoint
    (source,) = (c.source for c in cells() if c.source.startswith("class Block"))
    exec(source[: source.index("class Transformer")], scope)
    return scope["Block"]


@pytest.mark.parametrize(("b", "s", "h", "a"), [(2, 24, 16, 4), (1, 40, 24, 3)])
@pytest.mark.parametrize(("dtype", "e"), [(torch.bfloat16, 2), (torch.float32, 4)])
def test_a_layer_keeps_what_the_page_says(block, b, s, h, a, dtype, e):
    def saved_by(**kind):
        layer = block(h, a, dtype=dtype, **kind)
        x = torch.ones(b, s, h, dtype=dtype, requires_grad=True)
        with toolbox.SavedActivations(layer) as saved:
            layer(x)
        return saved.bytes

    rows, square, tiny = s * b * h, a * s * s * b, 4 * s * b * e
    assert saved_by() == 16 * e * rows + e * square + tiny
    assert saved_by(core="again") == 16 * e * rows + tiny
    assert saved_by(dropout=0.1) == 18 * e * rows + 3 * e * square + tiny
    assert saved_by(core="fused") < 16 * e * rows + e * square


def test_a_layer_of_the_page_computes_attention(block):
    torch.manual_seed(0)
    plain, fused, again = (block(16, 4, core=core) for core in ("plain", "fused", "again"))
    fused.load_state_dict(plain.state_dict())
    again.load_state_dict(plain.state_dict())
    x = torch.randn(2, 7, 16)
    for other in (fused, again):
        torch.testing.assert_close(other(x), plain(x), rtol=1e-5, atol=1e-6)


def test_figures_have_alt_text_and_captions():
    figures = [c for c in cells() if c.cell_type == "code" and "plt.show()" in c.source]
    assert len(figures) >= 6
    for cell in figures:
        assert cell.source.rstrip().endswith("plt.show()")
        assert cell.metadata["mystnb"]["figure"]["name"].startswith("fig-")
        assert len(cell.metadata["mystnb"]["figure"]["caption"]) > 40
        assert len(cell.metadata["mystnb"]["image"]["alt"]) > 40


def test_lines_of_code_are_short():
    long = [line for c in cells() if c.cell_type == "code" for line in c.source.splitlines() if len(line) > 80]
    assert long == []
