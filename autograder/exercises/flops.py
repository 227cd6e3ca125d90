"""Chapter 06, counting compute: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself, apart from the chapter's own earlier functions.
"""

import numpy as np
import torch

from autograder.edited import edited
from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import flops
from solutions.flops import matmul_flops

_EXACT = {"rtol": 0.0, "atol": 0.0}
_PRODUCT = "What one product costs"
_FORWARD = "A layer, forward"
_BACKWARD = "A layer, backward"
_STACK = "A whole network"
_TOKENS = "From layers to tokens"
_DAYS = "From FLOPs to days"
_MFU = "The share you get"
_ATTENTION = "What the rule leaves out"
_ROOF = "The other limit"

# --- matmul_flops -----------------------------------------------------------------------------------------------------


def matmul_all_numbers(m, k, n):
    return m * k + k * n + m * n


def matmul_as_a_product(m, k, n):
    return 2 * n * m * k


def matmul_entry_by_entry(m, k, n):
    entries, multiplications, additions = m * n, k, k
    return entries * (multiplications + additions)


def matmul_numpy(m, k, n):
    return 2 * np.prod([m, k, n], dtype=np.int64)


MATMUL_FLOPS = Exercise(
    reference=flops.matmul_flops,
    points=1,
    section=_PRODUCT,
    cases=(
        Case("a row times a column", (1, 5, 1), **_EXACT),
        Case("a matrix times a vector", (4, 7, 1), **_EXACT),
        Case("two matrices", (3, 4, 6), weight=2, **_EXACT),
        Case("a column times a row", (6, 1, 9), **_EXACT),
        Case("large matrices, exact", (2**20, 8192, 28672), **_EXACT),
        Case("arguments by keyword", kwargs={"n": 11, "k": 3, "m": 8}, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "multiplications_only",
            edited(flops.matmul_flops, ("2 * k", "k")),
            "You count multiplications (or multiply-adds, MACs); a FLOP is either of the two, so each term counts two.",
            _PRODUCT,
        ),
        Misconception(
            "one_addition_less",
            edited(flops.matmul_flops, ("2 * k", "(2 * k - 1)")),
            "You leave out the first addition; the convention counts k of each, as the hardware's multiply-add does.",
            _PRODUCT,
        ),
        Misconception(
            "length_forgotten",
            edited(flops.matmul_flops, ("2 * k", "2")),
            "You count two FLOPs for each entry of the result; an entry is a sum of k terms.",
            _PRODUCT,
        ),
        Misconception(
            "one_entry",
            edited(flops.matmul_flops, ("each_entry * m * n", "each_entry")),
            "You count one entry of the result; it has m rows and n columns of them.",
            _PRODUCT,
        ),
        Misconception(
            "one_row",
            edited(flops.matmul_flops, ("each_entry * m * n", "each_entry * n")),
            "You count one row of the result; it has m of them.",
            _PRODUCT,
        ),
        Misconception(
            "numbers_in_the_matrices",
            matmul_all_numbers,
            "You count the numbers in the three matrices: that is what is moved, not what is computed.",
            _PRODUCT,
        ),
        Misconception(
            "with_backward",
            edited(flops.matmul_flops, ("2 * k", "6 * k")),
            "You count a forward and a backward pass; here it is one product alone.",
            _PRODUCT,
        ),
    ),
    variants=(matmul_as_a_product, matmul_entry_by_entry, matmul_numpy),
)

# --- linear_forward_flops ---------------------------------------------------------------------------------------------


def forward_by_hand(batch, d_in, d_out):
    return 2 * batch * d_in * d_out


def forward_row_by_row(batch, d_in, d_out):
    return sum(2 * d_in * d_out for _ in range(batch))


def forward_float(batch, d_in, d_out):
    return 2.0 * d_out * d_in * batch


LINEAR_FORWARD_FLOPS = Exercise(
    reference=flops.linear_forward_flops,
    points=1,
    section=_FORWARD,
    builds_on=("matmul_flops",),
    cases=(
        Case("one row", (1, 5, 7), **_EXACT),
        Case("a square layer", (3, 8, 8), **_EXACT),
        Case("a layer that widens", (6, 4, 10), weight=2, **_EXACT),
        Case("a layer that narrows", (5, 12, 3), **_EXACT),
        Case("a large layer, exact", (2**12, 12288, 49152), **_EXACT),
        Case("arguments by keyword", kwargs={"d_out": 9, "d_in": 2, "batch": 7}, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "multiply_adds",
            edited(
                flops.linear_forward_flops, ("matmul_flops(batch, d_in, d_out)", "matmul_flops(batch, d_in, d_out) / 2")
            ),
            "You count one for each weight and row; each is a multiplication and an addition.",
            _PRODUCT,
        ),
        Misconception(
            "one_row_only",
            edited(flops.linear_forward_flops, ("matmul_flops(batch, d_in, d_out)", "matmul_flops(1, d_in, d_out)")),
            "You count a single row; every row of the batch goes through all weights.",
            _FORWARD,
        ),
        Misconception(
            "square_of_the_input",
            edited(flops.linear_forward_flops, ("matmul_flops(batch, d_in, d_out)", "matmul_flops(batch, d_in, d_in)")),
            "You square the input's width: that is right for square layers only.",
            _FORWARD,
        ),
        Misconception(
            "square_of_the_output",
            edited(
                flops.linear_forward_flops, ("matmul_flops(batch, d_in, d_out)", "matmul_flops(batch, d_out, d_out)")
            ),
            "You square the output's width: that is right for square layers only.",
            _FORWARD,
        ),
        Misconception(
            "with_a_bias",
            edited(
                flops.linear_forward_flops,
                ("matmul_flops(batch, d_in, d_out)", "matmul_flops(batch, d_in, d_out) + batch * d_out"),
            ),
            "You add a bias; the layers of this chapter have none.",
            _FORWARD,
        ),
        Misconception(
            "forward_and_backward",
            edited(
                flops.linear_forward_flops, ("matmul_flops(batch, d_in, d_out)", "3 * matmul_flops(batch, d_in, d_out)")
            ),
            "You count forward and backward together; here it is forward alone.",
            _FORWARD,
        ),
    ),
    variants=(forward_by_hand, forward_row_by_row, forward_float),
)

# --- linear_backward --------------------------------------------------------------------------------------------------

_rng = np.random.default_rng(6)
_x, _w, _g = _rng.normal(size=(5, 3)), _rng.normal(size=(3, 4)), _rng.normal(size=(5, 4))
_square = tuple(_rng.normal(size=(3, 3, 3)))


def only_grad_x(answer, *args):
    result = answer(*args)
    return result[0] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def only_grad_w(answer, *args):
    result = answer(*args)
    return result[1] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def backward_by_sums(x, w, grad_y):
    grad_x, grad_w = np.zeros(np.shape(x)), np.zeros(np.shape(w))
    for b in range(len(x)):
        for i in range(len(w)):
            for j in range(len(w[0])):
                grad_x[b, i] += grad_y[b, j] * w[i, j]
                grad_w[i, j] += x[b, i] * grad_y[b, j]
    return grad_x, grad_w


def backward_transposed_twice(x, w, grad_y):
    return [(w @ grad_y.T).T, (grad_y.T @ x).T]


def backward_einsum(x, w, grad_y):
    return np.einsum("bj,ij->bi", grad_y, w), np.einsum("bi,bj->ij", x, grad_y)


def backward_outer_products(x, w, grad_y):
    return np.dot(grad_y, np.transpose(w)), sum(np.outer(row, grad) for row, grad in zip(x, grad_y, strict=True))


def backward_autograd(x, w, grad_y):
    x, w = (torch.tensor(a, requires_grad=True) for a in (x, w))
    (x @ w).backward(torch.tensor(grad_y))
    return x.grad, w.grad


LINEAR_BACKWARD = Exercise(
    reference=flops.linear_backward,
    points=4,
    results=("grad_x", "grad_w"),
    section=_BACKWARD,
    cases=(
        Case("the gradient of the input", (_x, _w, _g), probe=only_grad_x),
        Case("the gradient of the weights", (_x, _w, _g), probe=only_grad_w),
        Case("both, in order", (_x, _w, _g), weight=1.5),
        Case("a batch of one row", (_x[:1], _w, _g[:1])),
        Case("a layer that narrows", (_w, _rng.normal(size=(4, 2)), _rng.normal(size=(3, 2)))),
        Case("all square, so that no shape warns you", _square, weight=1.5),
        Case("one output", (_x, _w[:, :1], _g[:, :1]), weight=0.5),
        Case(
            "very large and very small numbers",
            (_x * 1e9, _w * 1e-6, _g * 1e-4),
            weight=0.5,
            atol=1e-16,
        ),
        Case(
            "float32 arrays",
            tuple(a.astype(np.float32) for a in (_x, _w, _g)),
            weight=0.5,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case("arguments by keyword", kwargs={"grad_y": _g, "w": _w, "x": _x}, weight=0.5),
        Case("leaves its arguments unchanged", (_x, _w, _g), weight=0.5, unchanged=True),
    ),
    misconceptions=(
        Misconception(
            "weights_not_transposed",
            edited(flops.linear_backward, ("grad_y @ w.T", "grad_y @ w")),
            "You multiply by the weights as they are; the way back leads from outputs to inputs: transpose them.",
            _BACKWARD,
        ),
        Misconception(
            "input_not_transposed",
            edited(flops.linear_backward, ("x.T @ grad_y", "x @ grad_y")),
            "You multiply by the input as it is; the sum runs over the rows of the batch, so its rows must be columns.",
            _BACKWARD,
        ),
        Misconception(
            "no_transposes",
            edited(flops.linear_backward, ("grad_y @ w.T", "grad_y @ w"), ("x.T @ grad_y", "x @ grad_y")),
            "You transpose neither; each gradient has its own variable's shape, and both need a transpose for it.",
            _BACKWARD,
        ),
        Misconception(
            "input_gradient_as_columns",
            edited(flops.linear_backward, ("grad_y @ w.T", "w @ grad_y.T")),
            "Your grad_x is transposed: its rows must be the rows of the batch, so grad_y stands to the left.",
            _BACKWARD,
        ),
        Misconception(
            "weight_gradient_as_stored_by_torch",
            edited(flops.linear_backward, ("x.T @ grad_y", "grad_y.T @ x")),
            "Your grad_w is transposed, as nn.Linear stores its weights; here y = x @ w, and w is inputs by outputs.",
            _BACKWARD,
        ),
        Misconception(
            "averages_over_the_batch",
            edited(flops.linear_backward, ("x.T @ grad_y", "x.T @ grad_y / len(x)")),
            "You divide by the batch; if the loss is a mean, grad_y contains that division already.",
            _BACKWARD,
        ),
        Misconception(
            "results_swapped",
            edited(
                flops.linear_backward, ("return to_the_input, to_the_weights", "return to_the_weights, to_the_input")
            ),
            "You return the gradient of the weights first; the order is grad_x, then grad_w.",
            _BACKWARD,
        ),
        Misconception(
            "only_the_weights",
            edited(flops.linear_backward, ("return to_the_input, to_the_weights", "return to_the_weights")),
            "You return the gradient of the weights alone; the layer before this one needs grad_x.",
            _BACKWARD,
        ),
        Misconception(
            "output_for_its_gradient",
            edited(flops.linear_backward, ("x.T @ grad_y", "x.T @ (x @ w)")),
            "You use the output in grad_w where its gradient belongs: the forward result is not needed at all.",
            _BACKWARD,
        ),
        Misconception(
            "gradient_of_the_sum",
            edited(
                flops.linear_backward,
                ("grad_y @ w.T", "np.ones_like(grad_y) @ w.T"),
                ("x.T @ grad_y", "x.T @ np.ones_like(grad_y)"),
            ),
            "You take every entry of grad_y for 1; what comes from the layers above is handed on, whatever it is.",
            _BACKWARD,
        ),
        Misconception(
            "in_place",
            edited(
                flops.linear_backward,
                ("to_the_weights = x.T @ grad_y", "to_the_weights = x.T @ grad_y; grad_y *= 0"),
            ),
            "Your results are right, but you changed the caller's arrays on the way: leave them as they are.",
            _BACKWARD,
        ),
    ),
    variants=(
        backward_by_sums,
        backward_transposed_twice,
        backward_einsum,
        backward_outer_products,
        backward_autograd,
    ),
)

# --- linear_backward_flops --------------------------------------------------------------------------------------------

_OUTCOME = "for_the_input + for_the_weights"


def backward_flops_by_hand(batch, d_in, d_out):
    return 4 * batch * d_in * d_out


def backward_flops_twice_forward(batch, d_in, d_out):
    return 2 * matmul_flops(batch, d_in, d_out)


def backward_flops_numpy(batch, d_in, d_out):
    return np.int64(4) * batch * d_out * d_in


LINEAR_BACKWARD_FLOPS = Exercise(
    reference=flops.linear_backward_flops,
    points=2,
    section=_BACKWARD,
    builds_on=("matmul_flops",),
    cases=(
        Case("one row", (1, 5, 7), **_EXACT),
        Case("a square layer", (3, 8, 8), **_EXACT),
        Case("a layer that widens", (6, 4, 10), weight=2, **_EXACT),
        Case("a layer that narrows", (5, 12, 3), **_EXACT),
        Case("a large layer, exact", (2**12, 12288, 49152), **_EXACT),
        Case("arguments by keyword", kwargs={"d_out": 9, "d_in": 2, "batch": 7}, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "one_gradient",
            edited(flops.linear_backward_flops, (_OUTCOME, "for_the_weights")),
            "You count one of the two gradients (or multiply-adds); the input has one, and the weights have one.",
            _BACKWARD,
        ),
        Misconception(
            "with_forward",
            edited(flops.linear_backward_flops, (_OUTCOME, "3 * for_the_weights")),
            "You count forward as well; here it is backward alone.",
            _BACKWARD,
        ),
        Misconception(
            "twice_of_each",
            edited(flops.linear_backward_flops, (_OUTCOME, f"2 * ({_OUTCOME})")),
            "You count twice what is right: two products, each as dear as forward.",
            _BACKWARD,
        ),
        Misconception(
            "transposes_cost",
            edited(flops.linear_backward_flops, (_OUTCOME, f"{_OUTCOME} + d_in * d_out + batch * d_in")),
            "You count the transposes; a transpose only reads in another order and computes nothing.",
            _BACKWARD,
        ),
        Misconception(
            "without_the_batch",
            edited(flops.linear_backward_flops, (_OUTCOME, f"({_OUTCOME}) / batch")),
            "You count a single row; every row of the batch has a part in both gradients.",
            _BACKWARD,
        ),
        Misconception(
            "square_of_the_input",
            edited(
                flops.linear_backward_flops,
                ("matmul_flops(batch, d_out, d_in)", "matmul_flops(batch, d_in, d_in)"),
                ("matmul_flops(d_in, batch, d_out)", "matmul_flops(d_in, batch, d_in)"),
            ),
            "You square the input's width: that is right for square layers only.",
            _BACKWARD,
        ),
        Misconception(
            "update_included",
            edited(flops.linear_backward_flops, (_OUTCOME, f"{_OUTCOME} + 2 * d_in * d_out")),
            "You count the optimizer's step as well; it is no part of backward.",
            _BACKWARD,
        ),
    ),
    variants=(backward_flops_by_hand, backward_flops_twice_forward, backward_flops_numpy),
)

# --- mlp_training_flops -----------------------------------------------------------------------------------------------

_COUNT = "3 * depth if input_grad else 3 * depth - 1"


def mlp_closed_form(batch, width, depth, input_grad=False):
    return 2 * batch * width**2 * (3 * depth - (0 if input_grad else 1))


def mlp_layer_by_layer(batch, width, depth, input_grad=False):
    product, total = 2 * batch * width * width, 0
    for layer in range(depth):
        total += product
        total += product
        if layer > 0 or input_grad:
            total += product
    return total


def mlp_from_the_parts(batch, width, depth, input_grad=False):
    whole = 6.0 * batch * width * width * depth
    return whole if input_grad else whole - 2 * batch * width * width


MLP_TRAINING_FLOPS = Exercise(
    reference=flops.mlp_training_flops,
    points=3,
    section=_STACK,
    builds_on=("matmul_flops",),
    cases=(
        Case("with the gradient of the batch", (3, 5, 4, True), weight=1.5, **_EXACT),
        Case("without it, several layers", (3, 5, 4), weight=1.5, **_EXACT),
        Case("without it, a single layer", (7, 4, 1), **_EXACT),
        Case("with it, a single layer", (7, 4, 1, True), weight=0.5, **_EXACT),
        Case("a deep and narrow stack", (2, 3, 50, False), weight=0.5, **_EXACT),
        Case("a large network, exact", (2**20, 8192, 80), weight=0.5, **_EXACT),
        Case(
            "arguments by keyword",
            kwargs={"input_grad": True, "depth": 6, "width": 9, "batch": 2},
            weight=0.5,
            **_EXACT,
        ),
    ),
    misconceptions=(
        Misconception(
            "first_layer_like_the_others",
            edited(flops.mlp_training_flops, (_COUNT, "3 * depth")),
            "You count all gradients in the first layer too; the gradient of the batch is needed by nobody.",
            _STACK,
        ),
        Misconception(
            "flag_ignored",
            edited(flops.mlp_training_flops, (_COUNT, "3 * depth - 1")),
            "You leave out the gradient of the batch even where input_grad asks for it.",
            _STACK,
        ),
        Misconception(
            "flag_reversed",
            edited(flops.mlp_training_flops, (_COUNT, "3 * depth - 1 if input_grad else 3 * depth")),
            "You have input_grad the wrong way round: with it, one product more is computed.",
            _STACK,
        ),
        Misconception(
            "first_layer_has_no_backward",
            edited(flops.mlp_training_flops, (_COUNT, "3 * depth if input_grad else 3 * depth - 2")),
            "You leave out the first layer's backward as a whole; its weights do learn, and need their gradient.",
            _STACK,
        ),
        Misconception(
            "one_layer_short",
            edited(flops.mlp_training_flops, (_COUNT, "3 * (depth - 1)")),
            "You leave out a whole layer; the first layer only misses one product of three.",
            _STACK,
        ),
        Misconception(
            "missing_in_every_layer",
            edited(flops.mlp_training_flops, (_COUNT, "3 * depth if input_grad else 2 * depth")),
            "You leave out the gradient of every layer's input; only the first layer has none before it that needs it.",
            _STACK,
        ),
        Misconception(
            "backward_like_forward",
            edited(flops.mlp_training_flops, (_COUNT, "2 * depth")),
            "You count backward as dear as forward; it has two products where forward has one.",
            _BACKWARD,
        ),
        Misconception(
            "forward_only",
            edited(flops.mlp_training_flops, (_COUNT, "depth")),
            "You count the forward pass alone; training goes back as well.",
            _STACK,
        ),
        Misconception(
            "backward_only",
            edited(flops.mlp_training_flops, (_COUNT, "2 * depth if input_grad else 2 * depth - 1")),
            "You count the backward pass alone; forward comes first.",
            _STACK,
        ),
        Misconception(
            "six_for_forward",
            edited(flops.mlp_training_flops, (_COUNT, "5 * depth if input_grad else 5 * depth - 1")),
            "You take 6 for the forward pass and add backward; the 6 of the usual rule has both in it.",
            _STACK,
        ),
        Misconception(
            "width_once",
            edited(flops.mlp_training_flops, ("matmul_flops(batch, width, width)", "matmul_flops(batch, width, 1)")),
            "You count the width once; a layer's matrix has as many rows as columns.",
            _FORWARD,
        ),
        Misconception(
            "without_the_batch",
            edited(flops.mlp_training_flops, ("matmul_flops(batch, width, width)", "matmul_flops(1, width, width)")),
            "You count a single row; every row of the batch goes through all layers.",
            _FORWARD,
        ),
        Misconception(
            "multiply_adds",
            edited(flops.mlp_training_flops, ("one_product * products", "one_product * products / 2")),
            "You count multiply-adds; each is two FLOPs.",
            _PRODUCT,
        ),
    ),
    variants=(mlp_closed_form, mlp_layer_by_layer, mlp_from_the_parts),
)

# --- training_flops ---------------------------------------------------------------------------------------------------

_SIX = "2.0 + 4.0"


def training_flops_integer(n_params, n_tokens):
    return 6 * int(n_params) * int(n_tokens)


def training_flops_forward_and_backward(n_params, n_tokens):
    forward = 2 * n_params * n_tokens
    return forward + 2 * forward


def training_flops_numpy(n_params, n_tokens):
    return np.multiply(np.float64(n_tokens), 6.0) * n_params


TRAINING_FLOPS = Exercise(
    reference=flops.training_flops,
    points=1,
    section=_TOKENS,
    cases=(
        Case("one token", (7, 1)),
        Case("a few tokens", (50, 12), weight=2),
        Case("whole numbers, a large run", (8_030_261_248, 15_000_000_000_000)),
        Case("floats", (7e10, 1.4e12)),
        Case("arguments by keyword", kwargs={"n_tokens": 400, "n_params": 30}),
    ),
    misconceptions=(
        Misconception(
            "forward_only",
            edited(flops.training_flops, (_SIX, "2.0")),
            "You count the forward pass alone; backward costs twice as much again.",
            _TOKENS,
        ),
        Misconception(
            "backward_only",
            edited(flops.training_flops, (_SIX, "4.0")),
            "You count the backward pass alone; forward comes first.",
            _TOKENS,
        ),
        Misconception(
            "multiply_adds",
            edited(flops.training_flops, (_SIX, "3.0")),
            "You count multiply-adds; each is two FLOPs.",
            _PRODUCT,
        ),
        Misconception(
            "with_recomputation",
            edited(flops.training_flops, (_SIX, "8.0")),
            "You count the forward pass twice, as with recomputation; the rule counts what the model needs.",
            "Four ways to count a utilization",
        ),
        Misconception(
            "one_token_only",
            edited(flops.training_flops, ("there_and_back * n_params * n_tokens", "there_and_back * n_params")),
            "You count a single token; the run reads n_tokens of them.",
            _TOKENS,
        ),
        Misconception(
            "sum_for_a_product",
            edited(
                flops.training_flops, ("there_and_back * n_params * n_tokens", "there_and_back * (n_params + n_tokens)")
            ),
            "You add parameters and tokens; every token meets every parameter.",
            _TOKENS,
        ),
        Misconception(
            "one_per_parameter",
            edited(flops.training_flops, (_SIX, "1.0")),
            "You count one FLOP for each parameter and token; a weight is multiplied and added, there and back.",
            _TOKENS,
        ),
    ),
    variants=(training_flops_integer, training_flops_forward_and_backward, training_flops_numpy),
)

# --- training_days ----------------------------------------------------------------------------------------------------

_RATE = "n_gpus * peak_flops * mfu"
_GUARD = "not 0 < mfu <= 1"


def days_by_hours(total_flops, n_gpus, peak_flops, mfu):
    if mfu <= 0 or mfu > 1:
        raise ValueError("mfu is a share")
    hours = total_flops / (peak_flops * mfu) / 3600 / n_gpus
    return hours / 24


def days_card_days(total_flops, n_gpus, peak_flops, mfu):
    if not (mfu > 0 and mfu <= 1):
        raise ValueError(mfu)
    in_a_day = 24 * 60 * 60 * peak_flops * mfu
    return np.float64(total_flops) / in_a_day / n_gpus


TRAINING_DAYS = Exercise(
    reference=flops.training_days,
    points=2,
    section=_DAYS,
    cases=(
        Case("one card at its peak", (8.64e18, 1, 2e13, 1.0)),
        Case("several cards", (8.64e18, 6, 2e13, 1.0)),
        Case("a share of the peak", (8.64e18, 1, 2e13, 0.4)),
        Case("everything together", (3.3e24, 512, 312e12, 0.37), weight=2),
        Case("whole numbers", (10**21, 64, 10**14, 0.25), weight=0.5),
        Case("arguments by keyword", kwargs={"mfu": 0.6, "peak_flops": 1e14, "n_gpus": 3, "total_flops": 5e20}),
        Case("a share of zero", (1e20, 4, 1e14, 0), raises=ValueError, weight=0.5),
        Case("a negative share", (1e20, 4, 1e14, -0.4), raises=ValueError, weight=0.5),
        Case("per cent for a share", (1e20, 4, 1e14, 40), raises=ValueError, weight=0.5),
        Case("a share a little above one", (1e20, 4, 1e14, 1.01), raises=ValueError, weight=0.5),
    ),
    misconceptions=(
        Misconception(
            "in_seconds",
            edited(flops.training_days, ("total_flops / real_rate / 86_400", "total_flops / real_rate")),
            "You return seconds; the result is in days.",
            _DAYS,
        ),
        Misconception(
            "in_hours",
            edited(flops.training_days, ("86_400", "3_600")),
            "You return hours; the result is in days.",
            _DAYS,
        ),
        Misconception(
            "card_days",
            edited(flops.training_days, (_RATE, "peak_flops * mfu")),
            "You return the days of a single card; all cards work at the same time.",
            _DAYS,
        ),
        Misconception(
            "more_cards_take_longer",
            edited(flops.training_days, (_RATE, "peak_flops * mfu / n_gpus")),
            "You multiply the time by the cards: more cards make the run shorter.",
            _DAYS,
        ),
        Misconception(
            "share_on_the_wrong_side",
            edited(flops.training_days, (_RATE, "n_gpus * peak_flops / mfu")),
            "You multiply the time by the share: a lower share makes the run longer.",
            _DAYS,
        ),
        Misconception(
            "at_the_peak",
            edited(flops.training_days, (_RATE, "n_gpus * peak_flops")),
            "You leave out the share: no run gets the data sheet's rate.",
            _DAYS,
        ),
        Misconception(
            "wants_per_cent",
            edited(flops.training_days, (_RATE, "n_gpus * peak_flops * mfu / 100")),
            "You take mfu for per cent; it is a share, 0.4 and not 40.",
            _DAYS,
        ),
        Misconception(
            "per_cent_accepted",
            edited(
                flops.training_days,
                (_GUARD, "mfu <= 0"),
                (_RATE, "n_gpus * peak_flops * (mfu if mfu <= 1 else mfu / 100)"),
            ),
            "You take a number above 1 for per cent; a share outside 0 to 1 is a mistake, so say so with a ValueError.",
            _DAYS,
        ),
        Misconception(
            "nothing_refused",
            edited(flops.training_days, (_GUARD, "False")),
            "You accept any share; outside 0 to 1 the result only looks like a number: raise ValueError instead.",
            _DAYS,
        ),
        Misconception(
            "one_refused",
            edited(flops.training_days, (_GUARD, "not 0 < mfu < 1")),
            "You refuse a share of exactly 1: it is the limit, but it is allowed.",
            _DAYS,
        ),
        Misconception(
            "zero_not_refused",
            edited(flops.training_days, (_GUARD, "not 0 <= mfu <= 1")),
            "You do not refuse a share of zero, so the division fails: raise a ValueError that says why.",
            _DAYS,
        ),
        Misconception(
            "whole_days",
            edited(
                flops.training_days,
                ("return total_flops / real_rate / 86_400", "return total_flops / real_rate // 86_400"),
            ),
            "You cut the days off to a whole number; return them as they are.",
            _DAYS,
        ),
    ),
    variants=(days_by_hours, days_card_days),
)

# --- model_flops_utilization ------------------------------------------------------------------------------------------

_USEFUL = "useful_rate / (n_gpus * peak_flops)"


def mfu_against_possible_tokens(tokens_per_second, flops_per_token, n_gpus, peak_flops):
    possible = n_gpus * peak_flops / flops_per_token
    return tokens_per_second / possible


def mfu_per_card(tokens_per_second, flops_per_token, n_gpus, peak_flops):
    return np.float64(tokens_per_second) / n_gpus * flops_per_token / peak_flops


MODEL_FLOPS_UTILIZATION = Exercise(
    reference=flops.model_flops_utilization,
    points=2,
    section=_MFU,
    cases=(
        Case("one card", (100.0, 3e9, 1, 1e12)),
        Case("several cards", (1600.0, 3e9, 8, 1e12), weight=1.5),
        Case("a large run", (1.2e6, 4.2e11, 2048, 989.5e12)),
        Case("whole numbers", (2000, 5 * 10**9, 16, 10**12), weight=0.5),
        Case("a slow run", (0.5, 6e8, 1, 312e12), weight=0.5),
        Case(
            "arguments by keyword",
            kwargs={"peak_flops": 312e12, "n_gpus": 4, "flops_per_token": 8e9, "tokens_per_second": 5e4},
        ),
    ),
    misconceptions=(
        Misconception(
            "per_cent",
            edited(flops.model_flops_utilization, (_USEFUL, f"100 * {_USEFUL}")),
            "You return per cent; the result is a share, 0.4 and not 40.",
            _MFU,
        ),
        Misconception(
            "cards_forgotten",
            edited(flops.model_flops_utilization, (_USEFUL, "useful_rate / peak_flops")),
            "You compare all cards' tokens with one card's peak; all cards together could do n_gpus times as much.",
            _MFU,
        ),
        Misconception(
            "cards_multiplied",
            edited(flops.model_flops_utilization, (_USEFUL, "useful_rate * n_gpus / peak_flops")),
            "You multiply the tokens by the cards; tokens_per_second is of all cards together.",
            _MFU,
        ),
        Misconception(
            "upside_down",
            edited(flops.model_flops_utilization, (_USEFUL, "n_gpus * peak_flops / useful_rate")),
            "You divide what is possible by what is done: the share is the other way round.",
            _MFU,
        ),
        Misconception(
            "six_once_more",
            edited(
                flops.model_flops_utilization,
                ("tokens_per_second * flops_per_token", "6 * tokens_per_second * flops_per_token"),
            ),
            "You multiply by 6; flops_per_token has it in already.",
            _MFU,
        ),
        Misconception(
            "recomputation_counted",
            edited(flops.model_flops_utilization, (_USEFUL, f"{_USEFUL} * 4 / 3")),
            "You count recomputed work; model FLOPs are those that the model needs, however it is run.",
            "Four ways to count a utilization",
        ),
        Misconception(
            "tokens_against_flops",
            edited(
                flops.model_flops_utilization,
                ("tokens_per_second * flops_per_token", "tokens_per_second"),
            ),
            "You compare tokens with FLOPs; multiply by what one token costs first.",
            _MFU,
        ),
        Misconception(
            "rounded",
            edited(flops.model_flops_utilization, (_USEFUL, f"round({_USEFUL}, 2)")),
            "You round the share; return it as it is.",
            _MFU,
        ),
    ),
    variants=(mfu_against_possible_tokens, mfu_per_card),
)

# --- transformer_flops_per_token --------------------------------------------------------------------------------------

_PER_TOKEN = "6 * n_params + 3 * scores_and_sums * n_layers"
_SCORES = "2 * (2 * seq_len * width)"


def per_token_closed_form(n_params, n_layers, width, seq_len):
    return 6 * n_params + 12 * n_layers * width * seq_len


def per_token_layer_by_layer(n_params, n_layers, width, seq_len):
    forward = 2 * n_params
    for _ in range(n_layers):
        forward += 2 * width * seq_len
        forward += 2 * seq_len * width
    return forward + 2 * forward


def per_token_factored(n_params, n_layers, width, seq_len):
    return 6.0 * (n_params + 2 * n_layers * width * seq_len)


TRANSFORMER_FLOPS_PER_TOKEN = Exercise(
    reference=flops.transformer_flops_per_token,
    points=3,
    section=_ATTENTION,
    cases=(
        Case("no attention layers: the parameters alone", (1000, 0, 8, 16), weight=0.5, **_EXACT),
        Case("no parameters: attention alone, one layer", (0, 1, 8, 16), **_EXACT),
        Case("attention alone, several layers", (0, 5, 8, 16), **_EXACT),
        Case("both together", (40_000, 3, 32, 20), weight=1.5, **_EXACT),
        Case("a long sequence", (40_000, 3, 32, 4096), **_EXACT),
        Case("a large model, exact", (70_553_706_496, 80, 8192, 131_072), weight=0.5, **_EXACT),
        Case(
            "arguments by keyword",
            kwargs={"seq_len": 7, "width": 12, "n_layers": 4, "n_params": 999},
            **_EXACT,
        ),
    ),
    misconceptions=(
        Misconception(
            "parameters_only",
            edited(flops.transformer_flops_per_token, (_PER_TOKEN, "6 * n_params")),
            "You leave attention out; scores and sums are products too, though no parameter is in them.",
            _ATTENTION,
        ),
        Misconception(
            "attention_forward_only",
            edited(flops.transformer_flops_per_token, (_PER_TOKEN, "6 * n_params + scores_and_sums * n_layers")),
            "You count attention's forward pass alone; both its products have two gradients each.",
            _ATTENTION,
        ),
        Misconception(
            "halved_for_the_mask",
            edited(flops.transformer_flops_per_token, (_SCORES, "2 * seq_len * width")),
            "You count half of attention (for a causal mask, or one product of its two); this count keeps both, whole.",
            "Trap 3: a mask saves nothing by itself",
        ),
        Misconception(
            "one_layer",
            edited(flops.transformer_flops_per_token, (_PER_TOKEN, "6 * n_params + 3 * scores_and_sums")),
            "You count one layer's attention; every layer has its own.",
            _ATTENTION,
        ),
        Misconception(
            "whole_sequence",
            edited(flops.transformer_flops_per_token, (_SCORES, "2 * (2 * seq_len * seq_len * width)")),
            "You count the attention of a whole sequence; a single token meets s keys, not s times s.",
            _ATTENTION,
        ),
        Misconception(
            "sequence_forgotten",
            edited(flops.transformer_flops_per_token, (_SCORES, "2 * (2 * width)")),
            "You count one key; every token is compared with all s of its sequence.",
            _ATTENTION,
        ),
        Misconception(
            "width_squared",
            edited(flops.transformer_flops_per_token, (_SCORES, "2 * (2 * width * width)")),
            "You count matrices of width times width: those are parameters, and they are in N already.",
            _ATTENTION,
        ),
        Misconception(
            "forward_pass",
            edited(flops.transformer_flops_per_token, (_PER_TOKEN, "2 * n_params + scores_and_sums * n_layers")),
            "You count the forward pass; training takes three times as much.",
            _ATTENTION,
        ),
        Misconception(
            "six_on_both",
            edited(flops.transformer_flops_per_token, (_PER_TOKEN, "6 * (n_params + 3 * scores_and_sums * n_layers)")),
            "You multiply attention by 6 once more; 12 FLOPs for each layer, width and key are forward and backward.",
            _ATTENTION,
        ),
        Misconception(
            "multiply_adds",
            edited(flops.transformer_flops_per_token, (_PER_TOKEN, "3 * n_params + 1.5 * scores_and_sums * n_layers")),
            "You count multiply-adds; each is two FLOPs.",
            _PRODUCT,
        ),
        Misconception(
            "all_tokens",
            edited(flops.transformer_flops_per_token, (_PER_TOKEN, f"({_PER_TOKEN}) * seq_len")),
            "You count all tokens of a sequence; the result is for one of them.",
            _ATTENTION,
        ),
    ),
    variants=(per_token_closed_form, per_token_layer_by_layer, per_token_factored),
)

# --- attainable_flops -------------------------------------------------------------------------------------------------

_FED = "flops / bytes_moved * bandwidth"
_LIMIT = "min(peak_flops, fed_by_memory)"


def attainable_by_time(flops, bytes_moved, peak_flops, bandwidth):
    return flops / max(flops / peak_flops, bytes_moved / bandwidth)


def attainable_by_the_ridge(flops, bytes_moved, peak_flops, bandwidth):
    intensity, ridge = flops / bytes_moved, peak_flops / bandwidth
    return peak_flops if intensity >= ridge else bandwidth * intensity


def attainable_numpy(flops, bytes_moved, peak_flops, bandwidth):
    return np.minimum(np.float64(flops) * bandwidth / bytes_moved, peak_flops)


ATTAINABLE_FLOPS = Exercise(
    reference=flops.attainable_flops,
    points=3,
    section=_ROOF,
    cases=(
        Case("held back by memory", (200.0, 100.0, 1000.0, 50.0), weight=1.5),
        Case("held back by arithmetic", (9000.0, 100.0, 1000.0, 50.0), weight=1.5),
        Case("exactly on the ridge", (600.0, 30.0, 1000.0, 50.0), weight=0.5),
        Case("less than one FLOP for a byte", (30.0, 360.0, 5000.0, 240.0)),
        Case("a card, held back by memory", (2e9, 3e8, 989.5e12, 3.35e12)),
        Case("a card, held back by arithmetic", (1.1e12, 4e8, 312e12, 2.0e12)),
        Case("whole numbers", (7 * 10**9, 2 * 10**9, 10**14, 10**12), weight=0.5),
        Case(
            "arguments by keyword",
            kwargs={"bandwidth": 20.0, "peak_flops": 700.0, "bytes_moved": 40.0, "flops": 90.0},
        ),
    ),
    misconceptions=(
        Misconception(
            "the_larger_rate",
            edited(flops.attainable_flops, (_LIMIT, "max(peak_flops, fed_by_memory)")),
            "You take the larger of the two rates; the slower one sets the limit.",
            _ROOF,
        ),
        Misconception(
            "memory_only",
            edited(flops.attainable_flops, (_LIMIT, "fed_by_memory")),
            "You return what memory could feed; beyond the peak the arithmetic cannot follow.",
            _ROOF,
        ),
        Misconception(
            "peak_only",
            edited(flops.attainable_flops, (_LIMIT, "peak_flops")),
            "You return the peak, whatever is moved; few FLOPs on each byte leave the arithmetic waiting.",
            _ROOF,
        ),
        Misconception(
            "intensity_upside_down",
            edited(flops.attainable_flops, (_FED, "bytes_moved / flops * bandwidth")),
            "You divide bytes by FLOPs; what counts is how many FLOPs come on each byte.",
            _ROOF,
        ),
        Misconception(
            "rates_compared_directly",
            edited(flops.attainable_flops, (_FED, "bandwidth")),
            "You compare bytes a second with FLOPs a second; multiply by the FLOPs on each byte first.",
            _ROOF,
        ),
        Misconception(
            "one_after_the_other",
            edited(
                flops.attainable_flops,
                (_LIMIT, "flops / (flops / peak_flops + bytes_moved / bandwidth)"),
            ),
            "You add the two times; the roofline lets them overlap, so the longer one counts alone.",
            _ROOF,
        ),
        Misconception(
            "a_time",
            edited(flops.attainable_flops, (_LIMIT, "flops / min(peak_flops, fed_by_memory)")),
            "You return the time that it takes; the result is a rate, in FLOP/s.",
            _ROOF,
        ),
        Misconception(
            "a_share",
            edited(flops.attainable_flops, (_LIMIT, "min(1.0, fed_by_memory / peak_flops)")),
            "You return a share of the peak; the result is a rate, in FLOP/s.",
            _ROOF,
        ),
        Misconception(
            "intensity_as_a_rate",
            edited(flops.attainable_flops, (_FED, "flops / bytes_moved")),
            "You compare FLOPs per byte with a rate; multiply by the bytes that come in a second.",
            _ROOF,
        ),
        Misconception(
            "eight_bits",
            edited(flops.attainable_flops, (_FED, "flops / bytes_moved * bandwidth / 8")),
            "You convert bits to bytes; both arguments are in bytes already.",
            _ROOF,
        ),
    ),
    variants=(attainable_by_time, attainable_by_the_ridge, attainable_numpy),
)

CHAPTER = Chapter(
    name="06_flops",
    exercises=(
        MATMUL_FLOPS,
        LINEAR_FORWARD_FLOPS,
        LINEAR_BACKWARD,
        LINEAR_BACKWARD_FLOPS,
        MLP_TRAINING_FLOPS,
        TRAINING_FLOPS,
        TRAINING_DAYS,
        MODEL_FLOPS_UTILIZATION,
        TRANSFORMER_FLOPS_PER_TOKEN,
        ATTAINABLE_FLOPS,
    ),
)
