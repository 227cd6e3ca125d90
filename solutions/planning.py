"""Chapter 08, plan a real run: parameters, activations, the bill of one card, the plan, and its price in hours."""


def transformer_parameters(
    n_layers: int,
    width: int,
    vocab: int,
    seq_len: int,
) -> int:
    """Count the parameters of a model of GPT-2's shape.

    It has biases everywhere and learned positions; its output is tied to the
    token table.

    n_layers: number of layers, L.
    width: numbers in a token's row, h. The middle of the MLP is 4h wide.
    vocab: number of different tokens, V.
    seq_len: longest sequence, in tokens, s: a learned row for each place.

    Returns the number of parameters, a whole number without a unit.

    Source: the shapes of GPT-2, Radford et al. (2019).
    """
    # 1. Two tables at the entrance: tokens and places.
    # 2. One layer: four matrices with biases, two layer norms.
    # 3. All layers, and the last layer norm.
    ### BEGIN SOLUTION
    tables = (vocab + seq_len) * width
    every_layer = 12 * width**2 + 13 * width
    return tables + n_layers * every_layer + 2 * width
    ### END SOLUTION


def transformer_activation_bytes(
    batch: int,
    seq_len: int,
    width: int,
    n_layers: int,
    heads: int,
    recompute: str = "none",
) -> int:
    """Compute the bytes that the layers of a transformer keep for backward.

    The layer has dropout, and attention without a fused kernel.

    batch: sequences that go through at once on this card, b.
    seq_len: tokens in a sequence, s.
    width: numbers in a token's row, h.
    n_layers: number of layers, L.
    heads: attention heads in a layer, a.
    recompute: "none" keeps everything; "selective" forgets what has a row
        and a column for each token; "full" keeps the input of each layer.

    Returns bytes: 2 for a number, 1 for an entry of a dropout mask.
    Raises ValueError for another recompute.

    Source: Korthikanti et al. (2023), section 4.1 and table 2, without
    tensor parallelism.
    """
    # 1. Refuse a recompute that you do not know.
    # 2. Add up one layer: what grows with s, what grows with its square.
    # 3. Take away what this recompute forgets.
    # 4. How many layers?
    ### BEGIN SOLUTION
    rows, squares = batch * seq_len * width, batch * heads * seq_len**2
    one_layer = {"none": 34 * rows + 5 * squares, "selective": 34 * rows, "full": 2 * rows}
    if recompute not in one_layer:
        raise ValueError(f"recompute is {recompute!r}; it can be {', '.join(one_layer)}")
    return n_layers * one_layer[recompute]
    ### END SOLUTION


def memory_per_gpu(
    model: dict[str, int],
    cluster: dict[str, float],
    stage: int,
    recompute: str,
) -> float:
    """Compute what one card holds: model states and activations.

    model: n_params, n_layers, width, heads, seq_len (tokens), micro_batch
        (sequences at once on one card).
    cluster: n_gpus (data-parallel cards), gpu_bytes (memory of one card),
        peak_flops (a second, one card).
    stage: ZeRO stage, 0 to 3.
    recompute: "none", "selective" or "full".

    Returns bytes, exact shares, nothing rounded. The dicts are left as they
    are.
    Raises ValueError for another stage or recompute.

    Source: Rajbhandari et al. (2020), section 5, for AdamW: 2 bytes for a
    parameter, 2 for its gradient, 12 for master copy and two moments.
    """
    # 1. How many of a parameter's 16 bytes does this stage share?
    # 2. The shared ones are divided by the cards, the rest is whole.
    # 3. Add the activations of one micro-batch: call your function.
    ### BEGIN SOLUTION
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"stage is {stage!r}; it can be 0, 1, 2 or 3")
    shared = (0, 12, 14, 16)[stage]
    states = model["n_params"] * (16 - shared + shared / cluster["n_gpus"])
    sizes = (model[name] for name in ("micro_batch", "seq_len", "width", "n_layers", "heads"))
    return states + float(transformer_activation_bytes(*sizes, recompute))
    ### END SOLUTION


def smallest_plan(
    model: dict[str, int],
    cluster: dict[str, float],
) -> dict[str, object] | None:
    """Find the first plan that fits on a card, from cheap to expensive.

    model, cluster: as memory_per_gpu takes them; left as they are.

    Tries the recompute "none", then "selective", then "full"; within each,
    the stages 0, 1, 2, 3. A plan fits if its bytes are at most the card's.

    Returns a dict with "stage", "recompute" and "bytes_per_gpu", or None if
    no plan fits.
    """
    # 1. Go through all plans, in the order above.
    # 2. Compute the bytes of one card: call your function.
    # 3. Return the first plan that fits.
    # 4. What if none does?
    ### BEGIN SOLUTION
    for again in ("none", "selective", "full"):
        for stage in (0, 1, 2, 3):
            needed = memory_per_gpu(model, cluster, stage, again)
            if needed <= cluster["gpu_bytes"]:
                return {"stage": stage, "recompute": again, "bytes_per_gpu": needed}
    return None
    ### END SOLUTION


def gpu_hours(
    n_params: float,
    n_tokens: float,
    peak_flops: float,
    mfu: float,
) -> float:
    """Compute what a run costs in GPU-hours, however many cards share it.

    n_params: number of parameters, N.
    n_tokens: tokens that the run trains on.
    peak_flops: what one card can compute at most, in FLOPs a second.
    mfu: share of the peak that becomes useful, above 0 and at most 1.

    Returns hours of one card, not rounded. Each parameter and token takes
    6 FLOPs.

    Source: Kaplan et al. (2020), section 2.1.
    """
    # 1. How many FLOPs does the whole run take?
    # 2. How many does one card give in a second? In an hour?
    ### BEGIN SOLUTION
    run_flops = 6 * n_params * n_tokens
    return run_flops / (3600 * mfu * peak_flops)
    ### END SOLUTION
