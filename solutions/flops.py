"""Chapter 06, counting compute: the FLOPs of a product, of a layer, of a network, of a run, and how fast they go."""

import numpy as np


def matmul_flops(m: int, k: int, n: int) -> int:
    """Count the FLOPs of one matrix product.

    m, k: rows and columns of the left matrix.
    k, n: rows and columns of the right matrix.

    Returns the number of multiplications and additions, a whole number.
    Each term of a sum counts as one multiplication and one addition.
    """
    # 1. How many FLOPs does one entry of the result cost?
    # 2. How many entries does the result have?
    ### BEGIN SOLUTION
    each_entry = 2 * k
    return each_entry * m * n
    ### END SOLUTION


def linear_forward_flops(batch: int, d_in: int, d_out: int) -> int:
    """Count the FLOPs of y = x @ w, the forward pass of a layer without bias.

    batch: rows of x, B.
    d_in: numbers in a row of x.
    d_out: numbers in a row of y.

    Returns a whole number of FLOPs.
    """
    # Which product is it? Write the shapes of x and w side by side.
    ### BEGIN SOLUTION
    return matmul_flops(batch, d_in, d_out)
    ### END SOLUTION


def linear_backward(
    x: np.ndarray,
    w: np.ndarray,
    grad_y: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Carry a gradient back through y = x @ w.

    x: input of the layer, shape (batch, d_in).
    w: weights, shape (d_in, d_out).
    grad_y: gradient of the loss with respect to y, shape (batch, d_out).

    Returns (grad_x, grad_w): the gradients of the loss with respect to x and
    to w, each an array of its own variable's shape. The loss sums over the
    rows: whoever wants a mean has divided grad_y already.
    No argument is changed.
    """
    # 1. grad_x: a product of two of the three matrices, with x's shape.
    # 2. grad_w: a product of another two, with w's shape.
    # 3. Return both, grad_x first.
    ### BEGIN SOLUTION
    to_the_input = grad_y @ w.T
    to_the_weights = x.T @ grad_y
    return to_the_input, to_the_weights
    ### END SOLUTION


def linear_backward_flops(batch: int, d_in: int, d_out: int) -> int:
    """Count the FLOPs of both gradients of a layer y = x @ w.

    batch: rows of x, B.
    d_in: numbers in a row of x.
    d_out: numbers in a row of y.

    Returns a whole number of FLOPs: of the gradients of x and of w, without
    the forward pass. A transpose costs nothing.
    """
    # 1. Which product gives the gradient of x, and what does it cost?
    # 2. Which product gives the gradient of w, and what does it cost?
    ### BEGIN SOLUTION
    for_the_input = matmul_flops(batch, d_out, d_in)
    for_the_weights = matmul_flops(d_in, batch, d_out)
    return for_the_input + for_the_weights
    ### END SOLUTION


def mlp_training_flops(
    batch: int,
    width: int,
    depth: int,
    input_grad: bool = False,
) -> int:
    """Count the FLOPs of one forward and one backward pass of a square stack.

    batch: rows that go through the network at once, B.
    width: numbers in a row, at the input and output of every layer, D.
    depth: number of layers without biases, L, 1 or more.
    input_grad: whether the gradient with respect to the batch itself is
        computed as well. In training, nobody asks for it.

    Returns a whole number of FLOPs: of all matrix products. Activation
    functions, the loss and the optimizer's step are left out.
    """
    # 1. What do forward and both gradients of one layer cost?
    # 2. How many layers are there?
    # 3. Is one of these products left out?
    ### BEGIN SOLUTION
    one_product = matmul_flops(batch, width, width)
    products = 3 * depth if input_grad else 3 * depth - 1
    return one_product * products
    ### END SOLUTION


def training_flops(n_params: float, n_tokens: float) -> float:
    """Estimate the FLOPs of a training run from its size alone.

    n_params: number of parameters, N.
    n_tokens: number of tokens that the run reads, each counted as often as
        it is read.

    Returns the FLOPs of forward and backward: the rule of thumb, without
    attention.

    Source: Kaplan et al. (2020), section 2.1.
    """
    # What does one token cost for each parameter, there and back?
    ### BEGIN SOLUTION
    there_and_back = 2.0 + 4.0
    return there_and_back * n_params * n_tokens
    ### END SOLUTION


def training_days(
    total_flops: float,
    n_gpus: int,
    peak_flops: float,
    mfu: float,
) -> float:
    """Estimate how many days a run takes.

    total_flops: FLOPs of the whole run.
    n_gpus: number of cards, 1 or more.
    peak_flops: what one card's data sheet promises, in FLOP/s.
    mfu: share of it that the run really gets, above 0 and at most 1.

    Returns the time in days.
    Raises ValueError for an mfu that is not above 0 and at most 1.
    """
    # 1. Refuse a share that makes no sense.
    # 2. How many FLOPs do all cards together really do in a second?
    # 3. How many seconds does the run take? And how many days is that?
    ### BEGIN SOLUTION
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu is {mfu}; it can be a share above 0, up to 1")
    real_rate = n_gpus * peak_flops * mfu
    return total_flops / real_rate / 86_400
    ### END SOLUTION


def model_flops_utilization(
    tokens_per_second: float,
    flops_per_token: float,
    n_gpus: int,
    peak_flops: float,
) -> float:
    """Compute the share of the cards' peak that goes into the model: MFU.

    tokens_per_second: tokens that all cards together train on in a second.
    flops_per_token: FLOPs that the model needs for one token, forward and
        backward, whatever is computed beside or twice.
    n_gpus: number of cards, 1 or more.
    peak_flops: what one card's data sheet promises, in FLOP/s.

    Returns a share: 0.5 for half of the peak.

    Source: Chowdhery et al. (2022), section 4.1 and appendix B.
    """
    # 1. How many useful FLOPs are done in a second?
    # 2. How many could all cards do?
    ### BEGIN SOLUTION
    useful_rate = tokens_per_second * flops_per_token
    return useful_rate / (n_gpus * peak_flops)
    ### END SOLUTION


def transformer_flops_per_token(
    n_params: int,
    n_layers: int,
    width: int,
    seq_len: int,
) -> int:
    """Count the FLOPs that training a transformer takes for one token.

    n_params: number of parameters, N.
    n_layers: number of layers, L.
    width: width of the attention, d: heads times head size. It need not be
        the width of the model.
    seq_len: tokens in a sequence, s.

    Returns a whole number of FLOPs, forward and backward: what the
    parameters cost, and what attention costs on top of it. A causal mask
    saves nothing here.

    Source: Chowdhery et al. (2022), appendix B.
    """
    # 1. What do the parameters cost, for one token?
    # 2. Attention, forward, one layer: scores against s keys, then a sum of
    #    s values. What do the two products cost, for one token?
    # 3. And backward? And all layers?
    ### BEGIN SOLUTION
    scores_and_sums = 2 * (2 * seq_len * width)
    return 6 * n_params + 3 * scores_and_sums * n_layers
    ### END SOLUTION


def attainable_flops(
    flops: float,
    bytes_moved: float,
    peak_flops: float,
    bandwidth: float,
) -> float:
    """Compute the highest rate at which an operation can run: the roofline.

    flops: FLOPs of the operation.
    bytes_moved: bytes that it reads from memory and writes to it, above 0.
    peak_flops: the machine's highest rate of arithmetic, in FLOP/s.
    bandwidth: the machine's highest rate of moving bytes, in B/s.

    Returns a rate, in FLOP/s.

    Source: Williams, Waterman & Patterson (2009).
    """
    # 1. How many FLOPs come on each byte that is moved?
    # 2. So how many FLOPs a second does the memory feed?
    # 3. Which of the two rates sets the limit?
    ### BEGIN SOLUTION
    fed_by_memory = flops / bytes_moved * bandwidth
    return min(peak_flops, fed_by_memory)
    ### END SOLUTION
