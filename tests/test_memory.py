"""Chapter 04: the reference against PyTorch and published tables, the mistakes against the hidden cases, the page."""

import importlib.util
import math
import re
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path

import jupytext
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from autograder.calls import LocalAnswer
from autograder.exercises.memory import CHAPTER, run_optimizer
from autograder.scoring import judge
from solutions import memory

PAGES = Path(__file__).parents[1] / "chapters"
SPEC = importlib.util.spec_from_file_location("toolbox", PAGES / "toolbox.py")
toolbox = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(toolbox)
GB = 10**9
COPIES = {"sgd": 0, "momentum": 1, "adagrad": 1, "rmsprop": 1, "lars": 1, "adam": 2, "adamw": 2, "lamb": 2}
LINES = ["parameters", "gradients", "master", "states", "total"]


def stack(depth, width, activation=torch.nn.ReLU, **where):
    layers = [(torch.nn.Linear(width, width, bias=False, **where), activation()) for _ in range(depth)]
    return torch.nn.Sequential(*(part for pair in layers for part in pair))


def test_points():
    assert [(e.name, e.points) for e in CHAPTER.exercises] == [
        ("model_parameters", 1),
        ("optimizer_state_elements", 3),
        ("memory_ledger", 6),
        ("optimizer_share", 1),
        ("largest_model", 2),
        ("gpus_needed", 2),
        ("zero_ledger", 5),
        ("activation_bytes", 2),
    ]


# -- the reference -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "width"), [(1, 1), (1, 7), (4, 3), (3, 64)])
def test_parameters_of_a_stack(depth, width):
    assert memory.model_parameters(depth, width) == sum(p.numel() for p in stack(depth, width).parameters())


@pytest.mark.parametrize(
    ("kind", "settings", "copies"),
    [
        ("SGD", {"lr": 0.1}, 0),
        ("SGD", {"lr": 0.1, "momentum": 0.9}, 1),
        ("Adagrad", {}, 1),
        ("RMSprop", {}, 1),
        ("RMSprop", {"centered": True, "momentum": 0.9}, 3),
        ("Adam", {}, 2),
        ("AdamW", {}, 2),
        ("Adam", {"amsgrad": True}, 3),
        ("NAdam", {}, 2),
        ("RAdam", {}, 2),
        ("Adadelta", {}, 2),
        ("Adamax", {}, 2),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_state_of_torchs_optimizers(kind, settings, copies, dtype):
    shapes = [(3, 5), (5,), (2, 1, 4)]
    found = run_optimizer(memory.optimizer_state_elements, kind, settings, shapes, 2, dtype=dtype)
    assert found == {"elements": copies * 28}


def test_state_of_a_single_number_and_of_a_frozen_parameter():
    count = memory.optimizer_state_elements
    assert run_optimizer(count, "AdamW", {}, [(), (1,)], 3) == {"elements": 4}
    assert run_optimizer(count, "Adam", {}, [(6,), (4,)], 1, frozen=(0,)) == {"elements": 8}
    assert run_optimizer(count, "Adam", {}, [(6,), (4,)], 0) == {"elements": 0}
    assert run_optimizer(count, "Adagrad", {}, [(6,), (4,)], 0) == {"elements": 10}
    assert run_optimizer(count, "AdamW", {}, [(10**6, 10**6)], device="meta") == {"elements": 2 * 10**12}


@given(st.integers(0, 10**13), st.sampled_from(sorted(COPIES)), *(st.integers(0, 8) for _ in range(4)))
def test_ledger(n_params, optimizer, param, grad, master, state):
    ledger = memory.memory_ledger(
        n_params, optimizer, param_bytes=param, grad_bytes=grad, master_bytes=master, state_bytes=state
    )
    assert list(ledger) == LINES
    assert ledger["total"] == n_params * (param + grad + master + COPIES[optimizer] * state)
    assert all(isinstance(value, int) for value in ledger.values())


@pytest.mark.parametrize("arguments", [(1, "adafactor"), (1, "AdamW"), (1, ""), (-1,), (-1, "sgd")])
def test_ledger_refuses(arguments):
    with pytest.raises(ValueError, match=r"it can be"):
        memory.memory_ledger(*arguments)


def test_seven_and_seventy_billion():
    seven = memory.memory_ledger(7 * GB)
    assert seven == dict(zip(LINES, [14 * GB, 14 * GB, 28 * GB, 56 * GB, 112 * GB], strict=True))
    assert memory.optimizer_share(seven) == 0.75
    assert memory.gpus_needed(memory.memory_ledger(70 * GB)["total"], 80 * GB) == 14
    assert round((seven["master"] + seven["states"]) / 2**30, 2) == 78.23


@pytest.mark.parametrize(
    ("each", "keywords", "billions"),
    [
        (10, {"grad_bytes": 0, "master_bytes": 0}, 64.0),
        (12, {"master_bytes": 0}, 53.3),
        (16, {}, 40.0),
        (16, {"param_bytes": 4, "grad_bytes": 4, "master_bytes": 0}, 40.0),
        (18, {"grad_bytes": 4}, 35.6),
        (20, {"grad_bytes": 6}, 32.0),
    ],
)
def test_conventions(each, keywords, billions):
    assert memory.memory_ledger(1, **keywords)["total"] == each
    assert round(memory.largest_model(8, 80 * GB, each) / GB, 1) == billions


@given(st.integers(1, 10**15), st.integers(1, 10**12))
def test_cards_hold_the_bytes_and_one_less_does_not(total, gpu):
    cards = memory.gpus_needed(total, gpu)
    assert (cards - 1) * gpu < total <= cards * gpu


@given(st.integers(1, 2048), st.integers(1, 10**12), st.integers(1, 64))
def test_the_largest_model_fits_and_one_more_does_not(n, gpu, each):
    largest = memory.largest_model(n, gpu, each)
    assert largest * each <= n * gpu < (largest + 1) * each


TABLE_1 = {
    7_500_000_000: "120 120 120 52.5 41.3 30 35.6 21.6 7.5 31.4 16.6 1.88 30.4 15.4 0.47 30.1 15.1 0.12",
    128 * GB: "2048 2048 2048 896 704 512 608 368 128 536 284 32 518 263 8 513 257 2",
    1000 * GB: "16000 16000 16000 7000 5500 4000 4750 2875 1000 4187 2218 250 4046 2054 62.5 4011 2013 15.6",
}


@pytest.mark.parametrize("n_params", TABLE_1)
def test_table_1_of_the_zero_paper(n_params):
    """The 7.5-billion columns are rounded, the others cut off."""
    rule = ROUND_HALF_UP if n_params < 100 * GB else ROUND_DOWN
    places = [(cards, stage) for cards in (1, 4, 16, 64, 256, 1024) for stage in (1, 2, 3)]
    for (cards, stage), printed in zip(places, TABLE_1[n_params].split(), strict=True):
        total = memory.zero_ledger(n_params, cards, stage)["total"] / GB
        digits = Decimal(printed)
        assert Decimal(repr(total)).quantize(digits, rounding=rule) == digits, (cards, stage)


@pytest.mark.parametrize(("stage", "printed"), [(0, 2), (1, 7.6), (2, 14.4), (3, 128)])
def test_table_2_of_the_zero_paper(stage, printed):
    assert round(32 / memory.zero_ledger(1, 64, stage)["total"], 1) == printed


def test_table_of_the_playbook():
    for billions, without, more in ((1, 16, 20), (7, 112, 140), (70, 1120, 1400), (405, 6480, 8100)):
        assert memory.memory_ledger(billions * GB)["total"] == without * GB
        assert memory.memory_ledger(billions * GB, grad_bytes=6)["total"] == more * GB


@given(st.integers(0, 10**12), st.integers(1, 4096), st.sampled_from(sorted(COPIES)))
def test_stages(n_params, n_gpus, optimizer):
    whole = memory.memory_ledger(n_params, optimizer)
    stages = [memory.zero_ledger(n_params, n_gpus, stage, optimizer) for stage in range(4)]
    assert all(list(ledger) == LINES for ledger in stages)
    assert stages[0] == whole
    for line in LINES:
        assert math.isclose(stages[3][line] * n_gpus, whole[line], rel_tol=1e-12)
        sizes = [ledger[line] for ledger in stages]
        assert sizes == sorted(sizes, reverse=True)
    for ledger in stages:
        assert math.isclose(ledger["total"], sum(ledger[line] for line in LINES[:-1]), rel_tol=1e-12)


@pytest.mark.parametrize("arguments", [(1, 1, 4), (1, 1, -1), (1, 0, 0), (1, -2, 1), (1, 1, 1, "x"), (-1, 1, 1)])
def test_zero_ledger_refuses(arguments):
    with pytest.raises(ValueError, match=r"it can be"):
        memory.zero_ledger(*arguments)


def test_seventy_billion_fit_on_cards_of_80_gb_only_when_everything_is_sharded():
    assert memory.zero_ledger(70 * GB, 14, 3)["total"] == 80 * GB
    assert memory.zero_ledger(70 * GB, 13, 3)["total"] > 80 * GB
    assert memory.zero_ledger(70 * GB, 10**9, 2)["total"] > 140 * GB
    assert memory.zero_ledger(70 * GB, 10**9, 1)["total"] > 280 * GB


def test_the_seeds_small_network():
    """D = 4, L = 3, B = 2 with one copy of 4-byte state and no master copy: 96 + 96 + 192 + 48 bytes."""
    ledger = memory.memory_ledger(memory.model_parameters(3, 4), "adagrad", master_bytes=0)
    assert [*ledger.values()] == [96, 96, 0, 192, 384]
    assert memory.activation_bytes(2, 4, 3) == 48


# -- the meter of saved activations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 2), (torch.float32, 4)])
def test_saved_activations(depth, dtype, size):
    one = memory.activation_bytes(6, 16, 1, size)
    for activation, wanted in ((torch.nn.ReLU, depth + 1), (torch.nn.Tanh, depth + 1), (torch.nn.GELU, 2 * depth)):
        model = stack(depth, 16, activation, dtype=dtype)
        with toolbox.SavedActivations(model) as saved:
            model(torch.ones(6, 16, dtype=dtype)).sum().backward()
        assert saved.bytes == wanted * one


def test_saved_activations_without_gradients():
    model = stack(2, 8)
    with toolbox.SavedActivations(model) as saved, torch.no_grad():
        model(torch.ones(3, 8))
    assert saved.bytes == saved.requests == 0


def test_all_requests_to_save():
    model = stack(5, 64)
    with toolbox.SavedActivations(model) as saved:
        model(torch.ones(8, 64))
    assert (saved.requests, saved.bytes) == (42 * 8 * 64 * 4, 6 * 8 * 64 * 4)


def test_table_is_aligned(capsys):
    toolbox.table(["name", "GB"], [["a", 1], ["longer", 2000]])
    assert capsys.readouterr().out == "name      GB\n------  ----\na          1\nlonger  2000\n"


# -- the hidden cases --------------------------------------------------------------------------------------------------


def test_a_mistake_in_the_ledger_costs_once():
    exercise = CHAPTER["zero_ledger"]
    wrong = next(m.function for m in CHAPTER["memory_ledger"].misconceptions if m.name == "gradients_in_four_bytes")
    scope = {"memory_ledger": wrong}
    source = "def built(n_params, n_gpus, stage, optimizer='adamw'):\n"
    source += "    if stage not in (0, 1, 2, 3) or n_gpus < 1:\n        raise ValueError\n"
    source += "    whole = memory_ledger(n_params, optimizer)\n"
    source += "    first = {'parameters': 3, 'gradients': 2, 'master': 1, 'states': 1}\n"
    source += "    part = {k: whole[k] / (n_gpus if stage >= s else 1) for k, s in first.items()}\n"
    source += "    return {**part, 'total': sum(part.values())}\n"
    exec(source, scope)
    alone = judge(exercise, LocalAnswer(scope["built"]))
    together = judge(exercise, LocalAnswer(scope["built"]), {"memory_ledger": LocalAnswer(wrong)})
    assert alone.points < together.points == exercise.points
    assert "costs only once" in together.message


# -- the pages ---------------------------------------------------------------------------------------------------------


def cells(name):
    return jupytext.read(PAGES / f"{name}.md", fmt="md:myst").cells


@pytest.mark.parametrize("name", ["04_memory", "which_16"])
def test_figures_have_alt_text_and_captions(name):
    figures = [c for c in cells(name) if c.cell_type == "code" and "plt.show()" in c.source]
    assert figures
    for cell in figures:
        assert cell.source.rstrip().endswith("plt.show()")
        assert cell.metadata["mystnb"]["figure"]["name"].startswith("fig-")
        assert len(cell.metadata["mystnb"]["figure"]["caption"]) > 40
        assert len(cell.metadata["mystnb"]["image"]["alt"]) > 40


@pytest.mark.parametrize("name", ["04_memory", "which_16"])
def test_lines_of_code_are_short(name):
    long = [line for c in cells(name) if c.cell_type == "code" for line in c.source.splitlines() if len(line) > 80]
    assert long == []


def test_which_16_imports_no_solutions_and_follows_its_chapter():
    text = (PAGES / "which_16.md").read_text(encoding="utf-8")
    assert "import solutions" not in text
    assert "from solutions" not in text
    contents = (PAGES.parent / "_toc.yml").read_text(encoding="utf-8")
    assert contents.index("chapters/04_memory") < contents.index("chapters/which_16")


def test_the_toolbox_counts_no_state_and_writes_no_ledger():
    source = (PAGES / "toolbox.py").read_text(encoding="utf-8")
    assert not re.search(r"\.state\b", source)
    assert not re.search(r"\b(?:adamw|lamb)\b[\"']?:\s*2\b", source)
