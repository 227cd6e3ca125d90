"""Chapter 01, stepping downhill: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself.
"""

import numpy as np
import torch

from autograder.edited import edited
from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import descent

_rng = np.random.default_rng(1)
_vector = _rng.normal(size=(4, 5))
_matrix = _rng.normal(size=(3, 3, 2))
_grads = _rng.normal(size=(6, 3, 2))

# --- sgd_step ---------------------------------------------------------------------------------------------------------


def sgd_on_a_copy(theta, grad, lr):
    result = np.array(theta)
    result -= lr * grad
    return result


def sgd_other_order(theta, grad, lr):
    return -(grad * lr) + theta


def sgd_float32(theta, grad, lr):
    return np.asarray(theta, dtype=np.float32) - np.float32(lr) * np.asarray(grad, dtype=np.float32)


def sgd_torch(theta, grad, lr):
    return torch.tensor(theta) - lr * torch.tensor(grad)


SGD_STEP = Exercise(
    reference=descent.sgd_step,
    points=2,
    section="One step downhill",
    cases=(
        Case("a vector of parameters", (np.array([1.0, -2.0, 0.5]), np.array([0.4, 3.0, -1.5]), 0.1), weight=2),
        Case("a learning rate above one", (_vector[0], _vector[1], 2.5)),
        Case("a matrix of parameters", (_matrix[0], _matrix[1], 0.3)),
        Case("a single number (0-d)", (np.array(2.0), np.array(-3.0), 0.2)),
        Case(
            "very large and very small numbers",
            (np.array([3e8, -2e-8, 0.0, 5.0]), np.array([1e9, 3e-8, 2e-6, 0.0]), 0.5),
            weight=0.5,
            atol=1e-14,
        ),
        Case(
            "float32 arrays",
            (_vector[2].astype(np.float32), _vector[3].astype(np.float32), 0.1),
            weight=0.5,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case("arguments by keyword", kwargs={"lr": 0.7, "grad": _matrix[2], "theta": _matrix[0]}),
        Case("leaves its arguments unchanged", (_vector[0], _vector[2], 0.1), unchanged=True),
    ),
    misconceptions=(
        Misconception(
            "ascent",
            edited(descent.sgd_step, ("- lr", "+ lr")),
            "You add the gradient; it points uphill, so a step that lowers the loss goes against it.",
            "One step downhill",
        ),
        Misconception(
            "no_learning_rate",
            edited(descent.sgd_step, ("lr * grad", "grad")),
            "You step by the whole gradient; the learning rate must scale it, for a gradient is a slope, not a length.",
            "One step downhill",
        ),
        Misconception(
            "only_the_change",
            edited(descent.sgd_step, ("theta - lr", "-lr")),
            "You return the change alone; the result is the new parameters: the old ones and the change together.",
            "One step downhill",
        ),
        Misconception(
            "sign_of_gradient",
            edited(descent.sgd_step, ("* grad", "* np.sign(grad)")),
            "You keep only the gradient's sign; in SGD a steeper slope makes a longer step.",
            "One step downhill",
        ),
        Misconception(
            "unit_length",
            edited(descent.sgd_step, ("lr * grad", "lr * grad / max(float(np.linalg.norm(grad)), 1e-30)")),
            "You divide by the gradient's norm, so all steps are equally long; in SGD a steeper slope steps further.",
            "One step downhill",
        ),
        Misconception(
            "scales_theta",
            edited(descent.sgd_step, ("theta - lr * grad", "theta * (1 - lr * grad)")),
            "You multiply theta into the step; the step depends on the gradient and the learning rate only.",
            "One step downhill",
        ),
        Misconception(
            "divides_by_lr",
            edited(descent.sgd_step, ("lr * grad", "grad / lr")),
            "You divide by the learning rate; a larger rate must make a longer step.",
            "One step downhill",
        ),
        Misconception(
            "in_place",
            edited(descent.sgd_step, ("return theta - lr * grad", "theta -= lr * grad\n    return theta")),
            "Your result is right, but you changed the caller's array on the way (-= works in place): make a new one.",
            "Trap 1: a step that changes its input",
        ),
    ),
    variants=(sgd_on_a_copy, sgd_other_order, sgd_float32, sgd_torch),
)

# --- momentum_step ----------------------------------------------------------------------------------------------------


def only_theta(answer, *args):
    result = answer(*args)
    return result[0] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def only_velocity(answer, *args):
    result = answer(*args)
    return result[1] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def several_steps(answer, theta, velocity, grads, lr, beta):
    for grad in grads:
        theta, velocity = answer(theta, velocity, grad, lr, beta)
    return theta, velocity


def momentum_on_copies(theta, velocity, grad, lr, beta=0.9):
    theta, velocity = np.array(theta), np.array(velocity)
    velocity *= beta
    velocity += (1 - beta) * grad
    theta -= lr * velocity
    return theta, velocity


def momentum_towards_the_gradient(theta, velocity, grad, lr, beta=0.9):
    new = velocity + (1 - beta) * (grad - velocity)
    return [theta - new * lr, new]


def momentum_float32(theta, velocity, grad, lr, beta=0.9):
    theta, velocity, grad = (np.asarray(a, dtype=np.float32) for a in (theta, velocity, grad))
    velocity = np.float32(beta) * velocity + np.float32(1 - beta) * grad
    return theta - np.float32(lr) * velocity, velocity


def momentum_torch(theta, velocity, grad, lr, beta=0.9):
    theta, velocity, grad = (torch.as_tensor(a) for a in (theta, velocity, grad))
    velocity = torch.lerp(grad, velocity, beta)
    return theta - lr * velocity, velocity


MOMENTUM_STEP = Exercise(
    reference=descent.momentum_step,
    points=4,
    results=("theta", "velocity"),
    section="A velocity that averages",
    cases=(
        Case(
            "the new velocity of a vector",
            (np.array([1.0, -2.0, 0.5]), np.array([0.6, -0.4, 2.0]), np.array([3.0, 1.0, -1.5]), 0.2, 0.8),
            weight=2,
            probe=only_velocity,
        ),
        Case(
            "the new parameters of a vector",
            (np.array([1.0, -2.0, 0.5]), np.array([0.6, -0.4, 2.0]), np.array([3.0, 1.0, -1.5]), 0.2, 0.8),
            probe=only_theta,
        ),
        Case(
            "a first step, from a zero velocity",
            (np.array([4.0, -1.0]), np.zeros(2), np.array([2.0, -6.0]), 0.5, 0.9),
            weight=0.5,
        ),
        Case(
            "a zero gradient: the parameters coast",
            (np.array([4.0, -1.0]), np.array([1.0, 3.0]), np.zeros(2), 0.5, 0.7),
            weight=0.5,
        ),
        Case("a beta of zero: the step of plain SGD", (_vector[0], _vector[1], _vector[2], 0.3, 0.0), weight=0.5),
        Case("a matrix, another beta", (_matrix[0], _matrix[1], _matrix[2], 1.5, 0.6)),
        Case(
            "several steps in a row", (_matrix[0], np.zeros((3, 2)), _grads, 0.4, 0.9), weight=0.5, probe=several_steps
        ),
        Case("a single number (0-d)", (np.array(2.0), np.array(0.5), np.array(-3.0), 0.2, 0.9), weight=0.5),
        Case(
            "float32 arrays",
            (*(a.astype(np.float32) for a in _vector[1:]), 0.3, 0.9),
            weight=0.5,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case(
            "arguments by keyword, beta left at its default",
            kwargs={"lr": 0.7, "grad": _vector[2], "velocity": _vector[1], "theta": _vector[0]},
            weight=0.5,
        ),
        Case("leaves its arguments unchanged", (_vector[0], _vector[1], _vector[2], 0.1), weight=0.5, unchanged=True),
    ),
    misconceptions=(
        Misconception(
            "ascent",
            edited(descent.momentum_step, ("- lr", "+ lr")),
            "You add the velocity; it averages gradients, which point uphill, so the step goes against it.",
            "A velocity that averages",
        ),
        Misconception(
            "heavy_ball_form",
            edited(descent.momentum_step, ("(1 - beta) * grad", "grad")),
            "You add the whole gradient, which is the heavy-ball form; "
            "in the moving-average form the two shares add up to one.",
            "Two forms, one path",
        ),
        Misconception(
            "swapped_shares",
            edited(
                descent.momentum_step, ("beta * velocity + (1 - beta) * grad", "(1 - beta) * velocity + beta * grad")
            ),
            "You swapped the shares: beta is what is kept of the old velocity, and the gradient gets the rest.",
            "A velocity that averages",
        ),
        Misconception(
            "beta_on_both",
            edited(descent.momentum_step, ("(1 - beta) * grad", "beta * grad")),
            "You weigh velocity and gradient with beta alike; in an average the two shares add up to one.",
            "A velocity that averages",
        ),
        Misconception(
            "share_on_the_step",
            edited(
                descent.momentum_step, ("(1 - beta) * grad", "grad"), ("lr * velocity", "lr * (1 - beta) * velocity")
            ),
            "You mixed the two forms: the gradient's share belongs in the velocity that you return, not in the step.",
            "Two forms, one path",
        ),
        Misconception(
            "old_velocity",
            edited(descent.momentum_step, ("velocity = beta", "new = beta"), ("velocity, velocity", "velocity, new")),
            "You step along the velocity from before this gradient: update the velocity first, then step along it.",
            "A velocity that averages",
        ),
        Misconception(
            "steps_by_gradient",
            edited(descent.momentum_step, ("lr * velocity", "lr * grad")),
            "You update the velocity but step along the bare gradient: the step must follow the velocity.",
            "A velocity that averages",
        ),
        Misconception(
            "lr_in_velocity",
            edited(descent.momentum_step, ("* grad", "* lr * grad"), ("- lr * velocity", "- velocity")),
            "You put the learning rate into the velocity: here it acts on the step alone.",
            "Trap 4: the learning rate inside the velocity",
        ),
        Misconception(
            "nesterov",
            edited(descent.momentum_step, ("lr * velocity", "lr * (beta * velocity + (1 - beta) * grad)")),
            "You blend the gradient in a second time, as Nesterov's method does: "
            "here the step follows the new velocity as it is.",
            "A velocity that averages",
        ),
        Misconception(
            "first_step_whole_gradient",
            edited(
                descent.momentum_step, ("(1 - beta) * grad", "(1 - beta) * grad if np.any(velocity) else 1.0 * grad")
            ),
            "You start the velocity at the whole first gradient, as dampening does: "
            "an average that starts at zero takes its share of it.",
            "Trap 3: dampening is not the average",
        ),
        Misconception(
            "old_velocity_returned",
            edited(descent.momentum_step, ("velocity = beta", "new = beta"), ("lr * velocity", "lr * new")),
            "You step along the new velocity but return the old one: the next step needs the new one as its state.",
            "A velocity that averages",
        ),
        Misconception(
            "only_theta",
            edited(descent.momentum_step, ("velocity, velocity", "velocity")),
            "You return the parameters alone: the velocity is state, and the next step needs it back.",
            "A velocity that averages",
        ),
        Misconception(
            "results_swapped",
            edited(descent.momentum_step, ("theta - lr * velocity, velocity", "velocity, theta - lr * velocity")),
            "You return the velocity first: the order is parameters, then velocity.",
            "A velocity that averages",
        ),
        Misconception(
            "fixed_beta",
            edited(descent.momentum_step, ("beta * velocity + (1 - beta) * grad", "0.9 * velocity + 0.1 * grad")),
            "You wrote the default into the formula: use the argument beta, which may be another number.",
            "A velocity that averages",
        ),
        Misconception(
            "in_place",
            edited(
                descent.momentum_step,
                ("velocity = beta * velocity + ", "velocity *= beta\n    velocity += "),
                ("return theta - lr * velocity, velocity", "theta -= lr * velocity\n    return theta, velocity"),
            ),
            "Your results are right, but you changed the caller's arrays on the way (*=, +=, -= work in place): "
            "make new ones.",
            "Trap 1: a step that changes its input",
        ),
    ),
    variants=(momentum_on_copies, momentum_towards_the_gradient, momentum_float32, momentum_torch),
)

# --- heavy_ball_step --------------------------------------------------------------------------------------------------


def heavy_ball_on_copies(theta, velocity, grad, lr, mu=0.9):
    theta, velocity = np.array(theta), np.array(velocity)
    velocity *= mu
    velocity += grad
    theta -= lr * velocity
    return theta, velocity


def heavy_ball_other_order(theta, velocity, grad, lr, mu=0.9):
    return [theta - lr * grad - lr * mu * velocity, grad + velocity * mu]


def heavy_ball_float32(theta, velocity, grad, lr, mu=0.9):
    theta, velocity, grad = (np.asarray(a, dtype=np.float32) for a in (theta, velocity, grad))
    velocity = np.float32(mu) * velocity + grad
    return theta - np.float32(lr) * velocity, velocity


def heavy_ball_torch(theta, velocity, grad, lr, mu=0.9):
    theta, velocity, grad = (torch.as_tensor(a) for a in (theta, velocity, grad))
    velocity = torch.add(grad, velocity, alpha=mu)
    return torch.sub(theta, velocity, alpha=lr), velocity


HEAVY_BALL_STEP = Exercise(
    reference=descent.heavy_ball_step,
    points=3,
    results=("theta", "velocity"),
    section="A velocity that sums",
    cases=(
        Case(
            "the new velocity of a vector",
            (np.array([1.0, -2.0, 0.5]), np.array([0.6, -0.4, 2.0]), np.array([3.0, 1.0, -1.5]), 0.2, 0.8),
            weight=1.5,
            probe=only_velocity,
        ),
        Case(
            "the new parameters of a vector",
            (np.array([1.0, -2.0, 0.5]), np.array([0.6, -0.4, 2.0]), np.array([3.0, 1.0, -1.5]), 0.2, 0.8),
            probe=only_theta,
        ),
        Case(
            "a first step, from a zero velocity",
            (np.array([4.0, -1.0]), np.zeros(2), np.array([2.0, -6.0]), 0.5, 0.9),
            weight=0.5,
        ),
        Case(
            "a zero gradient: the parameters coast",
            (np.array([4.0, -1.0]), np.array([1.0, 3.0]), np.zeros(2), 0.5, 0.7),
            weight=0.5,
        ),
        Case("a matrix, another mu", (_matrix[2], _matrix[1], _matrix[0], 1.5, 0.6), weight=0.5),
        Case(
            "several steps in a row", (_matrix[2], np.zeros((3, 2)), _grads, 0.4, 0.9), weight=0.5, probe=several_steps
        ),
        Case("a single number (0-d)", (np.array(2.0), np.array(0.5), np.array(-3.0), 0.2, 0.9), weight=0.5),
        Case(
            "float32 arrays",
            (*(a.astype(np.float32) for a in _vector[1:]), 0.3, 0.9),
            weight=0.25,
            rtol=1e-5,
            atol=1e-6,
        ),
        Case(
            "arguments by keyword, mu left at its default",
            kwargs={"lr": 0.7, "grad": _vector[3], "velocity": _vector[1], "theta": _vector[2]},
            weight=0.25,
        ),
        Case("leaves its arguments unchanged", (_vector[0], _vector[1], _vector[2], 0.1), weight=0.5, unchanged=True),
    ),
    misconceptions=(
        Misconception(
            "ascent",
            edited(descent.heavy_ball_step, ("- lr", "+ lr")),
            "You add the velocity; it sums gradients, which point uphill, so the step goes against it.",
            "A velocity that sums",
        ),
        Misconception(
            "moving_average_form",
            edited(descent.heavy_ball_step, ("+ grad", "+ (1 - mu) * grad")),
            "You scale the gradient by 1 - mu, which is the moving-average form; here it enters at its full size.",
            "Two forms, one path",
        ),
        Misconception(
            "dampening",
            edited(descent.heavy_ball_step, ("+ grad", "+ (1 - mu) * grad if np.any(velocity) else 1.0 * grad")),
            "You dampen every gradient but the first by 1 - mu, as PyTorch's dampening does; "
            "here every gradient enters at its full size.",
            "Trap 3: dampening is not the average",
        ),
        Misconception(
            "lr_in_velocity",
            edited(descent.heavy_ball_step, ("+ grad", "+ lr * grad"), ("- lr * velocity", "- velocity")),
            "You put the learning rate into the velocity; here the velocity is made of gradients, "
            "and the rate acts on the step.",
            "Trap 4: the learning rate inside the velocity",
        ),
        Misconception(
            "downhill_velocity",
            edited(descent.heavy_ball_step, ("+ grad", "- lr * grad"), ("- lr * velocity", "+ velocity")),
            "Your velocity points downhill and holds the learning rate, as in Sutskever's form; "
            "here it sums bare gradients and the step subtracts it.",
            "Trap 4: the learning rate inside the velocity",
        ),
        Misconception(
            "old_velocity",
            edited(descent.heavy_ball_step, ("velocity = mu", "new = mu"), ("velocity, velocity", "velocity, new")),
            "You step along the velocity from before this gradient: update the velocity first, then step along it.",
            "A velocity that sums",
        ),
        Misconception(
            "steps_by_gradient",
            edited(descent.heavy_ball_step, ("lr * velocity", "lr * grad")),
            "You update the velocity but step along the bare gradient: the step must follow the velocity.",
            "A velocity that sums",
        ),
        Misconception(
            "nesterov",
            edited(descent.heavy_ball_step, ("lr * velocity", "lr * (grad + mu * velocity)")),
            "You look one step ahead, as nesterov=True does: here the step follows the new velocity as it is.",
            "A velocity that sums",
        ),
        Misconception(
            "decays_the_gradient_too",
            edited(descent.heavy_ball_step, ("mu * velocity + grad", "mu * (velocity + grad)")),
            "You let the new gradient decay with the old velocity: only the old velocity decays.",
            "A velocity that sums",
        ),
        Misconception(
            "decays_only_the_gradient",
            edited(descent.heavy_ball_step, ("mu * velocity + grad", "velocity + mu * grad")),
            "You scale the gradient and keep all of the old velocity: it is the old velocity that decays.",
            "A velocity that sums",
        ),
        Misconception(
            "only_theta",
            edited(descent.heavy_ball_step, ("velocity, velocity", "velocity")),
            "You return the parameters alone: the velocity is state, and the next step needs it back.",
            "A velocity that sums",
        ),
        Misconception(
            "results_swapped",
            edited(descent.heavy_ball_step, ("theta - lr * velocity, velocity", "velocity, theta - lr * velocity")),
            "You return the velocity first: the order is parameters, then velocity.",
            "A velocity that sums",
        ),
        Misconception(
            "fixed_mu",
            edited(descent.heavy_ball_step, ("mu * velocity", "0.9 * velocity")),
            "You wrote the default into the formula: use the argument mu, which may be another number.",
            "A velocity that sums",
        ),
        Misconception(
            "in_place",
            edited(
                descent.heavy_ball_step,
                ("velocity = mu * velocity + ", "velocity *= mu\n    velocity += "),
                ("return theta - lr * velocity, velocity", "theta -= lr * velocity\n    return theta, velocity"),
            ),
            "Your results are right, but you changed the caller's arrays on the way (*=, +=, -= work in place): "
            "make new ones.",
            "Trap 1: a step that changes its input",
        ),
    ),
    variants=(heavy_ball_on_copies, heavy_ball_other_order, heavy_ball_float32, heavy_ball_torch),
)

# --- heavy_ball_lr ----------------------------------------------------------------------------------------------------


def lr_expanded(lr, beta):
    return lr - lr * beta


def lr_by_division(lr, beta):
    return np.float64(lr) / (1 / (1 - beta))


def lr_zero_d(lr, beta):
    return np.array(lr * (1 - beta))


def lr_torch(lr, beta):
    return torch.tensor(lr, dtype=torch.float64) * (1 - beta)


HEAVY_BALL_LR = Exercise(
    reference=descent.heavy_ball_lr,
    points=2,
    section="Two forms, one path",
    cases=(
        Case("a beta of 0.9", (0.1, 0.9), weight=3),
        Case("a small beta, a learning rate above one", (12.5, 0.2), weight=2),
        Case("a beta close to one", (0.5, 0.999)),
        Case("a tiny learning rate", (3e-7, 0.6), atol=0.0),
        Case("arguments by keyword", kwargs={"beta": 0.8, "lr": 0.4}),
    ),
    misconceptions=(
        Misconception(
            "the_other_way",
            edited(descent.heavy_ball_lr, ("lr * (", "lr / (")),
            "You translated in the other direction: the heavy ball's velocity is the larger one, "
            "so its rate must be the smaller one.",
            "Two forms, one path",
        ),
        Misconception(
            "not_translated",
            edited(descent.heavy_ball_lr, ("lr * (1 - beta)", "lr")),
            "You return the rate as it is: the two velocities differ in size, so the same rate makes different steps.",
            "Two forms, one path",
        ),
        Misconception(
            "times_beta",
            edited(descent.heavy_ball_lr, ("(1 - beta)", "beta")),
            "You scale by the share of the old velocity; what the two forms disagree on is the share of the gradient.",
            "Two forms, one path",
        ),
        Misconception(
            "one_plus_beta",
            edited(descent.heavy_ball_lr, ("1 - beta", "1 + beta")),
            "You have a sign wrong: the heavy ball sums what the other form averages, so its rate must be smaller, "
            "not larger.",
            "Two forms, one path",
        ),
        Misconception(
            "fixed_beta",
            edited(descent.heavy_ball_lr, ("(1 - beta)", "0.1")),
            "Your factor holds for a beta of 0.9 alone: compute it from the argument beta.",
            "Two forms, one path",
        ),
        Misconception(
            "only_the_factor",
            edited(descent.heavy_ball_lr, ("lr * (1 - beta)", "1 - beta")),
            "You return the factor between the two rates: the result is the rate itself.",
            "Two forms, one path",
        ),
    ),
    variants=(lr_expanded, lr_by_division, lr_zero_d, lr_torch),
)

# --- train_epoch ------------------------------------------------------------------------------------------------------


def run_epoch(answer, xs, ys, weights, lr, momentum, loss, source, report):
    """Train a small network for one epoch, and report on it.

    xs, ys: one array for each batch; weights: the network's four parameters; loss: "mse" or "pinball";
    source: "list" or "generator"; report: "count", "losses", "steps", "parameters" or "all".
    """
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(value))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    steps = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))

    def pinball(prediction, target):
        error = target - prediction
        return torch.maximum(0.9 * error, -0.1 * error).mean()

    loss_fn = torch.nn.MSELoss() if loss == "mse" else pinball
    batches = [
        (torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
        for x, y in zip(xs, ys, strict=True)
    ]
    losses = answer(model, loss_fn, iter(batches) if source == "generator" else batches, optimizer)
    if hasattr(losses, "tolist"):
        losses = losses.tolist()
    if isinstance(losses, (list, tuple)):
        losses = [float(value.detach() if hasattr(value, "detach") else value) for value in losses]
    parameters = [parameter.detach().numpy().copy() for parameter in model.parameters()]
    if report == "count":
        return len(losses) if isinstance(losses, list) else losses
    if report == "losses":
        return losses
    if report == "steps":
        return len(steps)
    if report == "parameters":
        return parameters
    return [losses, parameters, len(steps)]


def epoch_last_batch_only(model, loss_fn, batches, optimizer):
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return [loss.item()]


def epoch_zeroed_first(model, loss_fn, batches, optimizer):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def epoch_zeroed_by_hand(model, loss_fn, batches, optimizer):
    losses = []
    for _, (x, y) in enumerate(batches):
        for parameter in model.parameters():
            parameter.grad = None
        loss = loss_fn(model(x), y)
        losses.append(loss.detach())
        loss.backward()
        optimizer.step()
    return tuple(losses)


def epoch_zeroed_between(model, loss_fn, batches, optimizer):
    losses = []
    for x, y in batches:
        prediction = model(x)
        loss = loss_fn(prediction, y)
        model.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        losses = [*losses, loss]
    return losses


def epoch_tensor(model, loss_fn, batches, optimizer):
    model.train()
    losses = []
    for batch in batches:
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss.detach().clone())
    return torch.stack(losses)


def _epoch(sizes, seed, lr, momentum=0.0, loss="mse", source="list", report="all"):
    rng = np.random.default_rng(seed)
    return (
        [rng.normal(size=(size, 3)) for size in sizes],
        [2 * rng.normal(size=(size, 2)) + 1 for size in sizes],
        [rng.normal(size=shape) for shape in ((4, 3), (4,), (2, 4), (2,))],
        lr,
        momentum,
        loss,
        source,
        report,
    )


_EPOCH = {"rtol": 1e-4, "atol": 1e-5}

TRAIN_EPOCH = Exercise(
    reference=descent.train_epoch,
    points=5,
    probe=run_epoch,
    section="The loop, line by line",
    cases=(
        Case("one loss for each batch", _epoch((4, 4, 4), 11, 0.1, report="count")),
        Case("the first batch's loss, as a number", _epoch((5,), 12, 0.1, report="losses"), **_EPOCH),
        Case("one optimizer step for each batch", _epoch((4, 4, 4), 13, 0.1, report="steps")),
        Case("the parameters after one batch", _epoch((6,), 14, 0.2, report="parameters"), **_EPOCH),
        Case(
            "the parameters after four batches", _epoch((4, 4, 4, 4), 15, 0.2, report="parameters"), weight=2, **_EPOCH
        ),
        Case("each loss, taken before its step", _epoch((4, 4, 4, 4), 16, 0.2, report="losses"), **_EPOCH),
        Case("the prediction first, the target second", _epoch((6, 6), 17, 0.3, loss="pinball"), **_EPOCH),
        Case("uneven batches, momentum", _epoch((5, 3, 5, 1), 18, 0.05, momentum=0.9), **_EPOCH),
        Case("batches from a generator", _epoch((4, 4, 2), 19, 0.1, source="generator"), **_EPOCH),
    ),
    misconceptions=(
        Misconception(
            "never_zeroed",
            edited(descent.train_epoch, ("        optimizer.zero_grad()\n", "")),
            "You never zero the gradients: backward adds to what is there, so each step follows a sum of batches.",
            "Trap 2: gradients that add up",
        ),
        Misconception(
            "zeroed_before_step",
            edited(
                descent.train_epoch,
                ("optimizer.step()\n        optimizer.zero_grad()", "optimizer.zero_grad()\n        optimizer.step()"),
            ),
            "You zero the gradients between backward and step, so the optimizer finds nothing to step along.",
            "The loop, line by line",
        ),
        Misconception(
            "step_before_backward",
            edited(
                descent.train_epoch,
                ("        loss.backward()\n", ""),
                ("optimizer.zero_grad()", "optimizer.zero_grad()\n        loss.backward()"),
            ),
            "You step before backward, so each step uses the gradient of the batch before.",
            "The loop, line by line",
        ),
        Misconception(
            "never_steps",
            edited(descent.train_epoch, ("        optimizer.step()\n", "")),
            "You compute the gradients but never let the optimizer step: the parameters stay where they were.",
            "The loop, line by line",
        ),
        Misconception(
            "one_step_for_the_epoch",
            edited(
                descent.train_epoch,
                ("        optimizer.step()\n        optimizer.zero_grad()\n", ""),
                ("return losses", "optimizer.step()\n    return losses"),
            ),
            "You step once, after the last batch: the step belongs inside the loop, one for each batch.",
            "The loop, line by line",
        ),
        Misconception(
            "loss_after_step",
            edited(descent.train_epoch, ("loss.item()", "loss_fn(model(x), y).item()")),
            "You measure each loss after its step: keep the one whose gradient made the step.",
            "The loop, line by line",
        ),
        Misconception(
            "losses_at_the_end",
            edited(
                descent.train_epoch,
                ("for x, y in batches:", "batches = list(batches)\n    for x, y in batches:"),
                ("return losses", "return [loss_fn(model(x), y).item() for x, y in batches]"),
            ),
            "You measure the losses once the epoch is over: keep each batch's loss from before its own step.",
            "The loop, line by line",
        ),
        Misconception(
            "mean_loss",
            edited(descent.train_epoch, ("return losses", "return sum(losses) / len(losses)")),
            "You return the mean over the epoch: the result is a list with one loss for each batch.",
            "The loop, line by line",
        ),
        Misconception(
            "last_loss",
            edited(descent.train_epoch, ("return losses", "return losses[-1]")),
            "You return the last batch's loss alone: the result is a list with one loss for each batch.",
            "The loop, line by line",
        ),
        Misconception(
            "returns_in_the_loop",
            edited(descent.train_epoch, ("    return losses", "        return losses")),
            "Your return stands inside the loop, so the epoch ends after its first batch: move it out by one indent.",
            "The loop, line by line",
        ),
        Misconception(
            "last_batch_only",
            epoch_last_batch_only,
            "Backward and step stand outside the loop, so only the last batch trains: indent them into it.",
            "The loop, line by line",
        ),
        Misconception(
            "returns_nothing",
            edited(descent.train_epoch, ("    return losses\n", "")),
            "You train but return nothing: end with the list of losses.",
            "The loop, line by line",
        ),
        Misconception(
            "target_first",
            edited(descent.train_epoch, ("loss_fn(model(x), y)", "loss_fn(y, model(x))")),
            "You call the loss with the target first: the prediction comes first, and not every loss is symmetric.",
            "The loop, line by line",
        ),
        Misconception(
            "times_batch_size",
            edited(descent.train_epoch, ("loss.item()", "loss.item() * len(x)")),
            "You multiply each loss by its batch size: return what the loss function gave.",
            "The loop, line by line",
        ),
        Misconception(
            "needs_a_list",
            edited(
                descent.train_epoch,
                ("for x, y in batches:", "for i in range(len(batches)):\n        x, y = batches[i]"),
            ),
            "You ask batches for its length or an index: a generator has neither, so walk it with a for loop.",
            "The loop, line by line",
        ),
    ),
    variants=(epoch_zeroed_first, epoch_zeroed_by_hand, epoch_zeroed_between, epoch_tensor),
)

CHAPTER = Chapter(
    name="01_descent",
    exercises=(SGD_STEP, MOMENTUM_STEP, HEAVY_BALL_STEP, HEAVY_BALL_LR, TRAIN_EPOCH),
)
