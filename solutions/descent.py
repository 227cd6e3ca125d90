"""Chapter 01, stepping downhill: SGD, momentum in both forms, and the training loop."""

from collections.abc import Callable, Iterable

import numpy as np
import torch


def sgd_step(theta: np.ndarray, grad: np.ndarray, lr: float) -> np.ndarray:
    """Take one step of stochastic gradient descent.

    theta: parameters, an array of any shape (0-d included).
    grad: gradient of the loss with respect to theta, same shape.
    lr: learning rate, a positive float; its unit is parameter per gradient.

    Returns the new parameters, a new array of theta's shape.
    No argument is changed.

    Source: Robbins & Monro (1951), with a fixed learning rate.
    """
    # 1. Turn the gradient into a step: the learning rate sets its size.
    # 2. Take that step downhill, into a new array.
    ### BEGIN SOLUTION
    return theta - lr * grad
    ### END SOLUTION


def momentum_step(
    theta: np.ndarray,
    velocity: np.ndarray,
    grad: np.ndarray,
    lr: float,
    beta: float = 0.9,
) -> tuple[np.ndarray, np.ndarray]:
    """Take one step of momentum in its moving-average form.

    theta: parameters, an array of any shape (0-d included).
    velocity: moving average of the gradients before this step, same shape;
        zeros before the first step.
    grad: gradient of the loss with respect to theta, same shape.
    lr: learning rate, a positive float.
    beta: share of the old velocity that is kept, 0 <= beta < 1.

    Returns (new theta, new velocity), two new arrays of theta's shape.
    No argument is changed.

    Source: the first moment of Kingma & Ba (2015), algorithm 1, used alone.
    """
    # 1. Blend the old velocity and the gradient into the new velocity:
    #    two shares that add up to one.
    # 2. Move theta downhill along the velocity that you just computed.
    # 3. Return both, parameters first.
    ### BEGIN SOLUTION
    velocity = beta * velocity + (1 - beta) * grad
    return theta - lr * velocity, velocity
    ### END SOLUTION


def heavy_ball_step(
    theta: np.ndarray,
    velocity: np.ndarray,
    grad: np.ndarray,
    lr: float,
    mu: float = 0.9,
) -> tuple[np.ndarray, np.ndarray]:
    """Take one step of heavy-ball momentum, in the form that PyTorch's SGD uses.

    theta: parameters, an array of any shape (0-d included).
    velocity: decaying sum of the gradients before this step, same shape;
        zeros before the first step.
    grad: gradient of the loss with respect to theta, same shape.
    lr: learning rate, a positive float. It acts on the step, never on the
        velocity.
    mu: share of the old velocity that is kept, 0 <= mu < 1.

    Returns (new theta, new velocity), two new arrays of theta's shape.
    No argument is changed.

    Source: Polyak (1964), as written in torch.optim.SGD with dampening=0
    and nesterov=False.
    """
    # 1. Let the old velocity decay, then add the gradient at its full size.
    # 2. Move theta downhill along the velocity that you just computed.
    #    The learning rate acts here.
    # 3. Return both, parameters first.
    ### BEGIN SOLUTION
    velocity = mu * velocity + grad
    return theta - lr * velocity, velocity
    ### END SOLUTION


def heavy_ball_lr(lr: float, beta: float) -> float:
    """Translate a learning rate: moving-average form to heavy-ball form.

    lr: learning rate given to momentum_step.
    beta: coefficient of momentum_step, 0 <= beta < 1; the heavy ball has
        mu = beta.

    Returns the learning rate with which heavy_ball_step walks the path of
    momentum_step, both from a zero velocity.
    """
    # 1. Both velocities start at zero, and mu = beta: by what factor do
    #    they differ, at every step?
    # 2. Let the learning rate make up for that factor, so that learning
    #    rate times velocity is the same in both forms.
    ### BEGIN SOLUTION
    return lr * (1 - beta)
    ### END SOLUTION


def train_epoch(
    model: torch.nn.Module,
    loss_fn: "Callable[[torch.Tensor, torch.Tensor], torch.Tensor]",
    batches: "Iterable[tuple[torch.Tensor, torch.Tensor]]",
    optimizer: torch.optim.Optimizer,
) -> list[float]:
    """Train a model for one epoch: one optimizer step for every batch.

    model: maps a batch x to a prediction.
    loss_fn: loss_fn(prediction, y) gives the loss of the batch, a 0-d tensor.
    batches: yields pairs (x, y): a list, a DataLoader or a generator, which
        can be walked once and has no length.
    optimizer: holds the model's parameters; its step() updates them in place.

    Returns a list with one loss for each batch, in order, each taken before
    that batch's step: numbers or 0-d tensors.

    Source: the training loop of the PyTorch tutorials.
    """
    # For each batch:
    # 1. Forward: predict, and compare with the target.
    # 2. Backward: fill every parameter's .grad.
    # 3. Step: let the optimizer update the parameters.
    # 4. Zero the gradients, so that the next batch starts from nothing.
    # Keep each batch's loss as a number, and return the list.
    ### BEGIN SOLUTION
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
    ### END SOLUTION
