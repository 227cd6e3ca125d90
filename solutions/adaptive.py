"""Chapter 02, a step size for every parameter: AdaGrad, RMSProp, Adam, and weight decay in two places."""

from collections.abc import Callable, Iterable

import numpy as np
import torch


def adagrad_step(
    theta: np.ndarray,
    accumulator: np.ndarray,
    grad: np.ndarray,
    lr: float,
    eps: float = 1e-8,
) -> tuple[np.ndarray, np.ndarray]:
    """Take one step of AdaGrad.

    theta: parameters, an array of any shape (0-d included).
    accumulator: sum of the squared gradients before this step, same shape;
        zeros before the first step. Its unit is gradient squared.
    grad: gradient of the loss with respect to theta, same shape.
    lr: learning rate, a positive float; its unit is that of theta.
    eps: small positive float, in the unit of the gradient. It stands
        outside the root.

    Returns (new theta, new accumulator), two new arrays of theta's shape.
    No argument is changed.

    Source: Duchi, Hazan & Singer (2011), the diagonal form, with eps where
    torch.optim.Adagrad has it.
    """
    # 1. Square the gradient, number by number, and add it to what has
    #    accumulated so far.
    # 2. Move theta downhill. Divide each number of the gradient by its own
    #    scale: the root of what you just computed, and eps beside the root.
    # 3. Return both, parameters first.
    ### BEGIN SOLUTION
    accumulator = accumulator + grad**2
    return theta - lr * grad / (np.sqrt(accumulator) + eps), accumulator
    ### END SOLUTION


def rmsprop_step(
    theta: np.ndarray,
    average: np.ndarray,
    grad: np.ndarray,
    lr: float,
    beta: float = 0.99,
    eps: float = 1e-8,
) -> tuple[np.ndarray, np.ndarray]:
    """Take one step of RMSProp.

    theta: parameters, an array of any shape (0-d included).
    average: moving average of the squared gradients before this step, same
        shape; zeros before the first step.
    grad: gradient of the loss with respect to theta, same shape.
    lr: learning rate, a positive float; its unit is that of theta.
    beta: share of the old average that is kept, 0 <= beta < 1.
    eps: small positive float, in the unit of the gradient. It stands
        outside the root.

    Returns (new theta, new average), two new arrays of theta's shape.
    No argument is changed.

    Source: Tieleman & Hinton (2012), as written in torch.optim.RMSprop
    with momentum=0 and centered=False.
    """
    # 1. Blend the old average and the squared gradient: two shares that
    #    add up to one.
    # 2. Move theta downhill, each number divided by its own scale, as in
    #    AdaGrad.
    # 3. Return both, parameters first.
    ### BEGIN SOLUTION
    average = beta * average + (1 - beta) * grad**2
    return theta - lr * grad / (np.sqrt(average) + eps), average
    ### END SOLUTION


def adam_step(
    theta: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    grad: np.ndarray,
    t: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take one step of Adam.

    theta: parameters, an array of any shape (0-d included).
    m: moving average of the gradients before this step, same shape; zeros
        before the first step.
    v: moving average of the squared gradients before this step, same
        shape; zeros before the first step.
    grad: gradient of the loss with respect to theta, same shape.
    t: number of this step. The first step has t = 1.
    lr: learning rate, a positive float; its unit is that of theta.
    beta1, beta2: shares of old m and old v that are kept, each >= 0, < 1.
    eps: small positive float, in the unit of the gradient. It stands
        outside the root, and after the correction.

    Returns (new theta, new m, new v), three new arrays of theta's shape.
    The moments come back as they are stored: not corrected.
    No argument is changed.

    Source: Kingma & Ba (2015), algorithm 1.
    """
    # 1. Update the two moving averages: m of the gradient, v of its square.
    # 2. Correct each for its start at zero, into new names: the averages
    #    themselves are the state of the next step.
    # 3. Move theta downhill along the corrected m, divided by the scale
    #    that the corrected v gives, and eps beside it.
    # 4. Return theta, m, v.
    ### BEGIN SOLUTION
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v
    ### END SOLUTION


def adam_l2_step(
    theta: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    grad: np.ndarray,
    t: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take one step of Adam with an L2 penalty, the coupled form of weight decay.

    theta, m, v, grad, t, lr, beta1, beta2, eps: as in adam_step; grad is
        the gradient of the loss alone, without the penalty.
    weight_decay: strength λ of the penalty λ/2·‖θ‖², a float >= 0; its
        unit is gradient per parameter.

    Returns (new theta, new m, new v), three new arrays of theta's shape.
    No argument is changed.

    Source: torch.optim.Adam with its argument weight_decay.
    """
    # 1. Add the penalty's gradient to the loss's gradient.
    # 2. Take a step of Adam on the sum, which is all that Adam ever sees.
    ### BEGIN SOLUTION
    penalized = grad + weight_decay * theta
    return adam_step(theta, m, v, penalized, t, lr, beta1, beta2, eps)
    ### END SOLUTION


def adamw_step(
    theta: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    grad: np.ndarray,
    t: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take one step of AdamW: Adam with decoupled weight decay.

    theta, m, v, grad, t, lr, beta1, beta2, eps: as in adam_step.
    weight_decay: λ, a float >= 0. One step removes the share lr·λ of each
        parameter, beside Adam's own step.

    Returns (new theta, new m, new v), three new arrays of theta's shape.
    No argument is changed.

    Source: Loshchilov & Hutter (2019), with the learning rate on the decay
    as in torch.optim.AdamW.
    """
    # 1. Take Adam's step on the gradient alone: the moments see no decay.
    # 2. Take off the decay, in proportion to the theta from before the step.
    # 3. Return theta, m, v.
    ### BEGIN SOLUTION
    stepped, m, v = adam_step(theta, m, v, grad, t, lr, beta1, beta2, eps)
    return stepped - lr * weight_decay * theta, m, v
    ### END SOLUTION


class AdamW(torch.optim.Optimizer):
    """AdamW as an optimizer of PyTorch: agrees with torch.optim.AdamW.

    params: tensors to optimize, or a list of dicts, one for each group:
        {"params": tensors, "lr": ...}. What a group leaves out, it gets
        from the arguments below.
    lr, betas, eps, weight_decay: as in adamw_step; betas is the pair
        (beta1, beta2).

    Raises ValueError if lr is negative.

    What must survive a step lives in self.state, one dict for each
    parameter, so that state_dict() and load_state_dict() carry it.

    Source: Loshchilov & Hutter (2019), as in torch.optim.AdamW.
    """

    def __init__(
        self,
        params: "Iterable[torch.Tensor] | Iterable[dict]",
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        # 1. Refuse a negative learning rate, with a message that names it.
        # 2. Let the base class fill the groups: give it the parameters, and
        #    a dict with the four settings as defaults.
        ### BEGIN SOLUTION
        if lr < 0:
            raise ValueError(f"lr is {lr}; it must be zero or positive")
        defaults_of_a_group = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults_of_a_group)
        ### END SOLUTION

    @torch.no_grad()
    def step(self, closure: "Callable[[], torch.Tensor] | None" = None) -> "torch.Tensor | None":
        """Update every parameter that has a gradient, in place.

        closure: if given, computes the loss and its gradients anew; it is
            called once, before the update, with gradients switched on.

        Returns the closure's loss, or None without a closure.
        """
        # 1. If there is a closure, call it with gradients enabled.
        # 2. For each group, with the settings of that group, and for each of
        #    its parameters that has a gradient:
        #    a. find the parameter's own state; fill it at its first step;
        #    b. count the step, update both moments;
        #    c. decay the parameter, then take Adam's step, both in place.
        # 3. Return the closure's loss.
        ### BEGIN SOLUTION
        closure_loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for parameter in (p for p in group["params"] if p.grad is not None):
                memory = self.state[parameter]
                if not memory:
                    memory.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
                memory["step"] += 1
                memory["exp_avg"].mul_(beta1).add_(parameter.grad, alpha=1 - beta1)
                memory["exp_avg_sq"].mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
                m_hat = memory["exp_avg"] / (1 - beta1 ** memory["step"])
                v_hat = memory["exp_avg_sq"] / (1 - beta2 ** memory["step"])
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]))
        return closure_loss
        ### END SOLUTION
