"""Chapter 03, many devices, one step: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself.
"""

import numpy as np
import torch

from autograder.edited import edited
from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import large_batch

_rng = np.random.default_rng(3)
_vector = _rng.normal(size=(6, 5))
_matrix = _rng.normal(size=(6, 3, 2))
_cube = _rng.normal(size=(3, 2, 3, 4))
_grads = _rng.normal(size=(5, 3, 2))
_FLOAT32 = {"rtol": 1e-5, "atol": 1e-6}

# --- linear_scaled_lr -------------------------------------------------------------------------------------------------


def linear_factor_first(base_lr, base_batch, batch):
    if min(base_batch, batch) < 1:
        raise ValueError("a batch holds at least one example")
    return (batch / base_batch) * base_lr


def linear_rate_of_one_example(base_lr, base_batch, batch):
    if not (base_batch >= 1 and batch >= 1):
        raise ValueError
    return np.float64(base_lr / base_batch) * batch


def linear_zero_d(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError("too small")
    return np.array(base_lr) * batch / base_batch


def linear_torch(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError("too small")
    return torch.tensor(base_lr, dtype=torch.float64) * batch / base_batch


_RULE = "The linear scaling rule"

LINEAR_SCALED_LR = Exercise(
    reference=large_batch.linear_scaled_lr,
    points=2,
    section=_RULE,
    cases=(
        Case("a batch 32 times as large", (0.1, 256, 8192), weight=2),
        Case("the batch that was tuned", (0.3, 96, 96), weight=0.5),
        Case("a smaller batch", (0.1, 256, 32)),
        Case("a batch that is no multiple", (0.05, 96, 1000)),
        Case("batches of a single example", (0.2, 1, 1), weight=0.5),
        Case("a tiny learning rate", (3e-7, 48, 4096), weight=0.5, atol=0.0),
        Case("arguments by keyword", kwargs={"batch": 640, "base_lr": 0.4, "base_batch": 128}, weight=0.5),
        Case("ValueError for a batch of 0", (0.1, 256, 0), weight=0.5, raises=ValueError),
        Case("ValueError for a base batch of 0", (0.1, 0, 256), weight=0.5, raises=ValueError),
        Case("ValueError for a negative batch", (0.1, 256, -32), weight=0.5, raises=ValueError),
        Case("ValueError for a negative base batch", (0.1, -256, 32), weight=0.5, raises=ValueError),
    ),
    misconceptions=(
        Misconception(
            "not_scaled",
            edited(large_batch.linear_scaled_lr, ("base_lr * batch / base_batch", "base_lr")),
            "You return the rate as it is: with the larger batch the run then takes fewer steps of the same length.",
            _RULE,
        ),
        Misconception(
            "square_root",
            edited(large_batch.linear_scaled_lr, ("batch / base_batch", "(batch / base_batch) ** 0.5")),
            "You scale with the square root, which is the rule for Adam: for SGD the rate grows as much as the batch.",
            "Linear or square root?",
        ),
        Misconception(
            "the_other_way",
            edited(large_batch.linear_scaled_lr, ("batch / base_batch", "base_batch / batch")),
            "You divide by the factor: a larger batch means fewer steps, so each must go further, not less far.",
            _RULE,
        ),
        Misconception(
            "whole_batches",
            edited(large_batch.linear_scaled_lr, ("batch / base_batch", "(batch // base_batch)")),
            "You count whole batches (// rounds down): the factor may be a fraction, even one below 1.",
            _RULE,
        ),
        Misconception(
            "only_the_factor",
            edited(large_batch.linear_scaled_lr, ("base_lr * batch", "batch")),
            "You return the factor between the two batches: the result is the rate itself.",
            _RULE,
        ),
        Misconception(
            "no_base_batch",
            edited(large_batch.linear_scaled_lr, (" / base_batch", "")),
            "You multiply by the batch's size: what counts is how many batches of the tuned run it holds.",
            _RULE,
        ),
        Misconception(
            "fixed_base_batch",
            edited(large_batch.linear_scaled_lr, ("/ base_batch", "/ 256")),
            "You wrote 256, one recipe's base batch, into the formula: use the argument base_batch.",
            _RULE,
        ),
        Misconception(
            "only_upwards",
            edited(large_batch.linear_scaled_lr, ("batch / base_batch", "max(1.0, batch / base_batch)")),
            "You never go below the tuned rate: the rule works both ways, and a smaller batch needs a smaller rate.",
            _RULE,
        ),
        Misconception(
            "refuses_smaller",
            edited(large_batch.linear_scaled_lr, ("size < 1", "size < 1 or batch < base_batch")),
            "You refuse a batch smaller than the tuned one: the rule works both ways; only below 1 is nonsense.",
            _RULE,
        ),
        Misconception(
            "refuses_one",
            edited(large_batch.linear_scaled_lr, ("size < 1", "size <= 1")),
            "You refuse a batch of a single example: small, but a batch; only below 1 is nonsense.",
            _RULE,
        ),
        Misconception(
            "no_check",
            edited(
                large_batch.linear_scaled_lr,
                ('raise ValueError(f"{name} is {size}; a batch holds at least 1 example")', "pass"),
            ),
            "Your formula is right, but it takes batches below 1 without complaint: raise a ValueError for those.",
            _RULE,
        ),
        Misconception(
            "checks_one_of_two",
            edited(
                large_batch.linear_scaled_lr,
                ('("base_batch", base_batch), ', ""),
                ('("batch", batch))', '("batch", batch),)'),
            ),
            "You check the new batch alone: a base batch below 1 is as much nonsense, and needs a ValueError too.",
            _RULE,
        ),
        Misconception(
            "zero_allowed",
            edited(large_batch.linear_scaled_lr, ("size < 1", "size < 0")),
            "You refuse negative batches but let 0 pass: a batch without an example has no gradient.",
            _RULE,
        ),
        Misconception(
            "returns_none",
            edited(
                large_batch.linear_scaled_lr,
                ('raise ValueError(f"{name} is {size}; a batch holds at least 1 example")', "return None"),
            ),
            "You return None for a batch below 1: raise a ValueError, so that the mistake shows where it is made.",
            _RULE,
        ),
    ),
    variants=(linear_factor_first, linear_rate_of_one_example, linear_zero_d, linear_torch),
)

# --- warmup_lr --------------------------------------------------------------------------------------------------------


def whole_schedule(answer, steps, warmup_steps, peak_lr):
    rates = [answer(step, warmup_steps, peak_lr) for step in range(steps)]
    return [rate.tolist() if hasattr(rate, "tolist") else rate for rate in rates]


def warmup_minimum(step, warmup_steps, peak_lr):
    return min(peak_lr, peak_lr * (step + 1) / max(warmup_steps, 1))


def warmup_share(step, warmup_steps, peak_lr):
    share = 1.0 if warmup_steps == 0 else np.minimum(1.0, (step + 1) / warmup_steps)
    return np.float64(share * peak_lr)


def warmup_parts(step, warmup_steps, peak_lr):
    parts = min(step + 1, warmup_steps)
    return np.array(peak_lr if parts == warmup_steps else parts * (peak_lr / warmup_steps))


def warmup_torch(step, warmup_steps, peak_lr):
    peak = torch.tensor(peak_lr, dtype=torch.float64)
    return peak * (step + 1) / warmup_steps if step + 1 < warmup_steps else peak


_WARM = "Warm up, step by step"

WARMUP_LR = Exercise(
    reference=large_batch.warmup_lr,
    points=2,
    section=_WARM,
    cases=(
        Case("a step in the middle of the warm-up", (3, 10, 0.5), weight=2),
        Case("the first step, number 0", (0, 8, 0.4)),
        Case("the last step of the warm-up", (7, 8, 0.4), weight=0.5),
        Case("the first step after it", (8, 8, 0.4), weight=0.5),
        Case("long after the warm-up", (5000, 8, 0.4), weight=0.5),
        Case("a warm-up of one step", (0, 1, 0.3), weight=0.5),
        Case("no warm-up, at the first step", (0, 0, 0.3), weight=0.5),
        Case("no warm-up, later", (12, 0, 0.3), weight=0.5),
        Case("a schedule of twelve steps", (12, 7, 1.4), weight=0.5, probe=whole_schedule),
        Case("a tiny peak", (10, 10_000, 3e-7), weight=0.5, atol=0.0),
        Case("arguments by keyword", kwargs={"peak_lr": 2.5, "step": 4, "warmup_steps": 20}, weight=0.5),
    ),
    misconceptions=(
        Misconception(
            "starts_at_zero",
            edited(large_batch.warmup_lr, ("(step + 1)", "step")),
            "Your first step has a rate of zero and moves nothing: step counts from 0, so its share is step + 1.",
            _WARM,
        ),
        Misconception(
            "one_step_late",
            edited(large_batch.warmup_lr, ("(step + 1) / warmup_steps", "((step + 1) / (warmup_steps + 1))")),
            "You reach the peak one step late: the last step of the warm-up has the whole rate already.",
            _WARM,
        ),
        Misconception(
            "never_ends",
            edited(
                large_batch.warmup_lr,
                ("    if step >= warmup_steps:\n        return peak_lr\n", ""),
                ("/ warmup_steps", "/ max(warmup_steps, 1)"),
            ),
            "Your rate goes on rising beyond the peak: once the warm-up is over it stays there.",
            _WARM,
        ),
        Misconception(
            "no_warmup",
            edited(large_batch.warmup_lr, ("peak_lr * (step + 1) / warmup_steps", "peak_lr")),
            "You give the peak at every step: during the warm-up the rate has to rise towards it.",
            _WARM,
        ),
        Misconception(
            "divides_by_zero",
            edited(
                large_batch.warmup_lr,
                ("    if step >= warmup_steps:\n        return peak_lr\n", ""),
                ("(step + 1) / warmup_steps", "min(1.0, (step + 1) / warmup_steps)"),
            ),
            "You divide by warmup_steps before you ask if there is a warm-up: with 0 steps the peak comes at once.",
            _WARM,
        ),
        Misconception(
            "decays_after",
            edited(large_batch.warmup_lr, ("peak_lr\n", "peak_lr * (max(warmup_steps, 1) / (step + 1)) ** 0.5\n")),
            "You let the rate fall after the warm-up: such a decay is another part of a schedule; here the peak stays.",
            _WARM,
        ),
        Misconception(
            "zero_after",
            edited(large_batch.warmup_lr, ("return peak_lr\n", "return 0.0\n")),
            "Your rate drops to zero when the warm-up ends, and training stops: it stays at the peak.",
            _WARM,
        ),
        Misconception(
            "downwards",
            edited(large_batch.warmup_lr, ("(step + 1)", "(warmup_steps - step)")),
            "Your rate falls during the warm-up: it is the first steps that need the small rates.",
            _WARM,
        ),
        Misconception(
            "only_the_share",
            edited(large_batch.warmup_lr, ("return peak_lr\n", "return 1.0\n"), ("peak_lr * (step + 1)", "(step + 1)")),
            "You return the share of the peak: multiply by peak_lr to get a rate.",
            _WARM,
        ),
        Misconception(
            "whole_parts",
            edited(large_batch.warmup_lr, ("(step + 1) / warmup_steps", "((step + 1) // warmup_steps)")),
            "You divide with //, which rounds every share of the warm-up down to zero: use /.",
            _WARM,
        ),
        Misconception(
            "cosine",
            edited(
                large_batch.warmup_lr,
                ("(step + 1) / warmup_steps", "(1 - np.cos(np.pi * (step + 1) / warmup_steps)) / 2"),
            ),
            "Your rate rises along a cosine: here it rises in equal parts, a straight line.",
            _WARM,
        ),
        Misconception(
            "zero_steps_mean_zero",
            edited(
                large_batch.warmup_lr,
                ("step >= warmup_steps", "warmup_steps == 0"),
                ("return peak_lr\n", "return 0.0\n"),
                ("(step + 1) / warmup_steps", "min(1.0, (step + 1) / warmup_steps)"),
            ),
            "You give a rate of zero where there is no warm-up: without one the peak comes at once.",
            _WARM,
        ),
    ),
    variants=(warmup_minimum, warmup_share, warmup_parts, warmup_torch),
)

# --- trust_ratios -----------------------------------------------------------------------------------------------------


def ratios_global(thetas, grads):
    a = np.sqrt(sum(np.sum(np.square(x)) for x in thetas))
    b = np.sqrt(sum(np.sum(np.square(x)) for x in grads))
    return [float(a / b) if a > 0 and b > 0 else 1.0] * len(thetas)


def ratios_by_number(thetas, grads):
    result = []
    for a, b in zip(thetas, grads, strict=True):
        a, b = np.abs(a), np.abs(b)
        ratio = np.where((a > 0) & (b > 0), a / np.where(b > 0, b, 1), 1.0)
        result.append(ratio)
    return result


def ratios_root_mean_square(thetas, grads):
    sizes = [
        (np.sqrt(np.mean(np.square(a))), np.sqrt(np.mean(np.square(b)))) for a, b in zip(thetas, grads, strict=True)
    ]
    return [a / b if a * b != 0 else 1 for a, b in sizes]


def ratios_flat_tuple(thetas, grads):
    def length(a):
        flat = np.ravel(a).astype(np.float64)
        return float(flat @ flat) ** 0.5

    pairs = [(length(thetas[i]), length(grads[i])) for i in range(len(thetas))]
    return tuple(1.0 if 0 in pair else pair[0] / pair[1] for pair in pairs)


def ratios_array(thetas, grads):
    a = np.array([np.linalg.norm(x) for x in thetas])
    b = np.array([np.linalg.norm(x) for x in grads])
    safe = np.where(b > 0, b, 1.0)
    return np.where((a > 0) & (b > 0), a / safe, 1.0)


def ratios_torch(thetas, grads):
    norms = [(torch.as_tensor(a).norm(), torch.as_tensor(b).norm()) for a, b in zip(thetas, grads, strict=True)]
    return [a / b if a > 0 and b > 0 else torch.tensor(1.0) for a, b in norms]


_SPECTRAL = (
    "np.linalg.norm(theta), np.linalg.norm(grad)",
    "(np.linalg.norm(a, 2) if np.ndim(a) == 2 else np.linalg.norm(a) for a in (theta, grad))",
)
_SIZES = "One rate, many layers"
_ZERO = "Trap 2: a layer that starts at zero"

TRUST_RATIOS = Exercise(
    reference=large_batch.trust_ratios,
    points=2,
    section=_SIZES,
    cases=(
        Case("one layer, a vector", ([np.array([3.0, 4.0])], [np.array([0.5, -1.2])]), weight=2),
        Case("a matrix that is not square", ([_matrix[0]], [0.3 * _matrix[1]])),
        Case(
            "several layers of different shapes",
            ([_matrix[0], _vector[0], _cube[0], np.array(-2.5)], [_matrix[1], 7 * _vector[1], _cube[1], np.array(0.2)]),
        ),
        Case(
            "layers orders of magnitude apart",
            ([30 * _matrix[2], _vector[2], 1e-3 * _matrix[3]], [1e-3 * _matrix[4], 0.5 * _vector[3], 40 * _matrix[5]]),
        ),
        Case("a very small gradient", ([_vector[4]], [1e-8 * _vector[5]]), weight=0.5),
        Case("a layer of zeros", ([np.zeros((2, 3)), _vector[0]], [np.ones((2, 3)), _vector[1]]), weight=0.5),
        Case("a gradient of zeros", ([_vector[0], _matrix[0]], [np.zeros(5), _matrix[1]]), weight=0.5),
        Case("both of them zeros", ([np.zeros(4)], [np.zeros(4)]), weight=0.25),
        Case("no layers at all", ([], []), weight=0.25),
        Case(
            "float32 arrays",
            ([_matrix[0].astype(np.float32)], [_matrix[3].astype(np.float32)]),
            weight=0.5,
            **_FLOAT32,
        ),
        Case(
            "arguments by keyword",
            kwargs={"grads": [_vector[2], _vector[4]], "thetas": [3 * _vector[1], _vector[0]]},
            weight=0.5,
        ),
        Case(
            "leaves its arguments unchanged",
            ([_vector[0], _matrix[0]], [_vector[1], _matrix[1]]),
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "inverted",
            edited(large_batch.trust_ratios, ("theta_norm / grad_norm", "grad_norm / theta_norm")),
            "You have the ratio upside down: parameters over gradient, so that a small gradient gives a large number.",
            _SIZES,
        ),
        Misconception(
            "squared_norms",
            edited(
                large_batch.trust_ratios,
                ("np.linalg.norm(theta), np.linalg.norm(grad)", "np.sum(np.square(theta)), np.sum(np.square(grad))"),
            ),
            "You divide the sums of squares: a norm is the root of that sum.",
            _SIZES,
        ),
        Misconception(
            "sums_of_sizes",
            edited(
                large_batch.trust_ratios,
                ("np.linalg.norm(theta), np.linalg.norm(grad)", "np.abs(theta).sum(), np.abs(grad).sum()"),
            ),
            "You add the sizes of the numbers (the 1-norm): the Euclidean norm is the root of the sum of squares.",
            _SIZES,
        ),
        Misconception(
            "largest_number",
            edited(
                large_batch.trust_ratios,
                ("np.linalg.norm(theta), np.linalg.norm(grad)", "np.abs(theta).max(), np.abs(grad).max()"),
            ),
            "You take the largest number of each layer: the Euclidean norm counts all of them.",
            _SIZES,
        ),
        Misconception(
            "spectral_norm",
            edited(large_batch.trust_ratios, _SPECTRAL),
            "You took a matrix's spectral norm, which np.linalg.norm(a, 2) gives: leave the 2 away to get the norm of "
            "all its numbers as one vector.",
            _SIZES,
        ),
        Misconception(
            "one_for_all",
            ratios_global,
            "You compute one ratio for the whole network: the point is that each layer has its own.",
            _SIZES,
        ),
        Misconception(
            "number_by_number",
            ratios_by_number,
            "You divide number by number: the result is a single ratio of two norms for each layer.",
            _SIZES,
        ),
        Misconception(
            "mean_of_numbers",
            edited(ratios_by_number, ("append(ratio)", "append(float(np.mean(ratio)))")),
            "You average ratios of single numbers, where one gradient near zero outweighs all: divide the two norms.",
            _SIZES,
        ),
        Misconception(
            "no_guard",
            edited(large_batch.trust_ratios, ("theta_norm > 0 and grad_norm > 0", "True")),
            "You divide even where a norm is 0: with nothing to compare, the ratio is 1.0.",
            _ZERO,
        ),
        Misconception(
            "zero_layer_gives_zero",
            edited(large_batch.trust_ratios, ("theta_norm > 0 and grad_norm > 0", "grad_norm > 0")),
            "You guard against a gradient of zero alone: a layer that starts at zero needs 1.0 too, or it never moves.",
            _ZERO,
        ),
        Misconception(
            "zero_for_nothing",
            edited(large_batch.trust_ratios, ("else 1.0", "else 0.0")),
            "You return 0.0 where a norm is 0: the ratio is 1.0 there, so that the layer can move.",
            _ZERO,
        ),
        Misconception(
            "epsilon",
            edited(large_batch.trust_ratios, ("/ grad_norm", "/ (grad_norm + 1e-8)")),
            "You add a small number to the gradient's norm, which a tiny gradient shows: only an exact 0 is special.",
            _SIZES,
        ),
        Misconception(
            "skips_layers",
            edited(
                large_batch.trust_ratios,
                (
                    "ratios.append(float(theta_norm / grad_norm) if both else 1.0)",
                    "ratios += [float(theta_norm / grad_norm)] if both else []",
                ),
            ),
            "You leave out layers with a norm of 0: the result has one number for each layer.",
            _ZERO,
        ),
        Misconception(
            "clipped",
            edited(
                large_batch.trust_ratios, ("float(theta_norm / grad_norm)", "min(float(theta_norm / grad_norm), 10.0)")
            ),
            "You cap the ratio, as some libraries do: return it as it is.",
            _SIZES,
        ),
        Misconception(
            "returns_in_the_loop",
            edited(large_batch.trust_ratios, ("if both else 1.0)", "if both else 1.0)\n        return ratios")),
            "Your return stands inside the loop, so only the first layer is judged: move it out by one indent.",
            _SIZES,
        ),
    ),
    variants=(ratios_root_mean_square, ratios_flat_tuple, ratios_array, ratios_torch),
)

# --- lars_step --------------------------------------------------------------------------------------------------------


def only_theta(answer, *args, **kwargs):
    result = answer(*args, **kwargs)
    return result[0] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def only_velocity(answer, *args, **kwargs):
    result = answer(*args, **kwargs)
    return result[1] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def several_lars_steps(answer, theta, velocity, grads, rates, *settings):
    for grad, lr in zip(grads, rates, strict=True):
        theta, velocity = answer(theta, velocity, grad, lr, *settings)
    return theta, velocity


def lars_number_by_number(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.abs(theta), np.abs(grad)
    below = b + weight_decay * a
    local = np.where((a > 0) & (b > 0), trust * a / np.where(below > 0, below, 1), 1.0)
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_on_copies(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    theta, velocity = np.array(theta), np.array(velocity)
    a, b = (float(np.sqrt(np.sum(np.square(x)))) for x in (theta, grad))
    rate = lr if 0 in (a, b) else lr * trust / (b / a + weight_decay)
    velocity *= momentum
    velocity += rate * grad + rate * weight_decay * theta
    return [theta - velocity, velocity]


def lars_rate_first(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(np.ravel(theta)), np.linalg.norm(np.ravel(grad))
    rate = np.where(a * b != 0, trust * a / np.where(a * b != 0, b + weight_decay * a, 1), 1.0) * lr
    change = -rate * (weight_decay * theta + grad) - momentum * velocity
    return theta + change, -change


def lars_float32(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    theta, velocity, grad = (np.asarray(x, dtype=np.float32) for x in (theta, velocity, grad))
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = np.float32(momentum) * velocity + np.float32(lr * local) * (grad + np.float32(weight_decay) * theta)
    return theta - velocity, velocity


def lars_torch(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    theta, velocity, grad = (torch.as_tensor(x) for x in (theta, velocity, grad))
    a, b = theta.norm(), grad.norm()
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


_LARS = "LARS: a rate for every layer"
_DECAY = "What decay does to the ratio"

LARS_STEP = Exercise(
    reference=large_batch.lars_step,
    points=5,
    results=("theta", "velocity"),
    section=_LARS,
    cases=(
        Case(
            "the velocity of a first step, without decay",
            (np.array([3.0, 4.0]), np.zeros(2), np.array([0.6, -0.8]), 0.5, 0.9, 0.0, 0.2),
            weight=2,
            probe=only_velocity,
        ),
        Case(
            "the parameters after a first step, without decay",
            (np.array([3.0, 4.0]), np.zeros(2), np.array([0.6, -0.8]), 0.5, 0.9, 0.0, 0.2),
            weight=1.5,
            probe=only_theta,
        ),
        Case("an old velocity, another momentum", (_vector[0], 0.3 * _vector[1], _vector[2], 0.8, 0.6, 0.0, 0.1)),
        Case(
            "weight decay, the velocity",
            (_vector[0], 0.3 * _vector[1], _vector[2], 0.8, 0.6, 0.7, 0.1),
            probe=only_velocity,
        ),
        Case(
            "weight decay, the parameters",
            (2 * _vector[3], 0.2 * _vector[4], _vector[5], 1.5, 0.7, 0.4, 0.3),
            probe=only_theta,
        ),
        Case("a matrix, with decay", (_matrix[0], 0.5 * _matrix[1], _matrix[2], 0.6, 0.8, 0.5, 0.2)),
        Case(
            "a local rate above one", (5 * _vector[1], np.zeros(5), 0.1 * _vector[0], 0.05, 0.9, 0.02, 0.5), weight=0.5
        ),
        Case("an array of three dimensions", (_cube[0], _cube[1], _cube[2], 0.4, 0.5, 0.3, 0.2), weight=0.5),
        Case("a very small gradient", (_vector[0], np.zeros(5), 1e-8 * _vector[2], 0.4, 0.9, 0.0, 0.1), weight=0.5),
        Case(
            "parameters of zero",
            (np.zeros((2, 3)), np.full((2, 3), 0.5), np.ones((2, 3)), 0.2, 0.9, 0.3, 0.1),
            weight=0.5,
        ),
        Case("a gradient of zero", (_vector[0], _vector[1], np.zeros(5), 0.2, 0.8, 0.4, 0.1), weight=0.5),
        Case("a gradient of zero, no decay", (_vector[0], _vector[1], np.zeros(5), 0.2, 0.8, 0.0, 0.1), weight=0.25),
        Case(
            "several steps, the rate cut on the way",
            (_matrix[0], np.zeros((3, 2)), _grads, [0.9, 0.9, 0.3, 0.3, 0.1], 0.9, 0.2, 0.1),
            weight=0.5,
            probe=several_lars_steps,
        ),
        Case("a single number (0-d)", (np.array(2.0), np.array(0.5), np.array(-3.0), 0.2, 0.9, 0.5, 0.1), weight=0.25),
        Case(
            "float32 arrays",
            (*(a.astype(np.float32) for a in _vector[1:4]), 0.3, 0.9, 0.4, 0.1),
            weight=0.25,
            **_FLOAT32,
        ),
        Case("all defaults", (_vector[0], _vector[1], _vector[2], 20.0), weight=0.5),
        Case(
            "arguments by keyword",
            kwargs={
                "trust": 0.25,
                "lr": 0.7,
                "weight_decay": 0.6,
                "grad": _vector[2],
                "velocity": _vector[1],
                "theta": _vector[0],
            },
            weight=0.25,
        ),
        Case("leaves its arguments unchanged", (_vector[0], _vector[1], _vector[2], 0.1), weight=0.5, unchanged=True),
    ),
    misconceptions=(
        Misconception(
            "no_local_rate",
            edited(large_batch.lars_step, ("lr * local", "lr")),
            "You took a step of plain momentum: LARS gives the layer a local rate from the two norms.",
            _LARS,
        ),
        Misconception(
            "no_decay_in_the_ratio",
            edited(large_batch.lars_step, ("(grad_norm + weight_decay * theta_norm)", "grad_norm")),
            "You left the decay out of the local rate: below the line stands all that pushes the layer, "
            "the gradient's norm and the decay times the parameters' norm.",
            _DECAY,
        ),
        Misconception(
            "no_decay_in_the_push",
            edited(large_batch.lars_step, ("(grad + weight_decay * theta)", "grad")),
            "You count the decay in the local rate but leave it out of the push: the velocity takes both.",
            _DECAY,
        ),
        Misconception(
            "no_decay_at_all",
            edited(
                large_batch.lars_step,
                ("(grad_norm + weight_decay * theta_norm)", "grad_norm"),
                ("(grad + weight_decay * theta)", "grad"),
            ),
            "You never use weight_decay: it stands in the local rate and in the push.",
            _DECAY,
        ),
        Misconception(
            "norm_of_the_sum",
            edited(
                large_batch.lars_step,
                ("(grad_norm + weight_decay * theta_norm)", "np.linalg.norm(grad + weight_decay * theta)"),
            ),
            "You take the norm of gradient and decay together: LARS adds the two norms, so that they cannot cancel.",
            _DECAY,
        ),
        Misconception(
            "lr_outside_the_velocity",
            edited(large_batch.lars_step, ("lr * local", "local"), ("theta - new", "theta - lr * new")),
            "You apply the learning rate to the step: in LARS it is inside the velocity, together with the local rate.",
            "Trap 3: the learning rate inside the velocity",
        ),
        Misconception(
            "local_rate_outside",
            edited(large_batch.lars_step, ("lr * local", "lr"), ("theta - new", "theta - local * new")),
            "You apply the local rate to the whole velocity: each push goes in with the local rate of its own step.",
            "Trap 3: the learning rate inside the velocity",
        ),
        Misconception(
            "no_learning_rate",
            edited(large_batch.lars_step, ("lr * local", "local")),
            "You left out the global learning rate: the push is scaled with both rates.",
            _LARS,
        ),
        Misconception(
            "learning_rate_twice",
            edited(large_batch.lars_step, ("theta - new", "theta - lr * new")),
            "You apply the learning rate twice, in the velocity and in the step: once is enough.",
            "Trap 3: the learning rate inside the velocity",
        ),
        Misconception(
            "moving_average",
            edited(large_batch.lars_step, ("lr * local", "(1 - momentum) * lr * local")),
            "You weigh the new push with 1 − momentum, as an average does: here the velocity sums the pushes.",
            _LARS,
        ),
        Misconception(
            "ascent",
            edited(large_batch.lars_step, ("theta - new", "theta + new")),
            "You add the velocity; it sums gradients, which point uphill, so the step goes against it.",
            _LARS,
        ),
        Misconception(
            "ratio_inverted",
            edited(
                large_batch.lars_step,
                (
                    "theta_norm / (grad_norm + weight_decay * theta_norm)",
                    "(grad_norm + weight_decay * theta_norm) / theta_norm",
                ),
            ),
            "You have the ratio upside down: parameters over gradient, so that a large gradient gets a small rate.",
            _LARS,
        ),
        Misconception(
            "no_trust_coefficient",
            edited(large_batch.lars_step, ("trust * theta_norm", "theta_norm")),
            "You left out the trust coefficient: it says which share of its own length a layer may move.",
            _LARS,
        ),
        Misconception(
            "fixed_trust",
            edited(large_batch.lars_step, ("trust * theta_norm", "0.001 * theta_norm")),
            "You wrote the default trust coefficient into the formula: use the argument trust.",
            _LARS,
        ),
        Misconception(
            "fixed_momentum",
            edited(large_batch.lars_step, ("momentum * velocity", "0.9 * velocity")),
            "You wrote the default momentum into the formula: use the argument momentum.",
            _LARS,
        ),
        Misconception(
            "no_guard",
            edited(large_batch.lars_step, ("theta_norm > 0 and grad_norm > 0", "True")),
            "You use the ratio even where a norm is 0: a layer that starts at zero then never moves; "
            "the local rate is 1.0 there.",
            "Trap 2: a layer that starts at zero",
        ),
        Misconception(
            "zero_for_nothing",
            edited(large_batch.lars_step, ("local = 1.0", "local = 0.0")),
            "You set the local rate to 0 where a norm is 0: it is 1.0 there, so that the layer can move.",
            "Trap 2: a layer that starts at zero",
        ),
        Misconception(
            "trust_for_nothing",
            edited(
                large_batch.lars_step,
                ("trust * theta_norm", "theta_norm"),
                ("    new_velocity =", "    local = trust * local\n    new_velocity ="),
            ),
            "Where a norm is 0 you still apply the trust coefficient: the whole local rate is 1.0 there.",
            "Trap 2: a layer that starts at zero",
        ),
        Misconception(
            "clipped",
            edited(large_batch.lars_step, ("    new_velocity =", "    local = min(local, 1.0)\n    new_velocity =")),
            "You cap the local rate at 1, as the variant LARC does: LARS uses it as it is.",
            _LARS,
        ),
        Misconception(
            "spectral_norm",
            edited(large_batch.lars_step, _SPECTRAL),
            "You took a matrix's spectral norm, which np.linalg.norm(a, 2) gives: leave the 2 away to get the norm of "
            "all its numbers as one vector.",
            _SIZES,
        ),
        Misconception(
            "squared_norms",
            edited(
                large_batch.lars_step,
                ("np.linalg.norm(theta), np.linalg.norm(grad)", "np.sum(np.square(theta)), np.sum(np.square(grad))"),
            ),
            "You use sums of squares for norms: a norm is the root of that sum.",
            _SIZES,
        ),
        Misconception(
            "number_by_number",
            lars_number_by_number,
            "You give every number a rate of its own: in LARS a whole layer shares one.",
            _LARS,
        ),
        Misconception(
            "decay_on_theta",
            edited(
                large_batch.lars_step,
                ("(grad + weight_decay * theta)", "grad"),
                ("theta - new_velocity", "theta - new_velocity - lr * weight_decay * theta"),
            ),
            "You subtract the decay from the parameters directly, as AdamW does: in LARS it goes through the velocity, "
            "with the local rate.",
            _DECAY,
        ),
        Misconception(
            "old_velocity",
            edited(large_batch.lars_step, ("theta - new_velocity", "theta - velocity")),
            "You step along the velocity from before this gradient: update the velocity first, then step along it.",
            _LARS,
        ),
        Misconception(
            "only_theta",
            edited(large_batch.lars_step, ("new_velocity, new_velocity", "new_velocity")),
            "You return the parameters alone: the velocity is state, and the next step needs it back.",
            _LARS,
        ),
        Misconception(
            "results_swapped",
            edited(large_batch.lars_step, ("theta - new_velocity, new_velocity", "new_velocity, theta - new_velocity")),
            "You return the velocity first: the order is parameters, then velocity.",
            _LARS,
        ),
        Misconception(
            "in_place",
            edited(
                large_batch.lars_step,
                ("new_velocity = momentum * velocity + ", "velocity *= momentum\n    velocity += "),
                ("return theta - new_velocity, new_velocity", "theta -= velocity\n    return theta, velocity"),
            ),
            "Your results are right, but you changed the caller's arrays on the way (*=, +=, -= work in place): "
            "make new ones.",
            _LARS,
        ),
    ),
    variants=(lars_on_copies, lars_rate_first, lars_float32, lars_torch),
)

# --- lamb_step --------------------------------------------------------------------------------------------------------


def lamb_only_m(answer, *args, **kwargs):
    result = answer(*args, **kwargs)
    return result[1] if isinstance(result, (tuple, list)) and len(result) == 3 else result


def lamb_only_v(answer, *args, **kwargs):
    result = answer(*args, **kwargs)
    return result[2] if isinstance(result, (tuple, list)) and len(result) == 3 else result


def lamb_only_parameters(answer, *args, **kwargs):
    result = answer(*args, **kwargs)
    return result[0] if isinstance(result, (tuple, list)) and len(result) == 3 else result


def several_lamb_steps(answer, theta, grads, lr, *settings):
    m, v = 0 * theta, 0 * theta
    for t, grad in enumerate(grads, start=1):
        theta, m, v = answer(theta, m, v, grad, t, lr, *settings)
    return theta, m, v


def lamb_on_copies(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m, v = np.array(m), np.array(v)
    m += (1 - beta1) * (grad - m)
    v += (1 - beta2) * (np.square(grad) - v)
    root = np.sqrt(v) / np.sqrt(1 - beta2**t)
    r = m / ((1 - beta1**t) * (root + eps)) + theta * weight_decay
    a, b = (float(np.sqrt(np.sum(np.square(x)))) for x in (theta, r))
    return [theta - (lr * a / b if a * b != 0 else lr) * r, m, v]


def lamb_unit_direction(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m, v = grad * (1 - beta1) + m * beta1, grad * grad * (1 - beta2) + v * beta2
    r = (m / (1 - beta1**t)) / (eps + (v / (1 - beta2**t)) ** 0.5) + weight_decay * theta
    length, size = np.linalg.norm(np.ravel(r)), np.linalg.norm(np.ravel(theta))
    step = r / length * size if length > 0 and size > 0 else r
    return theta - lr * step, m, v


def lamb_where(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    return theta - np.where(a * b != 0, a / np.where(b != 0, b, 1), 1.0) * lr * r, m, v


def lamb_float32(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    theta, m, v, grad = (np.asarray(x, dtype=np.float32) for x in (theta, m, v, grad))
    m = np.float32(beta1) * m + np.float32(1 - beta1) * grad
    v = np.float32(beta2) * v + np.float32(1 - beta2) * grad**2
    root = np.sqrt(v / np.float32(1 - beta2**t))
    r = m / np.float32(1 - beta1**t) / (root + np.float32(eps)) + np.float32(weight_decay) * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    return theta - np.float32(lr * a / b if a > 0 and b > 0 else lr) * r, m, v


def lamb_torch(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    theta, m, v, grad = (torch.as_tensor(x) for x in (theta, m, v, grad))
    m = torch.lerp(grad, m, beta1)
    v = beta2 * v + (1 - beta2) * grad.square()
    r = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps) + weight_decay * theta
    a, b = theta.norm(), r.norm()
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


_LAMB = "LAMB: the same idea around Adam"
_INSIDE = "Where the decay goes"
_m, _v = 0.4 * _vector[1], 0.3 * np.square(_vector[2])

LAMB_STEP = Exercise(
    reference=large_batch.lamb_step,
    points=6,
    results=("theta", "m", "v"),
    section=_LAMB,
    cases=(
        Case("the new m", (_vector[0], _m, _v, _vector[3], 3, 0.2, 0.8, 0.95, 0.1, 0.5), probe=lamb_only_m),
        Case("the new v", (_vector[0], _m, _v, _vector[3], 3, 0.2, 0.8, 0.95, 0.1, 0.5), probe=lamb_only_v),
        Case(
            "a first step without decay",
            (_vector[0], np.zeros(5), np.zeros(5), _vector[3], 1, 0.2, 0.9, 0.999, 1e-6, 0.0),
            weight=2,
            probe=lamb_only_parameters,
        ),
        Case(
            "a later step without decay",
            (_vector[0], _m, _v, _vector[3], 3, 0.2, 0.8, 0.95, 1e-6, 0.0),
            weight=1.5,
            probe=lamb_only_parameters,
        ),
        Case(
            "a large epsilon",
            (_vector[0], _m, _v, _vector[3], 4, 0.3, 0.8, 0.95, 0.5, 0.0),
            probe=lamb_only_parameters,
        ),
        Case(
            "weight decay",
            (2 * _vector[0], _m, _v, _vector[3], 3, 0.4, 0.8, 0.95, 1e-6, 0.7),
            weight=2,
            probe=lamb_only_parameters,
        ),
        Case(
            "a matrix, large epsilon and decay",
            (_matrix[0], 0.3 * _matrix[1], 0.2 * np.square(_matrix[2]), _matrix[3], 5, 0.3, 0.7, 0.9, 0.2, 0.6),
        ),
        Case(
            "parameters of great length",
            (40 * _vector[4], _m, _v, _vector[3], 2, 0.1, 0.8, 0.95, 0.1, 0.02),
            weight=0.5,
            probe=lamb_only_parameters,
        ),
        Case(
            "an array of three dimensions",
            (_cube[0], _cube[1], np.square(_cube[2]), _cube[1], 3, 0.3, 0.8, 0.95, 0.1, 0.4),
            weight=0.5,
        ),
        Case(
            "parameters of zero",
            (np.zeros(5), _m, _v, _vector[3], 3, 0.2, 0.8, 0.95, 0.1, 0.5),
            weight=0.5,
        ),
        Case(
            "nothing that pushes: zero gradient, zero averages, no decay",
            (_vector[0], np.zeros(5), np.zeros(5), np.zeros(5), 2, 0.2, 0.8, 0.95, 0.1, 0.0),
            weight=0.5,
        ),
        Case(
            "very small gradients",
            (_vector[0], np.zeros(5), np.zeros(5), 1e-8 * _vector[3], 1, 0.2, 0.9, 0.999, 1e-8, 0.0),
            weight=0.5,
            atol=1e-20,
        ),
        Case(
            "several steps in a row",
            (_matrix[0], _grads, 0.2, 0.8, 0.95, 0.1, 0.4),
            weight=0.5,
            probe=several_lamb_steps,
        ),
        Case(
            "a single number (0-d)",
            (np.array(2.0), np.array(0.5), np.array(0.3), np.array(-3.0), 2, 0.2, 0.8, 0.95, 0.1, 0.5),
            weight=0.25,
        ),
        Case(
            "float32 arrays",
            (
                *(a.astype(np.float32) for a in (_vector[0], _m, _v, _vector[3])),
                3,
                0.2,
                0.8,
                0.95,
                0.1,
                0.5,
            ),
            weight=0.25,
            **_FLOAT32,
        ),
        Case("all defaults", (20 * _vector[0], _m, _v, _vector[3], 7, 0.3), weight=0.5),
        Case(
            "arguments by keyword",
            kwargs={
                "weight_decay": 0.4,
                "eps": 0.2,
                "lr": 0.3,
                "t": 2,
                "grad": _vector[3],
                "v": _v,
                "m": _m,
                "theta": _vector[0],
            },
            weight=0.25,
        ),
        Case("leaves its arguments unchanged", (_vector[0], _m, _v, _vector[3], 2, 0.1), weight=0.5, unchanged=True),
    ),
    misconceptions=(
        Misconception(
            "no_bias_correction",
            edited(large_batch.lamb_step, ("m / (1 - beta1**t)", "m"), ("v / (1 - beta2**t)", "v")),
            "You left out the bias correction, as some implementations do: both averages are corrected, as in Adam.",
            _LAMB,
        ),
        Misconception(
            "corrects_m_alone",
            edited(large_batch.lamb_step, ("v / (1 - beta2**t)", "v")),
            "You correct m but not v: both start at zero, and each has its own correction.",
            _LAMB,
        ),
        Misconception(
            "eps_inside_the_root",
            edited(large_batch.lamb_step, ("(np.sqrt(v_hat) + eps)", "np.sqrt(v_hat + eps)")),
            "You add eps inside the root: it stands outside, after the root is taken.",
            _LAMB,
        ),
        Misconception(
            "eps_before_correction",
            edited(
                large_batch.lamb_step,
                ("m_hat / (np.sqrt(v_hat) + eps)", "m_hat * np.sqrt(1 - beta2**t) / (np.sqrt(v) + eps)"),
            ),
            "You add eps to the root of the uncorrected v: correct v first, then take the root, then add eps.",
            _LAMB,
        ),
        Misconception(
            "no_eps",
            edited(
                large_batch.lamb_step,
                (
                    "m_hat / (np.sqrt(v_hat) + eps)",
                    "np.where(v_hat > 0, m_hat / np.sqrt(np.where(v_hat > 0, v_hat, 1)), 0)",
                ),
            ),
            "You never use eps: it is added to the root of the corrected v.",
            _LAMB,
        ),
        Misconception(
            "counts_from_zero",
            edited(large_batch.lamb_step, ("beta1**t", "beta1 ** (t + 1)"), ("beta2**t", "beta2 ** (t + 1)")),
            "You correct with t + 1: t counts from 1 already.",
            _LAMB,
        ),
        Misconception(
            "keeps_the_corrected",
            edited(large_batch.lamb_step, ("m_hat = m", "m_hat = m = m"), ("v_hat = v", "v_hat = v = v")),
            "You return the corrected averages: the next step expects them uncorrected, so correct into new names.",
            _LAMB,
        ),
        Misconception(
            "no_trust_ratio",
            edited(large_batch.lamb_step, ("lr * ratio", "lr")),
            "You took a step of AdamW: LAMB scales the direction with the layer's trust ratio.",
            _LAMB,
        ),
        Misconception(
            "ratio_of_the_gradient",
            edited(large_batch.lamb_step, ("norm(direction)", "norm(grad)")),
            "You divide by the gradient's norm, as LARS does: LAMB divides by the norm of its own direction.",
            _LAMB,
        ),
        Misconception(
            "ratio_inverted",
            edited(large_batch.lamb_step, ("theta_norm / norm", "norm / theta_norm")),
            "You have the ratio upside down: the parameters' norm over the direction's norm.",
            _LAMB,
        ),
        Misconception(
            "decay_outside_the_ratio",
            edited(
                large_batch.lamb_step,
                (" + weight_decay * theta", ""),
                ("ratio * direction", "(ratio * direction + weight_decay * theta)"),
            ),
            "You add the decay after the trust ratio: it belongs to the direction, so the ratio scales it too.",
            _INSIDE,
        ),
        Misconception(
            "decay_before_the_step",
            edited(
                large_batch.lamb_step,
                (" + weight_decay * theta", ""),
                ("    m = beta1", "    theta = theta * (1 - lr * weight_decay)\n    m = beta1"),
            ),
            "You shrink the parameters before the step, as AdamW may do: in LAMB the decay is part of the direction.",
            _INSIDE,
        ),
        Misconception(
            "decay_not_in_the_norm",
            edited(large_batch.lamb_step, ("norm(direction)", "norm(m_hat / (np.sqrt(v_hat) + eps))")),
            "You step along direction and decay but take the norm without the decay: the norm is that of the whole.",
            _INSIDE,
        ),
        Misconception(
            "decay_in_the_gradient",
            edited(
                large_batch.lamb_step,
                (" + weight_decay * theta", ""),
                ("    m = beta1", "    grad = grad + weight_decay * theta\n    m = beta1"),
            ),
            "You add the decay to the gradient, where Adam rescales it: add it to Adam's direction.",
            _INSIDE,
        ),
        Misconception(
            "no_decay",
            edited(large_batch.lamb_step, (" + weight_decay * theta", "")),
            "You never use weight_decay: it is part of the direction.",
            _INSIDE,
        ),
        Misconception(
            "decay_times_lr",
            edited(large_batch.lamb_step, ("+ weight_decay", "+ lr * weight_decay")),
            "You multiply the decay with lr inside the direction: the step applies lr to the whole, once.",
            _INSIDE,
        ),
        Misconception(
            "norm_clamped",
            edited(large_batch.lamb_step, ("theta_norm / norm", "min(theta_norm, 10.0) / norm")),
            "You cap the parameters' norm at 10, as some implementations do: here it enters as it is.",
            "Trap 4: one name, several LAMBs",
        ),
        Misconception(
            "ratio_capped",
            edited(large_batch.lamb_step, ("theta_norm / norm", "min(theta_norm / norm, 1.0)")),
            "You cap the trust ratio at 1: a long layer with a short direction needs a ratio above it.",
            "Trap 4: one name, several LAMBs",
        ),
        Misconception(
            "eps_in_the_ratio",
            edited(large_batch.lamb_step, ("theta_norm / norm", "theta_norm / (norm + eps)")),
            "You add eps to the direction's norm as well: only an exact 0 is special there.",
            "Trap 4: one name, several LAMBs",
        ),
        Misconception(
            "no_guard",
            edited(large_batch.lamb_step, (" if theta_norm > 0 and norm > 0 else 1.0", "")),
            "You use the ratio even where a norm is 0: such a layer then never moves; the ratio is 1.0 there.",
            _ZERO,
        ),
        Misconception(
            "zero_for_nothing",
            edited(large_batch.lamb_step, ("else 1.0", "else 0.0")),
            "You set the ratio to 0 where a norm is 0: it is 1.0 there, so that the layer can move.",
            _ZERO,
        ),
        Misconception(
            "lr_cancels",
            edited(
                large_batch.lamb_step,
                (
                    "direction = m_hat / (np.sqrt(v_hat) + eps) + weight_decay * theta",
                    "direction = lr * (m_hat / (np.sqrt(v_hat) + eps) + weight_decay * theta)",
                ),
                ("lr * ratio", "ratio"),
            ),
            "You put lr into the direction before its norm is taken, so it cancels: ratio first, then lr.",
            _LAMB,
        ),
        Misconception(
            "spectral_norm",
            edited(
                large_batch.lamb_step,
                (
                    "np.linalg.norm(theta), np.linalg.norm(direction)",
                    "(np.linalg.norm(a, 2) if np.ndim(a) == 2 else np.linalg.norm(a) for a in (theta, direction))",
                ),
            ),
            "You took a matrix's spectral norm, which np.linalg.norm(a, 2) gives: leave the 2 away to get the norm of "
            "all its numbers as one vector.",
            _SIZES,
        ),
        Misconception(
            "number_by_number",
            edited(
                large_batch.lamb_step,
                ("np.linalg.norm(theta), np.linalg.norm(direction)", "np.abs(theta), np.abs(direction)"),
                (
                    "theta_norm / norm if theta_norm > 0 and norm > 0 else 1.0",
                    "np.where((theta_norm > 0) & (norm > 0), theta_norm / np.where(norm > 0, norm, 1), 1.0)",
                ),
            ),
            "You give every number a ratio of its own: a whole layer shares one.",
            _LAMB,
        ),
        Misconception(
            "squared_norms",
            edited(
                large_batch.lamb_step,
                (
                    "np.linalg.norm(theta), np.linalg.norm(direction)",
                    "np.sum(np.square(theta)), np.sum(np.square(direction))",
                ),
            ),
            "You use sums of squares for norms: a norm is the root of that sum.",
            _SIZES,
        ),
        Misconception(
            "swapped_betas",
            edited(large_batch.lamb_step, ("    m = beta1", "    beta1, beta2 = beta2, beta1\n    m = beta1")),
            "You swapped the coefficients: beta1 belongs to m, the average of the gradient, beta2 to v.",
            _LAMB,
        ),
        Misconception(
            "sums",
            edited(large_batch.lamb_step, ("(1 - beta1) * grad", "grad"), ("(1 - beta2) * grad", "grad")),
            "You add the new gradient at its full size: in an average it gets the share that the old one leaves.",
            _LAMB,
        ),
        Misconception(
            "no_square",
            edited(large_batch.lamb_step, ("grad**2", "np.abs(grad)")),
            "You average the gradient's size in v: it is the average of its square.",
            _LAMB,
        ),
        Misconception(
            "no_root",
            edited(large_batch.lamb_step, ("np.sqrt(v_hat)", "v_hat")),
            "You divide by v itself: take its root first, so that direction and gradient units cancel.",
            _LAMB,
        ),
        Misconception(
            "gradient_above",
            edited(large_batch.lamb_step, ("m_hat / (", "grad / (")),
            "You divide the bare gradient: above the line stands the corrected m.",
            _LAMB,
        ),
        Misconception(
            "ascent",
            edited(large_batch.lamb_step, ("theta - lr", "theta + lr")),
            "You add the direction; it averages gradients, which point uphill, so the step goes against it.",
            _LAMB,
        ),
        Misconception(
            "fixed_betas",
            edited(
                large_batch.lamb_step,
                ("beta1 * m + (1 - beta1)", "0.9 * m + 0.1"),
                ("beta2 * v + (1 - beta2)", "0.999 * v + 0.001"),
                ("beta1**t", "0.9**t"),
                ("beta2**t", "0.999**t"),
            ),
            "You wrote the defaults into the formula: use the arguments beta1 and beta2.",
            _LAMB,
        ),
        Misconception(
            "only_theta",
            edited(large_batch.lamb_step, ("direction, m, v", "direction")),
            "You return the parameters alone: m and v are state, and the next step needs them back.",
            _LAMB,
        ),
        Misconception(
            "moments_first",
            edited(
                large_batch.lamb_step, ("theta - lr * ratio * direction, m, v", "m, v, theta - lr * ratio * direction")
            ),
            "You return the averages first: the order is parameters, m, v.",
            _LAMB,
        ),
        Misconception(
            "in_place",
            edited(
                large_batch.lamb_step,
                ("m = beta1 * m + ", "m *= beta1\n    m += "),
                ("v = beta2 * v + ", "v *= beta2\n    v += "),
                (
                    "return theta - lr * ratio * direction, m, v",
                    "theta -= lr * ratio * direction\n    return theta, m, v",
                ),
            ),
            "Your results are right, but you changed the caller's arrays on the way (*=, +=, -= work in place): "
            "make new ones.",
            _LAMB,
        ),
    ),
    variants=(lamb_on_copies, lamb_unit_direction, lamb_where, lamb_float32, lamb_torch),
)

CHAPTER = Chapter(
    name="03_large_batch",
    exercises=(LINEAR_SCALED_LR, WARMUP_LR, TRUST_RATIOS, LARS_STEP, LAMB_STEP),
)
