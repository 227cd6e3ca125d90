"""Chapter 03, many devices, one step: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself.
"""

import numpy as np
import torch

from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import large_batch

_rng = np.random.default_rng(3)
_vector = _rng.normal(size=(6, 5))
_matrix = _rng.normal(size=(6, 3, 2))
_cube = _rng.normal(size=(3, 2, 3, 4))
_grads = _rng.normal(size=(5, 3, 2))
_FLOAT32 = {"rtol": 1e-5, "atol": 1e-6}

# --- linear_scaled_lr -------------------------------------------------------------------------------------------------


def linear_unchanged(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError
    return base_lr


def linear_square_root(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError
    return base_lr * (batch / base_batch) ** 0.5


def linear_the_other_way(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError
    return base_lr * base_batch / batch


def linear_whole_batches(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError
    return base_lr * (batch // base_batch)


def linear_only_the_factor(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError
    return batch / base_batch


def linear_no_base(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError
    return base_lr * batch


def linear_fixed_base(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError
    return base_lr * batch / 256


def linear_only_upwards(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        raise ValueError
    return base_lr * max(1.0, batch / base_batch)


def linear_refuses_smaller(base_lr, base_batch, batch):
    if base_batch < 1 or batch < base_batch:
        raise ValueError
    return base_lr * batch / base_batch


def linear_refuses_one(base_lr, base_batch, batch):
    if base_batch <= 1 or batch <= 1:
        raise ValueError
    return base_lr * batch / base_batch


def linear_no_check(base_lr, base_batch, batch):
    return base_lr * batch / base_batch


def linear_checks_one(base_lr, base_batch, batch):
    if batch < 1:
        raise ValueError
    return base_lr * batch / base_batch


def linear_zero_allowed(base_lr, base_batch, batch):
    if base_batch < 0 or batch < 0:
        raise ValueError
    return base_lr * batch / base_batch


def linear_returns_none(base_lr, base_batch, batch):
    if base_batch < 1 or batch < 1:
        return None
    return base_lr * batch / base_batch


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
            linear_unchanged,
            "You return the rate as it is: with the larger batch the run then takes fewer steps of the same length.",
            _RULE,
        ),
        Misconception(
            "square_root",
            linear_square_root,
            "You scale with the square root, which is the rule for Adam: for SGD the rate grows as much as the batch.",
            "Linear or square root?",
        ),
        Misconception(
            "the_other_way",
            linear_the_other_way,
            "You divide by the factor: a larger batch means fewer steps, so each must go further, not less far.",
            _RULE,
        ),
        Misconception(
            "whole_batches",
            linear_whole_batches,
            "You count whole batches (// rounds down): the factor may be a fraction, even one below 1.",
            _RULE,
        ),
        Misconception(
            "only_the_factor",
            linear_only_the_factor,
            "You return the factor between the two batches: the result is the rate itself.",
            _RULE,
        ),
        Misconception(
            "no_base_batch",
            linear_no_base,
            "You multiply by the batch's size: what counts is how many batches of the tuned run it holds.",
            _RULE,
        ),
        Misconception(
            "fixed_base_batch",
            linear_fixed_base,
            "You wrote 256, one recipe's base batch, into the formula: use the argument base_batch.",
            _RULE,
        ),
        Misconception(
            "only_upwards",
            linear_only_upwards,
            "You never go below the tuned rate: the rule works both ways, and a smaller batch needs a smaller rate.",
            _RULE,
        ),
        Misconception(
            "refuses_smaller",
            linear_refuses_smaller,
            "You refuse a batch smaller than the tuned one: the rule works both ways; only below 1 is nonsense.",
            _RULE,
        ),
        Misconception(
            "refuses_one",
            linear_refuses_one,
            "You refuse a batch of a single example: small, but a batch; only below 1 is nonsense.",
            _RULE,
        ),
        Misconception(
            "no_check",
            linear_no_check,
            "Your formula is right, but it takes batches below 1 without complaint: raise a ValueError for those.",
            _RULE,
        ),
        Misconception(
            "checks_one_of_two",
            linear_checks_one,
            "You check the new batch alone: a base batch below 1 is as much nonsense, and needs a ValueError too.",
            _RULE,
        ),
        Misconception(
            "zero_allowed",
            linear_zero_allowed,
            "You refuse negative batches but let 0 pass: a batch without an example has no gradient.",
            _RULE,
        ),
        Misconception(
            "returns_none",
            linear_returns_none,
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


def warmup_from_zero(step, warmup_steps, peak_lr):
    return peak_lr * step / warmup_steps if step < warmup_steps else peak_lr


def warmup_one_more(step, warmup_steps, peak_lr):
    return peak_lr * min(1.0, (step + 1) / (warmup_steps + 1))


def warmup_never_ends(step, warmup_steps, peak_lr):
    return peak_lr * (step + 1) / max(warmup_steps, 1)


def warmup_none(step, warmup_steps, peak_lr):
    return peak_lr


def warmup_divides_by_zero(step, warmup_steps, peak_lr):
    return peak_lr * min(1.0, (step + 1) / warmup_steps)


def warmup_decays_after(step, warmup_steps, peak_lr):
    if step < warmup_steps:
        return peak_lr * (step + 1) / warmup_steps
    return peak_lr * (max(warmup_steps, 1) / (step + 1)) ** 0.5


def warmup_zero_after(step, warmup_steps, peak_lr):
    return peak_lr * (step + 1) / warmup_steps if step < warmup_steps else 0.0


def warmup_downwards(step, warmup_steps, peak_lr):
    return peak_lr * (warmup_steps - step) / warmup_steps if step < warmup_steps else peak_lr


def warmup_only_the_share(step, warmup_steps, peak_lr):
    return (step + 1) / warmup_steps if step < warmup_steps else 1.0


def warmup_whole_parts(step, warmup_steps, peak_lr):
    return peak_lr * ((step + 1) // warmup_steps) if step < warmup_steps else peak_lr


def warmup_cosine(step, warmup_steps, peak_lr):
    if step >= warmup_steps:
        return peak_lr
    return peak_lr * (1 - np.cos(np.pi * (step + 1) / warmup_steps)) / 2


def warmup_zero_means_zero(step, warmup_steps, peak_lr):
    if warmup_steps == 0:
        return 0.0
    return peak_lr * min(1.0, (step + 1) / warmup_steps)


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
            warmup_from_zero,
            "Your first step has a rate of zero and moves nothing: step counts from 0, so its share is step + 1.",
            _WARM,
        ),
        Misconception(
            "one_step_late",
            warmup_one_more,
            "You reach the peak one step late: the last step of the warm-up has the whole rate already.",
            _WARM,
        ),
        Misconception(
            "never_ends",
            warmup_never_ends,
            "Your rate goes on rising beyond the peak: once the warm-up is over it stays there.",
            _WARM,
        ),
        Misconception(
            "no_warmup",
            warmup_none,
            "You give the peak at every step: during the warm-up the rate has to rise towards it.",
            _WARM,
        ),
        Misconception(
            "divides_by_zero",
            warmup_divides_by_zero,
            "You divide by warmup_steps before you ask if there is a warm-up: with 0 steps the peak comes at once.",
            _WARM,
        ),
        Misconception(
            "decays_after",
            warmup_decays_after,
            "You let the rate fall after the warm-up: such a decay is another part of a schedule; here the peak stays.",
            _WARM,
        ),
        Misconception(
            "zero_after",
            warmup_zero_after,
            "Your rate drops to zero when the warm-up ends, and training stops: it stays at the peak.",
            _WARM,
        ),
        Misconception(
            "downwards",
            warmup_downwards,
            "Your rate falls during the warm-up: it is the first steps that need the small rates.",
            _WARM,
        ),
        Misconception(
            "only_the_share",
            warmup_only_the_share,
            "You return the share of the peak: multiply by peak_lr to get a rate.",
            _WARM,
        ),
        Misconception(
            "whole_parts",
            warmup_whole_parts,
            "You divide with //, which rounds every share of the warm-up down to zero: use /.",
            _WARM,
        ),
        Misconception(
            "cosine",
            warmup_cosine,
            "Your rate rises along a cosine: here it rises in equal parts, a straight line.",
            _WARM,
        ),
        Misconception(
            "zero_steps_mean_zero",
            warmup_zero_means_zero,
            "You give a rate of zero where there is no warm-up: without one the peak comes at once.",
            _WARM,
        ),
    ),
    variants=(warmup_minimum, warmup_share, warmup_parts, warmup_torch),
)

# --- trust_ratios -----------------------------------------------------------------------------------------------------


def ratios_inverted(thetas, grads):
    norms = [(np.linalg.norm(a), np.linalg.norm(b)) for a, b in zip(thetas, grads, strict=True)]
    return [float(b / a) if a > 0 and b > 0 else 1.0 for a, b in norms]


def ratios_squared(thetas, grads):
    norms = [(np.sum(np.square(a)), np.sum(np.square(b))) for a, b in zip(thetas, grads, strict=True)]
    return [float(a / b) if a > 0 and b > 0 else 1.0 for a, b in norms]


def ratios_of_sums_of_sizes(thetas, grads):
    norms = [(np.abs(a).sum(), np.abs(b).sum()) for a, b in zip(thetas, grads, strict=True)]
    return [float(a / b) if a > 0 and b > 0 else 1.0 for a, b in norms]


def ratios_of_largest(thetas, grads):
    norms = [(np.abs(a).max(), np.abs(b).max()) for a, b in zip(thetas, grads, strict=True)]
    return [float(a / b) if a > 0 and b > 0 else 1.0 for a, b in norms]


def ratios_spectral(thetas, grads):
    def norm(a):
        return np.linalg.norm(a, 2) if np.ndim(a) == 2 else np.linalg.norm(a)

    norms = [(norm(a), norm(b)) for a, b in zip(thetas, grads, strict=True)]
    return [float(a / b) if a > 0 and b > 0 else 1.0 for a, b in norms]


def ratios_global(thetas, grads):
    a = np.sqrt(sum(np.sum(np.square(x)) for x in thetas))
    b = np.sqrt(sum(np.sum(np.square(x)) for x in grads))
    return [float(a / b) if a > 0 and b > 0 else 1.0] * len(thetas)


def ratios_by_number(thetas, grads):
    result = []
    for a, b in zip(thetas, grads, strict=True):
        a, b = np.abs(a), np.abs(b)
        result.append(np.where((a > 0) & (b > 0), a / np.where(b > 0, b, 1), 1.0))
    return result


def ratios_mean_of_numbers(thetas, grads):
    result = []
    for a, b in zip(thetas, grads, strict=True):
        a, b = np.abs(a), np.abs(b)
        result.append(float(np.mean(np.where((a > 0) & (b > 0), a / np.where(b > 0, b, 1), 1.0))))
    return result


def ratios_no_guard(thetas, grads):
    with np.errstate(divide="ignore", invalid="ignore"):
        return [float(np.linalg.norm(a) / np.linalg.norm(b)) for a, b in zip(thetas, grads, strict=True)]


def ratios_guard_gradient(thetas, grads):
    norms = [(np.linalg.norm(a), np.linalg.norm(b)) for a, b in zip(thetas, grads, strict=True)]
    return [float(a / b) if b > 0 else 1.0 for a, b in norms]


def ratios_zero_for_nothing(thetas, grads):
    norms = [(np.linalg.norm(a), np.linalg.norm(b)) for a, b in zip(thetas, grads, strict=True)]
    return [float(a / b) if a > 0 and b > 0 else 0.0 for a, b in norms]


def ratios_epsilon(thetas, grads):
    norms = [(np.linalg.norm(a), np.linalg.norm(b)) for a, b in zip(thetas, grads, strict=True)]
    return [float(a / (b + 1e-8)) if a > 0 and b > 0 else 1.0 for a, b in norms]


def ratios_skip_nothing(thetas, grads):
    norms = [(np.linalg.norm(a), np.linalg.norm(b)) for a, b in zip(thetas, grads, strict=True)]
    return [float(a / b) for a, b in norms if a > 0 and b > 0]


def ratios_clipped(thetas, grads):
    norms = [(np.linalg.norm(a), np.linalg.norm(b)) for a, b in zip(thetas, grads, strict=True)]
    return [min(float(a / b), 10.0) if a > 0 and b > 0 else 1.0 for a, b in norms]


def ratios_return_early(thetas, grads):
    ratios = []
    for a, b in zip(thetas, grads, strict=True):
        a, b = np.linalg.norm(a), np.linalg.norm(b)
        ratios.append(float(a / b) if a > 0 and b > 0 else 1.0)
        return ratios
    return ratios


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
            ratios_inverted,
            "You have the ratio upside down: parameters over gradient, so that a small gradient gives a large number.",
            _SIZES,
        ),
        Misconception(
            "squared_norms",
            ratios_squared,
            "You divide the sums of squares: a norm is the root of that sum.",
            _SIZES,
        ),
        Misconception(
            "sums_of_sizes",
            ratios_of_sums_of_sizes,
            "You add the sizes of the numbers (the 1-norm): the Euclidean norm is the root of the sum of squares.",
            _SIZES,
        ),
        Misconception(
            "largest_number",
            ratios_of_largest,
            "You take the largest number of each layer: the Euclidean norm counts all of them.",
            _SIZES,
        ),
        Misconception(
            "spectral_norm",
            ratios_spectral,
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
            ratios_mean_of_numbers,
            "You average ratios of single numbers, where one gradient near zero outweighs all: divide the two norms.",
            _SIZES,
        ),
        Misconception(
            "no_guard",
            ratios_no_guard,
            "You divide even where a norm is 0: with nothing to compare, the ratio is 1.0.",
            _ZERO,
        ),
        Misconception(
            "zero_layer_gives_zero",
            ratios_guard_gradient,
            "You guard against a gradient of zero alone: a layer that starts at zero needs 1.0 too, or it never moves.",
            _ZERO,
        ),
        Misconception(
            "zero_for_nothing",
            ratios_zero_for_nothing,
            "You return 0.0 where a norm is 0: the ratio is 1.0 there, so that the layer can move.",
            _ZERO,
        ),
        Misconception(
            "epsilon",
            ratios_epsilon,
            "You add a small number to the gradient's norm, which a tiny gradient shows: only an exact 0 is special.",
            _SIZES,
        ),
        Misconception(
            "skips_layers",
            ratios_skip_nothing,
            "You leave out layers with a norm of 0: the result has one number for each layer.",
            _ZERO,
        ),
        Misconception(
            "clipped",
            ratios_clipped,
            "You cap the ratio, as some libraries do: return it as it is.",
            _SIZES,
        ),
        Misconception(
            "returns_in_the_loop",
            ratios_return_early,
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


def lars_no_local_rate(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    velocity = momentum * velocity + lr * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_no_decay_below(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / b if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_no_decay_above(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * grad
    return theta - velocity, velocity


def lars_no_decay(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / b if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * grad
    return theta - velocity, velocity


def lars_norm_of_sum(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    push = grad + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / np.linalg.norm(push) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * push
    return theta - velocity, velocity


def lars_lr_outside(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + local * (grad + weight_decay * theta)
    return theta - lr * velocity, velocity


def lars_local_outside(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * (grad + weight_decay * theta)
    return theta - local * velocity, velocity


def lars_no_lr(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_lr_twice(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - lr * velocity, velocity


def lars_average(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + (1 - momentum) * lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_ascent(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta + velocity, velocity


def lars_inverted(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * (b + weight_decay * a) / a if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_no_trust(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_fixed_trust(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = 0.001 * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_fixed_momentum(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = 0.9 * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_no_guard(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    with np.errstate(divide="ignore", invalid="ignore"):
        local = trust * a / (b + weight_decay * a)
        velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_zero_for_nothing(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 0.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_trust_for_nothing(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * (a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0)
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_clipped(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = min(1.0, trust * a / (b + weight_decay * a)) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_spectral(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    def norm(x):
        return np.linalg.norm(x, 2) if np.ndim(x) == 2 else np.linalg.norm(x)

    a, b = norm(theta), norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_squared_norms(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.sum(np.square(theta)), np.sum(np.square(grad))
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_number_by_number(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.abs(theta), np.abs(grad)
    below = b + weight_decay * a
    local = np.where((a > 0) & (b > 0), trust * a / np.where(below > 0, below, 1), 1.0)
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, velocity


def lars_decay_on_theta(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * grad
    return theta - velocity - lr * weight_decay * theta, velocity


def lars_old_velocity(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    new = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - velocity, new


def lars_only_theta(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    return theta - (momentum * velocity + lr * local * (grad + weight_decay * theta))


def lars_results_swapped(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return velocity, theta - velocity


def lars_in_place(theta, velocity, grad, lr, momentum=0.9, weight_decay=0.0, trust=0.001):
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    local = trust * a / (b + weight_decay * a) if a > 0 and b > 0 else 1.0
    velocity *= momentum
    velocity += lr * local * (grad + weight_decay * theta)
    theta -= velocity
    return theta, velocity


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
            lars_no_local_rate,
            "You took a step of plain momentum: LARS gives the layer a local rate from the two norms.",
            _LARS,
        ),
        Misconception(
            "no_decay_in_the_ratio",
            lars_no_decay_below,
            "You left the decay out of the local rate: below the line stands all that pushes the layer, "
            "the gradient's norm and the decay times the parameters' norm.",
            _DECAY,
        ),
        Misconception(
            "no_decay_in_the_push",
            lars_no_decay_above,
            "You count the decay in the local rate but leave it out of the push: the velocity takes both.",
            _DECAY,
        ),
        Misconception(
            "no_decay_at_all",
            lars_no_decay,
            "You never use weight_decay: it stands in the local rate and in the push.",
            _DECAY,
        ),
        Misconception(
            "norm_of_the_sum",
            lars_norm_of_sum,
            "You take the norm of gradient and decay together: LARS adds the two norms, so that they cannot cancel.",
            _DECAY,
        ),
        Misconception(
            "lr_outside_the_velocity",
            lars_lr_outside,
            "You apply the learning rate to the step: in LARS it is inside the velocity, together with the local rate.",
            "Trap 3: the learning rate inside the velocity",
        ),
        Misconception(
            "local_rate_outside",
            lars_local_outside,
            "You apply the local rate to the whole velocity: each push goes in with the local rate of its own step.",
            "Trap 3: the learning rate inside the velocity",
        ),
        Misconception(
            "no_learning_rate",
            lars_no_lr,
            "You left out the global learning rate: the push is scaled with both rates.",
            _LARS,
        ),
        Misconception(
            "learning_rate_twice",
            lars_lr_twice,
            "You apply the learning rate twice, in the velocity and in the step: once is enough.",
            "Trap 3: the learning rate inside the velocity",
        ),
        Misconception(
            "moving_average",
            lars_average,
            "You weigh the new push with 1 − momentum, as an average does: here the velocity sums the pushes.",
            _LARS,
        ),
        Misconception(
            "ascent",
            lars_ascent,
            "You add the velocity; it sums gradients, which point uphill, so the step goes against it.",
            _LARS,
        ),
        Misconception(
            "ratio_inverted",
            lars_inverted,
            "You have the ratio upside down: parameters over gradient, so that a large gradient gets a small rate.",
            _LARS,
        ),
        Misconception(
            "no_trust_coefficient",
            lars_no_trust,
            "You left out the trust coefficient: it says which share of its own length a layer may move.",
            _LARS,
        ),
        Misconception(
            "fixed_trust",
            lars_fixed_trust,
            "You wrote the default trust coefficient into the formula: use the argument trust.",
            _LARS,
        ),
        Misconception(
            "fixed_momentum",
            lars_fixed_momentum,
            "You wrote the default momentum into the formula: use the argument momentum.",
            _LARS,
        ),
        Misconception(
            "no_guard",
            lars_no_guard,
            "You use the ratio even where a norm is 0: a layer that starts at zero then never moves; "
            "the local rate is 1.0 there.",
            "Trap 2: a layer that starts at zero",
        ),
        Misconception(
            "zero_for_nothing",
            lars_zero_for_nothing,
            "You set the local rate to 0 where a norm is 0: it is 1.0 there, so that the layer can move.",
            "Trap 2: a layer that starts at zero",
        ),
        Misconception(
            "trust_for_nothing",
            lars_trust_for_nothing,
            "Where a norm is 0 you still apply the trust coefficient: the whole local rate is 1.0 there.",
            "Trap 2: a layer that starts at zero",
        ),
        Misconception(
            "clipped",
            lars_clipped,
            "You cap the local rate at 1, as the variant LARC does: LARS uses it as it is.",
            _LARS,
        ),
        Misconception(
            "spectral_norm",
            lars_spectral,
            "You took a matrix's spectral norm, which np.linalg.norm(a, 2) gives: leave the 2 away to get the norm of "
            "all its numbers as one vector.",
            _SIZES,
        ),
        Misconception(
            "squared_norms",
            lars_squared_norms,
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
            lars_decay_on_theta,
            "You subtract the decay from the parameters directly, as AdamW does: in LARS it goes through the velocity, "
            "with the local rate.",
            _DECAY,
        ),
        Misconception(
            "old_velocity",
            lars_old_velocity,
            "You step along the velocity from before this gradient: update the velocity first, then step along it.",
            _LARS,
        ),
        Misconception(
            "only_theta",
            lars_only_theta,
            "You return the parameters alone: the velocity is state, and the next step needs it back.",
            _LARS,
        ),
        Misconception(
            "results_swapped",
            lars_results_swapped,
            "You return the velocity first: the order is parameters, then velocity.",
            _LARS,
        ),
        Misconception(
            "in_place",
            lars_in_place,
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


def lamb_no_correction(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (np.sqrt(v) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_corrects_m_alone(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_eps_inside(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / np.sqrt(v / (1 - beta2**t) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_eps_hat(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) * np.sqrt(1 - beta2**t) / (np.sqrt(v) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_no_eps(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    root = np.sqrt(v / (1 - beta2**t))
    r = np.where(root > 0, m / (1 - beta1**t) / np.where(root > 0, root, 1), 0) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_counts_from_zero(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1 ** (t + 1)) / (np.sqrt(v / (1 - beta2 ** (t + 1))) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_keeps_corrected(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m, v = m / (1 - beta1**t), v / (1 - beta2**t)
    r = m / (np.sqrt(v) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_no_ratio(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    return theta - lr * r, m, v


def lamb_ratio_of_gradient(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(grad)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_inverted(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = b / a if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_decay_outside(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * (ratio * r + weight_decay * theta), m, v


def lamb_decay_first(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    theta = theta * (1 - lr * weight_decay)
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_decay_not_in_norm(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    adam = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    r = adam + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(adam)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_decay_in_gradient(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    grad = grad + weight_decay * theta
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_no_decay(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps)
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_decay_times_lr(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + lr * weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_clamped(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = min(a, 10.0) / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_ratio_capped(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = min(a / b, 1.0) if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_eps_in_ratio(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / (b + eps) if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_no_guard(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    with np.errstate(divide="ignore", invalid="ignore"):
        m = beta1 * m + (1 - beta1) * grad
        v = beta2 * v + (1 - beta2) * grad**2
        r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
        a, b = np.linalg.norm(theta), np.linalg.norm(r)
        ratio = a / b
        return theta - lr * ratio * r, m, v


def lamb_zero_for_nothing(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 0.0
    return theta - lr * ratio * r, m, v


def lamb_lr_cancels(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = lr * (m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta)
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - ratio * r, m, v


def lamb_spectral(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = (np.linalg.norm(x, 2) if np.ndim(x) == 2 else np.linalg.norm(x) for x in (theta, r))
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_number_by_number(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.abs(theta), np.abs(r)
    ratio = np.where((a > 0) & (b > 0), a / np.where(b > 0, b, 1), 1.0)
    return theta - lr * ratio * r, m, v


def lamb_squared_norms(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.sum(np.square(theta)), np.sum(np.square(r))
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_swapped_betas(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta2 * m + (1 - beta2) * grad
    v = beta1 * v + (1 - beta1) * grad**2
    r = m / (1 - beta2**t) / (np.sqrt(v / (1 - beta1**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_sums(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + grad
    v = beta2 * v + grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_no_square(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * np.abs(grad)
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_no_root(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (v / (1 - beta2**t) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_gradient_above(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = grad / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_ascent(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta + lr * ratio * r, m, v


def lamb_fixed_betas(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = 0.9 * m + 0.1 * grad
    v = 0.999 * v + 0.001 * grad**2
    r = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r, m, v


def lamb_only_theta(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return theta - lr * ratio * r


def lamb_moments_first(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    return m, v, theta - lr * ratio * r


def lamb_in_place(theta, m, v, grad, t, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
    m *= beta1
    m += (1 - beta1) * grad
    v *= beta2
    v += (1 - beta2) * grad**2
    r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * theta
    a, b = np.linalg.norm(theta), np.linalg.norm(r)
    ratio = a / b if a > 0 and b > 0 else 1.0
    theta -= lr * ratio * r
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
            lamb_no_correction,
            "You left out the bias correction, as some implementations do: both averages are corrected, as in Adam.",
            _LAMB,
        ),
        Misconception(
            "corrects_m_alone",
            lamb_corrects_m_alone,
            "You correct m but not v: both start at zero, and each has its own correction.",
            _LAMB,
        ),
        Misconception(
            "eps_inside_the_root",
            lamb_eps_inside,
            "You add eps inside the root: it stands outside, after the root is taken.",
            _LAMB,
        ),
        Misconception(
            "eps_before_correction",
            lamb_eps_hat,
            "You add eps to the root of the uncorrected v: correct v first, then take the root, then add eps.",
            _LAMB,
        ),
        Misconception(
            "no_eps",
            lamb_no_eps,
            "You never use eps: it is added to the root of the corrected v.",
            _LAMB,
        ),
        Misconception(
            "counts_from_zero",
            lamb_counts_from_zero,
            "You correct with t + 1: t counts from 1 already.",
            _LAMB,
        ),
        Misconception(
            "keeps_the_corrected",
            lamb_keeps_corrected,
            "You return the corrected averages: the next step expects them uncorrected, so correct into new names.",
            _LAMB,
        ),
        Misconception(
            "no_trust_ratio",
            lamb_no_ratio,
            "You took a step of AdamW: LAMB scales the direction with the layer's trust ratio.",
            _LAMB,
        ),
        Misconception(
            "ratio_of_the_gradient",
            lamb_ratio_of_gradient,
            "You divide by the gradient's norm, as LARS does: LAMB divides by the norm of its own direction.",
            _LAMB,
        ),
        Misconception(
            "ratio_inverted",
            lamb_inverted,
            "You have the ratio upside down: the parameters' norm over the direction's norm.",
            _LAMB,
        ),
        Misconception(
            "decay_outside_the_ratio",
            lamb_decay_outside,
            "You add the decay after the trust ratio: it belongs to the direction, so the ratio scales it too.",
            _INSIDE,
        ),
        Misconception(
            "decay_before_the_step",
            lamb_decay_first,
            "You shrink the parameters before the step, as AdamW may do: in LAMB the decay is part of the direction.",
            _INSIDE,
        ),
        Misconception(
            "decay_not_in_the_norm",
            lamb_decay_not_in_norm,
            "You step along direction and decay but take the norm without the decay: the norm is that of the whole.",
            _INSIDE,
        ),
        Misconception(
            "decay_in_the_gradient",
            lamb_decay_in_gradient,
            "You add the decay to the gradient, where Adam rescales it: add it to Adam's direction.",
            _INSIDE,
        ),
        Misconception(
            "no_decay",
            lamb_no_decay,
            "You never use weight_decay: it is part of the direction.",
            _INSIDE,
        ),
        Misconception(
            "decay_times_lr",
            lamb_decay_times_lr,
            "You multiply the decay with lr inside the direction: the step applies lr to the whole, once.",
            _INSIDE,
        ),
        Misconception(
            "norm_clamped",
            lamb_clamped,
            "You cap the parameters' norm at 10, as some implementations do: here it enters as it is.",
            "Trap 4: one name, several LAMBs",
        ),
        Misconception(
            "ratio_capped",
            lamb_ratio_capped,
            "You cap the trust ratio at 1: a long layer with a short direction needs a ratio above it.",
            "Trap 4: one name, several LAMBs",
        ),
        Misconception(
            "eps_in_the_ratio",
            lamb_eps_in_ratio,
            "You add eps to the direction's norm as well: only an exact 0 is special there.",
            "Trap 4: one name, several LAMBs",
        ),
        Misconception(
            "no_guard",
            lamb_no_guard,
            "You use the ratio even where a norm is 0: such a layer then never moves; the ratio is 1.0 there.",
            _ZERO,
        ),
        Misconception(
            "zero_for_nothing",
            lamb_zero_for_nothing,
            "You set the ratio to 0 where a norm is 0: it is 1.0 there, so that the layer can move.",
            _ZERO,
        ),
        Misconception(
            "lr_cancels",
            lamb_lr_cancels,
            "You put lr into the direction before its norm is taken, so it cancels: ratio first, then lr.",
            _LAMB,
        ),
        Misconception(
            "spectral_norm",
            lamb_spectral,
            "You took a matrix's spectral norm, which np.linalg.norm(a, 2) gives: leave the 2 away to get the norm of "
            "all its numbers as one vector.",
            _SIZES,
        ),
        Misconception(
            "number_by_number",
            lamb_number_by_number,
            "You give every number a ratio of its own: a whole layer shares one.",
            _LAMB,
        ),
        Misconception(
            "squared_norms",
            lamb_squared_norms,
            "You use sums of squares for norms: a norm is the root of that sum.",
            _SIZES,
        ),
        Misconception(
            "swapped_betas",
            lamb_swapped_betas,
            "You swapped the coefficients: beta1 belongs to m, the average of the gradient, beta2 to v.",
            _LAMB,
        ),
        Misconception(
            "sums",
            lamb_sums,
            "You add the new gradient at its full size: in an average it gets the share that the old one leaves.",
            _LAMB,
        ),
        Misconception(
            "no_square",
            lamb_no_square,
            "You average the gradient's size in v: it is the average of its square.",
            _LAMB,
        ),
        Misconception(
            "no_root",
            lamb_no_root,
            "You divide by v itself: take its root first, so that direction and gradient units cancel.",
            _LAMB,
        ),
        Misconception(
            "gradient_above",
            lamb_gradient_above,
            "You divide the bare gradient: above the line stands the corrected m.",
            _LAMB,
        ),
        Misconception(
            "ascent",
            lamb_ascent,
            "You add the direction; it averages gradients, which point uphill, so the step goes against it.",
            _LAMB,
        ),
        Misconception(
            "fixed_betas",
            lamb_fixed_betas,
            "You wrote the defaults into the formula: use the arguments beta1 and beta2.",
            _LAMB,
        ),
        Misconception(
            "only_theta",
            lamb_only_theta,
            "You return the parameters alone: m and v are state, and the next step needs them back.",
            _LAMB,
        ),
        Misconception(
            "moments_first",
            lamb_moments_first,
            "You return the averages first: the order is parameters, m, v.",
            _LAMB,
        ),
        Misconception(
            "in_place",
            lamb_in_place,
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
