"""Chapter 02, a step size for every parameter: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself.
"""

import numpy as np
import torch

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


def adagrad_ascent(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = accumulator + grad**2
    return theta + lr * grad / (np.sqrt(accumulator) + eps), accumulator


def adagrad_eps_inside_root(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = accumulator + grad**2
    return theta - lr * grad / np.sqrt(accumulator + eps), accumulator


def adagrad_no_root(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = accumulator + grad**2
    return theta - lr * grad / (accumulator + eps), accumulator


def adagrad_no_square(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = accumulator + np.abs(grad)
    return theta - lr * grad / (np.sqrt(accumulator) + eps), accumulator


def adagrad_old_accumulator(theta, accumulator, grad, lr, eps=1e-8):
    return theta - lr * grad / (np.sqrt(accumulator) + eps), accumulator + grad**2


def adagrad_forgets(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = 0.99 * accumulator + 0.01 * grad**2
    return theta - lr * grad / (np.sqrt(accumulator) + eps), accumulator


def adagrad_never_adds(theta, accumulator, grad, lr, eps=1e-8):
    return theta - lr * grad / (np.abs(grad) + eps), grad**2


def adagrad_root_kept(theta, accumulator, grad, lr, eps=1e-8):
    scale = np.sqrt(accumulator + grad**2)
    return theta - lr * grad / (scale + eps), scale


def adagrad_one_rate_for_all(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = accumulator + np.mean(grad**2)
    return theta - lr * grad / (np.sqrt(accumulator) + eps), accumulator


def adagrad_old_accumulator_returned(theta, accumulator, grad, lr, eps=1e-8):
    scale = np.sqrt(accumulator + grad**2)
    return theta - lr * grad / (scale + eps), accumulator


def adagrad_no_eps(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = accumulator + grad**2
    return theta - lr * grad / np.sqrt(accumulator), accumulator


def adagrad_fixed_eps(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = accumulator + grad**2
    return theta - lr * grad / (np.sqrt(accumulator) + 1e-8), accumulator


def adagrad_only_theta(theta, accumulator, grad, lr, eps=1e-8):
    return theta - lr * grad / (np.sqrt(accumulator + grad**2) + eps)


def adagrad_results_swapped(theta, accumulator, grad, lr, eps=1e-8):
    accumulator = accumulator + grad**2
    return accumulator, theta - lr * grad / (np.sqrt(accumulator) + eps)


def adagrad_in_place(theta, accumulator, grad, lr, eps=1e-8):
    accumulator += grad**2
    theta -= lr * grad / (np.sqrt(accumulator) + eps)
    return theta, accumulator


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
            adagrad_ascent,
            "You add the step; the gradient points uphill, whatever it is divided by, so the step goes against it.",
            "A rate of its own",
        ),
        Misconception(
            "eps_inside_root",
            adagrad_eps_inside_root,
            "You add eps inside the root; it stands outside, in the unit of the gradient.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "no_root",
            adagrad_no_root,
            "You divide by the sum of squares itself; its root is what has the gradient's unit.",
            "A rate of its own",
        ),
        Misconception(
            "no_square",
            adagrad_no_square,
            "You accumulate the gradient's size; what accumulates is its square.",
            "A rate of its own",
        ),
        Misconception(
            "old_accumulator",
            adagrad_old_accumulator,
            "You divide by the accumulator from before this gradient: add the new square first, or the first step "
            "divides by nothing.",
            "A rate of its own",
        ),
        Misconception(
            "forgets",
            adagrad_forgets,
            "Your accumulator forgets; AdaGrad's only grows, and forgetting is RMSProp's idea.",
            "The rate that dies",
        ),
        Misconception(
            "never_adds",
            adagrad_never_adds,
            "You divide by this gradient's own size and forget all the earlier ones: add its square to what came in.",
            "A rate of its own",
        ),
        Misconception(
            "root_kept",
            adagrad_root_kept,
            "You hand back the root as state; the next step needs the sum of squares itself.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "one_rate_for_all",
            adagrad_one_rate_for_all,
            "You average over the array, so that all parameters share one rate: each keeps a sum of its own.",
            "A rate of its own",
        ),
        Misconception(
            "old_accumulator_returned",
            adagrad_old_accumulator_returned,
            "You use the new sum but return the old one: the next step needs the new one as its state.",
            "A rate of its own",
        ),
        Misconception(
            "no_eps",
            adagrad_no_eps,
            "You left eps out: with nothing accumulated and a gradient of zero, that divides zero by zero.",
            "A rate of its own",
        ),
        Misconception(
            "fixed_eps",
            adagrad_fixed_eps,
            "You wrote a number for eps into the formula: use the argument, which may be another number.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "only_theta",
            adagrad_only_theta,
            "You return the parameters alone: the accumulator is state, and the next step needs it back.",
            "A rate of its own",
        ),
        Misconception(
            "results_swapped",
            adagrad_results_swapped,
            "You return the accumulator first: the order is parameters, then accumulator.",
            "A rate of its own",
        ),
        Misconception(
            "in_place",
            adagrad_in_place,
            "Your results are right, but you changed the caller's arrays on the way (+=, -= work in place): make "
            "new ones.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(adagrad_on_copies, adagrad_rate_first, adagrad_float32, adagrad_torch),
)


# --- rmsprop_step -----------------------------------------------------------------------------------------------------


def rmsprop_ascent(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + (1 - beta) * grad**2
    return theta + lr * grad / (np.sqrt(average) + eps), average


def rmsprop_adagrad(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = average + grad**2
    return theta - lr * grad / (np.sqrt(average) + eps), average


def rmsprop_whole_square(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + grad**2
    return theta - lr * grad / (np.sqrt(average) + eps), average


def rmsprop_swapped_shares(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = (1 - beta) * average + beta * grad**2
    return theta - lr * grad / (np.sqrt(average) + eps), average


def rmsprop_no_square(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + (1 - beta) * np.abs(grad)
    return theta - lr * grad / (np.sqrt(average) + eps), average


def rmsprop_no_root(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + (1 - beta) * grad**2
    return theta - lr * grad / (average + eps), average


def rmsprop_eps_inside_root(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + (1 - beta) * grad**2
    return theta - lr * grad / np.sqrt(average + eps), average


def rmsprop_old_average(theta, average, grad, lr, beta=0.99, eps=1e-8):
    new = beta * average + (1 - beta) * grad**2
    return theta - lr * grad / (np.sqrt(average) + eps), new


def rmsprop_old_average_returned(theta, average, grad, lr, beta=0.99, eps=1e-8):
    new = beta * average + (1 - beta) * grad**2
    return theta - lr * grad / (np.sqrt(new) + eps), average


def rmsprop_share_squared(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + ((1 - beta) * grad) ** 2
    return theta - lr * grad / (np.sqrt(average) + eps), average


def rmsprop_first_step_whole(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + (1 - beta) * grad**2 if np.any(average) else grad**2
    return theta - lr * grad / (np.sqrt(average) + eps), average


def rmsprop_root_kept(theta, average, grad, lr, beta=0.99, eps=1e-8):
    scale = np.sqrt(beta * average + (1 - beta) * grad**2)
    return theta - lr * grad / (scale + eps), scale


def rmsprop_fixed_beta(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = 0.99 * average + 0.01 * grad**2
    return theta - lr * grad / (np.sqrt(average) + eps), average


def rmsprop_fixed_eps(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + (1 - beta) * grad**2
    return theta - lr * grad / (np.sqrt(average) + 1e-8), average


def rmsprop_only_theta(theta, average, grad, lr, beta=0.99, eps=1e-8):
    return theta - lr * grad / (np.sqrt(beta * average + (1 - beta) * grad**2) + eps)


def rmsprop_results_swapped(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average = beta * average + (1 - beta) * grad**2
    return average, theta - lr * grad / (np.sqrt(average) + eps)


def rmsprop_in_place(theta, average, grad, lr, beta=0.99, eps=1e-8):
    average *= beta
    average += (1 - beta) * grad**2
    theta -= lr * grad / (np.sqrt(average) + eps)
    return theta, average


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
            rmsprop_ascent,
            "You add the step; the gradient points uphill, whatever it is divided by, so the step goes against it.",
            "An average instead of a sum",
        ),
        Misconception(
            "adagrad",
            rmsprop_adagrad,
            "You add up the squares, which is AdaGrad; RMSProp averages them, so that old ones are forgotten.",
            "An average instead of a sum",
        ),
        Misconception(
            "whole_square",
            rmsprop_whole_square,
            "The old average decays, but the new square enters whole; in an average the two shares add up to one.",
            "An average instead of a sum",
        ),
        Misconception(
            "swapped_shares",
            rmsprop_swapped_shares,
            "You swapped the shares: beta is what is kept of the old average, and the new square gets the rest.",
            "An average instead of a sum",
        ),
        Misconception(
            "no_square",
            rmsprop_no_square,
            "You average the gradient's size; what is averaged is its square.",
            "An average instead of a sum",
        ),
        Misconception(
            "no_root",
            rmsprop_no_root,
            "You divide by the average itself; its root is what has the gradient's unit.",
            "An average instead of a sum",
        ),
        Misconception(
            "eps_inside_root",
            rmsprop_eps_inside_root,
            "You add eps inside the root, as some libraries do; here it stands outside.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "old_average",
            rmsprop_old_average,
            "You divide by the average from before this gradient: update it first, then use it.",
            "An average instead of a sum",
        ),
        Misconception(
            "old_average_returned",
            rmsprop_old_average_returned,
            "You use the new average but return the old one: the next step needs the new one as its state.",
            "An average instead of a sum",
        ),
        Misconception(
            "share_squared",
            rmsprop_share_squared,
            "You square the gradient's share along with the gradient: square first, then take the share.",
            "An average instead of a sum",
        ),
        Misconception(
            "first_step_whole",
            rmsprop_first_step_whole,
            "You start the average at the first square: it starts at zero and takes only its share, so the first "
            "step is long.",
            "An average instead of a sum",
        ),
        Misconception(
            "root_kept",
            rmsprop_root_kept,
            "You hand back the root as state; the next step needs the average of the squares itself.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "fixed_beta",
            rmsprop_fixed_beta,
            "You wrote the default into the formula: use the argument beta, which may be another number.",
            "Trap 2: the window that a β means",
        ),
        Misconception(
            "fixed_eps",
            rmsprop_fixed_eps,
            "You wrote a number for eps into the formula: use the argument, which may be another number.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "only_theta",
            rmsprop_only_theta,
            "You return the parameters alone: the average is state, and the next step needs it back.",
            "An average instead of a sum",
        ),
        Misconception(
            "results_swapped",
            rmsprop_results_swapped,
            "You return the average first: the order is parameters, then average.",
            "An average instead of a sum",
        ),
        Misconception(
            "in_place",
            rmsprop_in_place,
            "Your results are right, but you changed the caller's arrays on the way (*=, +=, -= work in place): "
            "make new ones.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(rmsprop_on_copies, rmsprop_towards_the_square, rmsprop_float32, rmsprop_torch),
)


# --- adam_step --------------------------------------------------------------------------------------------------------


def adam_ascent(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta + lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_no_correction(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    return theta - lr * m / (np.sqrt(v) + eps), m, v


def adam_only_m_corrected(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    return theta - lr * m_hat / (np.sqrt(v) + eps), m, v


def adam_only_v_corrected(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    v_hat = v / (1 - beta2**t)
    return theta - lr * m / (np.sqrt(v_hat) + eps), m, v


def adam_correction_multiplied(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m * (1 - beta1**t)
    v_hat = v * (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_correction_beta_times_t(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1)
    v_hat = v / (1 - beta2)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_t_from_zero(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1 ** (t + 1))
    v_hat = v / (1 - beta2 ** (t + 1))
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_t_one_behind(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1 ** max(t - 1, 1))
    v_hat = v / (1 - beta2 ** max(t - 1, 1))
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_corrected_state(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m = m / (1 - beta1**t)
    v = v / (1 - beta2**t)
    return theta - lr * m / (np.sqrt(v) + eps), m, v


def adam_correction_outside_root(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    return theta - lr * m_hat / (np.sqrt(v) / (1 - beta2**t) + eps), m, v


def adam_eps_inside_root(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / np.sqrt(v_hat + eps), m, v


def adam_eps_before_correction(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    rate = lr * np.sqrt(1 - beta2**t) / (1 - beta1**t)
    return theta - rate * m / (np.sqrt(v) + eps), m, v


def adam_betas_swapped(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta2 * m + (1 - beta2) * grad
    v = beta1 * v + (1 - beta1) * grad**2
    m_hat = m / (1 - beta2**t)
    v_hat = v / (1 - beta1**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_shares_swapped(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = (1 - beta1) * m + beta1 * grad
    v = (1 - beta2) * v + beta2 * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_no_square(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * np.abs(grad)
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_square_of_m(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * m**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_no_root(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (v_hat + eps), m, v


def adam_steps_by_gradient(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    v_hat = v / (1 - beta2**t)
    return theta - lr * grad / (np.sqrt(v_hat) + eps), m, v


def adam_old_moments(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    new_m = beta1 * m + (1 - beta1) * grad
    new_v = beta2 * v + (1 - beta2) * grad**2
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), new_m, new_v


def adam_old_moments_returned(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    new_m = beta1 * m + (1 - beta1) * grad
    new_v = beta2 * v + (1 - beta2) * grad**2
    m_hat = new_m / (1 - beta1**t)
    v_hat = new_v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_fixed_betas(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = 0.9 * m + 0.1 * grad
    v = 0.999 * v + 0.001 * grad**2
    m_hat = m / (1 - 0.9**t)
    v_hat = v / (1 - 0.999**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_fixed_eps(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + 1e-8), m, v


def adam_only_theta(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps)


def adam_moments_swapped(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), v, m


def adam_in_place(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8):
    m *= beta1
    m += (1 - beta1) * grad
    v *= beta2
    v += (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    theta -= lr * m_hat / (np.sqrt(v_hat) + eps)
    return theta, m, v


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
            adam_ascent,
            "You add the step; m averages gradients, which point uphill, so the step goes against it.",
            "Two averages: Adam",
        ),
        Misconception(
            "no_correction",
            adam_no_correction,
            "You left out the correction: both averages start at zero, and what is too small in v makes the first "
            "steps too large.",
            "Averages that start at zero",
        ),
        Misconception(
            "only_m_corrected",
            adam_only_m_corrected,
            "You correct m but not v: both averages start at zero, and each needs its own correction.",
            "Averages that start at zero",
        ),
        Misconception(
            "only_v_corrected",
            adam_only_v_corrected,
            "You correct v but not m: both averages start at zero, and each needs its own correction.",
            "Averages that start at zero",
        ),
        Misconception(
            "correction_multiplied",
            adam_correction_multiplied,
            "You multiply by the sum of the weights; an average that lacks weight is divided by it.",
            "Averages that start at zero",
        ),
        Misconception(
            "correction_beta_times_t",
            adam_correction_beta_times_t,
            "Your correction does not know t: it is the power beta**t that fades as the steps go on.",
            "Averages that start at zero",
        ),
        Misconception(
            "t_from_zero",
            adam_t_from_zero,
            "Your exponent is one too large: t counts from 1, so the first step uses the first power.",
            "Averages that start at zero",
        ),
        Misconception(
            "t_one_behind",
            adam_t_one_behind,
            "Your exponent is one too small: t is the number of this step, and the averages already hold its gradient.",
            "Averages that start at zero",
        ),
        Misconception(
            "corrected_state",
            adam_corrected_state,
            "You hand back the corrected moments, so that the next step corrects them again: keep the plain "
            "averages as state.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "correction_outside_root",
            adam_correction_outside_root,
            "You correct the root of v; correct v first, then take the root.",
            "Averages that start at zero",
        ),
        Misconception(
            "eps_inside_root",
            adam_eps_inside_root,
            "You add eps inside the root; it stands outside, where it compares with the gradient's size.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "eps_before_correction",
            adam_eps_before_correction,
            "You add eps to the root of the plain v, the paper's short form with another epsilon; here v is "
            "corrected first.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "betas_swapped",
            adam_betas_swapped,
            "You swapped the betas: beta1 belongs to m, beta2 to v.",
            "Two averages: Adam",
        ),
        Misconception(
            "shares_swapped",
            adam_shares_swapped,
            "You swapped the shares: each beta is what is kept of the old average.",
            "Two averages: Adam",
        ),
        Misconception(
            "no_square",
            adam_no_square,
            "You average the gradient's size into v; v averages its square.",
            "Two averages: Adam",
        ),
        Misconception(
            "square_of_m",
            adam_square_of_m,
            "You square m instead of the gradient: v is the average of the squares, not the square of the average.",
            "Two averages: Adam",
        ),
        Misconception(
            "no_root",
            adam_no_root,
            "You divide by the corrected v itself; its root is what has the gradient's unit.",
            "Two averages: Adam",
        ),
        Misconception(
            "steps_by_gradient",
            adam_steps_by_gradient,
            "You step along the bare gradient, which is RMSProp with a correction: Adam steps along the corrected m.",
            "Two averages: Adam",
        ),
        Misconception(
            "old_moments",
            adam_old_moments,
            "You step with the moments from before this gradient: update both first, then use them.",
            "Two averages: Adam",
        ),
        Misconception(
            "old_moments_returned",
            adam_old_moments_returned,
            "You use the new moments but return the old ones: the next step needs the new ones as its state.",
            "Two averages: Adam",
        ),
        Misconception(
            "fixed_betas",
            adam_fixed_betas,
            "You wrote the defaults into the formula: use the arguments beta1 and beta2.",
            "Two averages: Adam",
        ),
        Misconception(
            "fixed_eps",
            adam_fixed_eps,
            "You wrote a number for eps into the formula: use the argument, which may be another number.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "only_theta",
            adam_only_theta,
            "You return the parameters alone: both moments are state, and the next step needs them back.",
            "Two averages: Adam",
        ),
        Misconception(
            "moments_swapped",
            adam_moments_swapped,
            "You return v before m: the order is theta, m, v.",
            "Two averages: Adam",
        ),
        Misconception(
            "in_place",
            adam_in_place,
            "Your results are right, but you changed the caller's arrays on the way (*=, +=, -= work in place): "
            "make new ones.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(adam_on_copies, adam_as_torch_writes_it, adam_float32, adam_torch),
)


# --- adam_l2_step -----------------------------------------------------------------------------------------------------


def adam_l2_decoupled(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / (np.sqrt(v_hat) + eps) + weight_decay * theta), m, v


def adam_l2_no_decay(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_wrong_sign(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad - weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_twice(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + 2 * weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_with_lr(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + lr * weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_l1(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + weight_decay * np.sign(theta)
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_only_in_m(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * (grad + weight_decay * theta)
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_only_in_v(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * (grad + weight_decay * theta) ** 2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_after_the_moments(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat + weight_decay * theta) / (np.sqrt(v_hat) + eps), m, v


def adam_l2_scales_the_gradient(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = (1 + weight_decay) * grad
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_fixed_decay(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + 0.01 * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_both(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta * (1 - lr * weight_decay) - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adam_l2_no_correction(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    return theta - lr * m / (np.sqrt(v) + eps), m, v


def adam_l2_only_theta(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps)


def adam_l2_in_place(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad += weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


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
            adam_l2_decoupled,
            "You decay beside Adam's step, which is AdamW; in the coupled form the decay goes through the "
            "gradient and both moments.",
            "Decay through the gradient",
        ),
        Misconception(
            "no_decay",
            adam_l2_no_decay,
            "You take a plain step of Adam: add the penalty's gradient to the gradient first.",
            "Decay through the gradient",
        ),
        Misconception(
            "wrong_sign",
            adam_l2_wrong_sign,
            "You subtract the penalty's gradient, which makes the parameters grow; it is added to the loss's gradient.",
            "Decay through the gradient",
        ),
        Misconception(
            "twice",
            adam_l2_twice,
            "Your penalty is twice too strong: with λ/2 in front of the square, its gradient is λθ.",
            "Decay through the gradient",
        ),
        Misconception(
            "with_lr",
            adam_l2_with_lr,
            "You multiply the penalty by lr before it enters the gradient; Adam's own step brings in lr, once.",
            "Decay through the gradient",
        ),
        Misconception(
            "l1",
            adam_l2_l1,
            "You use the sign of theta, the gradient of an L1 penalty; an L2 penalty's gradient is in proportion "
            "to theta.",
            "Decay through the gradient",
        ),
        Misconception(
            "only_in_m",
            adam_l2_only_in_m,
            "You put the penalty into m alone; coupled means that Adam sees one gradient, so v sees the penalty too.",
            "Decay through the gradient",
        ),
        Misconception(
            "only_in_v",
            adam_l2_only_in_v,
            "You put the penalty into v alone; coupled means that Adam sees one gradient, so m sees the penalty too.",
            "Decay through the gradient",
        ),
        Misconception(
            "after_the_moments",
            adam_l2_after_the_moments,
            "You add the penalty after the moments are made; add it to the gradient, before Adam sees anything.",
            "Decay through the gradient",
        ),
        Misconception(
            "scales_the_gradient",
            adam_l2_scales_the_gradient,
            "You scale the gradient; the penalty's gradient depends on theta.",
            "Decay through the gradient",
        ),
        Misconception(
            "fixed_decay",
            adam_l2_fixed_decay,
            "You wrote the default into the formula: use the argument weight_decay.",
            "Decay through the gradient",
        ),
        Misconception(
            "both",
            adam_l2_both,
            "You decay twice, through the gradient and beside it: the coupled form has the first alone.",
            "Decay through the gradient",
        ),
        Misconception(
            "no_correction",
            adam_l2_no_correction,
            "Your Adam lacks the correction of its moments: this exercise changes its gradient and nothing else.",
            "Averages that start at zero",
        ),
        Misconception(
            "only_theta",
            adam_l2_only_theta,
            "You return the parameters alone: both moments are state, and the next step needs them back.",
            "Two averages: Adam",
        ),
        Misconception(
            "in_place",
            adam_l2_in_place,
            "Your results are right, but you added the penalty into the caller's gradient (+= works in place): "
            "make a new array.",
            "Trap 4: state that is not what you think",
        ),
    ),
    variants=(adam_l2_written_out, adam_l2_moments_first, adam_l2_float32),
)


# --- adamw_step -------------------------------------------------------------------------------------------------------


def adamw_coupled(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adamw_no_decay(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adamw_after_the_step(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    theta = theta - lr * m_hat / (np.sqrt(v_hat) + eps)
    return theta * (1 - lr * weight_decay), m, v


def adamw_without_lr(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps) - weight_decay * theta, m, v


def adamw_lr_twice(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / (np.sqrt(v_hat) + eps) + lr * weight_decay * theta), m, v


def adamw_wrong_sign(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / (np.sqrt(v_hat) + eps) - weight_decay * theta), m, v


def adamw_divided_by_scale(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat + weight_decay * theta) / (np.sqrt(v_hat) + eps), m, v


def adamw_twice(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / (np.sqrt(v_hat) + eps) + 2 * weight_decay * theta), m, v


def adamw_both(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    grad = grad + weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / (np.sqrt(v_hat) + eps) + weight_decay * theta), m, v


def adamw_l1(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / (np.sqrt(v_hat) + eps) + weight_decay * np.sign(theta)), m, v


def adamw_implicit(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    theta = theta - lr * m_hat / (np.sqrt(v_hat) + eps)
    return theta / (1 + lr * weight_decay), m, v


def adamw_decays_the_step(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (1 - lr * weight_decay) * m_hat / (np.sqrt(v_hat) + eps), m, v


def adamw_fixed_decay(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / (np.sqrt(v_hat) + eps) + 0.01 * theta), m, v


def adamw_no_correction(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    return theta - lr * (m / (np.sqrt(v) + eps) + weight_decay * theta), m, v


def adamw_eps_inside_root(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / np.sqrt(v_hat + eps) + weight_decay * theta), m, v


def adamw_eps_before_correction(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    rate = lr * np.sqrt(1 - beta2**t) / (1 - beta1**t)
    return theta - rate * m / (np.sqrt(v) + eps) - lr * weight_decay * theta, m, v


def adamw_corrected_state(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m = m / (1 - beta1**t)
    v = v / (1 - beta2**t)
    return theta - lr * (m / (np.sqrt(v) + eps) + weight_decay * theta), m, v


def adamw_decay_in_m(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * (grad + weight_decay * theta)
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v


def adamw_only_theta(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * (m_hat / (np.sqrt(v_hat) + eps) + weight_decay * theta)


def adamw_in_place(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    theta *= 1 - lr * weight_decay
    theta -= lr * m_hat / (np.sqrt(v_hat) + eps)
    return theta, m, v


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
            adamw_coupled,
            "You add the decay to the gradient, which is Adam with L2: decoupled means that the moments never see it.",
            "Decay beside the gradient",
        ),
        Misconception(
            "no_decay",
            adamw_no_decay,
            "You take a plain step of Adam: the decay is missing.",
            "Decay beside the gradient",
        ),
        Misconception(
            "after_the_step",
            adamw_after_the_step,
            "You decay the parameters that Adam has already moved: the decay is taken from the theta before the step.",
            "Three places for one decay",
        ),
        Misconception(
            "without_lr",
            adamw_without_lr,
            "Your decay does not know the learning rate: one step removes lr·λ of each parameter.",
            "Decay beside the gradient",
        ),
        Misconception(
            "lr_twice",
            adamw_lr_twice,
            "The learning rate stands twice in your decay: one step removes lr·λ of each parameter.",
            "Decay beside the gradient",
        ),
        Misconception(
            "wrong_sign",
            adamw_wrong_sign,
            "Your decay pushes the parameters away from zero: it must take off, not add.",
            "Decay beside the gradient",
        ),
        Misconception(
            "divided_by_scale",
            adamw_divided_by_scale,
            "You divide the decay by the root of v too, so it is strong where gradients are small: it stands "
            "beside that quotient.",
            "Decay beside the gradient",
        ),
        Misconception(
            "twice",
            adamw_twice,
            "Your decay is twice too strong: one step removes lr·λ of each parameter.",
            "Decay beside the gradient",
        ),
        Misconception(
            "both",
            adamw_both,
            "You decay twice, through the gradient and beside it: AdamW has the second alone.",
            "Decay beside the gradient",
        ),
        Misconception(
            "l1",
            adamw_l1,
            "You decay by the sign of theta, so all shrink by the same amount: here all shrink by the same share.",
            "Decay beside the gradient",
        ),
        Misconception(
            "implicit",
            adamw_implicit,
            "You divide by 1 + lr·λ after the step: it looks alike for tiny values, but AdamW subtracts a share "
            "of the old theta.",
            "Three places for one decay",
        ),
        Misconception(
            "decays_the_step",
            adamw_decays_the_step,
            "You shrink the step instead of the parameters: the decay takes a share of theta.",
            "Decay beside the gradient",
        ),
        Misconception(
            "fixed_decay",
            adamw_fixed_decay,
            "You wrote the default into the formula: use the argument weight_decay.",
            "Decay beside the gradient",
        ),
        Misconception(
            "no_correction",
            adamw_no_correction,
            "Your Adam lacks the correction of its moments: AdamW's step is Adam's step, and a decay beside it.",
            "Averages that start at zero",
        ),
        Misconception(
            "eps_inside_root",
            adamw_eps_inside_root,
            "You add eps inside the root; as in Adam it stands outside.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "eps_before_correction",
            adamw_eps_before_correction,
            "You add eps to the root of the plain v; as in Adam, v is corrected first.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "corrected_state",
            adamw_corrected_state,
            "You hand back the corrected moments, so that the next step corrects them again: keep the plain "
            "averages as state.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "decay_in_m",
            adamw_decay_in_m,
            "You put the decay into m: decoupled means that neither moment sees it.",
            "Decay beside the gradient",
        ),
        Misconception(
            "only_theta",
            adamw_only_theta,
            "You return the parameters alone: both moments are state, and the next step needs them back.",
            "Two averages: Adam",
        ),
        Misconception(
            "in_place",
            adamw_in_place,
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


class _PlainAdam(torch.optim.Optimizer):
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
            eps = group["eps"]
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
                p -= lr * m_hat / (v_hat.sqrt() + eps)
        return loss


class _Coupled(torch.optim.Optimizer):
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
                state, grad = self.state[p], p.grad + decay * p
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * grad**2
                m_hat = state["m"] / (1 - beta1 ** state["t"])
                v_hat = state["v"] / (1 - beta2 ** state["t"])
                p -= lr * m_hat / (v_hat.sqrt() + eps)
        return loss


class _DecayAfter(torch.optim.Optimizer):
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
                p -= lr * m_hat / (v_hat.sqrt() + eps)
                p *= 1 - lr * decay
        return loss


class _DecayWithoutRate(torch.optim.Optimizer):
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
                p -= lr * m_hat / (v_hat.sqrt() + eps) + decay * p
        return loss


class _DecayWrongSign(torch.optim.Optimizer):
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
                p -= lr * (m_hat / (v_hat.sqrt() + eps) - decay * p)
        return loss


class _DecayScaled(torch.optim.Optimizer):
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
                p -= lr * (m_hat + decay * p) / (v_hat.sqrt() + eps)
        return loss


class _NoCorrection(torch.optim.Optimizer):
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
                p -= lr * (state["m"] / (state["v"].sqrt() + eps) + decay * p)
        return loss


class _EpsInside(torch.optim.Optimizer):
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
                p -= lr * (m_hat / (v_hat + eps).sqrt() + decay * p)
        return loss


class _EpsBeforeCorrection(torch.optim.Optimizer):
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
                v_hat, eps_hat = state["v"], (1 - beta2 ** state["t"]) ** 0.5
                p -= lr * (m_hat * eps_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


class _CorrectedState(torch.optim.Optimizer):
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
                state["m"] = m_hat = state["m"] / (1 - beta1 ** state["t"])
                state["v"] = v_hat = state["v"] / (1 - beta2 ** state["t"])
                p -= lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


class _Ascent(torch.optim.Optimizer):
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
                p += lr * (m_hat / (v_hat.sqrt() + eps) - decay * p)
        return loss


class _OneRate(torch.optim.Optimizer):
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
            lr, (beta1, beta2) = self.defaults["lr"], self.defaults["betas"]
            eps, decay = self.defaults["eps"], self.defaults["weight_decay"]
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


class _RateFromTheStart(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        for group in self.param_groups:
            group["first_lr"] = group["lr"]

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, (beta1, beta2) = group["first_lr"], group["betas"]
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


class _FirstGroup(torch.optim.Optimizer):
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
        for group in self.param_groups[:1]:
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


class _OneCounter(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.param_groups[0]["count"] = 0

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.param_groups[0]["count"] += 1
        count = self.param_groups[0]["count"]
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            eps, decay = group["eps"], group["weight_decay"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, grad = self.state[p], p.grad
                if not state:
                    state.update(m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["m"] = beta1 * state["m"] + (1 - beta1) * grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * grad**2
                m_hat = state["m"] / (1 - beta1**count)
                v_hat = state["v"] / (1 - beta2**count)
                p -= lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


class _CounterInTheLoop(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.param_groups[0]["count"] = 0

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
                    state.update(m=torch.zeros_like(p), v=torch.zeros_like(p))
                self.param_groups[0]["count"] += 1
                count = self.param_groups[0]["count"]
                state["m"] = beta1 * state["m"] + (1 - beta1) * grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * grad**2
                m_hat = state["m"] / (1 - beta1**count)
                v_hat = state["v"] / (1 - beta2**count)
                p -= lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


class _NoneAsZero(torch.optim.Optimizer):
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
                state, grad = self.state[p], torch.zeros_like(p) if p.grad is None else p.grad
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * grad**2
                m_hat = state["m"] / (1 - beta1 ** state["t"])
                v_hat = state["v"] / (1 - beta2 ** state["t"])
                p -= lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


class _NoneCrashes(torch.optim.Optimizer):
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


class _NoneEndsTheStep(torch.optim.Optimizer):
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
                    return loss
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


class _ZeroSkipped(torch.optim.Optimizer):
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
                if p.grad is None or not p.grad.any():
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


class _ClosureIgnored(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
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


class _LossNotReturned(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        if closure is not None:
            with torch.enable_grad():
                closure()
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


class _ClosureWithoutGradients(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else closure()
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


class _ClosureAfter(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
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
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()


class _StateInAttributes(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError("lr must not be negative")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.memory = {}

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
                state, grad = self.memory.setdefault(id(p), {}), p.grad
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * grad**2
                m_hat = state["m"] / (1 - beta1 ** state["t"])
                v_hat = state["v"] / (1 - beta2 ** state["t"])
                p -= lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


class _NothingRefused(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
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


class _AssertsInstead(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        assert lr >= 0, "lr must not be negative"
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


class _NewTensors(torch.optim.Optimizer):
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
                p = p - lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


class _ChangesGradients(torch.optim.Optimizer):
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
                state["v"] = beta2 * state["v"] + (1 - beta2) * grad.square_()
                m_hat = state["m"] / (1 - beta1 ** state["t"])
                v_hat = state["v"] / (1 - beta2 ** state["t"])
                p -= lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)
        return loss


class _OwnDefaults(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0):
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
            _PlainAdam,
            "Your step is Adam's: the decay is missing.",
            "Decay beside the gradient",
        ),
        Misconception(
            "coupled",
            _Coupled,
            "You add the decay to the gradient, which is Adam with L2: decoupled means that the moments never see it.",
            "Decay beside the gradient",
        ),
        Misconception(
            "decay_after_step",
            _DecayAfter,
            "You decay the parameter after Adam has moved it: decay it first, or take the decay from its old value.",
            "Three places for one decay",
        ),
        Misconception(
            "decay_without_lr",
            _DecayWithoutRate,
            "Your decay does not know the learning rate: one step removes lr·λ of each parameter.",
            "Decay beside the gradient",
        ),
        Misconception(
            "decay_wrong_sign",
            _DecayWrongSign,
            "Your decay pushes the parameters away from zero: it must take off, not add.",
            "Decay beside the gradient",
        ),
        Misconception(
            "decay_divided_by_scale",
            _DecayScaled,
            "You divide the decay by the root of v too: it stands beside that quotient.",
            "Decay beside the gradient",
        ),
        Misconception(
            "no_correction",
            _NoCorrection,
            "You left out the correction of the two averages, so the first steps come out too large.",
            "Averages that start at zero",
        ),
        Misconception(
            "eps_inside_root",
            _EpsInside,
            "You add eps inside the root; it stands outside.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "eps_before_correction",
            _EpsBeforeCorrection,
            "You add eps to the root of the plain v; v is corrected first.",
            "Trap 1: an ε in another place",
        ),
        Misconception(
            "corrected_state",
            _CorrectedState,
            "You store the corrected moments, so that the next step corrects them again: keep the plain averages "
            "in the state.",
            "Trap 4: state that is not what you think",
        ),
        Misconception(
            "ascent",
            _Ascent,
            "You add the step; m averages gradients, which point uphill, so the step goes against it.",
            "Two averages: Adam",
        ),
        Misconception(
            "one_rate_for_all_groups",
            _OneRate,
            "You use the defaults for all groups: read lr and the other settings from the group at hand.",
            "Groups, state, closure",
        ),
        Misconception(
            "rate_from_the_start",
            _RateFromTheStart,
            "You keep the learning rate from the start: a schedule changes the group's lr during the run, so read "
            "it at every step.",
            "Groups, state, closure",
        ),
        Misconception(
            "first_group_only",
            _FirstGroup,
            "You update the first group alone: walk all of self.param_groups.",
            "Groups, state, closure",
        ),
        Misconception(
            "one_counter",
            _OneCounter,
            "You count steps for all parameters together: a parameter whose first gradient comes late starts at t "
            "= 1 then.",
            "Groups, state, closure",
        ),
        Misconception(
            "counter_in_the_loop",
            _CounterInTheLoop,
            "Your one counter grows with every parameter, several times a step: each parameter counts its own steps.",
            "Groups, state, closure",
        ),
        Misconception(
            "none_as_zero",
            _NoneAsZero,
            "You treat a missing gradient as zero, so the parameter decays: without a gradient it is left alone.",
            "Trap 3: zero is a gradient, None is not",
        ),
        Misconception(
            "none_crashes",
            _NoneCrashes,
            "You use p.grad without asking whether there is one: a parameter that took no part in the loss has None.",
            "Trap 3: zero is a gradient, None is not",
        ),
        Misconception(
            "none_ends_the_step",
            _NoneEndsTheStep,
            "You leave the step at the first parameter without a gradient: skip that one and go on.",
            "Trap 3: zero is a gradient, None is not",
        ),
        Misconception(
            "zero_skipped",
            _ZeroSkipped,
            "You skip a gradient of zeros: it is a gradient, so the moments fade, the parameter coasts and decays.",
            "Trap 3: zero is a gradient, None is not",
        ),
        Misconception(
            "closure_ignored",
            _ClosureIgnored,
            "You never call the closure: it computes the loss and the gradients that this step needs.",
            "Groups, state, closure",
        ),
        Misconception(
            "loss_not_returned",
            _LossNotReturned,
            "You call the closure but drop its loss: step returns it.",
            "Groups, state, closure",
        ),
        Misconception(
            "closure_without_gradients",
            _ClosureWithoutGradients,
            "Your closure runs with gradients switched off: enable them for the call.",
            "Groups, state, closure",
        ),
        Misconception(
            "closure_after_the_update",
            _ClosureAfter,
            "You call the closure after the update: it makes the gradients that the update needs, so it comes first.",
            "Groups, state, closure",
        ),
        Misconception(
            "state_in_attributes",
            _StateInAttributes,
            "Your moments live outside self.state, so state_dict() does not carry them, and a reloaded run starts "
            "cold.",
            "Groups, state, closure",
        ),
        Misconception(
            "nothing_refused",
            _NothingRefused,
            "Everything else is right, but a negative learning rate goes through: refuse it with a ValueError.",
            "The optimizer as a class",
        ),
        Misconception(
            "asserts_instead",
            _AssertsInstead,
            "You refuse a negative learning rate with an assert: raise a ValueError, which no switch of Python "
            "turns off.",
            "The optimizer as a class",
        ),
        Misconception(
            "new_tensors",
            _NewTensors,
            "You bind the name p to a new tensor; the model still holds the old one: change the parameter in place.",
            "The optimizer as a class",
        ),
        Misconception(
            "changes_gradients",
            _ChangesGradients,
            "The update is right, but you wrote into the gradients on the way: they belong to the caller.",
            "The optimizer as a class",
        ),
        Misconception(
            "own_defaults",
            _OwnDefaults,
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
