"""Chapter 04, the memory ledger: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself, apart from the chapter's own earlier functions.
"""

import numpy as np
import torch

from autograder.edited import edited
from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import memory
from solutions.memory import memory_ledger

_EXACT = {"rtol": 0.0, "atol": 0.0}

# --- model_parameters -------------------------------------------------------------------------------------------------


def parameters_product(depth, width):
    return depth * width * width


def parameters_sum(depth, width):
    return sum(width * width for _ in range(depth))


def parameters_numpy(depth, width):
    return np.int64(depth) * np.prod([width, width])


MODEL_PARAMETERS = Exercise(
    reference=memory.model_parameters,
    points=1,
    section="How many numbers",
    cases=(
        Case("one layer", (1, 5), **_EXACT),
        Case("several layers", (3, 4), weight=2, **_EXACT),
        Case("wide and shallow", (2, 1000), **_EXACT),
        Case("deep and narrow", (40, 7), **_EXACT),
        Case("a large model, exact", (267, 16384), **_EXACT),
        Case("arguments by keyword", kwargs={"width": 6, "depth": 11}, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "width_once",
            edited(memory.model_parameters, ("width**2", "width")),
            "You count one weight for each input; every output has a weight for each input, so a layer is a matrix.",
            "How many numbers",
        ),
        Misconception(
            "swapped",
            edited(memory.model_parameters, ("width**2 * depth", "depth**2 * width")),
            "You square the depth: it is the width that counts twice in a layer's matrix, as rows and as columns.",
            "How many numbers",
        ),
        Misconception(
            "power",
            edited(memory.model_parameters, ("width**2 * depth", "width**depth")),
            "You raise the width to the depth: layers stand one after another, so their matrices add up.",
            "How many numbers",
        ),
        Misconception(
            "in_bytes",
            edited(memory.model_parameters, ("width**2", "2 * width**2")),
            "You give bytes; here the question is how many numbers there are, whatever their size.",
            "How many numbers",
        ),
        Misconception(
            "with_biases",
            edited(memory.model_parameters, ("width**2", "(width**2 + width)")),
            "You count biases; the stack of this chapter has none.",
            "How many numbers",
        ),
        Misconception(
            "one_layer",
            edited(memory.model_parameters, (" * depth", "")),
            "You count one layer; the stack has several.",
            "How many numbers",
        ),
        Misconception(
            "between_layers",
            edited(memory.model_parameters, ("* depth", "* (depth - 1)")),
            "You count the gaps between layers; each layer has a matrix of its own, the last one too.",
            "How many numbers",
        ),
        Misconception(
            "transformer",
            edited(memory.model_parameters, ("width**2", "12 * width**2")),
            "You count a transformer's twelve matrices; a layer of this chapter's stack is a single one.",
            "How many numbers",
        ),
    ),
    variants=(parameters_product, parameters_sum, parameters_numpy),
)

# --- optimizer_state_elements -----------------------------------------------------------------------------------------


def run_optimizer(answer, kind, settings, shapes, steps=1, frozen=(), groups=1, dtype="float32", device="cpu"):
    """Make parameters and an optimizer, take some steps, and ask for the elements of its state.

    kind: a name in torch.optim, or "own" for an optimizer whose state holds more than moments;
    frozen: places of the parameters that get no gradient; groups: how many groups share the parameters.
    """
    import torch

    class Own(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    memory = self.state[parameter]
                    memory["step"] = torch.tensor(1.0)
                    memory["calls"] = 1
                    memory["note"] = "moments and more"
                    memory["rows"] = torch.zeros(parameter.shape[:1])
                    memory["slow"] = torch.zeros_like(parameter)
                    memory["old"] = None

    kinds = {"own": Own}
    parameters = [
        torch.nn.Parameter(torch.ones(tuple(shape), dtype=getattr(torch, dtype), device=device)) for shape in shapes
    ]
    optimizer = kinds.get(kind) or getattr(torch.optim, kind)
    optimizer = optimizer([{"params": parameters[i::groups]} for i in range(groups)], **settings)
    for _ in range(steps):
        for place, parameter in enumerate(parameters):
            if place not in frozen:
                parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    return {"elements": answer(optimizer)}


def elements_copies(optimizer):
    counts = [
        sum(1 for name, v in state.items() if name != "step" and torch.is_tensor(v) and v.shape == parameter.shape)
        for parameter, state in optimizer.state.items()
    ]
    return max(counts, default=0)


def elements_of_parameters(optimizer):
    return sum(p.numel() for group in optimizer.param_groups for p in group["params"])


def elements_by_groups(optimizer):
    count = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for name, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor) and "step" not in name and value.shape == parameter.shape:
                    count += parameter.numel()
    return count


def elements_as_tensor(optimizer):
    kept = [torch.tensor(0)]
    for parameter, state in optimizer.state.items():
        moments = {name: value for name, value in state.items() if name != "step"}
        kept += [
            torch.tensor(value.numel())
            for value in moments.values()
            if hasattr(value, "numel") and tuple(value.shape) == tuple(parameter.shape)
        ]
    return torch.stack(kept).sum()


def elements_from_state_dict(optimizer):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    count = 0
    for place, state in optimizer.state_dict()["state"].items():
        state.pop("step", None)
        for value in state.values():
            if torch.is_tensor(value) and value.shape == parameters[place].shape:
                count += int(np.prod(value.shape, dtype=np.int64))
    return count


def elements_of_pairs(optimizer):
    return sum(
        value.numel()
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
        if key != "step" and torch.is_tensor(value) and value.shape == parameter.shape
    )


OPTIMIZER_STATE_ELEMENTS = Exercise(
    reference=memory.optimizer_state_elements,
    points=3,
    probe=run_optimizer,
    section="How much an optimizer remembers",
    cases=(
        Case("momentum, one matrix", ("SGD", {"lr": 0.1, "momentum": 0.9}, [(3, 5)]), **_EXACT),
        Case("Adam, one matrix", ("Adam", {"lr": 0.1}, [(3, 5)]), weight=2, **_EXACT),
        Case("plain SGD", ("SGD", {"lr": 0.1}, [(3, 5), (2,)]), weight=0.5, **_EXACT),
        Case("before the first step", ("AdamW", {"lr": 0.1}, [(3, 5)], 0), weight=0.5, **_EXACT),
        Case("AdaGrad, before its first step", ("Adagrad", {"lr": 0.1}, [(3, 5), (4,)], 0), weight=0.5, **_EXACT),
        Case("several parameters, after three steps", ("AdamW", {"lr": 0.1}, [(3, 5), (7,), (2, 2, 2)], 3), **_EXACT),
        Case(
            "three moments",
            ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True}, [(4, 2), (3,)]),
            weight=0.5,
            **_EXACT,
        ),
        Case("AMSGrad", ("Adam", {"lr": 0.1, "amsgrad": True}, [(4, 2), (3,)]), weight=0.5, **_EXACT),
        Case(
            "two groups of parameters",
            ("AdamW", {"lr": 0.1}, [(3, 5), (7,), (2, 6)]),
            {"groups": 2},
            **_EXACT,
        ),
        Case(
            "a parameter without a gradient",
            ("Adam", {"lr": 0.1}, [(3, 5), (7,)]),
            {"frozen": (0,)},
            **_EXACT,
        ),
        Case("parameters of one element", ("Adam", {"lr": 0.1}, [(1,), (1, 1), (2, 3)], 2), **_EXACT),
        Case("a 0-d parameter", ("Adam", {"lr": 0.1}, [(), (2, 3)], 2), **_EXACT),
        Case("0-d parameters alone", ("Adagrad", {"lr": 0.1}, [(), ()], 1), weight=0.5, **_EXACT),
        Case("state that holds more than moments", ("own", {"lr": 0.1}, [(4, 3), (5, 2)], 2), weight=0.5, **_EXACT),
        Case(
            "seven billion parameters on the meta device",
            ("AdamW", {"lr": 0.1}, [(100_000, 70_000), (9,)]),
            {"device": "meta", "dtype": "bfloat16"},
            weight=0.5,
            **_EXACT,
        ),
    ),
    misconceptions=(
        Misconception(
            "counts_step_counters",
            edited(
                memory.optimizer_state_elements,
                ('name != "step" and ', ""),
                (" and value.shape == parameter.shape", ""),
            ),
            "You count the step counters too: one number for each parameter tensor, which is no moment.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "by_shape_alone",
            edited(memory.optimizer_state_elements, ('name != "step" and ', "")),
            "A 0-d parameter has the same shape as its step counter: tell the counter by its name as well.",
            "Trap 2: counters, and state that is not there yet",
        ),
        Misconception(
            "above_one_element",
            edited(
                memory.optimizer_state_elements,
                ('name != "step" and ', ""),
                ("value.shape == parameter.shape", "value.numel() > 1"),
            ),
            "You leave out every tensor of one element, and with the counters go the moments of small parameters.",
            "Trap 2: counters, and state that is not there yet",
        ),
        Misconception(
            "with_dimensions_only",
            edited(
                memory.optimizer_state_elements,
                ('name != "step" and ', ""),
                ("value.shape == parameter.shape", "value.dim() > 0"),
            ),
            "You leave out every 0-d tensor; where the parameter is 0-d its moments are too. Compare the shapes.",
            "Trap 2: counters, and state that is not there yet",
        ),
        Misconception(
            "all_but_step",
            edited(memory.optimizer_state_elements, (" and value.shape == parameter.shape", "")),
            "You count every tensor that is not called step; a moment has one number for each of its parameter's.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "in_bytes",
            edited(memory.optimizer_state_elements, ("value.numel()", "value.numel() * value.element_size()")),
            "You count bytes; count elements, so that the number does not depend on their type.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "counts_tensors",
            edited(memory.optimizer_state_elements, ("value.numel()", "1")),
            "You count tensors; count the numbers in them.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "counts_copies",
            elements_copies,
            "You count copies for one parameter; the result is the number of elements over all parameters.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "always_two_copies",
            edited(elements_of_parameters, ("sum", "2 * sum")),
            "You assume two copies of every parameter; look into optimizer.state: it depends on optimizer and time.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "counts_parameters",
            elements_of_parameters,
            "You count the parameters themselves; the state stands in optimizer.state, one dict for each parameter.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "first_group_only",
            edited(
                memory.optimizer_state_elements,
                ("parameter, memory in optimizer.state.items()", 'parameter in optimizer.param_groups[0]["params"]'),
                ("memory.items()", "optimizer.state.get(parameter, {}).items()"),
            ),
            "You look into the first group of parameters alone; an optimizer can have several.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "first_moment_only",
            edited(memory.optimizer_state_elements, ('name != "step"', 'name in ("exp_avg", "momentum_buffer")')),
            "You count one moment by its name; go through all entries of the dict and decide by shape.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "adams_names_only",
            edited(memory.optimizer_state_elements, ('name != "step"', 'name in ("exp_avg", "exp_avg_sq")')),
            "You look for Adam's names only; other optimizers call their state otherwise. Decide by shape.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "plus_parameters",
            edited(
                memory.optimizer_state_elements,
                ("for name, value in", "elements += parameter.numel()\n        for name, value in"),
            ),
            "You add the parameters to their state; they have a line of their own in the ledger.",
            "How much an optimizer remembers",
        ),
    ),
    variants=(elements_by_groups, elements_as_tensor, elements_from_state_dict, elements_of_pairs),
)

# --- memory_ledger ----------------------------------------------------------------------------------------------------


def ledger_written_out(n_params, optimizer="adamw", *, param_bytes=2, grad_bytes=2, master_bytes=4, state_bytes=4):
    if n_params < 0:
        raise ValueError("a count of parameters is not negative")
    if optimizer == "sgd":
        states = 0
    elif optimizer in ("momentum", "adagrad", "rmsprop", "lars"):
        states = state_bytes * n_params
    elif optimizer in ("adam", "adamw", "lamb"):
        states = 2 * state_bytes * n_params
    else:
        raise ValueError(f"no such optimizer: {optimizer}")
    weights, slopes, exact = (size * n_params for size in (param_bytes, grad_bytes, master_bytes))
    return {
        "total": weights + slopes + exact + states,
        "states": states,
        "master": exact,
        "gradients": slopes,
        "parameters": weights,
    }


def ledger_numpy(n_params, optimizer="adamw", *, param_bytes=2, grad_bytes=2, master_bytes=4, state_bytes=4):
    names = ["sgd", "momentum", "adagrad", "rmsprop", "lars", "adam", "adamw", "lamb"]
    copies = [0, 1, 1, 1, 1, 2, 2, 2][names.index(optimizer)]
    if n_params < 0:
        raise ValueError("n_params must be 0 or more")
    sizes = np.array([param_bytes, grad_bytes, master_bytes, copies * state_bytes], dtype=np.int64) * n_params
    ledger = dict(zip(("parameters", "gradients", "master", "states"), sizes, strict=True))
    ledger["total"] = sizes.sum()
    return ledger


def ledger_floats(n_params, optimizer="adamw", *, param_bytes=2, grad_bytes=2, master_bytes=4, state_bytes=4):
    class UnknownOptimizerError(ValueError):
        pass

    match optimizer:
        case "sgd":
            copies = 0.0
        case "momentum" | "adagrad" | "rmsprop" | "lars":
            copies = 1.0
        case "adam" | "adamw" | "lamb":
            copies = 2.0
        case _:
            raise UnknownOptimizerError(optimizer)
    if n_params < 0:
        raise ValueError(n_params)
    ledger = {"parameters": float(n_params * param_bytes), "gradients": float(n_params * grad_bytes)}
    ledger |= {"master": float(n_params * master_bytes), "states": copies * state_bytes * n_params}
    ledger["total"] = sum(ledger[line] for line in ("parameters", "gradients", "master", "states"))
    return ledger


_N = 1_234_567
_LINES = ("parameters", "gradients", "master", "states", "total")
_UNEVEN = {"param_bytes": 1, "grad_bytes": 3, "master_bytes": 5, "state_bytes": 7}

MEMORY_LEDGER = Exercise(
    reference=memory.memory_ledger,
    points=6,
    section="The ledger, line by line",
    cases=(
        Case("AdamW: the line of the parameters", (_N,), line="parameters"),
        Case("AdamW: the line of the gradients", (_N,), line="gradients"),
        Case("AdamW: the line of the master copy", (_N,), line="master"),
        Case("AdamW: the line of the states", (_N,), line="states", weight=2.5),
        Case("AdamW: the total", (_N,), line="total", weight=2),
        Case("five lines, no more and no fewer", (1000, "adamw"), weight=0.5),
        Case("SGD: the line of the states", (_N, "sgd"), line="states", weight=0.5),
        Case("SGD: the line of the master copy", (_N, "sgd"), line="master", weight=0.5),
        Case("momentum: the line of the states", (_N, "momentum"), line="states", weight=0.5),
        Case("AdaGrad: the line of the states", (_N, "adagrad"), line="states", weight=0.5),
        Case("RMSProp: the line of the states", (_N, "rmsprop"), line="states", weight=0.5),
        Case("Adam: the line of the states", (_N, "adam"), line="states", weight=0.5),
        Case("LARS: the line of the states", (_N, "lars"), line="states", weight=0.5),
        Case("LAMB: the line of the states", (_N, "lamb"), line="states", weight=0.5),
        Case("momentum: the total", (_N, "momentum"), line="total", weight=0.5),
        *(
            Case(f"other bytes by keyword: {line}", (1001, "adam"), _UNEVEN, line=line, weight=0.4)
            for line in ("parameters", "gradients", "master", "states", "total")
        ),
        Case(
            "plain 4-byte training, without a master copy",
            kwargs={"n_params": 70, "optimizer": "adamw", "param_bytes": 4, "grad_bytes": 4, "master_bytes": 0},
            weight=0.5,
        ),
        Case("405 billion parameters", (405_000_000_000, "lamb"), weight=0.5),
        Case("no parameters: a ledger of zeros", (0, "rmsprop"), weight=0.5),
        Case("an unknown optimizer", (1000, "adafactor"), raises=ValueError, weight=0.75),
        Case("a negative number of parameters", (-1, "adam"), raises=ValueError, weight=0.75),
    ),
    misconceptions=(
        Misconception(
            "no_master",
            edited(memory.memory_ledger, ("n_params * master_bytes", "0")),
            "Your ledger has no master copy: mixed precision keeps the weights a second time, in four bytes.",
            "The ledger, line by line",
        ),
        Misconception(
            "adam_one_copy",
            edited(memory.memory_ledger, ('"adam": 2, "adamw": 2, "lamb": 2', '"adam": 1, "adamw": 1, "lamb": 1')),
            "You give the Adam family one copy; it keeps an average of the gradients and one of their squares.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "always_two_copies",
            edited(memory.memory_ledger, ("copies[optimizer]", "2")),
            "You give every optimizer Adam's two copies; look at what each of them keeps from step to step.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "adaptive_two_copies",
            edited(memory.memory_ledger, ('"sgd": 0', '"sgd": 0, "adagrad": 2, "rmsprop": 2')),
            "AdaGrad and RMSProp keep squares of the gradients only, no average of the gradients themselves.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "sgd_one_copy",
            edited(memory.memory_ledger, ('"sgd": 0', '"sgd": 1')),
            "Plain SGD remembers nothing; the velocity is momentum's.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "layerwise_without_state",
            edited(memory.memory_ledger, ('"lamb": 2', '"lamb": 0, "lars": 0')),
            "LARS and LAMB rescale a step that momentum or Adam makes, so they hold that one's state.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "lars_like_lamb",
            edited(memory.memory_ledger, ('"lamb": 2', '"lamb": 2, "lars": 2')),
            "LARS is built on momentum, LAMB on Adam: they do not hold the same state.",
            "How much an optimizer remembers",
        ),
        Misconception(
            "states_in_two_bytes",
            edited(memory.memory_ledger, ("* state_bytes", "* param_bytes")),
            "You keep the states at the weights' bytes; in this ledger each of their numbers takes state_bytes.",
            "The ledger, line by line",
        ),
        Misconception(
            "gradients_in_four_bytes",
            edited(memory.memory_ledger, ("grad_bytes: int = 2", "grad_bytes: int = 4")),
            "Your gradients take four bytes by default. That is another ledger in use; this one has two.",
            "The ledger, line by line",
        ),
        Misconception(
            "everything_in_four_bytes",
            edited(
                memory.memory_ledger,
                ("param_bytes: int = 2", "param_bytes: int = 4"),
                ("grad_bytes: int = 2", "grad_bytes: int = 4"),
            ),
            "You count working weights and gradients at four bytes and a master copy as well; with one, they take two.",
            "The ledger, line by line",
        ),
        Misconception(
            "ignores_the_bytes",
            edited(
                memory.memory_ledger,
                ("* param_bytes", "* 2"),
                ("* grad_bytes", "* 2"),
                ("* master_bytes", "* 4"),
                ("* state_bytes", "* 4"),
            ),
            "You write 2, 2, 4 and 4 into the lines; take the bytes from the arguments.",
            "The ledger, line by line",
        ),
        Misconception(
            "master_twice",
            edited(
                memory.memory_ledger,
                ("copies[optimizer] * state_bytes", "(copies[optimizer] * state_bytes + master_bytes)"),
            ),
            "You count the master copy twice: in its own line and among the states.",
            "The ledger, line by line",
        ),
        Misconception(
            "master_only_with_state",
            edited(
                memory.memory_ledger, ("n_params * master_bytes", "n_params * master_bytes if copies[optimizer] else 0")
            ),
            "The master copy is there because the weights have two bytes, whatever the optimizer: SGD has one too.",
            "The ledger, line by line",
        ),
        Misconception(
            "total_without_master",
            edited(memory.memory_ledger, ("sum(ledger.values())", 'sum(ledger.values()) - ledger["master"]')),
            "Your total leaves out the master copy: add all four lines.",
            "The ledger, line by line",
        ),
        Misconception(
            "per_parameter",
            edited(memory.memory_ledger, ("ledger = {", "n_params = 1\n    ledger = {")),
            "You give the bytes of one parameter; multiply by how many there are.",
            "The ledger, line by line",
        ),
        Misconception(
            "in_gigabytes",
            edited(
                memory.memory_ledger,
                ("return ledger", "ledger = {line: size / 1e9 for line, size in ledger.items()}\n    return ledger"),
            ),
            "You give gigabytes; the lines are in bytes.",
            "Trap 1: GB and GiB",
        ),
        Misconception(
            "unknown_passes",
            edited(
                memory.memory_ledger,
                ("if optimizer not in copies", "copies.setdefault(optimizer, 2)\n    if optimizer not in copies"),
            ),
            "An optimizer that you do not know gets Adam's state; raise ValueError, so that a typing error is noticed.",
            "The ledger, line by line",
        ),
        Misconception(
            "key_error",
            edited(memory.memory_ledger, ('ValueError(f"optimizer', 'KeyError(f"optimizer')),
            "A name that is not in your table raises KeyError; check it first and raise ValueError.",
            "The ledger, line by line",
        ),
        Misconception(
            "negative_passes",
            edited(memory.memory_ledger, ('raise ValueError(f"n_params is {n_params}; it can be 0 or more")', "pass")),
            "You accept a negative number of parameters; raise ValueError.",
            "The ledger, line by line",
        ),
        Misconception(
            "refuses_zero",
            edited(memory.memory_ledger, ("n_params < 0", "n_params <= 0")),
            "No parameters are fine: the ledger is one of zeros.",
            "The ledger, line by line",
        ),
    ),
    variants=(ledger_written_out, ledger_numpy, ledger_floats),
)

# --- optimizer_share --------------------------------------------------------------------------------------------------


def share_complement(ledger):
    return 1 - (ledger["parameters"] + ledger["gradients"]) / ledger["total"]


def share_two_shares(ledger):
    whole = ledger["parameters"] + ledger["gradients"] + ledger["master"] + ledger["states"]
    return ledger["states"] / whole + ledger["master"] / whole


def share_numpy(ledger):
    return np.float64(np.sum([ledger[line] for line in ("master", "states")])) / ledger["total"]


def _ledger(*lines):
    return dict(zip(_LINES, (*lines, sum(lines)), strict=True))


OPTIMIZER_SHARE = Exercise(
    reference=memory.optimizer_share,
    points=1,
    section="Whose bytes are they",
    cases=(
        Case("four different lines", (_ledger(10, 20, 30, 44),), weight=2),
        Case("no states", (_ledger(20, 20, 40, 0),)),
        Case("no master copy", (_ledger(40, 40, 0, 80),)),
        Case("nothing of the optimizer's", (_ledger(14, 7, 0, 0),), weight=0.5),
        Case("shares of a card, as floats", (_ledger(14e9, 14e9 / 3, 28e9 / 64, 56e9 / 64),)),
        Case("leaves the ledger unchanged", (_ledger(3, 5, 7, 11),), unchanged=True),
    ),
    misconceptions=(
        Misconception(
            "states_only",
            edited(memory.optimizer_share, ('(ledger["master"] + ledger["states"])', 'ledger["states"]')),
            "You leave out the master copy; it too is there only for the update.",
            "Whose bytes are they",
        ),
        Misconception(
            "master_only",
            edited(memory.optimizer_share, ('(ledger["master"] + ledger["states"])', 'ledger["master"]')),
            "You leave out the states, the optimizer's own memory.",
            "Whose bytes are they",
        ),
        Misconception(
            "percent",
            edited(memory.optimizer_share, ("return (", "return 100 * (")),
            "You give per cent; the result is a share between 0 and 1.",
            "Whose bytes are they",
        ),
        Misconception(
            "to_the_rest",
            edited(memory.optimizer_share, ('ledger["total"]', '(ledger["parameters"] + ledger["gradients"])')),
            "You compare with the other two lines; a share is a part of the whole.",
            "Whose bytes are they",
        ),
        Misconception(
            "share_of_the_model",
            edited(
                memory.optimizer_share,
                ('ledger["master"] + ledger["states"]', 'ledger["parameters"] + ledger["gradients"]'),
            ),
            "You give the share of parameters and gradients; the question is about the other two lines.",
            "Whose bytes are they",
        ),
        Misconception(
            "with_gradients",
            edited(memory.optimizer_share, ('ledger["master"] + ', 'ledger["gradients"] + ledger["master"] + ')),
            "You count the gradients in; backward makes them, whatever the optimizer.",
            "Whose bytes are they",
        ),
        Misconception(
            "constant",
            edited(memory.optimizer_share, ('(ledger["master"] + ledger["states"]) / ledger["total"]', "0.75")),
            "You return one ledger's share; compute it from the lines that you are given.",
            "Whose bytes are they",
        ),
        Misconception(
            "total_counted_twice",
            edited(memory.optimizer_share, ('ledger["total"]', "sum(ledger.values())")),
            "You add up all entries, and the total is one of them: the whole comes out twice as large.",
            "Whose bytes are they",
        ),
        Misconception(
            "precedence",
            edited(
                memory.optimizer_share, ('(ledger["master"] + ledger["states"])', 'ledger["master"] + ledger["states"]')
            ),
            "Only your second line is divided: put brackets around the sum.",
            "Whose bytes are they",
        ),
        Misconception(
            "rounded",
            edited(memory.optimizer_share, ("return (", "return round(("), ('ledger["total"]', 'ledger["total"], 2)')),
            "You round the share; return it as it is.",
            "Whose bytes are they",
        ),
        Misconception(
            "takes_the_total_out",
            edited(memory.optimizer_share, ('ledger["total"]', 'ledger.pop("total")')),
            "Your result is right, but you take an entry out of the caller's ledger: read it and leave it.",
            "Whose bytes are they",
        ),
    ),
    variants=(share_complement, share_two_shares, share_numpy),
)

# --- largest_model ----------------------------------------------------------------------------------------------------


def largest_int(n_gpus, gpu_bytes, bytes_per_param):
    return int(n_gpus * gpu_bytes / bytes_per_param)


def largest_divmod(n_gpus, gpu_bytes, bytes_per_param):
    whole, _ = divmod(gpu_bytes * n_gpus, bytes_per_param)
    return whole


def largest_floor(n_gpus, gpu_bytes, bytes_per_param):
    return np.floor(gpu_bytes / bytes_per_param * n_gpus + 1e-6)


LARGEST_MODEL = Exercise(
    reference=memory.largest_model,
    points=2,
    section="How large, on how many cards",
    cases=(
        Case("one card, no remainder", (1, 1600, 16), **_EXACT),
        Case("one card, with a remainder", (1, 107, 12), weight=1.5, **_EXACT),
        Case("several cards", (4, 1200, 20), **_EXACT),
        Case("a parameter whose bytes lie on two cards", (5, 103, 10), **_EXACT),
        Case("eight cards of 80 GB, 12 bytes each", (8, 80_000_000_000, 12), weight=1.5, **_EXACT),
        Case("cards of 80 GiB", (8, 80 * 2**30, 16), weight=0.5, **_EXACT),
        Case("a remainder of more than a half", (3, 1001, 18), weight=0.5, **_EXACT),
        Case(
            "arguments by keyword",
            kwargs={"bytes_per_param": 18, "gpu_bytes": 141_000_000_000, "n_gpus": 16},
            weight=0.5,
            **_EXACT,
        ),
    ),
    misconceptions=(
        Misconception(
            "not_whole",
            edited(memory.largest_model, ("//", "/")),
            "You return a fraction of a parameter; round down to a whole number.",
            "How large, on how many cards",
        ),
        Misconception(
            "rounded",
            edited(
                memory.largest_model,
                ("n_gpus * gpu_bytes // bytes_per_param", "round(n_gpus * gpu_bytes / bytes_per_param)"),
            ),
            "You round to the nearest number; half the time it does not fit. Round down.",
            "How large, on how many cards",
        ),
        Misconception(
            "rounded_up",
            edited(
                memory.largest_model,
                ("n_gpus * gpu_bytes // bytes_per_param", "-(-n_gpus * gpu_bytes // bytes_per_param)"),
            ),
            "You round up: the last parameter does not fit any more.",
            "How large, on how many cards",
        ),
        Misconception(
            "card_by_card",
            edited(memory.largest_model, ("gpu_bytes // bytes_per_param", "(gpu_bytes // bytes_per_param)")),
            "You round down on every card; one parameter's bytes may lie on two cards, so round once, at the end.",
            "How large, on how many cards",
        ),
        Misconception(
            "one_card",
            edited(memory.largest_model, ("n_gpus * gpu_bytes", "gpu_bytes")),
            "You count one card; there are n_gpus.",
            "How large, on how many cards",
        ),
        Misconception(
            "multiplies",
            edited(memory.largest_model, ("//", "*")),
            "You multiply by the bytes of a parameter; more bytes each mean fewer parameters.",
            "How large, on how many cards",
        ),
        Misconception(
            "always_sixteen",
            edited(memory.largest_model, ("// bytes_per_param", "// 16")),
            "You divide by 16; take the bytes from the argument, for they differ between ledgers.",
            "How large, on how many cards",
        ),
        Misconception(
            "in_billions",
            edited(memory.largest_model, ("// bytes_per_param", "/ bytes_per_param / 1e9")),
            "You give billions; the result is a count.",
            "How large, on how many cards",
        ),
    ),
    variants=(largest_int, largest_divmod, largest_floor),
)

# --- gpus_needed ------------------------------------------------------------------------------------------------------


def needed_power_of_two(total_bytes, gpu_bytes):
    cards = 1
    while cards * gpu_bytes < total_bytes:
        cards *= 2
    return cards


def needed_divmod(total_bytes, gpu_bytes):
    full, rest = divmod(total_bytes, gpu_bytes)
    return full + (rest > 0)


def needed_ceil(total_bytes, gpu_bytes):
    return np.ceil(total_bytes / gpu_bytes)


def needed_shifted(total_bytes, gpu_bytes):
    return int((total_bytes + gpu_bytes - 1) // gpu_bytes)


GPUS_NEEDED = Exercise(
    reference=memory.gpus_needed,
    points=2,
    section="How large, on how many cards",
    cases=(
        Case("a little more than two cards", (201, 100), weight=1.5, **_EXACT),
        Case("exactly three cards", (300, 100), weight=1.5, **_EXACT),
        Case("almost three cards", (299, 100), **_EXACT),
        Case("less than one card", (7, 100), **_EXACT),
        Case("70 billion parameters of 16 bytes", (1_120_000_000_000, 80_000_000_000), **_EXACT),
        Case("one byte too many", (1_120_000_000_001, 80_000_000_000), weight=0.5, **_EXACT),
        Case("cards of 80 GiB", (1_120_000_000_000, 80 * 2**30), weight=0.5, **_EXACT),
        Case("arguments by keyword", kwargs={"gpu_bytes": 7, "total_bytes": 50}, weight=0.5, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "rounded_down",
            edited(memory.gpus_needed, ("-(-total_bytes // gpu_bytes)", "total_bytes // gpu_bytes")),
            "You round down: what is left over has no card. Round up.",
            "How large, on how many cards",
        ),
        Misconception(
            "rounded",
            edited(memory.gpus_needed, ("-(-total_bytes // gpu_bytes)", "round(total_bytes / gpu_bytes)")),
            "You round to the nearest number; the smallest remainder needs a card too. Round up.",
            "How large, on how many cards",
        ),
        Misconception(
            "always_one_more",
            edited(memory.gpus_needed, ("-(-total_bytes // gpu_bytes)", "total_bytes // gpu_bytes + 1")),
            "You always add a card; where the bytes fill the cards exactly, none is missing.",
            "How large, on how many cards",
        ),
        Misconception(
            "fraction",
            edited(memory.gpus_needed, ("-(-total_bytes // gpu_bytes)", "total_bytes / gpu_bytes")),
            "You return a part of a card; cards come whole.",
            "How large, on how many cards",
        ),
        Misconception(
            "inverse",
            edited(memory.gpus_needed, ("-total_bytes // gpu_bytes", "-gpu_bytes // total_bytes")),
            "You divide the card by the total; ask how often the card goes into the total.",
            "How large, on how many cards",
        ),
        Misconception(
            "power_of_two",
            needed_power_of_two,
            "You go up to a power of two; that may be how cards are sold, but not how many are needed.",
            "How large, on how many cards",
        ),
        Misconception(
            "whole_machines",
            edited(memory.gpus_needed, ("// gpu_bytes)", "// (8 * gpu_bytes)) * 8")),
            "You count whole machines of eight; the question is about cards.",
            "How large, on how many cards",
        ),
    ),
    variants=(needed_divmod, needed_ceil, needed_shifted),
)

# --- zero_ledger ------------------------------------------------------------------------------------------------------


def zero_written_out(n_params, n_gpus, stage, optimizer="adamw"):
    if n_gpus < 1 or stage not in range(4):
        raise ValueError("n_gpus is 1 or more, stage 0 to 3")
    full = memory_ledger(n_params, optimizer)
    result = {"parameters": full["parameters"], "gradients": full["gradients"]}
    result |= {"master": full["master"], "states": full["states"]}
    if stage >= 1:
        result["master"] = result["master"] / n_gpus
        result["states"] = result["states"] / n_gpus
    if stage >= 2:
        result["gradients"] = result["gradients"] / n_gpus
    if stage == 3:
        result["parameters"] = result["parameters"] / n_gpus
    result["total"] = result["parameters"] + result["gradients"] + result["master"] + result["states"]
    return result


def zero_alone(n_params, n_gpus, stage, optimizer="adamw"):
    copies = {"sgd": 0, "momentum": 1, "adagrad": 1, "rmsprop": 1, "lars": 1, "adam": 2, "adamw": 2, "lamb": 2}
    if stage not in {0, 1, 2, 3} or n_gpus < 1 or n_params < 0 or optimizer not in copies:
        raise ValueError("an argument makes no sense")
    part = np.array([stage >= 3, stage >= 2, stage >= 1, stage >= 1])
    size = n_params * np.array([2.0, 2.0, 4.0, 4.0 * copies[optimizer]])
    size = np.where(part, size / n_gpus, size)
    return {
        "total": size.sum(),
        "parameters": size[0],
        "gradients": size[1],
        "master": size[2],
        "states": size[3],
    }


def zero_times_share(n_params, n_gpus, stage, optimizer="adamw"):
    if stage not in [0, 1, 2, 3] or n_gpus <= 0:
        raise ValueError("stage or n_gpus")
    share = {"parameters": 3, "gradients": 2, "master": 1, "states": 1}
    share = {line: 1 / n_gpus if stage >= first else 1.0 for line, first in share.items()}
    result = {line: size * share[line] for line, size in memory_ledger(n_params, optimizer).items() if line != "total"}
    result["total"] = sum(result.values())
    return result


ZERO_LEDGER = Exercise(
    reference=memory.zero_ledger,
    points=5,
    section="Sharding the ledger",
    builds_on=("memory_ledger",),
    cases=(
        Case("stage 0: nothing is shared", (1000, 4, 0), weight=0.5),
        Case("stage 1: the line of the master copy", (_N, 7, 1), line="master"),
        Case("stage 1: the line of the states", (_N, 7, 1), line="states"),
        Case("stage 1: the line of the gradients", (_N, 7, 1), line="gradients"),
        Case("stage 1: the line of the parameters", (_N, 7, 1), line="parameters"),
        Case("stage 1: the total", (_N, 7, 1), line="total", weight=2),
        Case("stage 2: the line of the gradients", (_N, 64, 2), line="gradients"),
        Case("stage 2: the line of the parameters", (_N, 64, 2), line="parameters"),
        Case("stage 2: the line of the states", (_N, 64, 2), line="states", weight=0.5),
        Case("stage 2: the total", (_N, 64, 2), line="total", weight=2),
        Case("stage 3: the line of the parameters", (_N, 64, 3), line="parameters"),
        Case("stage 3: the line of the gradients", (_N, 64, 3), line="gradients", weight=0.5),
        Case("stage 3: the total", (_N, 64, 3), line="total", weight=2),
        Case("one card: nothing to share with", (1000, 1, 3), weight=0.5),
        Case("another optimizer: momentum, stage 1", (1001, 8, 1, "momentum"), weight=0.5),
        Case("another optimizer: SGD, stage 2", (1001, 3, 2, "sgd"), weight=0.5),
        Case(
            "arguments by keyword",
            kwargs={"stage": 2, "optimizer": "lamb", "n_gpus": 16, "n_params": 7_500_000_000},
            weight=0.5,
        ),
        Case("more cards than parameters, exact shares", (3, 1024, 3), weight=0.5),
        Case("a stage that does not exist", (1000, 4, 4), raises=ValueError, weight=0.6),
        Case("a negative stage", (1000, 4, -1), raises=ValueError, weight=0.2),
        Case("no card at all", (1000, 0, 1), raises=ValueError, weight=0.6),
        Case("no card at all, nothing shared", (1000, 0, 0), raises=ValueError, weight=0.2),
        Case("an unknown optimizer", (1000, 4, 1, "adafactor"), raises=ValueError, weight=0.2),
        Case("a negative number of parameters", (-5, 4, 1), raises=ValueError, weight=0.2),
    ),
    misconceptions=(
        Misconception(
            "shards_everything",
            edited(memory.zero_ledger, ("stage >= first[line]", "stage")),
            "You divide every line as soon as anything is sharded; stages 1 and 2 leave lines whole on every card.",
            "Trap 3: dividing everything by the number of cards",
        ),
        Misconception(
            "always_shards_everything",
            edited(memory.zero_ledger, (" if stage >= first[line] else float(whole[line])", "")),
            "You divide every line at every stage; stage 0 shares nothing, and only stage 3 shares everything.",
            "Trap 3: dividing everything by the number of cards",
        ),
        Misconception(
            "master_stays",
            edited(memory.zero_ledger, ('"master": 1', '"master": 4')),
            "You leave the master copy whole; ZeRO counts it among the optimizer states, so stage 1 shares it too.",
            "Sharding the ledger",
        ),
        Misconception(
            "states_stay",
            edited(memory.zero_ledger, ('"states": 1', '"states": 4')),
            "You share the master copy but leave the moments whole; stage 1 shares both.",
            "Sharding the ledger",
        ),
        Misconception(
            "parameters_before_gradients",
            edited(memory.zero_ledger, ('"gradients": 2, "parameters": 3', '"gradients": 3, "parameters": 2')),
            "You share the parameters at stage 2; there it is the gradients' turn, and the parameters follow at 3.",
            "Sharding the ledger",
        ),
        Misconception(
            "gradients_first",
            edited(
                memory.zero_ledger,
                ('"master": 1, "states": 1, "gradients": 2', '"master": 2, "states": 2, "gradients": 1'),
            ),
            "You begin with the gradients; stage 1 shares the largest part, what belongs to the optimizer.",
            "Sharding the ledger",
        ),
        Misconception(
            "only_the_newest_line",
            edited(memory.zero_ledger, ("stage >= first", "stage == first")),
            "Each of your stages shares its own line only; a stage shares all that the ones before it share.",
            "Sharding the ledger",
        ),
        Misconception(
            "one_stage_late",
            edited(memory.zero_ledger, ("stage >= first", "stage > first")),
            "You share one stage too late: stage 1 already shares master copy and states.",
            "Sharding the ledger",
        ),
        Misconception(
            "one_stage_early",
            edited(memory.zero_ledger, ("stage >= first", "stage + 1 >= first")),
            "You share one stage too early: stage 0 shares nothing.",
            "Sharding the ledger",
        ),
        Misconception(
            "third_stage_like_second",
            edited(memory.zero_ledger, ('"parameters": 3', '"parameters": 4')),
            "Your stage 3 leaves the parameters whole on every card; it is the stage that shares them.",
            "Sharding the ledger",
        ),
        Misconception(
            "old_total",
            edited(memory.zero_ledger, ("sum(shares.values())", 'whole["total"]')),
            "Your total is still that of the whole ledger: add up the new lines.",
            "Sharding the ledger",
        ),
        Misconception(
            "total_in_the_total",
            edited(memory.zero_ledger, ("sum(shares.values())", 'sum(shares.values()) + whole["total"]')),
            "You add the old total to the new lines: take it out before you add.",
            "Sharding the ledger",
        ),
        Misconception(
            "all_cards_together",
            edited(
                memory.zero_ledger,
                ("whole[line] / n_gpus", "whole[line]"),
                ("float(whole[line])", "n_gpus * whole[line]"),
            ),
            "You count all cards together; the ledger is that of one card.",
            "Sharding the ledger",
        ),
        Misconception(
            "whole_bytes",
            edited(memory.zero_ledger, ("/ n_gpus", "// n_gpus")),
            "You cut shares down to whole bytes (//); return the exact share.",
            "Sharding the ledger",
        ),
        Misconception(
            "always_adamw",
            edited(
                memory.zero_ledger,
                (
                    "whole = memory_ledger(n_params, optimizer)",
                    "memory_ledger(n_params, optimizer)\n    whole = memory_ledger(n_params)",
                ),
            ),
            "You always take AdamW's ledger; hand the optimizer on.",
            "Sharding the ledger",
        ),
        Misconception(
            "any_stage_passes",
            edited(memory.zero_ledger, ('raise ValueError(f"stage is {stage!r}; it can be 0, 1, 2 or 3")', "pass")),
            "You accept a stage that does not exist; raise ValueError.",
            "Sharding the ledger",
        ),
        Misconception(
            "any_number_of_cards_passes",
            edited(memory.zero_ledger, ('raise ValueError(f"n_gpus is {n_gpus}; it can be 1 or more")', "pass")),
            "You accept less than one card; raise ValueError before you divide.",
            "Sharding the ledger",
        ),
        Misconception(
            "refuses_stage_zero",
            edited(memory.zero_ledger, ("(0, 1, 2, 3)", "(1, 2, 3)")),
            "Stage 0 exists: plain data parallelism, where nothing is shared.",
            "Sharding the ledger",
        ),
    ),
    variants=(zero_written_out, zero_alone, zero_times_share),
)

# --- activation_bytes -------------------------------------------------------------------------------------------------


def activation_reordered(batch, width, depth, element_bytes=2):
    return depth * (batch * width) * element_bytes


def activation_sum(batch, width, depth, element_bytes=2):
    return sum(batch * width * element_bytes for _ in range(depth))


def activation_numpy(batch, width, depth, element_bytes=2):
    return np.prod([batch, width, depth, element_bytes], dtype=np.int64)


ACTIVATION_BYTES = Exercise(
    reference=memory.activation_bytes,
    points=2,
    section="What forward keeps for backward",
    cases=(
        Case("one layer, one example", (1, 7, 1), **_EXACT),
        Case("a batch", (5, 7, 1), **_EXACT),
        Case("several layers", (5, 7, 4), weight=1.5, **_EXACT),
        Case("four bytes a number", (5, 7, 4, 4), **_EXACT),
        Case("one byte a number, by keyword", (3, 11, 6), {"element_bytes": 1}, weight=0.5, **_EXACT),
        Case("a batch larger than the width", (4096, 64, 12), weight=0.5, **_EXACT),
        Case("a large network", (2**20, 8192, 80), weight=0.5, **_EXACT),
        Case("arguments by keyword", kwargs={"depth": 9, "width": 13, "batch": 6}, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "one_layer",
            edited(memory.activation_bytes, (" * depth", "")),
            "You count one layer; every layer keeps its input until backward comes back to it.",
            "What forward keeps for backward",
        ),
        Misconception(
            "width_squared",
            edited(memory.activation_bytes, ("* width", "* width**2")),
            "You square the width: an activation is a row of D numbers for each example, not a matrix of weights.",
            "What forward keeps for backward",
        ),
        Misconception(
            "counts_weights",
            edited(memory.activation_bytes, ("batch * width", "width**2")),
            "You count the weights; activations are what flows between them, and they grow with the batch.",
            "What forward keeps for backward",
        ),
        Misconception(
            "one_example",
            edited(memory.activation_bytes, ("batch * ", "")),
            "You count one example; every row of the batch has its own activations.",
            "What forward keeps for backward",
        ),
        Misconception(
            "elements",
            edited(memory.activation_bytes, ("element_bytes * ", "")),
            "You count numbers; the result is in bytes.",
            "What forward keeps for backward",
        ),
        Misconception(
            "always_two_bytes",
            edited(memory.activation_bytes, ("element_bytes * ", "2 * ")),
            "You write 2 for the bytes of a number; take them from the argument.",
            "What forward keeps for backward",
        ),
        Misconception(
            "two_times_the_bytes",
            edited(memory.activation_bytes, ("element_bytes * ", "2 * element_bytes * ")),
            "You multiply by 2 and by element_bytes; the 2 in the usual formula is the bytes.",
            "What forward keeps for backward",
        ),
        Misconception(
            "four_bytes_by_default",
            edited(memory.activation_bytes, ("element_bytes: int = 2", "element_bytes: int = 4")),
            "Your default is four bytes; in mixed precision activations take two.",
            "What forward keeps for backward",
        ),
        Misconception(
            "with_the_output",
            edited(memory.activation_bytes, ("* depth", "* (depth + 1)")),
            "You count the last output too. A measurement finds it, as you will see; this line counts the inputs.",
            "What forward keeps for backward",
        ),
        Misconception(
            "between_layers",
            edited(memory.activation_bytes, ("* depth", "* (depth - 1)")),
            "You leave out one input; the first layer keeps its own, the batch itself, like all others.",
            "What forward keeps for backward",
        ),
        Misconception(
            "bits",
            edited(memory.activation_bytes, ("element_bytes * ", "8 * element_bytes * ")),
            "You count bits.",
            "What forward keeps for backward",
        ),
    ),
    variants=(activation_reordered, activation_sum, activation_numpy),
)

CHAPTER = Chapter(
    name="04_memory",
    exercises=(
        MODEL_PARAMETERS,
        OPTIMIZER_STATE_ELEMENTS,
        MEMORY_LEDGER,
        OPTIMIZER_SHARE,
        LARGEST_MODEL,
        GPUS_NEEDED,
        ZERO_LEDGER,
        ACTIVATION_BYTES,
    ),
)
