"""Chapter 02, a step size for every parameter: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself.
"""

import numpy as np
import torch

from autograder.edited import edited
from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import adaptive

_rng = np.random.default_rng(2)
_vector = _rng.normal(size=(4, 5))
_matrix = _rng.normal(size=(3, 3, 2))
_square = _rng.uniform(0.2, 3.0, size=(2, 5))
_square_matrix = _rng.uniform(0.2, 3.0, size=(3, 2))
_grads = _rng.normal(size=(6, 3, 2))

_TINY = np.array([3e-8, -1e-8, 2e-8, 5e-9])

# --- probes -----------------------------------------------------------------------------------------------------------


def only_first(answer, *args):
    result = answer(*args)
    return result[0] if isinstance(result, (tuple, list)) and len(result) > 1 else result


def only_second(answer, *args):
    result = answer(*args)
    return result[1] if isinstance(result, (tuple, list)) and len(result) > 1 else result


def only_third(answer, *args):
    result = answer(*args)
    return result[2] if isinstance(result, (tuple, list)) and len(result) > 2 else result


def several_steps(answer, theta, state, grads, *settings):
    for grad in grads:
        theta, state = answer(theta, state, grad, *settings)
    return theta, state


def several_adam_steps(answer, theta, m, v, grads, *settings):
    for t, grad in enumerate(grads, start=1):
        theta, m, v = answer(theta, m, v, grad, t, *settings)
    return theta, m, v


# --- adagrad_step -----------------------------------------------------------------------------------------------------


def adagrad_on_copies(theta, accumulator, grad, lr, eps=1e-8):
    theta, accumulator = np.array(theta), np.array(accumulator)
    accumulator += np.square(grad)
    theta -= lr * grad / (accumulator**0.5 + eps)
    return theta, accumulator


def adagrad_rate_first(theta, accumulator, grad, lr, eps=1e-8):
    total = np.add(accumulator, np.multiply(grad, grad))
    rate = lr / (eps + np.sqrt(total))
    return [theta - rate * grad, total]


def adagrad_float32(theta, accumulator, grad, lr, eps=1e-8):
    theta, accumulator, grad = (np.asarray(a, dtype=np.float32) for a in (theta, accumulator, grad))
    accumulator = accumulator + grad * grad
    return theta - np.float32(lr) * grad / (np.sqrt(accumulator) + np.float32(eps)), accumulator


def adagrad_torch(theta, accumulator, grad, lr, eps=1e-8):
    theta, accumulator, grad = (torch.as_tensor(a) for a in (theta, accumulator, grad))
    accumulator = torch.addcmul(accumulator, grad, grad)
    return torch.addcdiv(theta, grad, accumulator.sqrt() + eps, value=-lr), accumulator


ADAGRAD_STEP = Exercise(
    reference=adaptive.adagrad_step,
    points=3,
    results=("theta", "accumulator"),
    section="A rate of its own",
    cases=(
        Case(
            "the new accumulator of a vector",
            (np.array([1.0, -2.0, 0.5]), np.array([0.6, 4.0, 2.0]), np.array([3.0, 1.0, -1.5]), 0.2, 0.3),
            weight=2,
            probe=only_second,
        ),
        Case("a first step, from an accumulator of zeros", (_vector[0], np.zeros(5), _vector[1], 0.4, 0.2)),
        Case("the new parameters of a vector, eps barely felt", (_vector[0], _square[0], _vector[1], 0.3), weight=2),
        Case("an eps that is felt", (_vector[2], _square[1], _vector[3], 0.5, 0.4), weight=1.5),
        Case(
            "gradients as small as eps",
            (np.array([1.0, 2.0, -1.0, 0.5]), np.zeros(4), _TINY, 0.7),
            probe=only_first,
        ),
        Case("a gradient of zero, nothing accumulated", (np.array([4.0, -1.0]), np.zeros(2), np.zeros(2), 0.5, 0.1)),
        Case("a matrix of parameters", (_matrix[0], _square_matrix, _matrix[1], 1.5, 0.25)),
        Case("several steps in a row", (_matrix[0], np.zeros((3, 2)), _grads, 0.4, 0.1), probe=several_steps),
        Case("a single number (0-d)", (np.array(2.0), np.array(0.5), np.array(-3.0), 0.2, 0.3), weight=0.5),
        Case(
            "float32 arrays",
            (*(a.astype(np.float32) for a in (_vector[1], _square[0], _vector[2])), 0.3, 0.2),
            weight=0.5,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case(
            "arguments by keyword, eps left at its default",
            kwargs={"lr": 0.7, "grad": _TINY, "accumulator": np.zeros(4), "theta": np.ones(4)},
            weight=0.5,
        ),
        Case(
            "leaves its arguments unchanged",
            (_vector[0], _square[0], _vector[2], 0.1, 0.3),
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "ascent",
            edited(adaptive.adagrad_step, ("theta - lr", "theta + lr")),
            "You add the step; the gradient points uphill, whatever it is divided by, so the step goes against it.",
            "A rate of its own",
        ),
        Misconception(
            "eps_inside_root",
            edited(adaptive.adagrad_step, ("(np.sqrt(accumulator) + eps)", "np.sqrt(accumulator + eps)")),
            "You add eps inside the root; it stands outside, in the unit of the gradient.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "no_root",
            edited(adaptive.adagrad_step, ("np.sqrt(accumulator)", "accumulator")),
            "You divide by the sum of squares itself; its root is what has the gradient's unit.",
            "A rate of its own",
        ),
        Misconception(
            "no_square",
            edited(adaptive.adagrad_step, ("grad**2", "np.abs(grad)")),
            "You accumulate the gradient's size; what accumulates is its square.",
            "A rate of its own",
        ),
        Misconception(
            "old_accumulator",
            edited(
                adaptive.adagrad_step,
                ("accumulator = accumulator", "new = accumulator"),
                ("eps), accumulator", "eps), new"),
            ),
            "You divide by the accumulator from before this gradient: add the new square first, or the first step "
            "divides by nothing.",
            "A rate of its own",
        ),
        Misconception(
            "forgets",
            edited(adaptive.adagrad_step, ("accumulator + grad**2", "0.99 * accumulator + 0.01 * grad**2")),
            "Your accumulator forgets; AdaGrad's only grows, and forgetting is RMSProp's idea.",
            "The rate that dies",
        ),
        Misconception(
            "never_adds",
            edited(adaptive.adagrad_step, ("accumulator + grad**2", "grad**2")),
            "You divide by this gradient's own size and forget all the earlier ones: add its square to what came in.",
            "A rate of its own",
        ),
        Misconception(
            "root_kept",
            edited(adaptive.adagrad_step, ("eps), accumulator", "eps), np.sqrt(accumulator)")),
            "You hand back the root as state; the next step needs the sum of squares itself.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "one_rate_for_all",
            edited(adaptive.adagrad_step, ("grad**2", "np.mean(grad**2)")),
            "You average over the array, so that all parameters share one rate: each keeps a sum of its own.",
            "A rate of its own",
        ),
        Misconception(
            "old_accumulator_returned",
            edited(
                adaptive.adagrad_step,
                ("accumulator = accumulator", "new = accumulator"),
                ("np.sqrt(accumulator)", "np.sqrt(new)"),
            ),
            "You use the new sum but return the old one: the next step needs the new one as its state.",
            "A rate of its own",
        ),
        Misconception(
            "no_eps",
            edited(adaptive.adagrad_step, ("(np.sqrt(accumulator) + eps)", "np.sqrt(accumulator)")),
            "You left eps out: with nothing accumulated and a gradient of zero, that divides zero by zero.",
            "A rate of its own",
        ),
        Misconception(
            "fixed_eps",
            edited(adaptive.adagrad_step, ("+ eps)", "+ 1e-8)")),
            "You wrote a number for eps into the formula: use the argument, which may be another number.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "only_theta",
            edited(adaptive.adagrad_step, ("eps), accumulator", "eps)")),
            "You return the parameters alone: the accumulator is state, and the next step needs it back.",
            "A rate of its own",
        ),
        Misconception(
            "results_swapped",
            edited(adaptive.adagrad_step, ("return theta", "return accumulator, theta"), ("eps), accumulator", "eps)")),
            "You return the accumulator first: the order is parameters, then accumulator.",
            "A rate of its own",
        ),
        Misconception(
            "in_place",
            edited(
                adaptive.adagrad_step,
                ("accumulator = accumulator + ", "accumulator += "),
                ("return theta - ", "theta -= "),
                ("eps), accumulator", "eps)\n    return theta, accumulator"),
            ),
            "Your results are right, but you changed the caller's arrays on the way (+=, -= work in place): make "
            "new ones.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(adagrad_on_copies, adagrad_rate_first, adagrad_float32, adagrad_torch),
)


# --- rmsprop_step -----------------------------------------------------------------------------------------------------


def rmsprop_on_copies(theta, average, grad, lr, beta=0.99, eps=1e-8):
    theta, average = np.array(theta), np.array(average)
    average *= beta
    average += (1 - beta) * np.square(grad)
    theta -= lr / (average**0.5 + eps) * grad
    return theta, average


def rmsprop_towards_the_square(theta, average, grad, lr, beta=0.99, eps=1e-8):
    new = average + (1 - beta) * (grad * grad - average)
    return [theta - lr * (grad / (eps + np.sqrt(new))), new]


def rmsprop_float32(theta, average, grad, lr, beta=0.99, eps=1e-8):
    theta, average, grad = (np.asarray(a, dtype=np.float32) for a in (theta, average, grad))
    average = np.float32(beta) * average + np.float32(1 - beta) * grad * grad
    return theta - np.float32(lr) * grad / (np.sqrt(average) + np.float32(eps)), average


def rmsprop_torch(theta, average, grad, lr, beta=0.99, eps=1e-8):
    theta, average, grad = (torch.as_tensor(a) for a in (theta, average, grad))
    average = torch.lerp(grad * grad, average, beta)
    return torch.addcdiv(theta, grad, average.sqrt() + eps, value=-lr), average


RMSPROP_STEP = Exercise(
    reference=adaptive.rmsprop_step,
    points=3,
    results=("theta", "average"),
    section="An average instead of a sum",
    cases=(
        Case(
            "the new average of a vector",
            (np.array([1.0, -2.0, 0.5]), np.array([0.6, 4.0, 2.0]), np.array([3.0, 1.0, -1.5]), 0.2, 0.8, 0.3),
            weight=2,
            probe=only_second,
        ),
        Case("a first step, from an average of zeros", (_vector[0], np.zeros(5), _vector[1], 0.4, 0.75, 0.2)),
        Case(
            "the new parameters of a vector, eps barely felt",
            (_vector[0], _square[0], _vector[1], 0.3, 0.7),
            weight=2,
        ),
        Case("an eps that is felt", (_vector[2], _square[1], _vector[3], 0.5, 0.6, 0.4), weight=1.5),
        Case(
            "gradients as small as eps",
            (np.array([1.0, 2.0, -1.0, 0.5]), np.zeros(4), _TINY, 0.7, 0.75),
            probe=only_first,
        ),
        Case("a gradient of zero: the average fades", (_vector[0], _square[0], np.zeros(5), 0.5, 0.6, 0.1)),
        Case("a beta of zero: only this gradient counts", (_vector[0], _square[0], _vector[1], 0.5, 0.0, 0.2)),
        Case("a matrix, another beta", (_matrix[0], _square_matrix, _matrix[1], 1.5, 0.35, 0.25)),
        Case("several steps in a row", (_matrix[0], np.zeros((3, 2)), _grads, 0.4, 0.9, 0.1), probe=several_steps),
        Case("a single number (0-d)", (np.array(2.0), np.array(0.5), np.array(-3.0), 0.2, 0.8, 0.3), weight=0.5),
        Case(
            "float32 arrays",
            (*(a.astype(np.float32) for a in (_vector[1], _square[0], _vector[2])), 0.3, 0.8, 0.2),
            weight=0.5,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case(
            "arguments by keyword, beta and eps left at their defaults",
            kwargs={"lr": 0.7, "grad": _TINY, "average": 4 * _TINY**2, "theta": np.ones(4)},
            weight=0.5,
        ),
        Case(
            "leaves its arguments unchanged",
            (_vector[0], _square[0], _vector[2], 0.1, 0.8, 0.3),
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "ascent",
            edited(adaptive.rmsprop_step, ("theta - lr", "theta + lr")),
            "You add the step; the gradient points uphill, whatever it is divided by, so the step goes against it.",
            "An average instead of a sum",
        ),
        Misconception(
            "adagrad",
            edited(adaptive.rmsprop_step, ("beta * average + (1 - beta) * grad**2", "average + grad**2")),
            "You add up the squares, which is AdaGrad; RMSProp averages them, so that old ones are forgotten.",
            "An average instead of a sum",
        ),
        Misconception(
            "whole_square",
            edited(adaptive.rmsprop_step, ("(1 - beta) * grad**2", "grad**2")),
            "The old average decays, but the new square enters whole; in an average the two shares add up to one.",
            "An average instead of a sum",
        ),
        Misconception(
            "swapped_shares",
            edited(
                adaptive.rmsprop_step,
                ("beta * average + (1 - beta) * grad**2", "(1 - beta) * average + beta * grad**2"),
            ),
            "You swapped the shares: beta is what is kept of the old average, and the new square gets the rest.",
            "An average instead of a sum",
        ),
        Misconception(
            "no_square",
            edited(adaptive.rmsprop_step, ("grad**2", "np.abs(grad)")),
            "You average the gradient's size; what is averaged is its square.",
            "An average instead of a sum",
        ),
        Misconception(
            "no_root",
            edited(adaptive.rmsprop_step, ("np.sqrt(average)", "average")),
            "You divide by the average itself; its root is what has the gradient's unit.",
            "An average instead of a sum",
        ),
        Misconception(
            "eps_inside_root",
            edited(adaptive.rmsprop_step, ("(np.sqrt(average) + eps)", "np.sqrt(average + eps)")),
            "You add eps inside the root, as some libraries do; here it stands outside.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "old_average",
            edited(adaptive.rmsprop_step, ("average = beta", "new = beta"), ("eps), average", "eps), new")),
            "You divide by the average from before this gradient: update it first, then use it.",
            "An average instead of a sum",
        ),
        Misconception(
            "old_average_returned",
            edited(adaptive.rmsprop_step, ("average = beta", "new = beta"), ("np.sqrt(average)", "np.sqrt(new)")),
            "You use the new average but return the old one: the next step needs the new one as its state.",
            "An average instead of a sum",
        ),
        Misconception(
            "share_squared",
            edited(adaptive.rmsprop_step, ("(1 - beta) * grad**2", "((1 - beta) * grad) ** 2")),
            "You square the gradient's share along with the gradient: square first, then take the share.",
            "An average instead of a sum",
        ),
        Misconception(
            "first_step_whole",
            edited(
                adaptive.rmsprop_step, ("(1 - beta) * grad**2", "(1 - beta) * grad**2 if np.any(average) else grad**2")
            ),
            "You start the average at the first square: it starts at zero and takes only its share, so the first "
            "step is long.",
            "An average instead of a sum",
        ),
        Misconception(
            "root_kept",
            edited(adaptive.rmsprop_step, ("eps), average", "eps), np.sqrt(average)")),
            "You hand back the root as state; the next step needs the average of the squares itself.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "fixed_beta",
            edited(adaptive.rmsprop_step, ("beta * average + (1 - beta)", "0.99 * average + 0.01")),
            "You wrote the default into the formula: use the argument beta, which may be another number.",
            "Trap 2: the window that a β means",
        ),
        Misconception(
            "fixed_eps",
            edited(adaptive.rmsprop_step, ("+ eps)", "+ 1e-8)")),
            "You wrote a number for eps into the formula: use the argument, which may be another number.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "only_theta",
            edited(adaptive.rmsprop_step, ("eps), average", "eps)")),
            "You return the parameters alone: the average is state, and the next step needs it back.",
            "An average instead of a sum",
        ),
        Misconception(
            "results_swapped",
            edited(adaptive.rmsprop_step, ("return theta", "return average, theta"), ("eps), average", "eps)")),
            "You return the average first: the order is parameters, then average.",
            "An average instead of a sum",
        ),
        Misconception(
            "in_place",
            edited(
                adaptive.rmsprop_step,
                ("average = beta * average + ", "average *= beta\n    average += "),
                ("return theta - ", "theta -= "),
                ("eps), average", "eps)\n    return theta, average"),
            ),
            "Your results are right, but you changed the caller's arrays on the way (*=, +=, -= work in place): "
            "make new ones.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(rmsprop_on_copies, rmsprop_towards_the_square, rmsprop_float32, rmsprop_torch),
)


# --- adam_step --------------------------------------------------------------------------------------------------------


def adam_on_copies(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    theta, m, v = np.array(theta), np.array(m), np.array(v)
    m *= beta1
    m += (1 - beta1) * grad
    v *= beta2
    v += (1 - beta2) * np.square(grad)
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    theta -= lr * m_hat / (v_hat**0.5 + eps)
    return [theta, m, v]


def adam_as_torch_writes_it(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    new_m = m + (1 - beta1) * (grad - m)
    new_v = beta2 * v + (1 - beta2) * (grad * grad)
    step_size = lr / (1 - beta1**t)
    scale = np.sqrt(new_v) / np.sqrt(1 - beta2**t) + eps
    return theta - step_size * (new_m / scale), new_m, new_v


def adam_float32(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    theta, m, v, grad = (np.asarray(a, dtype=np.float32) for a in (theta, m, v, grad))
    m = np.float32(beta1) * m + np.float32(1 - beta1) * grad
    v = np.float32(beta2) * v + np.float32(1 - beta2) * grad * grad
    m_hat, v_hat = m / np.float32(1 - beta1**t), v / np.float32(1 - beta2**t)
    return theta - np.float32(lr) * m_hat / (np.sqrt(v_hat) + np.float32(eps)), m, v


def adam_torch(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    theta, m, v, grad = (torch.as_tensor(a) for a in (theta, m, v, grad))
    m = torch.lerp(grad, m, beta1)
    v = beta2 * v + (1 - beta2) * grad.square()
    scale = (v / (1 - beta2**t)).sqrt() + eps
    return torch.addcdiv(theta, m, scale, value=-lr / (1 - beta1**t)), m, v


ADAM_STEP = Exercise(
    reference=adaptive.adam_step,
    points=6,
    results=("theta", "m", "v"),
    section="Two averages: Adam",
    cases=(
        Case(
            "the new m of a vector",
            (_vector[0], _vector[1], _square[0], _vector[2], 3, 0.2, 0.8, 0.9, 0.3),
            weight=1.5,
            probe=only_second,
        ),
        Case(
            "the new v of a vector",
            (_vector[0], _vector[1], _square[0], _vector[2], 3, 0.2, 0.8, 0.9, 0.3),
            weight=1.5,
            probe=only_third,
        ),
        Case(
            "a first step, from moments of zero",
            (_vector[0], np.zeros(5), np.zeros(5), _vector[1], 1, 0.4, 0.6, 0.9, 0.2),
        ),
        Case(
            "the new parameters at a later step",
            (_vector[0], _vector[1], _square[0], _vector[2], 4, 0.3, 0.7, 0.95),
            weight=2,
            probe=only_first,
        ),
        Case(
            "an eps that is felt, at a later step",
            (_vector[0], _vector[2], _square[1], _vector[3], 3, 0.5, 0.6, 0.9, 0.4),
            weight=2,
        ),
        Case(
            "gradients as small as eps",
            (np.array([1.0, 2.0, -1.0, 0.5]), _TINY[::-1], 2 * _TINY**2, _TINY, 2, 0.7, 0.5, 0.75),
            probe=only_first,
        ),
        Case("a gradient of zero: the parameters coast", (_vector[0], _vector[1], _square[0], np.zeros(5), 5, 0.5)),
        Case("a matrix, other betas", (_matrix[0], _matrix[1], _square_matrix, _matrix[2], 2, 1.5, 0.5, 0.75, 0.25)),
        Case("a late step", (_matrix[2], _matrix[1], _square_matrix, _matrix[0], 4000, 0.3, 0.9, 0.999, 0.2)),
        Case(
            "several steps in a row",
            (_matrix[0], np.zeros((3, 2)), np.zeros((3, 2)), _grads, 0.4, 0.8, 0.9, 0.1),
            probe=several_adam_steps,
        ),
        Case(
            "a single number (0-d)",
            (np.array(2.0), np.array(0.5), np.array(1.5), np.array(-3.0), 2, 0.2, 0.8, 0.9, 0.3),
            weight=0.5,
        ),
        Case(
            "float32 arrays",
            (*(a.astype(np.float32) for a in (_vector[1], _vector[0], _square[0], _vector[2])), 3, 0.3, 0.8, 0.9, 0.2),
            weight=0.5,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case(
            "arguments by keyword, the rest left at its default",
            kwargs={"lr": 0.7, "t": 2, "grad": _TINY, "v": 4 * _TINY**2, "m": _TINY[::-1], "theta": np.ones(4)},
            weight=0.5,
        ),
        Case(
            "leaves its arguments unchanged",
            (_vector[0], _vector[1], _square[0], _vector[2], 2, 0.1, 0.8, 0.9, 0.3),
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "ascent",
            edited(adaptive.adam_step, ("theta - lr", "theta + lr")),
            "You add the step; m averages gradients, which point uphill, so the step goes against it.",
            "Two averages: Adam",
        ),
        Misconception(
            "no_correction",
            edited(adaptive.adam_step, ("m / (1 - beta1**t)", "m"), ("v / (1 - beta2**t)", "v")),
            "You left out the correction: both averages start at zero, and what is too small in v makes the first "
            "steps too large.",
            "Averages that start at zero",
        ),
        Misconception(
            "only_m_corrected",
            edited(adaptive.adam_step, ("v / (1 - beta2**t)", "v")),
            "You correct m but not v: both averages start at zero, and each needs its own correction.",
            "Averages that start at zero",
        ),
        Misconception(
            "only_v_corrected",
            edited(adaptive.adam_step, ("m / (1 - beta1**t)", "m")),
            "You correct v but not m: both averages start at zero, and each needs its own correction.",
            "Averages that start at zero",
        ),
        Misconception(
            "correction_multiplied",
            edited(adaptive.adam_step, ("m / (1 -", "m * (1 -"), ("v / (1 -", "v * (1 -")),
            "You multiply by the sum of the weights; an average that lacks weight is divided by it.",
            "Averages that start at zero",
        ),
        Misconception(
            "correction_beta_times_t",
            edited(adaptive.adam_step, ("beta1**t", "beta1"), ("beta2**t", "beta2")),
            "Your correction does not know t: it is the power beta**t that fades as the steps go on.",
            "Averages that start at zero",
        ),
        Misconception(
            "t_from_zero",
            edited(adaptive.adam_step, ("beta1**t", "beta1 ** (t + 1)"), ("beta2**t", "beta2 ** (t + 1)")),
            "Your exponent is one too large: t counts from 1, so the first step uses the first power.",
            "Averages that start at zero",
        ),
        Misconception(
            "t_one_behind",
            edited(adaptive.adam_step, ("beta1**t", "beta1 ** max(t - 1, 1)"), ("beta2**t", "beta2 ** max(t - 1, 1)")),
            "Your exponent is one too small: t is the number of this step, and the averages already hold its gradient.",
            "Averages that start at zero",
        ),
        Misconception(
            "corrected_state",
            edited(adaptive.adam_step, ("m_hat = m", "m_hat = m = m"), ("v_hat = v", "v_hat = v = v")),
            "You hand back the corrected moments, so that the next step corrects them again: keep the plain "
            "averages as state.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "correction_outside_root",
            edited(adaptive.adam_step, ("np.sqrt(v_hat)", "np.sqrt(v) / (1 - beta2**t)")),
            "You correct the root of v; correct v first, then take the root.",
            "Averages that start at zero",
        ),
        Misconception(
            "eps_inside_root",
            edited(adaptive.adam_step, ("(np.sqrt(v_hat) + eps)", "np.sqrt(v_hat + eps)")),
            "You add eps inside the root; it stands outside, where it compares with the gradient's size.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "eps_before_correction",
            edited(
                adaptive.adam_step,
                (
                    "lr * m_hat / (np.sqrt(v_hat) + eps)",
                    "lr * np.sqrt(1 - beta2**t) / (1 - beta1**t) * m / (np.sqrt(v) + eps)",
                ),
            ),
            "You add eps to the root of the plain v, the paper's short form with another epsilon; here v is "
            "corrected first.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "betas_swapped",
            edited(adaptive.adam_step, ("    m = beta1", "    beta1, beta2 = beta2, beta1\n    m = beta1")),
            "You swapped the betas: beta1 belongs to m, beta2 to v.",
            "Two averages: Adam",
        ),
        Misconception(
            "shares_swapped",
            edited(
                adaptive.adam_step,
                ("beta1 * m + (1 - beta1) * grad", "(1 - beta1) * m + beta1 * grad"),
                ("beta2 * v + (1 - beta2) * grad", "(1 - beta2) * v + beta2 * grad"),
            ),
            "You swapped the shares: each beta is what is kept of the old average.",
            "Two averages: Adam",
        ),
        Misconception(
            "no_square",
            edited(adaptive.adam_step, ("grad**2", "np.abs(grad)")),
            "You average the gradient's size into v; v averages its square.",
            "Two averages: Adam",
        ),
        Misconception(
            "square_of_m",
            edited(adaptive.adam_step, ("grad**2", "m**2")),
            "You square m instead of the gradient: v is the average of the squares, not the square of the average.",
            "Two averages: Adam",
        ),
        Misconception(
            "no_root",
            edited(adaptive.adam_step, ("np.sqrt(v_hat)", "v_hat")),
            "You divide by the corrected v itself; its root is what has the gradient's unit.",
            "Two averages: Adam",
        ),
        Misconception(
            "steps_by_gradient",
            edited(adaptive.adam_step, ("lr * m_hat", "lr * grad")),
            "You step along the bare gradient, which is RMSProp with a correction: Adam steps along the corrected m.",
            "Two averages: Adam",
        ),
        Misconception(
            "old_moments",
            edited(
                adaptive.adam_step,
                ("m = beta1", "new_m = beta1"),
                ("v = beta2", "new_v = beta2"),
                ("eps), m, v", "eps), new_m, new_v"),
            ),
            "You step with the moments from before this gradient: update both first, then use them.",
            "Two averages: Adam",
        ),
        Misconception(
            "old_moments_returned",
            edited(
                adaptive.adam_step,
                ("m = beta1", "new_m = beta1"),
                ("v = beta2", "new_v = beta2"),
                ("m_hat = m", "m_hat = new_m"),
                ("v_hat = v", "v_hat = new_v"),
            ),
            "You use the new moments but return the old ones: the next step needs the new ones as its state.",
            "Two averages: Adam",
        ),
        Misconception(
            "fixed_betas",
            edited(
                adaptive.adam_step,
                ("beta1 * m + (1 - beta1)", "0.9 * m + 0.1"),
                ("beta2 * v + (1 - beta2)", "0.999 * v + 0.001"),
                ("beta1**t", "0.9**t"),
                ("beta2**t", "0.999**t"),
            ),
            "You wrote the defaults into the formula: use the arguments beta1 and beta2.",
            "Two averages: Adam",
        ),
        Misconception(
            "fixed_eps",
            edited(adaptive.adam_step, ("+ eps)", "+ 1e-8)")),
            "You wrote a number for eps into the formula: use the argument, which may be another number.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "only_theta",
            edited(adaptive.adam_step, ("eps), m, v", "eps)")),
            "You return the parameters alone: both moments are state, and the next step needs them back.",
            "Two averages: Adam",
        ),
        Misconception(
            "moments_swapped",
            edited(adaptive.adam_step, ("eps), m, v", "eps), v, m")),
            "You return v before m: the order is theta, m, v.",
            "Two averages: Adam",
        ),
        Misconception(
            "in_place",
            edited(
                adaptive.adam_step,
                ("m = beta1 * m + ", "m *= beta1\n    m += "),
                ("v = beta2 * v + ", "v *= beta2\n    v += "),
                ("return theta - ", "theta -= "),
                ("eps), m, v", "eps)\n    return theta, m, v"),
            ),
            "Your results are right, but you changed the caller's arrays on the way (*=, +=, -= work in place): "
            "make new ones.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(adam_on_copies, adam_as_torch_writes_it, adam_float32, adam_torch),
)


# --- adam_l2_step -----------------------------------------------------------------------------------------------------


# Adam, with and without decay, in one piece: where the mistake is inside Adam's step, it is an edit of these.
def adam_without_decay(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


adamw_in_one_formula = edited(
    adam_without_decay,
    ("lr * m_hat / (np.sqrt(v_hat) + eps)", "lr * (m_hat / (np.sqrt(v_hat) + eps) + weight_decay * theta)"),
)


def adam_l2_written_out(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    g = weight_decay * theta + grad
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return [theta - lr * m_hat / (eps + v_hat**0.5), m, v]


def adam_l2_moments_first(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    g = np.add(grad, np.multiply(weight_decay, theta))
    new_m, new_v = m + (1 - beta1) * (g - m), v + (1 - beta2) * (g**2 - v)
    scale = np.sqrt(new_v) / np.sqrt(1 - beta2**t) + eps
    return theta - lr / (1 - beta1**t) * new_m / scale, new_m, new_v


def adam_l2_float32(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    theta, m, v, grad = (np.asarray(a, dtype=np.float32) for a in (theta, m, v, grad))
    grad = grad + np.float32(weight_decay) * theta
    m = np.float32(beta1) * m + np.float32(1 - beta1) * grad
    v = np.float32(beta2) * v + np.float32(1 - beta2) * grad * grad
    m_hat, v_hat = m / np.float32(1 - beta1**t), v / np.float32(1 - beta2**t)
    return theta - np.float32(lr) * m_hat / (np.sqrt(v_hat) + np.float32(eps)), m, v


ADAM_L2_STEP = Exercise(
    reference=adaptive.adam_l2_step,
    points=2,
    results=("theta", "m", "v"),
    section="Decay through the gradient",
    builds_on=("adam_step",),
    cases=(
        Case(
            "the new m, which sees the penalty",
            (_vector[0], _vector[1], _square[0], _vector[2], 3, 0.4, 0.8, 0.9, 0.3, 0.5),
            probe=only_second,
        ),
        Case(
            "the new v, which sees the penalty",
            (_vector[0], _vector[1], _square[0], _vector[2], 3, 0.4, 0.8, 0.9, 0.3, 0.5),
            probe=only_third,
        ),
        Case(
            "the new parameters of a vector",
            (_vector[0], _vector[1], _square[0], _vector[2], 3, 0.4, 0.8, 0.9, 0.3, 0.5),
            weight=2,
            probe=only_first,
        ),
        Case(
            "a first step without a gradient: the penalty alone",
            (_vector[0], np.zeros(5), np.zeros(5), np.zeros(5), 1, 0.4, 0.8, 0.9, 0.2, 0.7),
        ),
        Case(
            "no decay: plain Adam's step",
            (_vector[1], _vector[3], _square[1], _vector[2], 4, 0.3, 0.7, 0.9, 0.2, 0.0),
            weight=0.5,
        ),
        Case(
            "a matrix, other betas",
            (_matrix[0], _matrix[1], _square_matrix, _matrix[2], 2, 1.5, 0.5, 0.75, 0.25, 0.3),
        ),
        Case(
            "several steps in a row",
            (_matrix[0], np.zeros((3, 2)), np.zeros((3, 2)), _grads, 0.4, 0.8, 0.9, 0.1, 0.6),
            probe=several_adam_steps,
        ),
        Case(
            "a single number (0-d)",
            (np.array(2.0), np.array(0.5), np.array(1.5), np.array(-3.0), 2, 0.2, 0.8, 0.9, 0.3, 0.6),
            weight=0.5,
        ),
        Case(
            "float32 arrays",
            (
                *(a.astype(np.float32) for a in (_vector[1], _vector[0], _square[0], _vector[2])),
                *(3, 0.3, 0.8, 0.9, 0.2, 0.5),
            ),
            weight=0.5,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case(
            "arguments by keyword, the decay left at its default",
            kwargs={
                "lr": 0.7,
                "t": 2,
                "grad": _vector[2],
                "v": _square[0],
                "m": _vector[1],
                "theta": 100 * _vector[0],
            },
            weight=0.5,
        ),
        Case(
            "leaves its arguments unchanged",
            (_vector[0], _vector[1], _square[0], _vector[2], 2, 0.1, 0.8, 0.9, 0.3, 0.5),
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "decoupled",
            adamw_in_one_formula,
            "You decay beside Adam's step, which is AdamW; in the coupled form the decay goes through the "
            "gradient and both moments.",
            "Decay through the gradient",
        ),
        Misconception(
            "no_decay",
            adam_without_decay,
            "You take a plain step of Adam: add the penalty's gradient to the gradient first.",
            "Decay through the gradient",
        ),
        Misconception(
            "wrong_sign",
            edited(adaptive.adam_l2_step, ("grad + weight_decay", "grad - weight_decay")),
            "You subtract the penalty's gradient, which makes the parameters grow; it is added to the loss's gradient.",
            "Decay through the gradient",
        ),
        Misconception(
            "twice",
            edited(adaptive.adam_l2_step, ("+ weight_decay", "+ 2 * weight_decay")),
            "Your penalty is twice too strong: with λ/2 in front of the square, its gradient is λθ.",
            "Decay through the gradient",
        ),
        Misconception(
            "with_lr",
            edited(adaptive.adam_l2_step, ("+ weight_decay", "+ lr * weight_decay")),
            "You multiply the penalty by lr before it enters the gradient; Adam's own step brings in lr, once.",
            "Decay through the gradient",
        ),
        Misconception(
            "l1",
            edited(adaptive.adam_l2_step, ("weight_decay * theta", "weight_decay * np.sign(theta)")),
            "You use the sign of theta, the gradient of an L1 penalty; an L2 penalty's gradient is in proportion "
            "to theta.",
            "Decay through the gradient",
        ),
        Misconception(
            "only_in_m",
            edited(adam_without_decay, ("(1 - beta1) * grad", "(1 - beta1) * (grad + weight_decay * theta)")),
            "You put the penalty into m alone; coupled means that Adam sees one gradient, so v sees the penalty too.",
            "Decay through the gradient",
        ),
        Misconception(
            "only_in_v",
            edited(adam_without_decay, ("grad**2", "(grad + weight_decay * theta) ** 2")),
            "You put the penalty into v alone; coupled means that Adam sees one gradient, so m sees the penalty too.",
            "Decay through the gradient",
        ),
        Misconception(
            "after_the_moments",
            edited(adam_without_decay, ("lr * m_hat", "lr * (m_hat + weight_decay * theta)")),
            "You add the penalty after the moments are made; add it to the gradient, before Adam sees anything.",
            "Decay through the gradient",
        ),
        Misconception(
            "scales_the_gradient",
            edited(adaptive.adam_l2_step, ("grad + weight_decay * theta", "(1 + weight_decay) * grad")),
            "You scale the gradient; the penalty's gradient depends on theta.",
            "Decay through the gradient",
        ),
        Misconception(
            "fixed_decay",
            edited(adaptive.adam_l2_step, ("weight_decay * theta", "0.01 * theta")),
            "You wrote the default into the formula: use the argument weight_decay.",
            "Decay through the gradient",
        ),
        Misconception(
            "both",
            edited(adaptive.adam_l2_step, ("adam_step(theta, m", "adam_step(theta * (1 - lr * weight_decay), m")),
            "You decay twice, through the gradient and beside it: the coupled form has the first alone.",
            "Decay through the gradient",
        ),
        Misconception(
            "no_correction",
            edited(
                adam_without_decay,
                ("    m = beta1", "    grad = grad + weight_decay * theta\n    m = beta1"),
                ("m / (1 - beta1**t)", "m"),
                ("v / (1 - beta2**t)", "v"),
            ),
            "Your Adam lacks the correction of its moments: this exercise changes its gradient and nothing else.",
            "Averages that start at zero",
        ),
        Misconception(
            "only_theta",
            edited(adaptive.adam_l2_step, ("beta2, eps)", "beta2, eps)[0]")),
            "You return the parameters alone: both moments are state, and the next step needs them back.",
            "Two averages: Adam",
        ),
        Misconception(
            "in_place",
            edited(adaptive.adam_l2_step, ("penalized = grad + ", "penalized = grad\n    penalized += ")),
            "Your results are right, but you added the penalty into the caller's gradient (+= works in place): "
            "make a new array.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(adam_l2_written_out, adam_l2_moments_first, adam_l2_float32),
)


# --- adamw_step -------------------------------------------------------------------------------------------------------


def adamw_decay_first(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    decayed = theta * (1 - lr * weight_decay)
    return decayed - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adamw_one_update(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    update = m_hat / (eps + v_hat**0.5) + weight_decay * theta
    return [theta - lr * update, m, v]


def adamw_float32(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    theta, m, v, grad = (np.asarray(a, dtype=np.float32) for a in (theta, m, v, grad))
    m = np.float32(beta1) * m + np.float32(1 - beta1) * grad
    v = np.float32(beta2) * v + np.float32(1 - beta2) * grad * grad
    m_hat, v_hat = m / np.float32(1 - beta1**t), v / np.float32(1 - beta2**t)
    step = m_hat / (np.sqrt(v_hat) + np.float32(eps)) + np.float32(weight_decay) * theta
    return theta - np.float32(lr) * step, m, v


def adamw_torch(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    theta, m, v, grad = (torch.as_tensor(a) for a in (theta, m, v, grad))
    m = torch.lerp(grad, m, beta1)
    v = beta2 * v + (1 - beta2) * grad.square()
    scale = v.sqrt() / (1 - beta2**t) ** 0.5 + eps
    return torch.addcdiv(theta * (1 - lr * weight_decay), m, scale, value=-lr / (1 - beta1**t)), m, v


ADAMW_STEP = Exercise(
    reference=adaptive.adamw_step,
    points=4,
    results=("theta", "m", "v"),
    section="Decay beside the gradient",
    builds_on=("adam_step",),
    cases=(
        Case(
            "the new m, which sees no decay",
            (_vector[0], _vector[1], _square[0], _vector[2], 3, 0.4, 0.8, 0.9, 0.3, 0.5),
            weight=0.5,
            probe=only_second,
        ),
        Case(
            "the new v, which sees no decay",
            (_vector[0], _vector[1], _square[0], _vector[2], 3, 0.4, 0.8, 0.9, 0.3, 0.5),
            weight=0.5,
            probe=only_third,
        ),
        Case(
            "no gradient, moments of zero: the decay alone",
            (_vector[0], np.zeros(5), np.zeros(5), np.zeros(5), 1, 0.4, 0.8, 0.9, 0.2, 0.7),
        ),
        Case(
            "the new parameters of a vector",
            (_vector[0], _vector[1], _square[0], _vector[2], 3, 0.4, 0.8, 0.9, 0.3, 0.5),
            weight=3,
            probe=only_first,
        ),
        Case(
            "no decay: plain Adam's step",
            (_vector[1], _vector[3], _square[1], _vector[2], 4, 0.3, 0.7, 0.9, 0.2, 0.0),
            weight=0.5,
        ),
        Case(
            "gradients as small as eps",
            (np.array([1.0, 2.0, -1.0, 0.5]), _TINY[::-1], 2 * _TINY**2, _TINY, 2, 0.7, 0.5, 0.75, 1e-8, 0.4),
            probe=only_first,
        ),
        Case(
            "a matrix, other betas",
            (_matrix[0], _matrix[1], _square_matrix, _matrix[2], 2, 1.5, 0.5, 0.75, 0.25, 0.3),
        ),
        Case("a large learning rate", (_vector[3], _vector[1], _square[1], _vector[2], 6, 5.0, 0.8, 0.9, 0.2, 0.15)),
        Case(
            "several steps in a row",
            (_matrix[0], np.zeros((3, 2)), np.zeros((3, 2)), _grads, 0.4, 0.8, 0.9, 0.1, 0.6),
            probe=several_adam_steps,
        ),
        Case(
            "a single number (0-d)",
            (np.array(2.0), np.array(0.5), np.array(1.5), np.array(-3.0), 2, 0.2, 0.8, 0.9, 0.3, 0.6),
            weight=0.5,
        ),
        Case(
            "float32 arrays",
            (
                *(a.astype(np.float32) for a in (_vector[1], _vector[0], _square[0], _vector[2])),
                *(3, 0.3, 0.8, 0.9, 0.2, 0.5),
            ),
            weight=0.5,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case(
            "arguments by keyword, the decay left at its default",
            kwargs={
                "lr": 0.7,
                "t": 2,
                "grad": _vector[2],
                "v": _square[0],
                "m": _vector[1],
                "theta": 100 * _vector[0],
            },
            weight=0.5,
        ),
        Case(
            "leaves its arguments unchanged",
            (_vector[0], _vector[1], _square[0], _vector[2], 2, 0.1, 0.8, 0.9, 0.3, 0.5),
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "coupled",
            edited(adam_without_decay, ("    m = beta1", "    grad = grad + weight_decay * theta\n    m = beta1")),
            "You add the decay to the gradient, which is Adam with L2: decoupled means that the moments never see it.",
            "Decay beside the gradient",
        ),
        Misconception(
            "no_decay",
            adam_without_decay,
            "You take a plain step of Adam: the decay is missing.",
            "Decay beside the gradient",
        ),
        Misconception(
            "after_the_step",
            edited(adaptive.adamw_step, ("stepped - lr * weight_decay * theta", "stepped * (1 - lr * weight_decay)")),
            "You decay the parameters that Adam has already moved: the decay is taken from the theta before the step.",
            "Three places for one decay",
        ),
        Misconception(
            "without_lr",
            edited(adaptive.adamw_step, ("lr * weight_decay", "weight_decay")),
            "Your decay does not know the learning rate: one step removes lr·λ of each parameter.",
            "Decay beside the gradient",
        ),
        Misconception(
            "lr_twice",
            edited(adamw_in_one_formula, ("+ weight_decay", "+ lr * weight_decay")),
            "The learning rate stands twice in your decay: one step removes lr·λ of each parameter.",
            "Decay beside the gradient",
        ),
        Misconception(
            "wrong_sign",
            edited(adamw_in_one_formula, ("+ weight_decay", "- weight_decay")),
            "Your decay pushes the parameters away from zero: it must take off, not add.",
            "Decay beside the gradient",
        ),
        Misconception(
            "divided_by_scale",
            edited(adam_without_decay, ("lr * m_hat", "lr * (m_hat + weight_decay * theta)")),
            "You divide the decay by the root of v too, so it is strong where gradients are small: it stands "
            "beside that quotient.",
            "Decay beside the gradient",
        ),
        Misconception(
            "twice",
            edited(adamw_in_one_formula, ("+ weight_decay", "+ 2 * weight_decay")),
            "Your decay is twice too strong: one step removes lr·λ of each parameter.",
            "Decay beside the gradient",
        ),
        Misconception(
            "both",
            edited(adamw_in_one_formula, ("    m = beta1", "    grad = grad + weight_decay * theta\n    m = beta1")),
            "You decay twice, through the gradient and beside it: AdamW has the second alone.",
            "Decay beside the gradient",
        ),
        Misconception(
            "l1",
            edited(adamw_in_one_formula, ("weight_decay * theta", "weight_decay * np.sign(theta)")),
            "You decay by the sign of theta, so all shrink by the same amount: here all shrink by the same share.",
            "Decay beside the gradient",
        ),
        Misconception(
            "implicit",
            edited(adaptive.adamw_step, ("stepped - lr * weight_decay * theta", "stepped / (1 + lr * weight_decay)")),
            "You divide by 1 + lr·λ after the step: it looks alike for tiny values, but AdamW subtracts a share "
            "of the old theta.",
            "Three places for one decay",
        ),
        Misconception(
            "decays_the_step",
            edited(adam_without_decay, ("lr * m_hat", "lr * (1 - lr * weight_decay) * m_hat")),
            "You shrink the step instead of the parameters: the decay takes a share of theta.",
            "Decay beside the gradient",
        ),
        Misconception(
            "fixed_decay",
            edited(adamw_in_one_formula, ("weight_decay * theta", "0.01 * theta")),
            "You wrote the default into the formula: use the argument weight_decay.",
            "Decay beside the gradient",
        ),
        Misconception(
            "no_correction",
            edited(adamw_in_one_formula, ("m / (1 - beta1**t)", "m"), ("v / (1 - beta2**t)", "v")),
            "Your Adam lacks the correction of its moments: AdamW's step is Adam's step, and a decay beside it.",
            "Averages that start at zero",
        ),
        Misconception(
            "eps_inside_root",
            edited(adamw_in_one_formula, ("(np.sqrt(v_hat) + eps)", "np.sqrt(v_hat + eps)")),
            "You add eps inside the root; as in Adam it stands outside.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "eps_before_correction",
            edited(
                adam_without_decay,
                (
                    "lr * m_hat / (np.sqrt(v_hat) + eps)",
                    "lr * np.sqrt(1 - beta2**t) / (1 - beta1**t) * m / (np.sqrt(v) + eps) - lr * weight_decay * theta",
                ),
            ),
            "You add eps to the root of the plain v; as in Adam, v is corrected first.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "corrected_state",
            edited(adamw_in_one_formula, ("m_hat = m", "m_hat = m = m"), ("v_hat = v", "v_hat = v = v")),
            "You hand back the corrected moments, so that the next step corrects them again: keep the plain "
            "averages as state.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "decay_in_m",
            edited(adam_without_decay, ("(1 - beta1) * grad", "(1 - beta1) * (grad + weight_decay * theta)")),
            "You put the decay into m: decoupled means that neither moment sees it.",
            "Decay beside the gradient",
        ),
        Misconception(
            "only_theta",
            edited(adamw_in_one_formula, ("theta), m, v", "theta)")),
            "You return the parameters alone: both moments are state, and the next step needs them back.",
            "Two averages: Adam",
        ),
        Misconception(
            "in_place",
            edited(
                adam_without_decay,
                ("return theta - ", "theta *= 1 - lr * weight_decay\n    theta -= "),
                ("eps), m, v", "eps)\n    return theta, m, v"),
            ),
            "Your results are right, but you changed the caller's arrays on the way (*=, -= work in place): make "
            "new ones.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(adamw_decay_first, adamw_one_update, adamw_float32, adamw_torch),
)


# --- AdamW ------------------------------------------------------------------------------------------------------------


def drive(
    answer,
    values,
    grads,
    settings=None,
    groups=None,
    rates=None,
    targets=False,
    reload_at=None,
    report=("change",),
):
    """Make an optimizer of the class and let it step; PyTorch's own Adam and AdamW are switched off meanwhile.

    values: one array for each parameter; grads: for each step, a gradient or None for each parameter.
    settings: keyword arguments of the class; groups: for each group, the indices of its parameters and its settings.
    rates: a learning rate for every step, set from outside; targets: the grads are targets of a loss, in a closure.
    reload_at: before this step, state_dict() goes into a new optimizer over new parameters.
    report: "change", "gradients", "losses", "calls".
    """
    import copy
    import importlib
    import inspect
    import types

    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    def switched_off(*args, **kwargs):
        raise RuntimeError("PyTorch's own Adam and AdamW are switched off here: compute the update in your own step")

    class NoFusedStep(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            if "fused_adam" in str(operator):
                switched_off()
            return operator(*args, **(kwargs or {}))

    stock = {}
    homes = {"torch.optim.adam", "torch.optim.adamw"}
    for home in homes:
        for thing in vars(importlib.import_module(home)).values():
            found = vars(thing).values() if isinstance(thing, type) else [thing]
            inners = (inspect.unwrap(function) for function in found if callable(function))
            for inner in (f for f in inners if isinstance(f, types.FunctionType)):
                if inner.__module__ in homes and not inner.__code__.co_freevars:
                    stock[inner] = inner.__code__

    def build(parameters, settings, groups):
        if groups is None:
            return answer(parameters, **settings)
        return answer([{"params": [parameters[i] for i in which], **own} for which, own in groups], **settings)

    settings = dict(settings or {})
    parameters = [torch.nn.Parameter(torch.tensor(value)) for value in values]
    losses, calls = [], []
    try:
        for inner in stock:
            inner.__code__ = switched_off.__code__
        optimizer = build(parameters, settings, groups)
        for number, row in enumerate(grads):
            if number == reload_at:
                saved = copy.deepcopy(optimizer.state_dict())
                parameters = [torch.nn.Parameter(p.detach().clone()) for p in parameters]
                optimizer = build(parameters, {}, groups and [(which, {}) for which, _ in groups])
                optimizer.load_state_dict(saved)
            if rates is not None:
                for group in optimizer.param_groups:
                    group["lr"] = rates[number]

            def closure(row=row, parameters=parameters):
                calls.append(1)
                loss = sum(((p - torch.tensor(a)) ** 2).sum() for p, a in zip(parameters, row, strict=True))
                for p in parameters:
                    p.grad = None
                loss.backward()
                return loss

            if targets:
                with NoFusedStep():
                    loss = optimizer.step(closure)
                losses.append(float(loss.detach()) if isinstance(loss, torch.Tensor) else loss)
            else:
                for p, grad in zip(parameters, row, strict=True):
                    p.grad = None if grad is None else torch.tensor(grad)
                with NoFusedStep():
                    optimizer.step()
    finally:
        for inner, code in stock.items():
            inner.__code__ = code

    result = {}
    for number, (p, value) in enumerate(zip(parameters, values, strict=True), start=1):
        if "change" in report:
            result[f"change of parameter {number}"] = (p.detach() - torch.tensor(value)).numpy()
        if "gradients" in report:
            result[f"gradient of parameter {number}, after the last step"] = p.grad.numpy().copy()
    if "losses" in report:
        result["losses that step(closure) returned"] = losses
    if "calls" in report:
        result["calls of the closure"] = len(calls)
    return result


class _HandsOn(torch.optim.AdamW):
    pass


# A right answer; the mistakes are edits of it.
class _OneFormula(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            eps, decay = group["eps"], group["weight_decay"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, grad = self.state[p], p.grad
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * grad**2
                m_hat = state["m"] / (1 - beta1 ** state["t"])
                v_hat = state["v"] / (1 - beta2 ** state["t"])
                p -= lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


_CALL = "        if closure is not None:\n            with torch.enable_grad():\n                loss = closure()\n"


class _AsTorchWritesIt(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        if lr < 0.0 or eps < 0.0 or weight_decay < 0.0:
            raise ValueError(f"invalid settings: {lr}, {eps}, {weight_decay}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def step(self, closure=None):
        loss = closure() if closure is not None else None
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._update(p, group)
        return loss

    def _update(self, p, group):
        state = self.state[p]
        if len(state) == 0:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        beta1, beta2 = group["betas"]
        state["step"] += 1
        step = state["step"].item()
        p.mul_(1 - group["lr"] * group["weight_decay"])
        state["exp_avg"].lerp_(p.grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        scale = state["exp_avg_sq"].sqrt().div_((1 - beta2**step) ** 0.5).add_(group["eps"])
        p.addcdiv_(state["exp_avg"], scale, value=-group["lr"] / (1 - beta1**step))


class _ThroughData(torch.optim.Optimizer):
    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01):
        if not lr >= 0:
            raise ValueError("learning rate")
        super().__init__(params, {"weight_decay": weight_decay, "eps": eps, "betas": betas, "lr": lr})

    def step(self, closure=None):
        loss = closure and closure()
        for group in self.param_groups:
            for p in [p for p in group["params"] if p.grad is not None]:
                state = self.state[p]
                (b1, b2), t = group["betas"], state.get("t", 0) + 1
                m = b1 * state.get("m", 0.0) + (1 - b1) * p.grad.data
                v = b2 * state.get("v", 0.0) + (1 - b2) * p.grad.data**2
                step = m / (1 - b1**t) / (torch.sqrt(v / (1 - b2**t)) + group["eps"])
                p.data = p.data * (1 - group["lr"] * group["weight_decay"]) - group["lr"] * step
                state["t"], state["m"], state["v"] = t, m, v
        return loss


class _ManyAtOnce(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            with_grad = [p for p in group["params"] if p.grad is not None]
            if not with_grad:
                continue
            beta1, beta2 = group["betas"]
            for p in with_grad:
                if "m" not in self.state[p]:
                    self.state[p].update(t=torch.zeros(()), m=torch.zeros_like(p), v=torch.zeros_like(p))
                self.state[p]["t"] += 1
            grads = [p.grad for p in with_grad]
            ms, vs = ([self.state[p][key] for p in with_grad] for key in "mv")
            counts = [int(self.state[p]["t"]) for p in with_grad]
            torch._foreach_mul_(ms, beta1)
            torch._foreach_add_(ms, grads, alpha=1 - beta1)
            torch._foreach_mul_(vs, beta2)
            torch._foreach_addcmul_(vs, grads, grads, value=1 - beta2)
            scales = torch._foreach_sqrt(torch._foreach_div(vs, [1 - beta2**t for t in counts]))
            torch._foreach_add_(scales, group["eps"])
            torch._foreach_mul_(with_grad, 1 - group["lr"] * group["weight_decay"])
            steps = torch._foreach_div(torch._foreach_div(ms, [1 - beta1**t for t in counts]), scales)
            torch._foreach_add_(with_grad, steps, alpha=-group["lr"])
        return loss


def _steps(shapes, count, seed, without=()):
    """Values, and a gradient for each of them at every step; None where (step, parameter) is in `without`."""
    rng = np.random.default_rng(seed)
    values = [rng.normal(size=shape) for shape in shapes]
    grads = [
        [None if (step, i) in without else rng.normal(size=shape) for i, shape in enumerate(shapes)]
        for step in range(count)
    ]
    return values, grads


_FELT = {"lr": 0.2, "betas": (0.8, 0.9), "eps": 0.2, "weight_decay": 0.6}
_NEAR = {"rtol": 1e-5, "atol": 1e-7}

ADAMW = Exercise(
    reference=adaptive.AdamW,
    points=6,
    probe=drive,
    section="The optimizer as a class",
    cases=(
        Case(
            "one step of a vector, without decay",
            (*_steps([(4,)], 1, 21), {**_FELT, "weight_decay": 0.0}),
            **_NEAR,
        ),
        Case("one step of a vector, with decay", (*_steps([(4,)], 1, 22), _FELT), **_NEAR),
        Case("ten steps of a vector", (*_steps([(4,)], 10, 23), _FELT), weight=2, **_NEAR),
        Case(
            "ten steps of a matrix, a vector and a single number",
            (*_steps([(3, 2), (5,), ()], 10, 24), {**_FELT, "eps": 1e-8}),
            weight=2,
            **_NEAR,
        ),
        Case(
            "the default settings",
            ([np.array([300.0, -200.0]), np.ones(2)], [[s * np.array([1.0, -2.0]), s * _TINY[:2]] for s in (1, -2, 4)]),
            rtol=1e-4,
            atol=1e-7,
        ),
        Case(
            "groups with their own rates",
            (
                *_steps([(3, 2), (4,), (2,)], 10, 25),
                _FELT,
                [([0], {"lr": 0.05}), ([1], {}), ([2], {"lr": 0.4, "weight_decay": 0.0, "betas": (0.5, 0.95)})],
            ),
            weight=2,
            **_NEAR,
        ),
        Case(
            "a rate that changes during the run",
            (*_steps([(4,)], 5, 26), _FELT),
            {"rates": [0.3, 0.3, 0.1, 0.1, 0.02]},
            **_NEAR,
        ),
        Case(
            "a parameter whose gradient is always None",
            (*_steps([(3,), (2, 2)], 4, 27, {(s, 0) for s in range(4)}), _FELT),
            **_NEAR,
        ),
        Case(
            "a parameter whose first gradient comes late",
            (*_steps([(3,), (2, 2)], 6, 28, {(0, 0), (1, 0), (2, 0), (4, 1)}), _FELT),
            weight=1.5,
            **_NEAR,
        ),
        Case(
            "gradients of zero, which are gradients",
            (
                [np.array([2.0, -1.0])],
                [[np.array([1.0, 3.0])], [np.zeros(2)], [np.zeros(2)], [np.array([0.5, 1.0])]],
                _FELT,
            ),
            **_NEAR,
        ),
        Case(
            "leaves the gradients as they are",
            (*_steps([(3, 2), (4,)], 2, 29), _FELT),
            {"report": ("change", "gradients")},
            weight=0.5,
            **_NEAR,
        ),
        Case(
            "a closure",
            (*_steps([(3,), (2, 2)], 3, 30), _FELT),
            {"targets": True, "report": ("calls", "losses", "change")},
            weight=2,
            **_NEAR,
        ),
        Case(
            "state_dict into a new optimizer",
            (*_steps([(3, 2), (4,)], 8, 31), _FELT, [([0], {"lr": 0.05}), ([1], {})]),
            {"reload_at": 5},
            weight=2,
            **_NEAR,
        ),
        Case("refuses a negative lr", (*_steps([(4,)], 1, 32), {"lr": -0.1}), raises=ValueError),
    ),
    misconceptions=(
        Misconception(
            "hands_on",
            _HandsOn,
            "Your class hands its step to PyTorch's own optimizer: write the update yourself, from this chapter's "
            "equations.",
            "The optimizer as a class",
        ),
        Misconception(
            "plain_adam",
            edited(_OneFormula, ("(m_hat / (v_hat.sqrt() + eps) + decay * p)", "m_hat / (v_hat.sqrt() + eps)")),
            "Your step is Adam's: the decay is missing.",
            "Decay beside the gradient",
        ),
        Misconception(
            "coupled",
            edited(
                _OneFormula,
                ("self.state[p], p.grad", "self.state[p], p.grad + decay * p"),
                ("(m_hat / (v_hat.sqrt() + eps) + decay * p)", "m_hat / (v_hat.sqrt() + eps)"),
            ),
            "You add the decay to the gradient, which is Adam with L2: decoupled means that the moments never see it.",
            "Decay beside the gradient",
        ),
        Misconception(
            "decay_after_step",
            edited(
                _OneFormula,
                (
                    "(m_hat / (v_hat.sqrt() + eps) + decay * p)",
                    "m_hat / (v_hat.sqrt() + eps)\n                p *= 1 - lr * decay",
                ),
            ),
            "You decay the parameter after Adam has moved it: decay it first, or take the decay from its old value.",
            "Three places for one decay",
        ),
        Misconception(
            "decay_without_lr",
            edited(
                _OneFormula, ("(m_hat / (v_hat.sqrt() + eps) + decay * p)", "m_hat / (v_hat.sqrt() + eps) + decay * p")
            ),
            "Your decay does not know the learning rate: one step removes lr·λ of each parameter.",
            "Decay beside the gradient",
        ),
        Misconception(
            "decay_wrong_sign",
            edited(_OneFormula, ("+ decay", "- decay")),
            "Your decay pushes the parameters away from zero: it must take off, not add.",
            "Decay beside the gradient",
        ),
        Misconception(
            "decay_divided_by_scale",
            edited(
                _OneFormula,
                ("(m_hat / (v_hat.sqrt() + eps) + decay * p)", "(m_hat + decay * p) / (v_hat.sqrt() + eps)"),
            ),
            "You divide the decay by the root of v too: it stands beside that quotient.",
            "Decay beside the gradient",
        ),
        Misconception(
            "no_correction",
            edited(
                _OneFormula,
                ('state["m"] / (1 - beta1 ** state["t"])', 'state["m"]'),
                ('state["v"] / (1 - beta2 ** state["t"])', 'state["v"]'),
            ),
            "You left out the correction of the two averages, so the first steps come out too large.",
            "Averages that start at zero",
        ),
        Misconception(
            "eps_inside_root",
            edited(_OneFormula, ("(v_hat.sqrt() + eps)", "(v_hat + eps).sqrt()")),
            "You add eps inside the root; it stands outside.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "eps_before_correction",
            edited(
                _OneFormula,
                (
                    "m_hat / (v_hat.sqrt() + eps)",
                    'm_hat * (1 - beta2 ** state["t"]) ** 0.5 / (state["v"].sqrt() + eps)',
                ),
            ),
            "You add eps to the root of the plain v; v is corrected first.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "corrected_state",
            edited(
                _OneFormula,
                ('m_hat = state["m"]', 'm_hat = state["m"] = state["m"]'),
                ('v_hat = state["v"]', 'v_hat = state["v"] = state["v"]'),
            ),
            "You store the corrected moments, so that the next step corrects them again: keep the plain averages "
            "in the state.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "ascent",
            edited(_OneFormula, ("p -= lr", "p += lr"), ("+ decay", "- decay")),
            "You add the step; m averages gradients, which point uphill, so the step goes against it.",
            "Two averages: Adam",
        ),
        Misconception(
            "one_rate_for_all_groups",
            edited(
                _OneFormula,
                ('group["lr"], group["betas"]', 'self.defaults["lr"], self.defaults["betas"]'),
                ('group["eps"], group["weight_decay"]', 'self.defaults["eps"], self.defaults["weight_decay"]'),
            ),
            "You use the defaults for all groups: read lr and the other settings from the group at hand.",
            "Groups, state, closure",
        ),
        Misconception(
            "rate_from_the_start",
            edited(
                _OneFormula,
                ("})", '})\n        for group in self.param_groups:\n            group["first_lr"] = group["lr"]'),
                ('group["lr"], group["betas"]', 'group["first_lr"], group["betas"]'),
            ),
            "You keep the learning rate from the start: a schedule changes the group's lr during the run, so read "
            "it at every step.",
            "Groups, state, closure",
        ),
        Misconception(
            "first_group_only",
            edited(_OneFormula, ("in self.param_groups:", "in self.param_groups[:1]:")),
            "You update the first group alone: walk all of self.param_groups.",
            "Groups, state, closure",
        ),
        Misconception(
            "one_counter",
            edited(
                _OneFormula,
                ("})", '})\n        self.param_groups[0]["count"] = 0'),
                ("        for group", '        self.param_groups[0]["count"] += 1\n        for group'),
                ('beta1 ** state["t"]', 'beta1 ** self.param_groups[0]["count"]'),
                ('beta2 ** state["t"]', 'beta2 ** self.param_groups[0]["count"]'),
            ),
            "You count steps for all parameters together: a parameter whose first gradient comes late starts at t "
            "= 1 then.",
            "Groups, state, closure",
        ),
        Misconception(
            "counter_in_the_loop",
            edited(
                _OneFormula,
                ("})", '})\n        self.param_groups[0]["count"] = 0'),
                ('state["t"] += 1', 'self.param_groups[0]["count"] += 1'),
                ('beta1 ** state["t"]', 'beta1 ** self.param_groups[0]["count"]'),
                ('beta2 ** state["t"]', 'beta2 ** self.param_groups[0]["count"]'),
            ),
            "Your one counter grows with every parameter, several times a step: each parameter counts its own steps.",
            "Groups, state, closure",
        ),
        Misconception(
            "none_as_zero",
            edited(
                _OneFormula,
                ("                if p.grad is None:\n                    continue\n", ""),
                ("self.state[p], p.grad", "self.state[p], torch.zeros_like(p) if p.grad is None else p.grad"),
            ),
            "You treat a missing gradient as zero, so the parameter decays: without a gradient it is left alone.",
            "Trap 3: zero is a gradient, None is not",
        ),
        Misconception(
            "none_crashes",
            edited(_OneFormula, ("                if p.grad is None:\n                    continue\n", "")),
            "You use p.grad without asking whether there is one: a parameter that took no part in the loss has None.",
            "Trap 3: zero is a gradient, None is not",
        ),
        Misconception(
            "none_ends_the_step",
            edited(_OneFormula, ("continue", "return loss")),
            "You leave the step at the first parameter without a gradient: skip that one and go on.",
            "Trap 3: zero is a gradient, None is not",
        ),
        Misconception(
            "zero_skipped",
            edited(_OneFormula, ("p.grad is None", "p.grad is None or not p.grad.any()")),
            "You skip a gradient of zeros: it is a gradient, so the moments fade, the parameter coasts and decays.",
            "Trap 3: zero is a gradient, None is not",
        ),
        Misconception(
            "closure_ignored",
            edited(_OneFormula, ("loss = closure()", "pass")),
            "You never call the closure: it computes the loss and the gradients that this step needs.",
            "Groups, state, closure",
        ),
        Misconception(
            "loss_not_returned",
            edited(_OneFormula, ("        return loss\n", "")),
            "You call the closure but drop its loss: step returns it.",
            "Groups, state, closure",
        ),
        Misconception(
            "closure_without_gradients",
            edited(_OneFormula, ("with torch.enable_grad():\n                loss", "loss")),
            "Your closure runs with gradients switched off: enable them for the call.",
            "Groups, state, closure",
        ),
        Misconception(
            "closure_after_the_update",
            edited(_OneFormula, (_CALL, ""), ("        return loss\n", _CALL + "        return loss\n")),
            "You call the closure after the update: it makes the gradients that the update needs, so it comes first.",
            "Groups, state, closure",
        ),
        Misconception(
            "state_in_attributes",
            edited(
                _OneFormula,
                ("})", "})\n        self.memory = {}"),
                ("self.state[p], p.grad", "self.memory.setdefault(id(p), {}), p.grad"),
            ),
            "Your moments live outside self.state, so state_dict() does not carry them, and a reloaded run starts "
            "cold.",
            "Groups, state, closure",
        ),
        Misconception(
            "nothing_refused",
            edited(_OneFormula, ('raise ValueError("lr must not be negative")', "pass")),
            "Everything else is right, but a negative learning rate goes through: refuse it with a ValueError.",
            "The optimizer as a class",
        ),
        Misconception(
            "asserts_instead",
            edited(
                _OneFormula,
                (
                    'if lr < 0:\n            raise ValueError("lr must not be negative")',
                    'assert lr >= 0, "lr must not be negative"',
                ),
            ),
            "You refuse a negative learning rate with an assert: raise a ValueError, which no switch of Python "
            "turns off.",
            "The optimizer as a class",
        ),
        Misconception(
            "new_tensors",
            edited(_OneFormula, ("p -= lr * (", "p = p - lr * (")),
            "You bind the name p to a new tensor; the model still holds the old one: change the parameter in place.",
            "The optimizer as a class",
        ),
        Misconception(
            "changes_gradients",
            edited(_OneFormula, ("grad**2", "grad.square_()")),
            "The update is right, but you wrote into the gradients on the way: they belong to the caller.",
            "The optimizer as a class",
        ),
        Misconception(
            "own_defaults",
            edited(_OneFormula, ("0.999", "0.99"), ("weight_decay=0.01", "weight_decay=0.0")),
            "Your defaults differ from the signature's: betas (0.9, 0.999), a weight decay of 0.01.",
            "The optimizer as a class",
        ),
    ),
    variants=(_OneFormula, _AsTorchWritesIt, _ThroughData, _ManyAtOnce),
)

CHAPTER = Chapter(
    name="02_adaptive",
    exercises=(ADAGRAD_STEP, RMSPROP_STEP, ADAM_STEP, ADAM_L2_STEP, ADAMW_STEP, ADAMW),
)
