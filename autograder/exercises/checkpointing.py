"""Chapter 07, checkpointing: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself, apart from the chapter's own earlier functions.
"""

import itertools

import numpy as np
import torch

from autograder.edited import edited
from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import checkpointing
from solutions.checkpointing import checkpoint_memory, forward_keep_all

_EXACT = {"rtol": 0.0, "atol": 0.0}
_SINGLE = {"rtol": 1e-5, "atol": 1e-6}
_rng = np.random.default_rng(7)

# --- accumulate_gradients ---------------------------------------------------------------------------------------------


def run_accumulation(answer, xs, ys, micro_batch, theta, keywords=False):
    """Hand the answer a grad_fn that refuses more rows than fit; the gradient that comes back."""
    import numpy as np

    def grad_fn(x, y):
        x, y = np.asarray(x), np.asarray(y)
        if len(x) > micro_batch:
            raise MemoryError(f"grad_fn got {len(x)} rows at once, more than a micro-batch has")
        if len(x) == 0:
            raise ZeroDivisionError("grad_fn got no row: there is no mean of nothing")
        if len(x) != len(y):
            raise TypeError(f"grad_fn got {len(x)} rows of x and {len(y)} of y")
        out = np.tanh(x @ theta if theta.ndim else x * theta)
        slope = (out - y) * (1 - out * out)
        return x.T @ slope / len(x) if theta.ndim else np.mean(x * slope)

    if keywords:
        return answer(micro_batch=micro_batch, ys=ys, grad_fn=grad_fn, xs=xs)
    return answer(grad_fn, xs, ys, micro_batch)


def _batch(rows, micro_batch, shape, keywords=False, dtype=np.float64):
    """Arguments of run_accumulation, for a gradient of this shape."""
    xs = _rng.normal(size=(rows, *shape[:1])).astype(dtype)
    ys = 2 * _rng.normal(size=(rows, *shape[1:])).astype(dtype)
    return xs, ys, micro_batch, np.asarray(0.5 * _rng.normal(size=shape), dtype), keywords


def accumulate_pieces_counted(grad_fn, xs, ys, micro_batch):
    if micro_batch < 1:
        raise ValueError("micro_batch")
    return sum(
        grad_fn(x, y) * (len(x) / len(xs))
        for x, y in zip(np.array_split(xs, micro_batch), np.array_split(ys, micro_batch), strict=True)
        if len(x)
    )


def accumulate_even_pieces(grad_fn, xs, ys, micro_batch):
    if micro_batch < 1:
        raise ValueError("micro_batch is 1 or more")
    pieces = -(-len(xs) // micro_batch)
    total = 0
    for x, y in zip(np.array_split(xs, pieces), np.array_split(ys, pieces), strict=True):
        total = total + len(x) * grad_fn(x, y)
    return total / len(xs)


def accumulate_row_by_row(grad_fn, xs, ys, micro_batch):
    if micro_batch <= 0:
        raise ValueError("micro_batch is 1 or more")
    return np.mean([grad_fn(xs[i : i + 1], ys[i : i + 1]) for i in range(len(xs))], axis=0)


def accumulate_while(grad_fn, xs, ys, micro_batch):
    if not micro_batch >= 1:
        raise ValueError("micro_batch is 1 or more")
    total, done = None, 0
    while done < len(xs):
        rows = min(micro_batch, len(xs) - done)
        grad = np.array(grad_fn(xs[done : done + rows], ys[done : done + rows])) * rows
        total = grad if total is None else total + grad
        done += rows
    return total / done


def accumulate_torch(grad_fn, xs, ys, micro_batch):
    if micro_batch < 1:
        raise ValueError("micro_batch is 1 or more")
    pairs = zip(torch.tensor(xs).split(micro_batch), torch.tensor(ys).split(micro_batch), strict=True)
    return sum(torch.as_tensor(grad_fn(x, y)) * len(x) / len(xs) for x, y in pairs)


_ACCUMULATE = checkpointing.accumulate_gradients
_SHARE = "len(xs[piece]) / len(xs)"

ACCUMULATE_GRADIENTS = Exercise(
    reference=_ACCUMULATE,
    points=4,
    probe=run_accumulation,
    section="The same gradient, in pieces",
    cases=(
        Case("all rows in one micro-batch", _batch(6, 6, (4,)), weight=0.5),
        Case("micro-batches that divide the rows", _batch(12, 3, (5,)), weight=1.5),
        Case("an uneven last micro-batch", _batch(11, 3, (5,)), weight=2),
        Case("a last micro-batch of a single row", _batch(9, 8, (3,))),
        Case("one row at a time", _batch(5, 1, (3,)), weight=0.5),
        Case("a micro-batch larger than the batch", _batch(7, 100, (4,)), weight=0.5),
        Case("a gradient that is a matrix", _batch(11, 3, (4, 2))),
        Case("a gradient that is a single number (0-d)", _batch(8, 3, ()), weight=0.5),
        Case("float32 arrays", _batch(13, 5, (4,), dtype=np.float32), weight=0.5, **_SINGLE),
        Case("arguments by keyword, left unchanged", _batch(7, 3, (2,), True), weight=0.5, unchanged=True),
        Case("a micro-batch of no rows", _batch(6, 0, (3,)), raises=ValueError, weight=0.5),
        Case("a negative micro-batch", _batch(6, -3, (3,)), raises=ValueError, weight=0.5),
    ),
    misconceptions=(
        Misconception(
            "mean_of_means",
            edited(_ACCUMULATE, (_SHARE, "1 / -(-len(xs) // micro_batch)")),
            "You average the micro-batches as if all had the same number of rows; "
            "a short one counts for less, by its rows.",
            "Trap 1: the mean of means",
        ),
        Misconception(
            "never_divided",
            edited(_ACCUMULATE, (_SHARE, "1.0")),
            "You add up means: with ten micro-batches the gradient is ten times too large.",
            "The same gradient, in pieces",
        ),
        Misconception(
            "last_counts_as_full",
            edited(_ACCUMULATE, (_SHARE, "micro_batch / len(xs)")),
            "You give every micro-batch the weight of a full one; the last may have fewer rows.",
            "Trap 1: the mean of means",
        ),
        Misconception(
            "rows_never_divided",
            edited(_ACCUMULATE, (_SHARE, "len(xs[piece])")),
            "You weight each gradient by its rows but never divide by all rows: that is a sum over rows, not a mean.",
            "The same gradient, in pieces",
        ),
        Misconception(
            "rest_dropped",
            edited(_ACCUMULATE, ("range(0, len(xs), ", "range(0, len(xs) - micro_batch + 1, ")),
            "You leave out the rows after the last full micro-batch; they belong to the batch, too.",
            "The same gradient, in pieces",
        ),
        Misconception(
            "empty_piece",
            edited(_ACCUMULATE, ("range(0, len(xs), ", "range(0, len(xs) + 1, ")),
            "Where the micro-batch divides the rows, you end with a piece of no rows, whose mean does not exist.",
            "The same gradient, in pieces",
        ),
        Misconception(
            "last_piece_only",
            edited(_ACCUMULATE, ("mean_gradient + share_of_rows * grad_fn", "grad_fn")),
            "You overwrite the gradient with each new piece, so only the last one is left: add them up.",
            "The same gradient, in pieces",
        ),
        Misconception(
            "whole_batch",
            edited(_ACCUMULATE, ("mean_gradient = 0.0", "return grad_fn(xs, ys)")),
            "You hand over the whole batch at once: the number is right, but nothing is saved.",
            "The same gradient, in pieces",
        ),
        Misconception(
            "same_targets",
            edited(_ACCUMULATE, ("grad_fn(xs[piece], ys[piece])", "grad_fn(xs[piece], ys[: len(xs[piece])])")),
            "You walk over the inputs but take the first targets every time: cut x and y together.",
            "The same gradient, in pieces",
        ),
        Misconception(
            "number_of_pieces",
            accumulate_pieces_counted,
            "You cut the batch into micro_batch pieces; micro_batch is the number of rows of a piece.",
            "The same gradient, in pieces",
        ),
        Misconception(
            "any_micro_batch_passes",
            edited(_ACCUMULATE, ("micro_batch < 1", "micro_batch is None")),
            "You accept a micro-batch without rows; raise ValueError for anything below 1.",
            "The same gradient, in pieces",
        ),
    ),
    variants=(accumulate_even_pieces, accumulate_row_by_row, accumulate_while, accumulate_torch),
)

# --- forward_keep_all -------------------------------------------------------------------------------------------------


def only_first(answer, *args):
    result = answer(*args)
    return result[0] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def only_second(answer, *args):
    result = answer(*args)
    return result[1] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def _network(rows, *widths, dtype=np.float64, zeros=()):
    """An input and weights; the columns `zeros` of the first weight are 0, so that a ReLU gets exactly 0."""
    x = _rng.normal(size=(rows, widths[0])).astype(dtype)
    weights = [_rng.normal(size=shape).astype(dtype) for shape in itertools.pairwise(widths)]
    if zeros:
        weights[0][:, list(zeros)] = 0
    return x, weights


def forward_in_place(x, weights):
    kept = [x]
    np.maximum(x, 0, out=x)
    for weight in weights:
        kept.append(np.maximum(kept[-1] @ weight, 0))
    return kept[-1], kept


def forward_one_array(x, weights):
    h = np.array(x)
    kept = [h]
    for weight in weights:
        h = h @ weight if h.shape[1] != weight.shape[1] else np.maximum(h @ weight, 0, out=h)
        h = np.maximum(h, 0)
        kept.append(h)
    return h, kept


def forward_where(x, weights):
    h, kept = x, (np.array(x),)
    for i in range(len(weights)):
        z = np.dot(h, weights[i])
        h = np.where(z > 0, z, 0.0 * z)
        kept = (*kept, h)
    return [h, kept]


def forward_mask(x, weights):
    kept = [np.asarray(x)]
    for weight in weights:
        z = kept[-1] @ weight
        kept.append(z * (z > 0))
    return kept[-1], kept


def forward_torch(x, weights):
    h = torch.tensor(x)
    kept = [h]
    for weight in weights:
        h = torch.relu(h @ torch.tensor(weight))
        kept.append(h)
    return h, kept


_FORWARD = checkpointing.forward_keep_all
_FORWARD_LINE = "np.maximum(kept[-1] @ matrix, 0)"
_READ_FORWARD = "Forward, and what it keeps"

FORWARD_KEEP_ALL = Exercise(
    reference=_FORWARD,
    points=2,
    results=("y", "activations"),
    section=_READ_FORWARD,
    cases=(
        Case("the output of one layer", _network(3, 4, 2), probe=only_first),
        Case("the output of three layers", _network(3, 5, 6, 4, 3), probe=only_first),
        Case("the activations of three layers", _network(3, 5, 6, 4, 3), weight=2, probe=only_second),
        Case("output and activations, square layers", _network(4, 3, 3, 3, 3, 3)),
        Case("a ReLU that gets exactly 0", _network(2, 3, 4, 2, zeros=(1, 3)), weight=0.5),
        Case("a single row", _network(1, 7, 5, 2), weight=0.5),
        Case("float32 arrays", _network(3, 4, 5, 2, dtype=np.float32), weight=0.5, **_SINGLE),
        Case(
            "arguments by keyword, left unchanged",
            kwargs=dict(zip(("x", "weights"), _network(2, 4, 3, 4), strict=True)),
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "no_relu",
            edited(_FORWARD, (_FORWARD_LINE, "kept[-1] @ matrix")),
            "You leave out the ReLU: without it, the whole stack is one linear map.",
            _READ_FORWARD,
        ),
        Misconception(
            "last_layer_linear",
            edited(_FORWARD, ("return kept[-1], kept", "kept[-1] = kept[-2] @ matrix\n    return kept[-1], kept")),
            "You leave the ReLU away in the last layer; in this chapter every layer has one.",
            _READ_FORWARD,
        ),
        Misconception(
            "relu_before_the_product",
            edited(_FORWARD, (_FORWARD_LINE, "np.maximum(kept[-1], 0) @ matrix")),
            "You apply the ReLU to a layer's input; it comes after the product.",
            _READ_FORWARD,
        ),
        Misconception(
            "keeps_the_products",
            edited(
                _FORWARD,
                (_FORWARD_LINE, "np.maximum(kept[-1], 0 if len(kept) > 1 else -np.inf) @ matrix"),
                ("return kept[-1], kept", "return np.maximum(kept[-1], 0), kept"),
            ),
            "You keep the products from before the ReLU; backward needs what comes out of it, the next layer's input.",
            _READ_FORWARD,
        ),
        Misconception(
            "input_left_out",
            edited(_FORWARD, ("return kept[-1], kept", "return kept[-1], kept[1:]")),
            "You leave out the input: the first layer's gradient needs h_0.",
            _READ_FORWARD,
        ),
        Misconception(
            "output_left_out",
            edited(_FORWARD, ("return kept[-1], kept", "return kept[-1], kept[:-1]")),
            "You leave out the output: the last ReLU's backward asks where h_L was positive.",
            _READ_FORWARD,
        ),
        Misconception(
            "only_the_output",
            edited(_FORWARD, ("return kept[-1], kept", "return kept[-1]")),
            "You return the output alone: backward needs the activations as well.",
            _READ_FORWARD,
        ),
        Misconception(
            "results_swapped",
            edited(_FORWARD, ("return kept[-1], kept", "return kept, kept[-1]")),
            "You return the activations first: the order is output, then activations.",
            _READ_FORWARD,
        ),
        Misconception(
            "changes_the_input",
            forward_in_place,
            "You apply the ReLU to x itself, in the caller's array; h_0 is the input as it came.",
            _READ_FORWARD,
        ),
        Misconception(
            "one_array_for_all",
            forward_one_array,
            "You write new activations over old ones; the entries of the list must be arrays of their own.",
            _READ_FORWARD,
        ),
    ),
    variants=(forward_where, forward_mask, forward_torch),
)

# --- backward ---------------------------------------------------------------------------------------------------------


def _kept(*sizes, **changes):
    """Arguments of backward: activations, weights, and a gradient of the output."""
    x, weights = _network(*sizes, **changes)
    activations = forward_keep_all(x, weights)[1]
    return activations, weights, _rng.normal(size=activations[-1].shape).astype(x.dtype)


def _positive(*sizes):
    """The same, where no ReLU ever cuts anything off."""
    x, weights = _network(*sizes)
    x, weights = abs(x), [abs(weight) for weight in weights]
    activations = forward_keep_all(x, weights)[1]
    return activations, weights, _rng.normal(size=activations[-1].shape)


def _dead(*sizes):
    """The same, where the second layer's ReLUs are all off."""
    x, weights = _network(*sizes)
    weights[1] = -abs(weights[1])
    activations = forward_keep_all(x, weights)[1]
    return activations, weights, _rng.normal(size=activations[-1].shape)


def backward_relu_at_zero(activations, weights, grad_y):
    grads = [None] * len(weights)
    for i in reversed(range(len(weights))):
        grad_y = grad_y * (activations[i] @ weights[i] >= 0)
        grads[i] = activations[i].T @ grad_y
        grad_y = grad_y @ weights[i].T
    return grads


def backward_autograd(activations, weights, grad_y):
    leaves = [torch.tensor(w, requires_grad=True) for w in weights]
    h = torch.tensor(activations[0])
    for leaf in leaves:
        h = (h @ leaf).relu()
    return torch.autograd.grad(h, leaves, torch.tensor(grad_y))


def backward_growing(activations, weights, grad_y):
    grads, grad_h = [], np.array(grad_y)
    for h_in, h_out, w in zip(activations[-2::-1], activations[:0:-1], weights[::-1], strict=True):
        grad_z = np.where(h_out > 0, grad_h, 0)
        grads = [np.einsum("bi,bj->ij", h_in, grad_z), *grads]
        grad_h = np.dot(grad_z, np.transpose(w))
    return tuple(grads)


def backward_from_products(activations, weights, grad_y):
    grads, grad = {}, grad_y.copy()
    for i in range(len(weights) - 1, -1, -1):
        grad[activations[i] @ weights[i] <= 0] = 0
        grads[i] = (grad.T @ activations[i]).T
        grad = grad @ weights[i].T
    return [grads[i] for i in range(len(weights))]


_BACKWARD = checkpointing.backward
_READ_BACKWARD = "Backward, by hand"

BACKWARD = Exercise(
    reference=_BACKWARD,
    points=4,
    section=_READ_BACKWARD,
    cases=(
        Case("one layer whose outputs are all positive", _positive(4, 3, 2)),
        Case("one layer, some outputs cut off", _kept(5, 3, 4)),
        Case("two layers, all outputs positive", _positive(3, 4, 5, 2)),
        Case("two layers, some outputs cut off", _kept(6, 5, 8, 3), weight=2),
        Case("five square layers", _kept(8, 6, 6, 6, 6, 6, 6), weight=1.5),
        Case("four layers of different widths", _kept(6, 3, 9, 7, 8, 2), weight=1.5),
        Case("a ReLU that got exactly 0", _kept(3, 4, 5, 3, zeros=(0, 2)), weight=0.5),
        Case("a layer that is all cut off", _dead(3, 4, 3, 5, 2), weight=0.5),
        Case("a single row", _kept(1, 6, 9, 4), weight=0.5),
        Case("float32 arrays", _kept(4, 3, 7, 5, dtype=np.float32), weight=0.5, **_SINGLE),
        Case(
            "arguments by keyword, left unchanged",
            kwargs=dict(zip(("activations", "weights", "grad_y"), _kept(5, 4, 6, 3), strict=True)),
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "relu_forgotten",
            edited(_BACKWARD, ("arriving * (activations[i + 1] > 0)", "arriving")),
            "You pass the gradient through the ReLU unchanged; it goes through only where the output was positive.",
            _READ_BACKWARD,
        ),
        Misconception(
            "mask_of_the_input",
            edited(
                _BACKWARD,
                ("arriving = arriving * (activations[i + 1] > 0)", "arriving = arriving * 1"),
                ("arriving @ weights[i].T", "arriving @ weights[i].T * (activations[i] > 0)"),
            ),
            "You use the sign of each layer's input, so the last ReLU is never seen: "
            "a layer's ReLU is known by its output.",
            _READ_BACKWARD,
        ),
        Misconception(
            "times_the_output",
            edited(_BACKWARD, ("(activations[i + 1] > 0)", "activations[i + 1]")),
            "You multiply by the output itself; the ReLU's derivative is 1 where it is positive, not its value.",
            _READ_BACKWARD,
        ),
        Misconception(
            "derivative_one_at_zero",
            backward_relu_at_zero,
            "You let the gradient through where the ReLU got exactly 0; its derivative there is 0.",
            _READ_BACKWARD,
        ),
        Misconception(
            "input_gradient_without_weight",
            edited(_BACKWARD, ("arriving @ weights[i].T", "arriving @ np.ones_like(weights[i]).T")),
            "The gradient goes back to a layer's input through its weights: multiply by the transposed matrix.",
            _READ_BACKWARD,
        ),
        Misconception(
            "weight_not_transposed",
            edited(
                _BACKWARD,
                (
                    "arriving @ weights[i].T",
                    "arriving @ (weights[i] if weights[i].shape[0] == weights[i].shape[1] else weights[i].T)",
                ),
            ),
            "You multiply by the weight itself; the way back needs its transpose, as the shapes of a layer "
            "that is not square tell.",
            _READ_BACKWARD,
        ),
        Misconception(
            "transposed_gradient",
            edited(_BACKWARD, ("activations[i].T @ arriving", "arriving.T @ activations[i]")),
            "Your gradients are transposed: each has the shape of its weight.",
            _READ_BACKWARD,
        ),
        Misconception(
            "order_reversed",
            edited(_BACKWARD, ("return weight_grads", "return weight_grads[::-1]")),
            "You return the last layer's gradient first: give them in the order of the weights.",
            _READ_BACKWARD,
        ),
        Misconception(
            "mean_over_rows",
            edited(_BACKWARD, ("activations[i].T @ arriving", "activations[i].T @ arriving / len(grad_y)")),
            "You divide by the number of rows; if the loss is a mean, that division is in grad_y already.",
            _READ_BACKWARD,
        ),
        Misconception(
            "input_gradients",
            edited(
                _BACKWARD,
                ("        weight_grads[i] = activations[i].T @ arriving\n", ""),
                ("arriving = arriving @ weights[i].T", "weight_grads[i] = arriving = arriving @ weights[i].T"),
            ),
            "You return the gradients of the activations; the result is those of the weights.",
            _READ_BACKWARD,
        ),
        Misconception(
            "relu_after_the_weight_gradient",
            edited(
                _BACKWARD,
                ("        arriving = arriving * (activations[i + 1] > 0)\n", ""),
                (
                    "arriving = arriving @ weights[i].T",
                    "arriving = (arriving * (activations[i + 1] > 0)) @ weights[i].T",
                ),
            ),
            "You go back through the ReLU only after the weight's gradient; the ReLU comes last in forward, "
            "so it is first in backward.",
            _READ_BACKWARD,
        ),
        Misconception(
            "changes_grad_y",
            edited(_BACKWARD, ("arriving = arriving * (", "arriving *= (")),
            "Your result is right, but you wrote into the caller's grad_y on the way (*= works in place).",
            _READ_BACKWARD,
        ),
    ),
    variants=(backward_autograd, backward_growing, backward_from_products),
)

# --- forward_checkpointed ---------------------------------------------------------------------------------------------


def only_layers(answer, *args):
    """The indices of the kept layers, in order."""
    result = answer(*args)
    kept = result[1] if isinstance(result, (tuple, list)) and len(result) == 2 else result
    return sorted(kept) if isinstance(kept, dict) else kept


def forward_checkpointed_slices(x, weights, every):
    kept, h = {}, np.array(x)
    for start in range(0, len(weights), every):
        kept[start] = h
        for weight in weights[start : start + every]:
            h = np.maximum(np.dot(h, weight), 0)
    return [h, kept]


def forward_checkpointed_picks(x, weights, every):
    y, activations = forward_keep_all(x, weights)
    return y, {i: activations[i] for i in range(len(weights)) if not i % every}


def forward_checkpointed_numpy(x, weights, every):
    wanted = set(np.arange(0, len(weights), every).tolist())
    h, kept = torch.tensor(x), {}
    for i, weight in enumerate(weights):
        if i in wanted:
            kept[np.int64(i)] = h
        h = torch.clamp(h @ torch.tensor(weight), min=0)
    return h, kept


_CHECKPOINTED = checkpointing.forward_checkpointed
_READ_SEGMENTS = "Keep every k-th"

FORWARD_CHECKPOINTED = Exercise(
    reference=_CHECKPOINTED,
    points=3,
    results=("y", "checkpoints"),
    section=_READ_SEGMENTS,
    cases=(
        Case("the output", (*_network(3, 4, 6, 5, 3, 2), 2), weight=0.5, probe=only_first),
        Case("which layers are kept, every divides depth", (*_network(2, 3, 4, 5, 4, 3, 4, 5), 3), probe=only_layers),
        Case("which layers are kept, every does not divide", (*_network(2, 3, 4, 5, 4, 3, 4), 3), probe=only_layers),
        Case("the kept inputs", (*_network(4, 5, 8, 6, 7, 5, 4), 2), weight=2, probe=only_second),
        Case("every = 1: all inputs", (*_network(3, 4, 6, 5, 3), 1)),
        Case("every = depth: the input alone", (*_network(3, 4, 6, 5, 3), 3)),
        Case("a single layer", (*_network(3, 4, 6), 1), weight=0.5),
        Case("one layer after the last checkpoint", (*_network(3, 5, 6, 7, 5, 4, 6, 5, 7), 3), weight=0.5),
        Case("float32 arrays", (*_network(3, 4, 5, 6, 2, dtype=np.float32), 2), weight=0.5, **_SINGLE),
        Case(
            "arguments by keyword, left unchanged",
            kwargs={"every": 2, **dict(zip(("x", "weights"), _network(2, 4, 3, 4, 5), strict=True))},
            weight=0.5,
            unchanged=True,
        ),
    ),
    misconceptions=(
        Misconception(
            "keeps_all",
            edited(_CHECKPOINTED, ("i % every == 0", "i % every >= 0")),
            "You keep every layer's input; only each every-th one is a checkpoint.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "keeps_outputs",
            edited(
                _CHECKPOINTED,
                ("        if i % every == 0:\n            checkpoints[i] = flowing\n", ""),
                ("@ matrix, 0)\n", "@ matrix, 0)\n        if i % every == 0:\n            checkpoints[i] = flowing\n"),
            ),
            "You keep a layer's output under its index; a checkpoint is the input, from which the layer is run again.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "input_left_out",
            edited(_CHECKPOINTED, ("i % every == 0", "i and i % every == 0")),
            "You leave out layer 0: the first segment starts from the input, which is a checkpoint, too.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "output_kept_too",
            edited(
                _CHECKPOINTED, ("    return flowing", "    checkpoints[len(weights)] = flowing\n    return flowing")
            ),
            "You keep the output as a checkpoint; no layer starts from it.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "output_kept_when_it_divides",
            edited(
                _CHECKPOINTED,
                (
                    "return flowing,",
                    "if len(weights) % every == 0:\n        checkpoints[len(weights)] = flowing\n    return flowing,",
                ),
            ),
            "Where every divides the depth you keep the output as well; the last checkpoint lies below depth.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "shifted_by_one",
            edited(_CHECKPOINTED, ("i % every == 0", "(i + 1) % every == 0")),
            "You keep the inputs of the segments' last layers; a segment is run again from its first.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "numbered_by_segment",
            edited(_CHECKPOINTED, ("checkpoints[i]", "checkpoints[i // every]")),
            "You number the checkpoints 0, 1, 2; the key is the index of the layer that starts there.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "number_of_segments",
            edited(_CHECKPOINTED, ("i % every == 0", "i % -(-len(weights) // every) == 0")),
            "You read every as the number of segments; it is the distance between two checkpoints.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "a_list",
            edited(_CHECKPOINTED, ("return flowing, checkpoints", "return flowing, list(checkpoints.values())")),
            "You return a list; the checkpoints are a dict from the layer's index to its input.",
            _READ_SEGMENTS,
        ),
        Misconception(
            "no_relu",
            edited(_CHECKPOINTED, ("np.maximum(flowing @ matrix, 0)", "flowing @ matrix")),
            "You leave out the ReLU.",
            _READ_FORWARD,
        ),
    ),
    variants=(forward_checkpointed_slices, forward_checkpointed_picks, forward_checkpointed_numpy),
)

# --- backward_checkpointed --------------------------------------------------------------------------------------------


def hold_one_segment(answer, rows, width, depth, every):
    """The gradients of a deep network, if the new arrays on the way take clearly less than all activations would.

    A right answer holds the activations of one segment and a few arrays more; the bound leaves room for several times
    that, and lies well below all layers. Only NumPy's arrays are seen; the first call imports what there is to import.
    """
    import tracemalloc

    import numpy as np

    rng = np.random.default_rng(depth)
    h, checkpoints = np.abs(rng.normal(size=(rows, width))), {}
    weights = [np.eye(width) + 0.03 * rng.normal(size=(width, width)) for _ in range(depth)]
    for i, weight in enumerate(weights):
        if i % every == 0:
            checkpoints[i] = h
        h = np.maximum(h @ weight, 0)
    grad_y, one = rng.normal(size=h.shape) / rows, h.nbytes
    grads = answer(dict(checkpoints), weights, every, grad_y.copy())
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        again = answer(dict(checkpoints), weights, every, grad_y.copy())
        most = (tracemalloc.get_traced_memory()[1] - before) / one
    finally:
        if not tracing:
            tracemalloc.stop()
    if most > 2 / 3 * depth:
        raise MemoryError(
            f"new arrays took as much as {most:.0f} activations at once, where a segment has {every} layers and "
            f"the network {depth}: let a segment's activations go before the next one's come"
        )
    return grads if len(grads) == len(again) else again


def _saved(every, *sizes, **changes):
    """Arguments of backward_checkpointed."""
    activations, weights, grad_y = _kept(*sizes, **changes)
    return {i: activations[i] for i in range(0, len(weights), every)}, weights, every, grad_y


def backward_checkpointed_all(checkpoints, weights, every, grad_y):
    activations = [checkpoints[0]]
    for weight in weights:
        activations.append(np.maximum(activations[-1] @ weight, 0))
    grads = [None] * len(weights)
    for i in reversed(range(len(weights))):
        grad_y = grad_y * (activations[i + 1] > 0)
        grads[i] = activations[i].T @ grad_y
        grad_y = grad_y @ weights[i].T
    return grads


def backward_checkpointed_in_steps(checkpoints, weights, every, grad_y):
    grads = {}
    for start in range(len(weights) - 1 - (len(weights) - 1) % every, -1, -every):
        segment = weights[start : min(start + every, len(weights))]
        _, h = forward_keep_all(checkpoints[start], segment)
        for j in range(len(segment) - 1, -1, -1):
            grad_z = np.where(h[j + 1] > 0, grad_y, 0)
            grads[start + j] = np.dot(h[j].T, grad_z)
            grad_y = np.dot(grad_z, segment[j].T)
    return tuple(grads[i] for i in sorted(grads))


def backward_checkpointed_autograd(checkpoints, weights, every, grad_y):
    grads, grad = [], torch.tensor(grad_y)
    for start in reversed(list(checkpoints)):
        h = first = torch.tensor(checkpoints[start], requires_grad=True)
        leaves = [torch.tensor(w, requires_grad=True) for w in weights[start : start + every]]
        for leaf in leaves:
            h = torch.relu(h @ leaf)
        grad, *own = torch.autograd.grad(h, [first, *leaves], grad)
        grads = own + grads
    return grads


def backward_checkpointed_recursive(checkpoints, weights, every, grad_y):
    start = (len(weights) - 1) // every * every
    h, z = [checkpoints[start]], []
    for w in weights[start:]:
        z.append(h[-1] @ w)
        h.append(np.where(z[-1] > 0, z[-1], 0))
    own = []
    for i in range(len(z) - 1, -1, -1):
        grad_y = grad_y * (z[i] > 0)
        own.insert(0, h[i].T @ grad_y)
        grad_y = grad_y @ weights[start + i].T
    del h, z
    if not start:
        return own
    return backward_checkpointed_recursive(checkpoints, weights[:start], every, grad_y) + own


def backward_checkpointed_starting_over(checkpoints, weights, every, grad_y):
    grads = [None] * len(weights)
    for i in range(len(weights) - 1, -1, -1):
        start = i // every * every
        h = checkpoints[start]
        for weight in weights[start:i]:
            h = np.maximum(h @ weight, 0)
        grad_y = grad_y * (h @ weights[i] > 0)
        grads[i] = h.T @ grad_y
        grad_y = grad_y @ weights[i].T
    return grads


_SEGMENTS = checkpointing.backward_checkpointed
_READ_AGAIN = "Back, one segment at a time"

BACKWARD_CHECKPOINTED = Exercise(
    reference=_SEGMENTS,
    points=6,
    section=_READ_AGAIN,
    cases=(
        Case("every = depth: a single segment", _saved(3, 5, 4, 6, 5, 3)),
        Case("two segments of two layers", _saved(2, 6, 5, 7, 6, 8, 4), weight=1.5),
        Case("square layers, three segments", _saved(3, 8, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5), weight=1.5),
        Case("a last segment that is shorter", _saved(3, 6, 5, 8, 7, 6, 9, 5, 8, 4), weight=2),
        Case("a last segment of one layer", _saved(4, 6, 5, 8, 7, 6, 3)),
        Case("every = 1: each layer its own segment", _saved(1, 5, 4, 7, 6, 3)),
        Case("a single layer", _saved(1, 4, 3, 5), weight=0.5),
        Case("a ReLU that got exactly 0", _saved(2, 4, 4, 6, 5, 3, zeros=(1, 4)), weight=0.5),
        Case("a single row", _saved(2, 1, 6, 9, 8, 7), weight=0.5),
        Case("float32 arrays", _saved(2, 4, 3, 6, 5, 4, dtype=np.float32), weight=0.5, **_SINGLE),
        Case(
            "arguments by keyword, left unchanged",
            kwargs=dict(
                zip(("checkpoints", "weights", "every", "grad_y"), _saved(2, 4, 5, 6, 4, 7, 3), strict=True),
            ),
            weight=0.5,
            unchanged=True,
        ),
        Case(
            "96 layers in segments of 8: one segment's activations at a time",
            (1024, 4, 96, 8),
            weight=3,
            probe=hold_one_segment,
            rtol=1e-7,
        ),
    ),
    misconceptions=(
        Misconception(
            "everything_again",
            backward_checkpointed_all,
            "You compute all activations again from the input and hold them together; "
            "the gradients are right, but you hold as much as without checkpoints.",
            _READ_AGAIN,
        ),
        Misconception(
            "gradient_not_handed_on",
            edited(
                _SEGMENTS,
                ("again = [checkpoints[start]]", "again, arriving = [checkpoints[start]], grad_y"),
                ("grad_y = grad_y * (", "arriving = arriving * ("),
                ("again[-1].T @ grad_y", "again[-1].T @ arriving"),
                ("grad_y = grad_y @ weights[i].T", "arriving = arriving @ weights[i].T"),
            ),
            "Every segment starts from grad_y; it must start from the gradient that the segment after it hands back.",
            _READ_AGAIN,
        ),
        Misconception(
            "segments_forwards",
            edited(_SEGMENTS, ("sorted(checkpoints, reverse=True)", "sorted(checkpoints)")),
            "You walk the segments from first to last; the gradient arrives at the last one first.",
            _READ_AGAIN,
        ),
        Misconception(
            "short_segment_left_out",
            edited(_SEGMENTS, ("sorted(checkpoints, reverse=True)", "range(0, len(weights) - every + 1, every)[::-1]")),
            "You leave out the last segment where it is shorter than the others; its layers have gradients, too.",
            _READ_AGAIN,
        ),
        Misconception(
            "relu_forgotten_in_backward",
            edited(_SEGMENTS, ("grad_y * (again.pop() > 0)", "grad_y * again.pop().any()")),
            "You pass the gradient through the ReLU unchanged; it goes through only where the output was positive.",
            _READ_BACKWARD,
        ),
        Misconception(
            "relu_forgotten_in_recompute",
            edited(_SEGMENTS, ("np.maximum(again[-1] @ matrix, 0)", "again[-1] @ matrix")),
            "You leave out the ReLU when you compute a segment again, so its activations are not those of forward.",
            _READ_AGAIN,
        ),
        Misconception(
            "counted_from_the_segment",
            edited(_SEGMENTS, ("i = start + len(again) - 2", "i = len(again) - 2")),
            "You count the layers from the segment's start but take the weights of the whole network by that number.",
            _READ_AGAIN,
        ),
        Misconception(
            "order_reversed",
            edited(_SEGMENTS, ("return weight_grads", "return weight_grads[::-1]")),
            "You return the last layer's gradient first: give them in the order of the weights.",
            _READ_AGAIN,
        ),
        Misconception(
            "first_layer_of_a_segment_left_out",
            edited(_SEGMENTS, ("while len(again) > 1:", "while len(again) > (2 if start else 1):")),
            "You stop one layer early in each later segment, so its first layer gets no gradient.",
            _READ_AGAIN,
        ),
        Misconception(
            "takes_checkpoints_out",
            edited(_SEGMENTS, ("[checkpoints[start]]", "[checkpoints.pop(start)]")),
            "Your gradients are right, but you took the checkpoints out of the caller's dict.",
            _READ_AGAIN,
        ),
    ),
    variants=(
        backward_checkpointed_in_steps,
        backward_checkpointed_autograd,
        backward_checkpointed_recursive,
        backward_checkpointed_starting_over,
    ),
)

# --- checkpoint_memory ------------------------------------------------------------------------------------------------


def checkpoint_memory_ceil(depth, every):
    import math

    return math.ceil(depth / every) + every


def checkpoint_memory_counted(depth, every):
    return len(range(0, depth, every)) + len(range(every))


def checkpoint_memory_numpy(depth, every):
    return np.float64((depth + every - 1) // every) + np.int64(every)


_MEMORY = checkpointing.checkpoint_memory
_COUNT = "-(-depth // every) + every"
_READ_MEMORY = "How much is held"

CHECKPOINT_MEMORY = Exercise(
    reference=_MEMORY,
    points=2,
    section=_READ_MEMORY,
    cases=(
        Case("every divides depth", (12, 3), **_EXACT),
        Case("every does not divide depth", (11, 3), weight=1.5, **_EXACT),
        Case("one layer in the last segment", (13, 3), weight=1.5, **_EXACT),
        Case("every = 1", (9, 1), weight=0.5, **_EXACT),
        Case("every = depth", (9, 9), weight=0.5, **_EXACT),
        Case("a single layer", (1, 1), weight=0.5, **_EXACT),
        Case("a segment longer than half the network", (10, 7), weight=0.5, **_EXACT),
        Case("a deep network", (1000, 30), **_EXACT),
        Case("arguments by keyword", kwargs={"every": 8, "depth": 53}, weight=0.5, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "short_segment_not_counted",
            edited(_MEMORY, (_COUNT, "depth // every + every")),
            "You round the number of segments down; a shorter last segment has a checkpoint, too.",
            _READ_MEMORY,
        ),
        Misconception(
            "not_whole",
            edited(_MEMORY, (_COUNT, "depth / every + every")),
            "There is no part of a checkpoint: where every does not divide depth, round up.",
            _READ_MEMORY,
        ),
        Misconception(
            "rounded",
            edited(_MEMORY, (_COUNT, "round(depth / every) + every")),
            "You round to the nearest; a started segment needs its checkpoint, however short it is: round up.",
            _READ_MEMORY,
        ),
        Misconception(
            "segment_not_counted",
            edited(_MEMORY, (_COUNT, "-(-depth // every)")),
            "You count the checkpoints alone; backward also holds the segment that it computes again.",
            _READ_MEMORY,
        ),
        Misconception(
            "checkpoints_not_counted",
            edited(_MEMORY, (_COUNT, "every")),
            "You count the segment alone; the checkpoints are held beside it.",
            _READ_MEMORY,
        ),
        Misconception(
            "segment_one_shorter",
            edited(_MEMORY, (_COUNT, "-(-depth // every) + every - 1")),
            "You count the segment one short: from its checkpoint, a segment of k layers gives back k outputs.",
            _READ_MEMORY,
        ),
        Misconception(
            "output_counted_too",
            edited(_MEMORY, (_COUNT, "-(-depth // every) + every + 1")),
            "You count one more: the formula is the checkpoints and one segment. A measurement finds one more, "
            "as you will see.",
            _READ_MEMORY,
        ),
        Misconception(
            "all_segments",
            edited(_MEMORY, (_COUNT, "-(-depth // every) + depth")),
            "You add all segments; only one of them is there at a time.",
            _READ_MEMORY,
        ),
        Misconception(
            "product",
            edited(_MEMORY, (_COUNT, "-(-depth // every) * every")),
            "You multiply: checkpoints and segment are two heaps that lie side by side, so add them.",
            _READ_MEMORY,
        ),
        Misconception(
            "always_two_roots",
            edited(_MEMORY, (_COUNT, "2 * depth**0.5")),
            "You give the least that is possible; the question is what this particular every holds.",
            "The best distance",
        ),
    ),
    variants=(checkpoint_memory_ceil, checkpoint_memory_counted, checkpoint_memory_numpy),
)

# --- recompute_cost ---------------------------------------------------------------------------------------------------


def recompute_cost_simulated(depth, every):
    extra = 0
    for start in reversed(range(0, depth, every or depth)):
        layers = range(start, min(start + (every or depth), depth))
        extra += len(layers) if every else sum(1 for last in layers for _ in range(last + 1))
    return extra


def recompute_cost_formula(depth, every):
    if every is not None:
        return depth
    return depth * (depth + 1) / 2


def recompute_cost_numpy(depth, every):
    return np.arange(depth + 1).sum() if every is None else np.int64(depth)


_COST = checkpointing.recompute_cost
_COST_LINE = "sum(range(1, depth + 1)) if every is None else depth"
_READ_COST = "What it costs"

RECOMPUTE_COST = Exercise(
    reference=_COST,
    points=2,
    section=_READ_COST,
    cases=(
        Case("every divides depth", (12, 4), **_EXACT),
        Case("every does not divide depth", (13, 5), **_EXACT),
        Case("every = 1", (8, 1), weight=0.5, **_EXACT),
        Case("every = depth", (8, 8), weight=0.5, **_EXACT),
        Case("nothing kept", (6, None), weight=2, **_EXACT),
        Case("nothing kept, a single layer", (1, None), weight=0.5, **_EXACT),
        Case("nothing kept, a deep network", (1000, None), **_EXACT),
        Case("arguments by keyword", kwargs={"every": 3, "depth": 10}, weight=0.5, **_EXACT),
        Case("arguments by keyword, nothing kept", kwargs={"every": None, "depth": 9}, weight=0.5, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "output_not_counted",
            edited(_COST, ("sum(range(1, depth + 1))", "sum(range(depth))")),
            "You stop at each layer's input; its own output is needed too, for the ReLU: one layer more each time.",
            _READ_COST,
        ),
        Misconception(
            "all_layers_each_time",
            edited(_COST, ("sum(range(1, depth + 1))", "depth**2")),
            "You run all layers again for every layer; it takes only as many as lie before it, and itself.",
            _READ_COST,
        ),
        Misconception(
            "one_forward_each",
            edited(_COST, (_COST_LINE, "depth")),
            "Without checkpoints one more forward is not enough: nothing is kept, so each layer starts over.",
            _READ_COST,
        ),
        Misconception(
            "first_forward_counted",
            edited(_COST, (_COST_LINE, "(sum(range(1, depth + 1)) if every is None else depth) + depth")),
            "You count the first forward, too; the cost is what is added to it.",
            _READ_COST,
        ),
        Misconception(
            "last_segment_free",
            edited(_COST, ("else depth", "else (depth - 1) // every * every")),
            "You leave out the last segment; here it is computed again like the others. "
            "(PyTorch's own helper does spare it.)",
            _READ_COST,
        ),
        Misconception(
            "one_layer_of_each_segment_free",
            edited(_COST, ("else depth", "else depth - -(-depth // every)")),
            "You leave out one layer of each segment: its input is a checkpoint, but its output is not, "
            "so every layer runs again.",
            _READ_COST,
        ),
        Misconception(
            "segments",
            edited(_COST, ("else depth", "else -(-depth // every)")),
            "You count segments; the cost is counted in layers.",
            _READ_COST,
        ),
        Misconception(
            "within_segments_squared",
            edited(_COST, ("else depth", "else depth * (every + 1) // 2")),
            "You start over for each layer of a segment; a segment is computed again once, and held.",
            _READ_COST,
        ),
        Misconception(
            "every_one_is_free",
            edited(_COST, ("else depth", "else depth * (every > 1)")),
            "You take every = 1 for keeping all; the layers' outputs are computed again there, too.",
            _READ_COST,
        ),
    ),
    variants=(recompute_cost_simulated, recompute_cost_formula, recompute_cost_numpy),
)

# --- best_interval ----------------------------------------------------------------------------------------------------


def best_interval_loop(depth):
    best = 1
    for k in range(1, depth + 1):
        if checkpoint_memory(depth, k) < checkpoint_memory(depth, best):
            best = k
    return best


def best_interval_argmin(depth):
    k = np.arange(1, depth + 1)
    return k[np.argmin(-(-depth // k) + k)]


def best_interval_list(depth):
    held = [checkpoint_memory(depth, k) for k in range(1, depth + 1)]
    return float(held.index(min(held)) + 1)


_BEST = checkpointing.best_interval
_BEST_LINE = "min(range(1, depth + 1), key=lambda k: (checkpoint_memory(depth, k), k))"
_READ_BEST = "The best distance"

BEST_INTERVAL = Exercise(
    reference=_BEST,
    points=2,
    section=_READ_BEST,
    builds_on=("checkpoint_memory",),
    cases=(
        Case("a square number of layers", (16,), **_EXACT),
        Case("a number of layers that is no square", (21,), weight=1.5, **_EXACT),
        Case("one layer", (1,), weight=0.5, **_EXACT),
        Case("three layers", (3,), weight=0.5, **_EXACT),
        Case("several distances that hold the least", (50,), weight=1.5, **_EXACT),
        Case("a prime number of layers", (101,), **_EXACT),
        Case("a deep network", (300,), weight=0.5, **_EXACT),
        Case("a deeper network", (500,), **_EXACT),
        Case("the argument by keyword", kwargs={"depth": 65}, weight=0.5, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "rounded_root",
            edited(_BEST, (_BEST_LINE, "round(depth**0.5)")),
            "You take the k next to the square root, which is best for parts of checkpoints; whole ones need a search.",
            _READ_BEST,
        ),
        Misconception(
            "root_rounded_down",
            edited(_BEST, (_BEST_LINE, "int(depth**0.5)")),
            "You round the square root down; with whole segments the least may lie elsewhere, so try every k.",
            _READ_BEST,
        ),
        Misconception(
            "root_rounded_up",
            edited(_BEST, (_BEST_LINE, "-int(-(depth**0.5) // 1)")),
            "You round the square root up; with whole segments the least may lie elsewhere, so try every k.",
            _READ_BEST,
        ),
        Misconception(
            "root_itself",
            edited(_BEST, (_BEST_LINE, "depth**0.5")),
            "You return the square root; the distance between checkpoints is a whole number of layers.",
            _READ_BEST,
        ),
        Misconception(
            "largest_of_several",
            edited(_BEST, ("checkpoint_memory(depth, k), k)", "checkpoint_memory(depth, k), -k)")),
            "Where several k hold the least, you return the largest; the smallest is asked for.",
            _READ_BEST,
        ),
        Misconception(
            "the_memory_itself",
            edited(_BEST, (_BEST_LINE, "min(checkpoint_memory(depth, k) for k in range(1, depth + 1))")),
            "You return how much is held at best; the question is at which k.",
            _READ_BEST,
        ),
        Misconception(
            "only_divisors",
            edited(_BEST, ("range(1, depth + 1)", "[k for k in range(1, depth + 1) if depth % k == 0]")),
            "You try only the k that divide the depth; the last segment may be shorter.",
            _READ_BEST,
        ),
        Misconception(
            "counted_from_zero",
            edited(_BEST, (_BEST_LINE, _BEST_LINE + " - 1")),
            "Your k is one too small: a position in a list counts from 0, k counts from 1.",
            _READ_BEST,
        ),
    ),
    variants=(best_interval_loop, best_interval_argmin, best_interval_list),
)

# --- checkpoint_sequential --------------------------------------------------------------------------------------------


def run_layers(answer, x, weights, segments, report, needs_grad=True, keywords=False):
    """Run counting layers through the answer, forward and backward.

    report: "output", "gradients" (of the parameters), "input" (its gradient), "kept" (the output, if at most half of
    what a plain run keeps is kept), "forwards" (how often each layer ran), or "segments" (how many runs of neighbours
    backward made; one that it spared counts).
    """
    import torch

    order = []

    class Layer(torch.nn.Module):
        def __init__(self, number, weight):
            super().__init__()
            self.number, self.weight = number, torch.nn.Parameter(torch.tensor(weight))

        def forward(self, x):
            order.append(self.number)
            return torch.tanh(x @ self.weight)

    layers = [Layer(number, weight) for number, weight in enumerate(weights)]
    own = {layer.weight.untyped_storage().data_ptr() for layer in layers}
    x = torch.tensor(x, requires_grad=needs_grad)

    def keeping(run):
        kept = {}

        def pack(tensor):
            address = tensor.untyped_storage().data_ptr()
            if address not in own:
                kept[address] = tensor.detach()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            out = run()
        return out, sum(tensor.untyped_storage().nbytes() for tensor in kept.values())

    def plain():
        out = x
        for layer in layers:
            out = layer(out)
        return out

    def asked():
        if keywords:
            return answer(segments=segments, x=x, layers=layers)
        return answer(layers, x, segments)

    whole = keeping(plain)[1]
    order.clear()
    y, kept = keeping(asked)
    if report == "output":
        return y.detach()
    if not (torch.is_tensor(y) and y.requires_grad):
        raise RuntimeError("the output is cut off: no gradient can flow back from it")
    if report == "kept":
        if 2 * kept > whole:
            raise MemoryError(
                f"autograd keeps {kept / whole:.0%} of what a plain run keeps; "
                f"the inputs of {segments} segments are {segments / (len(layers) + 1):.0%}"
            )
        return y.detach()
    forwards = len(order)
    (y * torch.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape)).sum().backward()
    if report == "gradients":
        return [layer.weight.grad for layer in layers]
    if report == "input":
        return x.grad
    if report == "forwards":
        return [order.count(layer.number) for layer in layers]
    again = order[forwards:]
    runs = sum(1 for i, number in enumerate(again) if i == 0 or number != again[i - 1] + 1)
    return runs + (bool(again) and len(layers) - 1 not in again)


def _layers(rows, *widths, dtype=np.float64):
    x, weights = _network(rows, *widths)
    return x.astype(dtype), [(weight / len(weight) ** 0.5).astype(dtype) for weight in weights]


def sequential_by_function(layers, x, segments):
    from torch.utils.checkpoint import checkpoint

    def part(start, stop):
        def run(h):
            for layer in layers[start:stop]:
                h = layer(h)
            return h

        return run

    size, rest = divmod(len(layers), segments)
    start = 0
    for number in range(segments):
        stop = start + size + (number < rest)
        x = checkpoint(part(start, stop), x, use_reentrant=False)
        start = stop
    return x


def sequential_last_takes_the_rest(layers, x, segments):
    import torch.utils.checkpoint as ckpt

    size = len(layers) // segments
    for number in range(segments):
        stop = len(layers) if number == segments - 1 else (number + 1) * size
        x = ckpt.checkpoint(torch.nn.Sequential(*layers[number * size : stop]), x, use_reentrant=False)
    return x


def sequential_own_function(layers, x, segments):
    class Segment(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part, h, *parameters):
            ctx.part = part
            ctx.save_for_backward(h)
            for layer in part:
                h = layer(h)
            return h

        @staticmethod
        def backward(ctx, grad):
            (h,) = ctx.saved_tensors
            first = out = h.detach().requires_grad_(True)
            with torch.enable_grad():
                for layer in ctx.part:
                    out = layer(out)
            parameters = [p for layer in ctx.part for p in layer.parameters()]
            return None, *torch.autograd.grad(out, [first, *parameters], grad)

    for numbers in np.array_split(np.arange(len(layers)), segments):
        part = [layers[i] for i in numbers]
        x = Segment.apply(part, x, *(p for layer in part for p in layer.parameters()))
    return x


def sequential_without_early_stop(layers, x, segments):
    import itertools

    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    cuts = [round(len(layers) * number / segments) for number in range(segments + 1)]
    with set_checkpoint_early_stop(False):
        for start, stop in itertools.pairwise(cuts):
            x = checkpoint(torch.nn.Sequential(*layers[start:stop]), x, use_reentrant=False, preserve_rng_state=False)
    return x


def sequential_plain(layers, x, segments):
    for layer in layers:
        x = layer(x)
    return x


def sequential_of_torch(layers, x, segments):
    return torch.utils.checkpoint.checkpoint_sequential(layers, segments, x, use_reentrant=False)


def sequential_no_grad(layers, x, segments):
    with torch.no_grad():
        for layer in layers:
            x = layer(x)
    return x


def sequential_rest_lost(layers, x, segments):
    size = len(layers) // segments
    for number in range(segments):
        segment = torch.nn.Sequential(*layers[number * size : (number + 1) * size])
        x = torch.utils.checkpoint.checkpoint(segment, x, use_reentrant=False)
    return x


def sequential_each_layer(layers, x, segments):
    for layer in layers:
        x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    return x


def sequential_one_segment(layers, x, segments):
    return torch.utils.checkpoint.checkpoint(torch.nn.Sequential(*layers), x, use_reentrant=False)


_SEQUENTIAL = checkpointing.checkpoint_sequential
_READ_TORCH = "The same in PyTorch"

CHECKPOINT_SEQUENTIAL = Exercise(
    reference=_SEQUENTIAL,
    points=4,
    probe=run_layers,
    section=_READ_TORCH,
    cases=(
        Case("the output", (*_layers(5, 4, 6, 5, 6, 3), 2, "output"), weight=0.5),
        Case("the parameters' gradients", (*_layers(5, 4, 6, 5, 6, 3), 2, "gradients"), weight=1.5),
        Case("the input's gradient", (*_layers(5, 4, 6, 5, 6, 3), 2, "input"), weight=0.5),
        Case("segments of unequal length: the output", (*_layers(4, 3, 5, 4, 6, 5, 4, 5, 3), 3, "output"), weight=0.5),
        Case("segments of unequal length: the gradients", (*_layers(4, 3, 5, 4, 6, 5, 4, 5, 3), 3, "gradients")),
        Case("less is kept for backward", (*_layers(6, *[5] * 17), 4, "kept"), weight=1.5),
        Case("each layer's forward runs twice", (*_layers(4, *[5] * 10), 4, "forwards"), weight=1.5),
        Case("as many segments as asked for", (*_layers(4, *[5] * 13), 3, "segments"), weight=1.5),
        Case(
            "the parameters' gradients, for an input that needs none",
            (*_layers(5, 4, 6, 5, 3), 2, "gradients", False),
        ),
        Case(
            "float32, arguments by keyword",
            (*_layers(4, 6, 5, 4, 5, 3, dtype=np.float32), 3, "gradients", True, True),
            weight=0.5,
            **_SINGLE,
        ),
    ),
    misconceptions=(
        Misconception(
            "plain_run",
            sequential_plain,
            "You run the layers as usual, so autograd keeps all their activations: send each segment "
            "through checkpoint.",
            _READ_TORCH,
        ),
        Misconception(
            "torchs_own_helper",
            sequential_of_torch,
            "PyTorch's helper of this name runs its last segment without a checkpoint, so that one's activations "
            "are all kept.",
            _READ_TORCH,
        ),
        Misconception(
            "reentrant",
            edited(_SEQUENTIAL, ("x, use_reentrant=False", "x, use_reentrant=True")),
            "With use_reentrant=True, parameters get no gradient if the input needs none, without an error.",
            "Trap 3: the old checkpoint, and an input that needs no gradient",
        ),
        Misconception(
            "no_grad",
            sequential_no_grad,
            "You run forward without gradients: nothing is kept, and nothing can flow back either.",
            _READ_TORCH,
        ),
        Misconception(
            "detached",
            edited(_SEQUENTIAL, ("(*segment), x, ", "(*segment), x.detach(), ")),
            "You detach the input of each segment, so no gradient reaches the segments before.",
            _READ_TORCH,
        ),
        Misconception(
            "rest_lost",
            sequential_rest_lost,
            "Where the number of segments does not divide that of the layers, you leave the last layers out.",
            _READ_TORCH,
        ),
        Misconception(
            "each_layer_its_segment",
            sequential_each_layer,
            "You make every layer a segment of its own, so all their inputs are kept: that is what a plain run keeps.",
            "Trap 4: a checkpoint at every layer",
        ),
        Misconception(
            "one_segment",
            sequential_one_segment,
            "You make all layers one segment: little is kept in forward, "
            "but backward then holds all activations at once.",
            _READ_TORCH,
        ),
    ),
    variants=(
        sequential_by_function,
        sequential_last_takes_the_rest,
        sequential_own_function,
        sequential_without_early_stop,
    ),
)

CHAPTER = Chapter(
    name="07_checkpointing",
    exercises=(
        ACCUMULATE_GRADIENTS,
        FORWARD_KEEP_ALL,
        BACKWARD,
        FORWARD_CHECKPOINTED,
        BACKWARD_CHECKPOINTED,
        CHECKPOINT_MEMORY,
        RECOMPUTE_COST,
        BEST_INTERVAL,
        CHECKPOINT_SEQUENTIAL,
    ),
)
