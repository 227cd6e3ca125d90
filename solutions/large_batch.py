"""Chapter 03, many devices, one step: linear scaling, warm-up, trust ratios, LARS and LAMB."""

import numpy as np


def linear_scaled_lr(base_lr: float, base_batch: int, batch: int) -> float:
    """Scale a learning rate with the batch: the linear scaling rule.

    base_lr: learning rate that was tuned with base_batch, a positive float.
    base_batch: examples per step in the run that was tuned, at least 1.
    batch: examples per step in the new run, at least 1; it may be smaller
        than base_batch.

    Returns the learning rate for the new batch, a number.
    Raises ValueError if base_batch or batch is below 1.

    Source: Goyal et al. (2017), section 2.1.
    """
    # 1. Refuse what is no batch: each of the two holds an example or more.
    # 2. How many of the old batches does one new batch hold? It need not be
    #    a whole number, and it may be below one.
    # 3. Let one step of the new run go as far as that many old ones.
    ### BEGIN SOLUTION
    for name, size in (("base_batch", base_batch), ("batch", batch)):
        if size < 1:
            raise ValueError(f"{name} is {size}; a batch holds at least 1 example")
    return base_lr * batch / base_batch
    ### END SOLUTION


def warmup_lr(step: int, warmup_steps: int, peak_lr: float) -> float:
    """Give the learning rate of one step of a run that warms up, then stays.

    step: steps that are already done, so 0 at the first one (unlike t, which
        counts from 1).
    warmup_steps: steps over which the rate rises; 0 means no warm-up.
    peak_lr: the rate that is reached, a positive float.

    Returns the learning rate of this step, a number.

    Source: the gradual warm-up of Goyal et al. (2017), section 2.2, step by
    step and from near zero.
    """
    # 1. Once the warm-up is over, the rate is the peak. With no warm-up at
    #    all, that is true from the first step.
    # 2. Until then the rate rises in equal parts, one part for each step:
    #    the first step gets one part, the last step of the warm-up all.
    ### BEGIN SOLUTION
    if step >= warmup_steps:
        return peak_lr
    return peak_lr * (step + 1) / warmup_steps
    ### END SOLUTION


def trust_ratios(
    thetas: list[np.ndarray],
    grads: list[np.ndarray],
) -> list[float]:
    """Compare parameters and gradient in size, layer by layer.

    thetas: one array of parameters for each layer, of any shape (0-d
        included).
    grads: one gradient for each layer, of its parameters' shape.

    Returns a list with one number for each layer: the Euclidean norm of its
    parameters over that of its gradient; 1.0 where either norm is 0.

    Source: You, Gitman & Ginsburg (2017), section 4, without coefficient and
    weight decay.
    """
    # For each layer:
    # 1. Take the length of all its parameters as one vector, whatever their
    #    shape, and the length of its gradient likewise.
    # 2. Divide, unless there is nothing to compare.
    # Return the ratios in the layers' order.
    ### BEGIN SOLUTION
    ratios = []
    for theta, grad in zip(thetas, grads, strict=True):
        theta_norm, grad_norm = np.linalg.norm(theta), np.linalg.norm(grad)
        both = theta_norm > 0 and grad_norm > 0
        ratios.append(float(theta_norm / grad_norm) if both else 1.0)
    return ratios
    ### END SOLUTION


def lars_step(
    theta: np.ndarray,
    velocity: np.ndarray,
    grad: np.ndarray,
    lr: float,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    trust: float = 0.001,
) -> tuple[np.ndarray, np.ndarray]:
    """Take one step of LARS, for one layer.

    theta: the layer's parameters, an array of any shape (0-d included).
    velocity: what momentum keeps of the steps before this one, same shape;
        zeros before the first step. The learning rate is inside it.
    grad: gradient of the loss with respect to theta, same shape, without
        weight decay.
    lr: the global learning rate, a positive float.
    momentum: share of the old velocity that is kept, 0 <= momentum < 1.
    weight_decay: coefficient of the decay, at least 0.
    trust: trust coefficient, a positive float.

    Returns (new theta, new velocity), two new arrays of theta's shape.
    No argument is changed.

    Source: You, Gitman & Ginsburg (2017), algorithm 1.
    """
    # 1. Take the two norms, over the whole layer: parameters and gradient.
    # 2. The local rate: the trust coefficient times the parameters' norm,
    #    over all that pushes them. It is 1.0 where either norm is 0.
    # 3. Let the old velocity decay, and add the new push (the gradient and
    #    the decay's share) with both rates, the global and the local one.
    # 4. Move theta against the velocity, and return both, parameters first.
    ### BEGIN SOLUTION
    theta_norm, grad_norm = np.linalg.norm(theta), np.linalg.norm(grad)
    local = 1.0
    if theta_norm > 0 and grad_norm > 0:
        local = trust * theta_norm / (grad_norm + weight_decay * theta_norm)
    new_velocity = momentum * velocity + lr * local * (grad + weight_decay * theta)
    return theta - new_velocity, new_velocity
    ### END SOLUTION


def lamb_step(
    theta: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    grad: np.ndarray,
    t: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.01,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take one step of LAMB, for one layer.

    theta: the layer's parameters, an array of any shape (0-d included).
    m, v: moving averages of the gradient and of its square before this step,
        same shape; zeros before the first step. They are kept uncorrected.
    grad: gradient of the loss with respect to theta, same shape, without
        weight decay.
    t: number of this step, counted from 1.
    lr: learning rate, a positive float.
    beta1, beta2: shares of the old averages that are kept.
    eps: added to the root, outside it and after the bias correction.
    weight_decay: coefficient of the decay, at least 0.

    Returns (new theta, new m, new v), three new arrays of theta's shape.
    No argument is changed.

    Source: You et al. (2020), algorithm 2, with the identity for phi.
    """
    # 1. Update the two moving averages, as Adam does.
    # 2. Correct both for their start at zero, in new names: the averages
    #    that you return stay uncorrected.
    # 3. The direction: Adam's, plus the decay's share.
    # 4. The trust ratio: the parameters' norm over the direction's norm,
    #    both over the whole layer; 1.0 where either norm is 0.
    # 5. Step along the direction, with learning rate and ratio. Return
    #    parameters, m and v, in this order.
    ### BEGIN SOLUTION
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    direction = m_hat / (np.sqrt(v_hat) + eps) + weight_decay * theta
    theta_norm, norm = np.linalg.norm(theta), np.linalg.norm(direction)
    ratio = theta_norm / norm if theta_norm > 0 and norm > 0 else 1.0
    return theta - lr * ratio * direction, m, v
    ### END SOLUTION
