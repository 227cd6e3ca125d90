"""Chapter 04, the memory ledger: what a training run keeps in memory, line by line, and on how many cards."""

import torch


def model_parameters(depth: int, width: int) -> int:
    """Count the parameters of a stack of square layers without biases.

    depth: number of layers, L.
    width: number of inputs, and of outputs, of every layer, D.

    Returns the number of parameters, a whole number without a unit.
    """
    # 1. How many numbers does the weight matrix of one layer hold?
    # 2. How many such matrices are there?
    ### BEGIN SOLUTION
    return width**2 * depth
    ### END SOLUTION


def optimizer_state_elements(optimizer: torch.optim.Optimizer) -> int:
    """Count the numbers that an optimizer remembers about its parameters.

    optimizer: any torch.optim.Optimizer, before or after its first step.
        optimizer.state maps a parameter to a dict: name -> tensor or number.

    Returns the number of elements of all state tensors that have their
    parameter's shape: elements, not bytes and not tensors. A step counter
    (named "step") never counts, not even where the parameter itself is 0-d.
    The optimizer is left as it is.

    Source: torch.optim.Optimizer.state.
    """
    # 1. Go through every parameter that has state, and its dict.
    # 2. Decide for each entry whether it is a moment: a tensor? of the
    #    parameter's shape? not the step counter?
    # 3. Add up the elements of those that are.
    ### BEGIN SOLUTION
    elements = 0
    for parameter, memory in optimizer.state.items():
        for name, value in memory.items():
            if name != "step" and torch.is_tensor(value) and value.shape == parameter.shape:
                elements += value.numel()
    return elements
    ### END SOLUTION


def memory_ledger(
    n_params: int,
    optimizer: str = "adamw",
    *,
    param_bytes: int = 2,
    grad_bytes: int = 2,
    master_bytes: int = 4,
    state_bytes: int = 4,
) -> dict[str, int]:
    """Write the ledger of model states: what training holds whatever the batch.

    n_params: number of parameters, 0 or more.
    optimizer: "sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw",
        "lars" or "lamb", in lower case.
    param_bytes: bytes of one working weight.
    grad_bytes: bytes of one gradient.
    master_bytes: bytes of one weight of the master copy; 0 if there is none.
    state_bytes: bytes of one number of optimizer state.

    Returns a dict with the lines "parameters", "gradients", "master",
    "states" and "total", each in bytes.
    Raises ValueError for an unknown optimizer or a negative n_params.

    Source: Rajbhandari et al. (2020), section 3.1. There, "optimizer states"
    means master and states together.
    """
    # 1. Say how many arrays of the parameters' shape each optimizer keeps.
    # 2. Refuse a name that you do not know, and a negative count.
    # 3. Write the four lines: how many numbers, times bytes for each.
    # 4. Add them up in a fifth line.
    ### BEGIN SOLUTION
    copies = dict.fromkeys(("momentum", "adagrad", "rmsprop", "lars"), 1)
    copies |= {"sgd": 0, "adam": 2, "adamw": 2, "lamb": 2}
    if optimizer not in copies:
        raise ValueError(f"optimizer is {optimizer!r}; it can be {', '.join(copies)}")
    if n_params < 0:
        raise ValueError(f"n_params is {n_params}; it can be 0 or more")
    ledger = {"parameters": n_params * param_bytes, "gradients": n_params * grad_bytes}
    ledger["master"] = n_params * master_bytes
    ledger["states"] = n_params * copies[optimizer] * state_bytes
    return ledger | {"total": sum(ledger.values())}
    ### END SOLUTION


def optimizer_share(ledger: dict[str, float]) -> float:
    """Compute the share of a ledger that exists because of the optimizer.

    ledger: as memory_ledger returns it; its total is above 0.

    Returns master and states together, as a share of the total: a number
    between 0 and 1.
    The ledger is left as it is.
    """
    # 1. Which two lines would be gone if nothing ever had to be updated?
    # 2. Divide them by the whole.
    ### BEGIN SOLUTION
    return (ledger["master"] + ledger["states"]) / ledger["total"]
    ### END SOLUTION


def largest_model(
    n_gpus: int,
    gpu_bytes: int,
    bytes_per_param: int,
) -> int:
    """Compute how many parameters fit on some cards, everything sharded.

    n_gpus: number of cards, 1 or more.
    gpu_bytes: memory of one card, in bytes.
    bytes_per_param: the ledger's total for one parameter, in bytes.

    Returns the largest whole number of parameters whose ledger fits into
    the memory of all cards together. Activations are not counted.
    """
    # 1. How many bytes are there in all?
    # 2. How many parameters do they pay for? A part of one is of no use.
    ### BEGIN SOLUTION
    return n_gpus * gpu_bytes // bytes_per_param
    ### END SOLUTION


def gpus_needed(total_bytes: int, gpu_bytes: int) -> int:
    """Compute how many cards hold so many bytes, everything sharded.

    total_bytes: what has to be held, in bytes, above 0.
    gpu_bytes: memory of one card, in bytes.

    Returns the smallest whole number of cards that is enough.
    """
    # 1. How many cards' worth of bytes is it?
    # 2. A card that is needed in part is needed whole.
    ### BEGIN SOLUTION
    return -(-total_bytes // gpu_bytes)
    ### END SOLUTION


def zero_ledger(
    n_params: int,
    n_gpus: int,
    stage: int,
    optimizer: str = "adamw",
) -> dict[str, float]:
    """Write the ledger of one card when ZeRO shards the lines over several.

    n_params: number of parameters, 0 or more.
    n_gpus: number of data-parallel cards, 1 or more.
    stage: 0 shards nothing; 1 shards what belongs to the optimizer, master
        and states; 2 the gradients too; 3 the parameters too.
    optimizer: as in memory_ledger, with its default bytes (2/2/4/4).

    Returns the lines of memory_ledger for one card, in bytes, with exact
    shares: floats, nothing rounded.
    Raises ValueError for another stage, n_gpus < 1, an unknown optimizer or
    a negative n_params.

    Source: Rajbhandari et al. (2020), figure 1 and section 5.
    """
    # 1. Refuse a stage or a number of cards that makes no sense.
    # 2. Start from the ledger of a card that holds everything.
    # 3. Divide the lines that this stage shards, and no others.
    # 4. The total is the sum of the new lines.
    ### BEGIN SOLUTION
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"stage is {stage!r}; it can be 0, 1, 2 or 3")
    if n_gpus < 1:
        raise ValueError(f"n_gpus is {n_gpus}; it can be 1 or more")
    whole = memory_ledger(n_params, optimizer)
    first = {"master": 1, "states": 1, "gradients": 2, "parameters": 3}
    lines = ("parameters", "gradients", "master", "states")
    shares = {line: whole[line] / n_gpus if stage >= first[line] else float(whole[line]) for line in lines}
    return shares | {"total": sum(shares.values())}
    ### END SOLUTION


def activation_bytes(
    batch: int,
    width: int,
    depth: int,
    element_bytes: int = 2,
) -> int:
    """Compute the bytes that forward keeps for backward, in a square stack.

    batch: number of rows that go through the network at once, B.
    width: numbers in a row, at the input of every layer, D.
    depth: number of layers, L.
    element_bytes: bytes of one number.

    Returns the bytes of the inputs of all layers.
    """
    # 1. How many numbers go into one layer?
    # 2. How many layers keep their input, at how many bytes a number?
    ### BEGIN SOLUTION
    return element_bytes * batch * width * depth
    ### END SOLUTION
