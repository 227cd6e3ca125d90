"""Chapter 07, checkpointing: a large batch in small pieces, and activations that are computed a second time."""

from collections.abc import Callable, Sequence

import numpy as np
import torch


def accumulate_gradients(
    grad_fn: "Callable[[np.ndarray, np.ndarray], np.ndarray]",
    xs: np.ndarray,
    ys: np.ndarray,
    micro_batch: int,
) -> np.ndarray:
    """Compute the gradient of a batch from pieces of at most micro_batch rows.

    grad_fn: grad_fn(x, y) gives the mean gradient over the rows of x and y:
        an array of any shape, always the same. It must never get more than
        micro_batch rows at once, nor none at all.
    xs: inputs, an array with one row for each example.
    ys: targets, as many rows.
    micro_batch: the most rows of a piece, 1 or more. It need not divide the
        number of rows, and may be larger.

    Returns what grad_fn(xs, ys) would give, up to rounding.
    Raises ValueError for a micro_batch below 1.
    No argument is changed.
    """
    # 1. Refuse a micro-batch that makes no sense.
    # 2. Walk over the rows, piece by piece: x and y together, the last piece
    #    with what is left.
    # 3. Add up the gradients of the pieces. What does each count for?
    ### BEGIN SOLUTION
    if micro_batch < 1:
        raise ValueError(f"micro_batch is {micro_batch}; it can be 1 or more")
    mean_gradient = 0.0
    for first in range(0, len(xs), micro_batch):
        piece = slice(first, first + micro_batch)
        share_of_rows = len(xs[piece]) / len(xs)
        mean_gradient = mean_gradient + share_of_rows * grad_fn(xs[piece], ys[piece])
    return mean_gradient
    ### END SOLUTION


def forward_keep_all(
    x: np.ndarray,
    weights: "Sequence[np.ndarray]",
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Run the network forward, and keep every activation.

    x: the input h_0, an array of shape (rows, width of the input).
    weights: W_0 to W_{L-1}; weights[i] has as many rows as h_i has columns.
        One layer is h_{i+1} = relu(h_i @ W_i).

    Returns the output y = h_L, and the list [h_0, h_1, ..., h_L]: one entry
    more than there are layers. h_0 may be x itself.
    No argument is changed.
    """
    # 1. Start the list with the input.
    # 2. For each layer: its product, then its ReLU; keep the result.
    # 3. Return the output, and the list.
    ### BEGIN SOLUTION
    kept = [x]
    for matrix in weights:
        kept.append(np.maximum(kept[-1] @ matrix, 0))
    return kept[-1], kept
    ### END SOLUTION


def backward(
    activations: "Sequence[np.ndarray]",
    weights: "Sequence[np.ndarray]",
    grad_y: np.ndarray,
) -> list[np.ndarray]:
    """Compute the gradient of every weight from the kept activations.

    activations: [h_0, ..., h_L], as forward_keep_all returns them.
    weights: W_0 to W_{L-1}, as they were in forward.
    grad_y: gradient of the loss with respect to the output, of h_L's shape.

    Returns a list: for each weight, in order, its gradient, of its shape.
    The derivative of the ReLU at 0 is 0.
    No argument is changed.
    """
    # Start with grad_y, and go from the last layer to the first:
    # 1. Back through the ReLU: where was this layer's output positive?
    # 2. The gradient of the weight: this layer's input, and what arrives.
    # 3. The gradient of the input, which the layer before is waiting for.
    ### BEGIN SOLUTION
    arriving = grad_y
    weight_grads = [None] * len(weights)
    for i in reversed(range(len(weights))):
        arriving = arriving * (activations[i + 1] > 0)
        weight_grads[i] = activations[i].T @ arriving
        arriving = arriving @ weights[i].T
    return weight_grads
    ### END SOLUTION


def forward_checkpointed(
    x: np.ndarray,
    weights: "Sequence[np.ndarray]",
    every: int,
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Run the network forward, and keep the input of every so-many-th layer.

    x: the input h_0, an array of shape (rows, width of the input).
    weights: W_0 to W_{L-1}, as in forward_keep_all.
    every: distance between two kept inputs, from 1 to L. It need not
        divide L.

    Returns the output y = h_L, and the checkpoints: a dict from the layer's
    index, counted from 0, to that layer's input, for the layers 0, every,
    2 * every, ... below L.
    No argument is changed.

    Source: Chen et al. (2016), section 4.
    """
    # For each layer, by its index:
    # 1. Is it one whose input is kept? Then keep it.
    # 2. Compute its output, which takes the place of the input.
    ### BEGIN SOLUTION
    checkpoints = {}
    flowing = x
    for i, matrix in enumerate(weights):
        if i % every == 0:
            checkpoints[i] = flowing
        flowing = np.maximum(flowing @ matrix, 0)
    return flowing, checkpoints
    ### END SOLUTION


def backward_checkpointed(
    checkpoints: dict[int, np.ndarray],
    weights: "Sequence[np.ndarray]",
    every: int,
    grad_y: np.ndarray,
) -> list[np.ndarray]:
    """Compute the gradient of every weight from the checkpoints.

    checkpoints: as forward_checkpointed returns them, for the same every.
    weights: W_0 to W_{L-1}, as they were in forward.
    every: distance between two checkpoints, from 1 to L. The last segment is
        shorter where every does not divide L.
    grad_y: gradient of the loss with respect to the output, of h_L's shape.

    Returns the list that backward would return, and holds the activations
    of one segment at a time.
    No argument is changed.

    Source: Chen et al. (2016), section 4.
    """
    # Start with grad_y, and go from the last segment to the first:
    # 1. Compute the segment's activations once more, from its checkpoint.
    # 2. Go back through its layers, as in backward.
    # 3. Hand the gradient of the segment's input to the segment before. Its
    #    activations take the place of these.
    ### BEGIN SOLUTION
    weight_grads = [None] * len(weights)
    for start in sorted(checkpoints, reverse=True):
        again = [checkpoints[start]]
        for matrix in weights[start : start + every]:
            again.append(np.maximum(again[-1] @ matrix, 0))
        while len(again) > 1:
            i = start + len(again) - 2
            grad_y = grad_y * (again.pop() > 0)
            weight_grads[i] = again[-1].T @ grad_y
            grad_y = grad_y @ weights[i].T
    return weight_grads
    ### END SOLUTION


def checkpoint_memory(depth: int, every: int) -> int:
    """Count the activations that checkpointing holds at once.

    depth: number of layers, L.
    every: distance between two checkpoints, k, from 1 to L. It need not
        divide L.

    Returns the number of checkpoints, plus the activations that come back
    when one full segment is computed again: a whole number, in activations.

    Source: Chen et al. (2016), section 4.3, equation 1, with the number of
    segments rounded up.
    """
    # 1. How many checkpoints are there? Think of 7 layers, every 3.
    # 2. How many layers does a full segment have?
    ### BEGIN SOLUTION
    return -(-depth // every) + every
    ### END SOLUTION


def recompute_cost(depth: int, every: int | None) -> int:
    """Count the layer forwards that backward adds, beyond the first forward.

    depth: number of layers, L.
    every: distance between two checkpoints, from 1 to L. Or None: nothing
        but the input is kept, and for each layer, from the last to the
        first, forward starts over from the input, up to this layer's output.

    Returns the number of extra forwards of a layer, a whole number.
    """
    # 1. With checkpoints: how often is each layer computed again?
    # 2. Without: how many layers does it take to reach the output of the
    #    last layer? Of the one before? Of the first? Add them up.
    ### BEGIN SOLUTION
    return sum(range(1, depth + 1)) if every is None else depth
    ### END SOLUTION


def best_interval(depth: int) -> int:
    """Find the distance between checkpoints that holds the least.

    depth: number of layers, L, 1 or more.

    Returns the k from 1 to L with the least checkpoint_memory(L, k): the
    smallest such k where there are several.
    """
    # 1. Try every k.
    # 2. Which has the least? If two have the same, which do you keep?
    ### BEGIN SOLUTION
    return min(range(1, depth + 1), key=lambda k: (checkpoint_memory(depth, k), k))
    ### END SOLUTION


def checkpoint_sequential(
    layers: "Sequence[torch.nn.Module]",
    x: torch.Tensor,
    segments: int,
) -> torch.Tensor:
    """Run torch modules one after another, and keep only the segments' inputs.

    layers: a list of modules without dropout; each takes the output of the
        one before.
    x: input of the first. It may need a gradient or not; the parameters get
        theirs either way.
    segments: into how many parts the list is cut, 1 < segments < len(layers).
        It need not divide the number of layers.

    Returns the output that running all layers would give. A backward pass
    from it gives the same gradients, of parameters and of x. In between,
    autograd keeps the inputs of the segments only, and backward runs the
    forward of every layer, the last segment's too, a second time.

    Source: Chen et al. (2016), section 4; torch.utils.checkpoint.
    """
    # 1. Cut the list into segments of about equal length.
    # 2. Run one segment after the other, each through
    #    torch.utils.checkpoint.checkpoint(..., use_reentrant=False).
    ### BEGIN SOLUTION
    count = len(layers)
    for part in range(segments):
        segment = layers[count * part // segments : count * (part + 1) // segments]
        x = torch.utils.checkpoint.checkpoint(torch.nn.Sequential(*segment), x, use_reentrant=False)
    return x
    ### END SOLUTION
