"""Chapter 02: the reference against PyTorch and published numbers, the mistakes against the hidden cases, the page."""

import importlib
import inspect
import io
import re
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import failures, outcome, pairs, same

from autograder.calls import LocalAnswer
from autograder.exercises.adaptive import ADAM_L2_STEP, ADAMW, ADAMW_STEP, CHAPTER, drive
from autograder.scoring import judge
from solutions import adaptive

PAGE = Path(__file__).parents[1] / "chapters" / "02_adaptive.md"
SHAPES = [(), (4,), (3, 2)]


# -- the references ----------------------------------------------------------------------------------------------------


def test_points():
    assert [(e.name, e.points) for e in CHAPTER.exercises] == [
        ("adagrad_step", 3),
        ("rmsprop_step", 3),
        ("adam_step", 6),
        ("adam_l2_step", 2),
        ("adamw_step", 4),
        ("AdamW", 6),
    ]


def walk(optimizer_class, settings, step, shape, states, steps=12):
    """One parameter under PyTorch's optimizer and under ours; both after each step, ours with its state."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=shape)
    parameter = torch.nn.Parameter(torch.tensor(theta))
    optimizer = optimizer_class([parameter], **settings)
    state = [np.zeros(shape) for _ in range(states)]
    for t in range(1, steps + 1):
        grad = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3)
        parameter.grad = torch.tensor(grad)
        optimizer.step()
        theta, *state = step(t, theta, grad, *state)
        np.testing.assert_allclose(parameter.detach().numpy(), theta, rtol=1e-11, atol=1e-13)
    return optimizer.state[parameter], state


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("eps", [1e-10, 0.3])
def test_adagrad_against_torch(shape, eps):
    theirs, ours = walk(
        torch.optim.Adagrad,
        {"lr": 0.2, "eps": eps},
        lambda t, theta, grad, s: adaptive.adagrad_step(theta, s, grad, 0.2, eps),
        shape,
        1,
    )
    np.testing.assert_allclose(theirs["sum"].numpy(), ours[0], rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("beta", "eps"), [(0.99, 1e-8), (0.9, 0.3)])
def test_rmsprop_against_torch(shape, beta, eps):
    theirs, ours = walk(
        torch.optim.RMSprop,
        {"lr": 0.2, "alpha": beta, "eps": eps},
        lambda t, theta, grad, v: adaptive.rmsprop_step(theta, v, grad, 0.2, beta, eps),
        shape,
        1,
    )
    np.testing.assert_allclose(theirs["square_avg"].numpy(), ours[0], rtol=1e-12)


FORMS = {
    "adam": (torch.optim.Adam, adaptive.adam_step, {}),
    "adam_l2": (torch.optim.Adam, adaptive.adam_l2_step, {"weight_decay": 0.5}),
    "adamw": (torch.optim.AdamW, adaptive.adamw_step, {"weight_decay": 0.5}),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("betas", "eps"), [((0.9, 0.999), 1e-8), ((0.8, 0.9), 0.3)])
@pytest.mark.parametrize("form", FORMS)
def test_adam_family_against_torch(form, shape, betas, eps):
    kind, step, decay = FORMS[form]
    theirs, ours = walk(
        kind,
        {"lr": 0.2, "betas": betas, "eps": eps, **decay},
        lambda t, theta, grad, m, v: step(theta, m, v, grad, t, 0.2, *betas, eps, **decay),
        shape,
        2,
    )
    np.testing.assert_allclose(theirs["exp_avg"].numpy(), ours[0], rtol=1e-12)
    np.testing.assert_allclose(theirs["exp_avg_sq"].numpy(), ours[1], rtol=1e-12)


def test_defaults_are_torchs_where_the_catalogue_says_so():
    def defaults(function):
        return {k: p.default for k, p in inspect.signature(function).parameters.items() if p.default is not p.empty}

    assert defaults(adaptive.adagrad_step) == {"eps": 1e-8}  # PyTorch's is 1e-10
    assert defaults(adaptive.rmsprop_step) == {"beta": 0.99, "eps": 1e-8}
    adam = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
    assert defaults(adaptive.adam_step) == adam
    assert defaults(adaptive.adam_l2_step) == defaults(adaptive.adamw_step) == adam | {"weight_decay": 0.01}
    ours, theirs = defaults(adaptive.AdamW), defaults(torch.optim.AdamW)
    assert ours == {key: theirs[key] for key in ours}


def test_the_correction_shortens_the_first_steps():
    """facts.md 1A #7: 3.16, 6.53, 6.57 at its peak, 3.24, 1.08 learning rates without correction."""
    theta = m = v = np.array(0.0)
    plain = [0.0]
    for t in range(1, 2001):
        before = theta
        theta, m, v = adaptive.adam_step(theta, m, v, np.array(1.0), t, 1.0)
        np.testing.assert_allclose(before - theta, 1, rtol=1e-7)
        plain.append(float(m / np.sqrt(v)))
    assert [round(plain[t], 2) for t in (1, 10, 12, 100, 2000)] == [3.16, 6.53, 6.57, 3.24, 1.08]
    assert int(np.argmax(plain)) == 12


def test_where_eps_stands():
    """facts.md 1A #6: a gradient of eps makes half a step; beside the uncorrected root it would make 0.0307."""
    zero, eps = np.array(0.0), 1e-8
    theta, m, v = adaptive.adam_step(zero, zero, zero, np.array(eps), 1, 1.0)
    assert float(theta) == pytest.approx(-0.5)
    assert float(np.sqrt(0.001) / 0.1 * m / (np.sqrt(v) + eps)) == pytest.approx(0.0307, abs=5e-5)


def test_decay_before_and_together_agree_and_after_does_not():
    """facts.md 1B #2."""
    rng = np.random.default_rng(0)
    theta, m, grad = rng.normal(size=(3, 50))
    v, lr, decay = rng.uniform(0.1, 1, size=50), 0.1, 0.3
    together = adaptive.adamw_step(theta, m, v, grad, 3, lr, weight_decay=decay)[0]
    before = adaptive.adam_step(theta * (1 - lr * decay), m, v, grad, 3, lr)[0]
    after = adaptive.adam_step(theta, m, v, grad, 3, lr)[0] * (1 - lr * decay)
    np.testing.assert_allclose(before, together, rtol=0, atol=1e-15)
    assert abs(after - together).max() > 1e-3


@settings(max_examples=25)
@given(st.floats(-3, 3), st.floats(-6, 6), st.integers(0, 1000))
def test_the_step_does_not_know_the_size_of_the_gradients(value, exponent, seed):
    grads = np.random.default_rng(seed).normal(size=6)
    for step in (
        lambda p, s, g, t: (lambda a: (a[0], a[1:]))(adaptive.adagrad_step(p, *s[:1], g, 0.1, 0.0)),
        lambda p, s, g, t: (lambda a: (a[0], a[1:]))(adaptive.rmsprop_step(p, *s[:1], g, 0.1, 0.9, 0.0)),
        lambda p, s, g, t: (lambda a: (a[0], a[1:]))(adaptive.adam_step(p, *s, g, t, 0.1, eps=0.0)),
    ):
        places = []
        for scale in (1.0, 10.0**exponent):
            place, state = np.array(value), (np.array(0.0), np.array(0.0))
            for t, grad in enumerate(grads, start=1):
                place, state = step(place, state, np.array(scale * grad), t)
            places.append(float(place))
        assert places[0] == pytest.approx(places[1], abs=1e-9)


def test_float32_stays_float32():
    theta, m, v, grad = (np.ones(3, dtype=np.float32) for _ in range(4))
    results = [
        *adaptive.adagrad_step(theta, v, grad, 0.1),
        *adaptive.rmsprop_step(theta, v, grad, 0.1),
        *adaptive.adam_step(theta, m, v, grad, 2, 0.1),
        *adaptive.adam_l2_step(theta, m, v, grad, 2, 0.1),
        *adaptive.adamw_step(theta, m, v, grad, 2, 0.1),
    ]
    assert {a.dtype for a in results} == {np.dtype(np.float32)}


# -- the class ---------------------------------------------------------------------------------------------------------


def make_pair(shapes, make_groups=lambda ps: ps, dtype=torch.float64, **settings):
    rng = np.random.default_rng(1)
    values = [torch.tensor(rng.normal(size=shape), dtype=dtype) for shape in shapes]
    sides = [[torch.nn.Parameter(x.clone()) for x in values] for _ in range(2)]
    kinds = (adaptive.AdamW, torch.optim.AdamW)
    return sides, [kind(make_groups(side), **settings) for kind, side in zip(kinds, sides, strict=True)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("options", [{}, {"lr": 0.2, "betas": (0.8, 0.9), "eps": 0.2, "weight_decay": 0.6}])
def test_class_against_torch(options, dtype):
    sides, optimizers = make_pair([(3, 2), (4,), ()], dtype=dtype, **options)
    rng = np.random.default_rng(2)
    for _ in range(10):
        for p, q in zip(*sides, strict=True):
            p.grad = torch.tensor(rng.normal(size=tuple(p.shape)), dtype=dtype)
            q.grad = p.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    tolerance = {"rtol": 1e-12, "atol": 1e-14} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-6}
    for p, q in zip(*sides, strict=True):
        torch.testing.assert_close(p, q, **tolerance)
        assert p.dtype == optimizers[0].state[p]["exp_avg"].dtype == dtype


def test_class_with_groups_schedules_and_missing_gradients():
    def groups(ps):
        return [
            {"params": ps[:1], "lr": 0.05},
            {"params": ps[1:2], "weight_decay": 0.0, "betas": (0.5, 0.9)},
            {"params": ps[2:]},
        ]

    sides, optimizers = make_pair([(3,), (2, 2), (2,), (5,)], groups, lr=0.2, weight_decay=0.6, eps=0.1)
    schedules = [torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5) for optimizer in optimizers]
    rng = np.random.default_rng(3)
    for step in range(10):
        for i, (p, q) in enumerate(zip(*sides, strict=True)):
            missing = i == 3 or (i == 0 and step < 4) or (i == 1 and step % 3 == 1)
            p.grad = None if missing else torch.tensor(rng.normal(size=tuple(p.shape)))
            q.grad = None if missing else p.grad.clone()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for optimizer, schedule in zip(optimizers, schedules, strict=True):
                optimizer.step()
                schedule.step()
    for p, q in zip(*sides, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)
    assert sides[0][3] not in optimizers[0].state


def test_class_state_dict_through_a_file():
    p = torch.nn.Parameter(torch.ones(3))
    first = adaptive.AdamW([p], lr=0.1)

    def step(optimizer, parameter, number):
        parameter.grad = torch.arange(3.0) - number
        optimizer.step()

    for number in range(4):
        step(first, p, number)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    q = torch.nn.Parameter(p.detach().clone())
    second = adaptive.AdamW([q])
    second.load_state_dict(torch.load(file, weights_only=True))
    for number in range(4, 8):
        step(first, p, number)
        step(second, q, number)
    torch.testing.assert_close(p, q, rtol=0, atol=0)


def test_class_closure_and_refusal():
    sides, optimizers = make_pair([(3,)], lr=0.3)
    losses = []
    for (p,), optimizer in zip(sides, optimizers, strict=True):

        def closure(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (p**2).sum()
            loss.backward()
            return loss

        losses.append([optimizer.step(closure).item() for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1])
    assert optimizers[0].step() is None
    with pytest.raises(ValueError, match="lr"):
        adaptive.AdamW(sides[0], lr=-1e-9)
    adaptive.AdamW(sides[0], lr=0.0)


class _Inner(torch.optim.Optimizer):
    """Keeps one of PyTorch's own inside."""

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, kind=torch.optim.AdamW, **more
    ):
        params = list(params)
        self.inner = kind(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **more)
        super().__init__(params, {"lr": lr})
        self.param_groups, self.state = self.inner.param_groups, self.inner.state

    def step(self, closure=None):
        return self.inner.step(closure)


class _Subclass(torch.optim.AdamW):
    pass


class _Rebased(_Subclass):
    """Made and used before the probe runs, so that PyTorch has wrapped its step already."""


def _decoupled(*args, **kwargs):
    return torch.optim.Adam(*args, **{"weight_decay": 0.01, **kwargs}, decoupled_weight_decay=True)


def _fused(*args, **kwargs):
    return torch.optim.AdamW(*args, **kwargs, fused=True)


single = importlib.import_module("torch.optim.adam")._single_tensor_adam
fused_kernel = torch._fused_adamw_


class _Kernel(torch.optim.Optimizer):
    """Calls a kernel of PyTorch that does the whole step."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def step(self, closure=None):
        loss = closure() if closure else None
        for group in self.param_groups:
            for p in [p for p in group["params"] if p.grad is not None]:
                state = self.state[p]
                if not state:
                    state.update(t=torch.zeros(()), m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                fused_kernel(
                    [p.detach()],
                    [p.grad],
                    [state["m"]],
                    [state["v"]],
                    [],
                    [state["t"]],
                    lr=group["lr"],
                    beta1=group["betas"][0],
                    beta2=group["betas"][1],
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    amsgrad=False,
                    maximize=False,
                )
        return loss


@pytest.mark.parametrize("answer", [_Inner, _Subclass, _Rebased, torch.optim.AdamW, _decoupled, _fused, _Kernel])
def test_a_class_that_hands_on_scores_nothing(answer):
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    answer([p]).step()
    assert not torch.equal(p.detach(), torch.ones(2)), "this should be a working optimizer outside the probe"
    result = judge(ADAMW, LocalAnswer(answer))
    assert result.points == 0, result.passed


def test_the_probe_leaves_torch_as_it_was():
    before = single.__code__
    case = ADAMW.cases[0]
    drive(adaptive.AdamW, *case.args, **case.kwargs)
    with pytest.raises(RuntimeError):
        drive(torch.optim.AdamW, *case.args, **case.kwargs)
    assert single.__code__ is before
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    torch.optim.AdamW([p]).step()


# -- the hidden cases --------------------------------------------------------------------------------------------------


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
        assert isinstance(outcome(exercise, case, exercise.reference), type) == bool(case.raises), case.name
    for names in ([c.name for c in exercise.cases], [m.name for m in exercise.misconceptions]):
        assert len(names) == len(set(names))
    assert len(exercise.misconceptions) >= 12
    assert len(exercise.variants) >= 2


@pytest.mark.parametrize("exercise", [ADAM_L2_STEP, ADAMW_STEP], ids=lambda e: e.name)
def test_a_mistake_in_adam_costs_once(exercise):
    mistaken = next(m for m in CHAPTER["adam_step"].misconceptions if m.name == "no_correction").function

    def coupled(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
        return mistaken(theta, m, v, grad + weight_decay * theta, t, lr, beta1, beta2, eps)

    def decoupled(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
        stepped, m, v = mistaken(theta, m, v, grad, t, lr, beta1, beta2, eps)
        return stepped - lr * weight_decay * theta, m, v

    answer = LocalAnswer(coupled if exercise is ADAM_L2_STEP else decoupled)
    assert judge(exercise, answer).points < exercise.points
    assert judge(exercise, answer, {"adam_step": LocalAnswer(mistaken)}).points == exercise.points


# -- the page ----------------------------------------------------------------------------------------------------------


def code_cells():
    return re.findall(
        r"^```\{code-cell\}[^\n]*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_figures_have_alt_text_and_captions():
    figures = [cell for cell in code_cells() if "plt.show()" in cell]
    assert len(figures) >= 7
    for cell in figures:
        assert re.search(r'alt: ?["|>]', cell), cell[:200]
        assert re.search(r"name: fig-[\w-]+", cell), cell[:200]
        assert "caption:" in cell, cell[:200]
        assert cell.rstrip().endswith("plt.show()"), cell[-200:]


def test_no_answer_stands_above_its_question():
    text = PAGE.read_text(encoding="utf-8")
    for number in ("3.16", "6.57"):
        assert text.index(number) > text.index("import adam_step")
    assert text.index("fig-decay") > text.index("import adamw_step")
