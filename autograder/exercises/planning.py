"""Chapter 08, plan a real run: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself, apart from the chapter's own earlier functions.
"""

import numpy as np
import torch

from autograder.edited import edited
from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import planning
from solutions.planning import memory_per_gpu, transformer_activation_bytes

_EXACT = {"rtol": 0.0, "atol": 0.0}

# --- transformer_parameters -------------------------------------------------------------------------------------------

_parameters = planning.transformer_parameters
_LAYER = "12 * width**2 + 13 * width"
_TABLES = "(vocab + seq_len) * width"
_SUM = "tables + n_layers * every_layer + 2 * width"


def parameters_piece_by_piece(n_layers, width, vocab, seq_len):
    h = width
    norm = 2 * h
    attention = h * 3 * h + 3 * h + h * h + h
    mlp = h * 4 * h + 4 * h + 4 * h * h + h
    total = vocab * h + seq_len * h
    for _ in range(n_layers):
        total += norm + attention + norm + mlp
    return total + norm


def parameters_factored(n_layers, width, vocab, seq_len):
    return width * (vocab + seq_len + 2 + n_layers * (12 * width + 13))


def parameters_counted(n_layers, width, vocab, seq_len):
    shapes = [(vocab, width), (seq_len, width), (width,), (width,)]
    for _ in range(n_layers):
        shapes += [(width,)] * 4
        for fan_in, fan_out in ((1, 3), (1, 1), (1, 4), (4, 1)):
            shapes += [(fan_in * width, fan_out * width), (fan_out * width,)]
    return sum(torch.empty(shape, device="meta").numel() for shape in shapes)


def parameters_numpy(n_layers, width, vocab, seq_len):
    h = np.int64(width)
    return vocab * h + seq_len * h + n_layers * (12 * h * h + 13 * h) + 2 * h


TRANSFORMER_PARAMETERS = Exercise(
    reference=_parameters,
    points=3,
    section="How many numbers in a transformer",
    cases=(
        Case("one small layer", (1, 4, 7, 3), **_EXACT),
        Case("several layers", (5, 6, 11, 8), weight=2, **_EXACT),
        Case("a large vocabulary", (2, 8, 1000, 16), **_EXACT),
        Case("long sequences", (2, 8, 10, 512), **_EXACT),
        Case("wide layers", (2, 640, 5, 9), **_EXACT),
        Case("GPT-2 medium", (24, 1024, 50257, 1024), **_EXACT),
        Case("a large model, exact", (80, 8192, 50368, 2048), **_EXACT),
        Case(
            "arguments by keyword",
            kwargs={"seq_len": 33, "vocab": 17, "width": 10, "n_layers": 3},
            weight=0.5,
            **_EXACT,
        ),
    ),
    misconceptions=(
        Misconception(
            "embedding_twice",
            edited(_parameters, (_TABLES, "(2 * vocab + seq_len) * width")),
            "You count the token table twice; the output layer uses the same table, so its numbers exist once.",
            "Trap 2: a table counted twice",
        ),
        Misconception(
            "no_positions",
            edited(_parameters, (_TABLES, "vocab * width")),
            "You leave out the table of positions: this model learns a row for each place in the sequence.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "no_tokens",
            edited(_parameters, (_TABLES, "seq_len * width")),
            "You leave out the token table, a row for each of the vocabulary's entries.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "no_tables",
            edited(_parameters, (_TABLES, "0")),
            "You count the layers alone; the two tables at the entrance are parameters too.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "matrices_only",
            edited(_parameters, (_LAYER, "12 * width**2"), (_SUM, "tables + n_layers * every_layer")),
            "You count matrices only: every layer has biases and layer norms too, and one norm stands at the end.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "no_biases",
            edited(_parameters, (_LAYER, "12 * width**2 + 4 * width")),
            "You leave out the biases of the four matrices: each is as long as its matrix's output.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "short_biases",
            edited(_parameters, (_LAYER, "12 * width**2 + 8 * width")),
            "You give each of the four matrices a bias of the model's width; a bias is as long as its matrix's output.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "no_layer_norms",
            edited(_parameters, (_LAYER, "12 * width**2 + 9 * width"), (_SUM, "tables + n_layers * every_layer")),
            "You leave out the layer norms: each has a weight and a bias for every one of the numbers in a row.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "norms_without_bias",
            edited(
                _parameters,
                (_LAYER, "12 * width**2 + 11 * width"),
                (_SUM, "tables + n_layers * every_layer + width"),
            ),
            "Your layer norms have a weight but no bias; these have both.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "one_norm_a_layer",
            edited(_parameters, (_LAYER, "12 * width**2 + 11 * width")),
            "You give a layer one norm; it has two, one before the attention and one before the MLP.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "no_last_norm",
            edited(_parameters, (_SUM, "tables + n_layers * every_layer")),
            "You leave out the layer norm behind the last layer.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "last_norm_every_layer",
            edited(_parameters, (_SUM, "tables + n_layers * (every_layer + 2 * width)")),
            "You add the last layer norm once for every layer; it stands behind the last one only.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "no_projection",
            edited(_parameters, (_LAYER, "11 * width**2 + 12 * width")),
            "You stop at queries, keys and values: the attention ends in a fourth square matrix, the projection.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "narrow_mlp",
            edited(_parameters, (_LAYER, "6 * width**2 + 10 * width")),
            "Your MLP is as narrow as the model; in between it is four times as wide.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "one_layer",
            edited(_parameters, (_SUM, "tables + every_layer + 2 * width")),
            "You count one layer; every layer has matrices of its own.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "tables_every_layer",
            edited(_parameters, (_SUM, "n_layers * (tables + every_layer) + 2 * width")),
            "You count the tables once for every layer; they stand at the entrance only.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "output_bias",
            edited(_parameters, (_SUM, "tables + n_layers * every_layer + 2 * width + vocab")),
            "You give the output a bias of its own; it is the token table and nothing else.",
            "How many numbers in a transformer",
        ),
        Misconception(
            "in_bytes",
            edited(_parameters, (_SUM, "2 * (tables + n_layers * every_layer + 2 * width)")),
            "You give bytes; the question is how many numbers there are, whatever their size.",
            "How many numbers in a transformer",
        ),
    ),
    variants=(parameters_piece_by_piece, parameters_factored, parameters_counted, parameters_numpy),
)

# --- transformer_activation_bytes -------------------------------------------------------------------------------------

_kept = planning.transformer_activation_bytes
_NONE = '"none": 34 * rows + 5 * squares'
_SELECTIVE = '"selective": 34 * rows'
_FULL = '"full": 2 * rows'
_ALL = "n_layers * one_layer[recompute]"


def kept_as_published(batch, seq_len, width, n_layers, heads, recompute="none"):
    sbh = seq_len * batch * width
    if recompute == "none":
        return n_layers * sbh * (34 + 5 * heads * seq_len / width)
    if recompute == "selective":
        return 34.0 * n_layers * sbh
    if recompute == "full":
        return 2.0 * n_layers * sbh
    raise ValueError("recompute can be none, selective or full")


def kept_by_pieces(batch, seq_len, width, n_layers, heads, recompute="none"):
    if recompute not in {"none", "selective", "full"}:
        raise ValueError(recompute)
    numbers = batch * seq_len * width
    square = batch * heads * seq_len * seq_len
    total = 0
    for _ in range(n_layers):
        if recompute == "full":
            total += 2 * numbers
            continue
        total += 11 * numbers + 19 * numbers + 4 * numbers
        if recompute == "none":
            total += (2 + 1 + 2) * square
    return total


def kept_with_numpy(batch, seq_len, width, n_layers, heads, recompute="none"):
    factors = {"none": (34, 5), "selective": (34, 0), "full": (2, 0)}
    try:
        linear, quadratic = factors[recompute]
    except KeyError:
        raise ValueError("unknown recompute") from None
    b, s, h, a = (np.float64(x) for x in (batch, seq_len, width, heads))
    return n_layers * (linear * s * b * h + quadratic * a * s**2 * b)


_SHAPE = (2, 16, 24, 3, 4)

TRANSFORMER_ACTIVATION_BYTES = Exercise(
    reference=_kept,
    points=4,
    section="What one layer keeps",
    cases=(
        Case("everything kept, one layer", (1, 6, 10, 1, 2), weight=2),
        Case("everything kept, several layers and sequences", _SHAPE, weight=2),
        Case("everything kept, by name", (*_SHAPE, "none"), weight=0.5),
        Case("everything kept, a long sequence", (1, 512, 24, 2, 3)),
        Case("everything kept, many heads", (3, 8, 48, 2, 12)),
        Case("selective", (*_SHAPE, "selective"), weight=1.5),
        Case("selective, other sizes", (3, 40, 12, 5, 6, "selective")),
        Case("full", (*_SHAPE, "full"), weight=1.5),
        Case("full, other sizes", (3, 40, 12, 5, 6, "full")),
        Case("a model of 530 billion parameters", (1, 2048, 20480, 105, 128), weight=0.5),
        Case(
            "arguments by keyword",
            kwargs={"heads": 2, "n_layers": 7, "width": 6, "recompute": "selective", "seq_len": 9, "batch": 4},
            weight=0.5,
        ),
        Case("a recompute that does not exist", (*_SHAPE, "half"), raises=ValueError, weight=0.7),
        Case("an empty recompute", (*_SHAPE, ""), raises=ValueError, weight=0.3),
    ),
    misconceptions=(
        Misconception(
            "one_layer",
            edited(_kept, (_ALL, "one_layer[recompute]")),
            "You count one layer; when backward begins, all layers hold theirs at once.",
            "What one layer keeps",
        ),
        Misconception(
            "no_squares",
            edited(_kept, (_NONE, '"none": 34 * rows')),
            "You leave out what has a row and a column for each token: softmax's output, the mask, dropout's output.",
            "What one layer keeps",
        ),
        Misconception(
            "squares_without_square",
            edited(_kept, ("heads * seq_len**2", "heads * seq_len")),
            "You count one score for each token; every token has a score for every token, so s appears twice.",
            "What one layer keeps",
        ),
        Misconception(
            "one_head",
            edited(_kept, ("batch * heads * seq_len**2", "batch * seq_len**2")),
            "You count the scores of one head; every head has a square of its own.",
            "What one layer keeps",
        ),
        Misconception(
            "squares_of_one_sequence",
            edited(_kept, ("batch * heads * seq_len**2", "heads * seq_len**2")),
            "You count the scores of one sequence; every sequence of the batch has its own.",
            "What one layer keeps",
        ),
        Misconception(
            "squares_times_width",
            edited(_kept, (_NONE, '"none": 34 * rows + 5 * squares * width')),
            "You multiply the scores by the width: there is one score, not a row, for each pair of tokens.",
            "What one layer keeps",
        ),
        Misconception(
            "no_sequence",
            edited(_kept, ("batch * seq_len * width,", "batch * width,")),
            "You count one row for each sequence; there is a row for each of its tokens.",
            "What one layer keeps",
        ),
        Misconception(
            "no_batch",
            edited(
                _kept,
                ("batch * seq_len * width,", "seq_len * width,"),
                ("batch * heads * seq_len**2", "heads * seq_len**2"),
            ),
            "You count one sequence; activations grow with the batch.",
            "What one layer keeps",
        ),
        Misconception(
            "no_masks",
            edited(_kept, (_NONE, '"none": 32 * rows + 4 * squares'), (_SELECTIVE, '"selective": 32 * rows')),
            "You leave out the dropout masks: backward needs to know which numbers were dropped, at a byte each.",
            "What one layer keeps",
        ),
        Misconception(
            "masks_of_two_bytes",
            edited(_kept, (_NONE, '"none": 36 * rows + 6 * squares'), (_SELECTIVE, '"selective": 36 * rows')),
            "You give each entry of a dropout mask two bytes; a mask is yes or no, in one byte.",
            "What one layer keeps",
        ),
        Misconception(
            "no_layer_norms",
            edited(_kept, (_NONE, '"none": 30 * rows + 5 * squares'), (_SELECTIVE, '"selective": 30 * rows')),
            "You leave out the layer norms: each keeps its own input, 4sbh for the two.",
            "What one layer keeps",
        ),
        Misconception(
            "bytes_twice",
            edited(_kept, (_ALL, "2 * n_layers * one_layer[recompute]")),
            "You multiply by two bytes once more; the factors of the pieces are bytes already.",
            "What one layer keeps",
        ),
        Misconception(
            "selective_drops_attention",
            edited(_kept, (_SELECTIVE, '"selective": 23 * rows')),
            "Your selective recomputation forgets the whole attention block; it forgets only what grows with s².",
            "Keeping less",
        ),
        Misconception(
            "selective_keeps_everything",
            edited(_kept, (_SELECTIVE, '"selective": 34 * rows + 5 * squares')),
            "Your selective recomputation forgets nothing; what grows with s² is what it gives up.",
            "Keeping less",
        ),
        Misconception(
            "full_in_numbers",
            edited(_kept, (_FULL, '"full": rows')),
            "Under full recomputation you count numbers; a layer's input has two bytes for each.",
            "Keeping less",
        ),
        Misconception(
            "full_keeps_one_input",
            edited(_kept, (_ALL, '(1 if recompute == "full" else n_layers) * one_layer[recompute]')),
            "Under full recomputation you keep one input for the whole model; every layer keeps its own.",
            "Keeping less",
        ),
        Misconception(
            "full_keeps_nothing",
            edited(_kept, (_FULL, '"full": 0')),
            "Under full recomputation you keep nothing; a layer can be computed again only from its input.",
            "Keeping less",
        ),
        Misconception(
            "full_with_the_layer_at_work",
            edited(
                _kept, (_ALL, 'n_layers * one_layer[recompute] + (one_layer["none"] if recompute == "full" else 0)')
            ),
            "You add the layer that is being computed again; a peak holds it too, but here only what is kept counts.",
            "Keeping less",
        ),
        Misconception(
            "anything_goes",
            edited(_kept, ("raise ValueError(f", "one_layer[recompute] = one_layer['none']; str(f")),
            "You accept a recompute that does not exist; raise ValueError, or a typing error becomes a wrong plan.",
            "Keeping less",
        ),
    ),
    variants=(kept_as_published, kept_by_pieces, kept_with_numpy),
)

# --- memory_per_gpu ---------------------------------------------------------------------------------------------------

_card = planning.memory_per_gpu
_SHARED = "(0, 12, 14, 16)[stage]"
_STATES = 'model["n_params"] * (16 - shared + shared / cluster["n_gpus"])'
_KEPT = "float(transformer_activation_bytes(*sizes, recompute))"


def card_line_by_line(model, cluster, stage, recompute):
    n, cards = model["n_params"], cluster["n_gpus"]
    parameters, gradients, master, moments = 2 * n, 2 * n, 4 * n, 8 * n
    if stage >= 1:
        master, moments = master / cards, moments / cards
    if stage >= 2:
        gradients = gradients / cards
    if stage >= 3:
        parameters = parameters / cards
    kept = transformer_activation_bytes(
        batch=model["micro_batch"],
        seq_len=model["seq_len"],
        width=model["width"],
        n_layers=model["n_layers"],
        heads=model["heads"],
        recompute=recompute,
    )
    return parameters + gradients + master + moments + kept


def card_alone(model, cluster, stage, recompute):
    s, b, h, a = model["seq_len"], model["micro_batch"], model["width"], model["heads"]
    each = {"none": 34 + 5 * a * s / h, "selective": 34, "full": 2}[recompute]
    n, cards = model["n_params"], cluster["n_gpus"]
    states = [16 * n, 4 * n + 12 * n / cards, 2 * n + 14 * n / cards, 16 * n / cards][stage]
    return np.float64(states + model["n_layers"] * s * b * h * each)


def card_exact(model, cluster, stage, recompute):
    from fractions import Fraction

    n, cards = model["n_params"], cluster["n_gpus"]
    total = Fraction(0)
    for size, first in ((2, 3), (2, 2), (12, 1)):
        total += Fraction(size * n, cards if stage >= first else 1)
    names = ("micro_batch", "seq_len", "width", "n_layers", "heads")
    return float(total) + transformer_activation_bytes(*[model[name] for name in names], recompute)


_MODEL = {"n_params": 5003, "n_layers": 3, "width": 24, "heads": 4, "seq_len": 16, "micro_batch": 2}
_LONG = {"n_params": 40_001, "n_layers": 2, "width": 16, "heads": 2, "seq_len": 300, "micro_batch": 3}
_CARDS = {"n_gpus": 7, "gpu_bytes": 80 * 10**9, "peak_flops": 312e12}
_THIRTEEN = {
    "n_params": 12_853_954_560,
    "n_layers": 40,
    "width": 5120,
    "heads": 40,
    "seq_len": 2048,
    "micro_batch": 3,
}
_EIGHT = {"n_gpus": 8, "gpu_bytes": 80 * 10**9, "peak_flops": 989.5e12}

MEMORY_PER_GPU = Exercise(
    reference=_card,
    points=4,
    section="One card's bill",
    builds_on=("transformer_activation_bytes",),
    cases=(
        Case("stage 0: nothing is shared", (_MODEL, _CARDS, 0, "none")),
        Case("stage 1", (_MODEL, _CARDS, 1, "none"), weight=1.5),
        Case("stage 2", (_MODEL, _CARDS, 2, "none"), weight=1.5),
        Case("stage 3", (_MODEL, _CARDS, 3, "none"), weight=1.5),
        Case("selective recomputation, stage 1", (_LONG, _CARDS, 1, "selective")),
        Case("full recomputation, stage 2", (_LONG, _CARDS, 2, "full")),
        Case("a long sequence, everything kept", (_LONG, _CARDS, 0, "none")),
        Case("a model without parameters: activations alone", ({**_MODEL, "n_params": 0}, _CARDS, 3, "selective")),
        Case("no sequence: model states alone", ({**_MODEL, "micro_batch": 0}, _CARDS, 2, "none")),
        Case("one card: nothing to share with", (_MODEL, {**_CARDS, "n_gpus": 1}, 3, "none"), weight=0.5),
        Case("13 billion parameters on eight cards", (_THIRTEEN, _EIGHT, 2, "selective")),
        Case(
            "other cards, the same bytes",
            (_MODEL, {"peak_flops": 1.0, "gpu_bytes": 10, "n_gpus": 7}, 1, "full"),
            weight=0.5,
        ),
        Case(
            "arguments by keyword",
            kwargs={"recompute": "full", "stage": 3, "cluster": _EIGHT, "model": _LONG},
            weight=0.5,
        ),
        Case("leaves its arguments unchanged", (_MODEL, _CARDS, 2, "full"), unchanged=True, weight=0.5),
    ),
    misconceptions=(
        Misconception(
            "activations_shared",
            edited(_card, (_KEPT, _KEPT + ' / cluster["n_gpus"]')),
            "You divide the activations by the cards; a card keeps those of its own micro-batch, and shares none.",
            "Trap 3: sharing what is not shared",
        ),
        Misconception(
            "activations_shared_at_stage_three",
            edited(_card, (_KEPT, _KEPT + ' / (cluster["n_gpus"] if stage == 3 else 1)')),
            "Your stage 3 shares the activations too; it shares the parameters, and no stage shares activations.",
            "Trap 3: sharing what is not shared",
        ),
        Misconception(
            "activations_forgotten",
            edited(_card, (" + " + _KEPT, "")),
            "You count the model states alone; the activations of the micro-batch are on the card as well.",
            "One card's bill",
        ),
        Misconception(
            "activations_of_all_cards",
            edited(_card, (_KEPT, _KEPT + ' * cluster["n_gpus"]')),
            "You count the activations of all cards; micro_batch is what one card works on.",
            "One card's bill",
        ),
        Misconception(
            "one_sequence",
            edited(
                _card,
                ('(model[name] for name in ("micro_batch", ', '(1 if name == "b" else model[name] for name in ("b", '),
            ),
            "You count the activations of one sequence; the card works on micro_batch of them at once.",
            "One card's bill",
        ),
        Misconception(
            "always_none",
            edited(_card, ("*sizes, recompute)", "*sizes)")),
            "You keep all activations whatever the plan says; hand recompute on.",
            "One card's bill",
        ),
        Misconception(
            "shares_everything",
            edited(_card, (_SHARED, "(0, 16, 16, 16)[stage]")),
            "You share all 16 bytes as soon as anything is shared; stages 1 and 2 leave some whole on every card.",
            "One card's bill",
        ),
        Misconception(
            "only_the_newest_line",
            edited(_card, (_SHARED, "(0, 12, 2, 2)[stage]")),
            "Each of your stages shares its own line only; a stage shares all that the ones before it share.",
            "One card's bill",
        ),
        Misconception(
            "master_stays",
            edited(_card, (_SHARED, "(0, 8, 10, 12)[stage]")),
            "You leave the master copy whole on every card; stage 1 shares it together with the moments.",
            "One card's bill",
        ),
        Misconception(
            "one_stage_late",
            edited(_card, (_SHARED, "(0, 0, 12, 14)[stage]")),
            "You share one stage too late: stage 1 already shares the optimizer's 12 bytes, stage 3 everything.",
            "One card's bill",
        ),
        Misconception(
            "gradients_first",
            edited(_card, (_SHARED, "(0, 2, 14, 16)[stage]")),
            "You share the gradients first; stage 1 begins with the largest part, what belongs to the optimizer.",
            "One card's bill",
        ),
        Misconception(
            "no_master_copy",
            edited(_card, ("16 - shared", "12 - shared"), (_SHARED, "(0, 8, 10, 12)[stage]")),
            "Your ledger has 12 bytes a parameter: the FP32 master copy is missing.",
            "One card's bill",
        ),
        Misconception(
            "nothing_shared",
            edited(_card, (_SHARED, "0")),
            "You share nothing at any stage; only stage 0 leaves everything whole.",
            "One card's bill",
        ),
        Misconception(
            "states_of_all_cards",
            edited(_card, ("return states", 'return states * cluster["n_gpus"]')),
            "You count the model states of all cards; the bill is that of one.",
            "One card's bill",
        ),
        Misconception(
            "in_gb",
            edited(_card, ("return states + " + _KEPT, "return (states + " + _KEPT + ") / 1e9")),
            "You return GB; the result is in bytes, so that it can be compared with the card's bytes.",
            "Trap 1: an 80 GB card",
        ),
        Misconception(
            "in_gib",
            edited(_card, ("return states + " + _KEPT, "return (states + " + _KEPT + ") / 2**30")),
            "You return GiB; the result is in bytes, so that it can be compared with the card's bytes.",
            "Trap 1: an 80 GB card",
        ),
    ),
    variants=(card_line_by_line, card_alone, card_exact),
)

# --- smallest_plan ----------------------------------------------------------------------------------------------------

_plan = planning.smallest_plan
_RECOMPUTES = 'for again in ("none", "selective", "full"):'
_STAGES = "for stage in (0, 1, 2, 3):"
_FITS = 'needed <= cluster["gpu_bytes"]'
_LAST = "    return None"


def plan_by_product(model, cluster):
    from itertools import product

    for how, stage in product(["none", "selective", "full"], range(4)):
        if not memory_per_gpu(model, cluster, stage, how) > cluster["gpu_bytes"]:
            return {"bytes_per_gpu": memory_per_gpu(model, cluster, stage, how), "recompute": how, "stage": stage}
    return None


def plan_as_a_list(model, cluster):
    plans = [
        {"stage": np.int64(stage), "recompute": how, "bytes_per_gpu": memory_per_gpu(model, cluster, stage, how)}
        for how in ("none", "selective", "full")
        for stage in range(4)
    ]
    fitting = [plan for plan in plans if plan["bytes_per_gpu"] <= cluster["gpu_bytes"]]
    return fitting[0] if fitting else None


def plan_backwards(model, cluster):
    best = None
    for how in ("full", "selective", "none"):
        for stage in (3, 2, 1, 0):
            size = memory_per_gpu(model=model, cluster=cluster, stage=stage, recompute=how)
            if size <= cluster["gpu_bytes"]:
                best = {"stage": stage, "recompute": how, "bytes_per_gpu": size}
    return best


_STATE_HEAVY = {"n_params": 2**22, "n_layers": 4, "width": 64, "heads": 4, "seq_len": 128, "micro_batch": 2}
_ROW_HEAVY = {**_STATE_HEAVY, "n_params": 2**16}


def _with(gpu_bytes, n_gpus=8):
    return {"n_gpus": n_gpus, "gpu_bytes": gpu_bytes, "peak_flops": 312e12}


SMALLEST_PLAN = Exercise(
    reference=_plan,
    points=5,
    section="The smallest plan",
    builds_on=("memory_per_gpu",),
    cases=(
        Case("a card with room for everything", (_STATE_HEAVY, _with(80_000_000)), weight=0.5),
        Case("a card that needs stage 1", (_STATE_HEAVY, _with(30_000_000))),
        Case("a card that needs stage 3", (_STATE_HEAVY, _with(14_000_000))),
        Case("a card that needs selective recomputation", (_ROW_HEAVY, _with(3_300_000))),
        Case("selective recomputation and stage 2", (_ROW_HEAVY, _with(2_500_000))),
        Case("a card that needs full recomputation", (_ROW_HEAVY, _with(1_200_000))),
        Case("the last plan", (_ROW_HEAVY, _with(300_000))),
        Case("more sharding before any recomputation", (_STATE_HEAVY, _with(70_000_000)), weight=1.5),
        Case("more sharding before full recomputation", (_STATE_HEAVY, _with(16_000_000))),
        Case("a plan that fills the card to the last byte", (_STATE_HEAVY, _with(27_918_336)), weight=1.5),
        Case("a plan that is one byte too large", (_STATE_HEAVY, _with(27_918_335)), weight=0.5),
        Case("a card slightly too small: no room between GB and GiB", (_STATE_HEAVY, _with(26_500_000))),
        Case("the last plan, to the last byte", (_STATE_HEAVY, _with(8_519_680)), weight=0.5),
        Case("no plan fits", (_STATE_HEAVY, _with(8_000_000)), weight=1.5),
        Case("more cards make room", (_STATE_HEAVY, _with(8_000_000, 64)), weight=0.5),
        Case("13 billion parameters on eight cards of 80 GB", (_THIRTEEN, _EIGHT)),
        Case("arguments by keyword", kwargs={"cluster": _with(2.5e6), "model": _ROW_HEAVY}, weight=0.5),
        Case("leaves its arguments unchanged", (_STATE_HEAVY, _with(21_000_000)), unchanged=True, weight=0.5),
    ),
    misconceptions=(
        Misconception(
            "strictly_less",
            edited(_plan, (_FITS, 'needed < cluster["gpu_bytes"]')),
            "You refuse a plan that fills the card exactly; a plan fits if its bytes are at most the card's.",
            "The smallest plan",
        ),
        Misconception(
            "stage_before_recompute",
            edited(
                _plan,
                (
                    _RECOMPUTES + "\n        " + _STAGES,
                    _STAGES + "\n        " + _RECOMPUTES,
                ),
            ),
            "You try all recomputes before the next stage; sharding costs less time, so all stages come first.",
            "The smallest plan",
        ),
        Misconception(
            "most_sharding_first",
            edited(_plan, (_STAGES, "for stage in (3, 2, 1, 0):")),
            "You begin with stage 3; the search begins with stage 0, which needs no exchange of states.",
            "The smallest plan",
        ),
        Misconception(
            "full_first",
            edited(_plan, (_RECOMPUTES, 'for again in ("full", "selective", "none"):')),
            "You begin with full recomputation, the most expensive; the search begins with none.",
            "The smallest plan",
        ),
        Misconception(
            "no_selective",
            edited(_plan, (_RECOMPUTES, 'for again in ("none", "full"):')),
            "You leave selective recomputation out, or to the last; it costs less time than full, so it comes before.",
            "The smallest plan",
        ),
        Misconception(
            "no_stage_zero",
            edited(_plan, (_STAGES, "for stage in (1, 2, 3):")),
            "You leave out stage 0: where nothing need be shared, nothing should be.",
            "The smallest plan",
        ),
        Misconception(
            "no_stage_three",
            edited(_plan, (_STAGES, "for stage in (0, 1, 2):")),
            "You leave out stage 3, the one that shares the parameters too.",
            "The smallest plan",
        ),
        Misconception(
            "fewest_bytes",
            edited(_plan, (_FITS, _FITS + ' and (stage, again) == (3, "full")')),
            "You return the plan with the fewest bytes; bytes that are free anyway are no reason to pay with time.",
            "The smallest plan",
        ),
        Misconception(
            "gib_for_gb",
            edited(_plan, (_FITS, 'needed / 2**30 <= cluster["gpu_bytes"] / 1e9')),
            "You compare GiB with GB, which makes every card 7 % larger than it is; compare bytes with bytes.",
            "Trap 1: an 80 GB card",
        ),
        Misconception(
            "all_cards_together",
            edited(_plan, (_FITS, 'needed <= cluster["n_gpus"] * cluster["gpu_bytes"]')),
            "You compare the bill of one card with the memory of all cards.",
            "The smallest plan",
        ),
        Misconception(
            "stages_alone",
            edited(_plan, (_RECOMPUTES, 'for again in ("none",):')),
            "You never recompute; when no stage fits, the next recompute has its turn.",
            "The smallest plan",
        ),
        Misconception(
            "never_none",
            edited(_plan, (_LAST, '    return {"stage": stage, "recompute": again, "bytes_per_gpu": needed}')),
            "You return the last plan even where it does not fit; return None, so that nobody books these cards.",
            "The smallest plan",
        ),
        Misconception(
            "raises_when_nothing_fits",
            edited(_plan, (_LAST, '    raise ValueError("nothing fits")')),
            "You raise an error where nothing fits; that is an answer, not an accident: return None.",
            "The smallest plan",
        ),
        Misconception(
            "empty_when_nothing_fits",
            edited(_plan, (_LAST, "    return {}")),
            "You return an empty dict where nothing fits; the answer there is None.",
            "The smallest plan",
        ),
        Misconception(
            "room_left",
            edited(_plan, ('"bytes_per_gpu": needed', '"bytes_per_gpu": cluster["gpu_bytes"] - needed')),
            "You return what is left of the card; bytes_per_gpu is what the plan takes.",
            "The smallest plan",
        ),
    ),
    variants=(plan_by_product, plan_as_a_list, plan_backwards),
)

# --- gpu_hours --------------------------------------------------------------------------------------------------------

_hours = planning.gpu_hours
_WORK = "6 * n_params * n_tokens"
_RATE = "run_flops / (3600 * mfu * peak_flops)"


def hours_in_steps(n_params, n_tokens, peak_flops, mfu):
    per_second = peak_flops * mfu
    seconds = 6.0 * float(n_params) * float(n_tokens) / per_second
    return seconds / 60 / 60


def hours_by_token(n_params, n_tokens, peak_flops, mfu):
    tokens_per_hour = 3600 * peak_flops * mfu / (6 * n_params)
    return np.float64(n_tokens / tokens_per_hour)


def hours_forward_and_backward(n_params, n_tokens, peak_flops, mfu):
    forward, backward = 2 * n_params, 4 * n_params
    return torch.tensor((forward + backward) * n_tokens / mfu / peak_flops / 3600, dtype=torch.float64)


GPU_HOURS = Exercise(
    reference=_hours,
    points=2,
    section="What it costs",
    cases=(
        Case("a small run", (1000, 7200, 6000, 0.5)),
        Case("7 billion parameters, 1 trillion tokens", (7e9, 1e12, 312e12, 0.4), weight=2),
        Case("70 billion parameters, whole numbers", (70 * 10**9, 15 * 10**12, 989_500_000_000_000, 0.35), weight=2),
        Case("the peak itself", (3e9, 2e11, 989.5e12, 1.0)),
        Case("a poor utilisation", (1e9, 2e10, 125e12, 0.03)),
        Case(
            "arguments by keyword",
            kwargs={"mfu": 0.25, "peak_flops": 1e14, "n_tokens": 3e11, "n_params": 124_439_808},
            weight=0.5,
        ),
    ),
    misconceptions=(
        Misconception(
            "seconds",
            edited(_hours, (_RATE, "run_flops / (mfu * peak_flops)")),
            "You return seconds: the peak is in FLOPs a second, and an hour has 3,600 of them.",
            "What it costs",
        ),
        Misconception(
            "minutes",
            edited(_hours, (_RATE, "run_flops / (60 * mfu * peak_flops)")),
            "You return minutes: an hour has 60 × 60 seconds.",
            "What it costs",
        ),
        Misconception(
            "days",
            edited(_hours, (_RATE, "run_flops / (24 * 3600 * mfu * peak_flops)")),
            "You return days; the price is in hours.",
            "What it costs",
        ),
        Misconception(
            "ignores_mfu",
            edited(_hours, (_RATE, "run_flops / (3600 * peak_flops)")),
            "You compute at the peak; only the share mfu of it becomes useful work.",
            "What it costs",
        ),
        Misconception(
            "mfu_upside_down",
            edited(_hours, (_RATE, "mfu * run_flops / (3600 * peak_flops)")),
            "You multiply the time by the utilisation; a lower utilisation makes the run longer.",
            "What it costs",
        ),
        Misconception(
            "mfu_in_percent",
            edited(_hours, (_RATE, "100 * run_flops / (3600 * mfu * peak_flops)")),
            "You read mfu as per cent; it is a share between 0 and 1.",
            "What it costs",
        ),
        Misconception(
            "forward_only",
            edited(_hours, (_WORK, "2 * n_params * n_tokens")),
            "You count the forward pass alone, 2 FLOPs for each parameter and token; backward takes 4 more.",
            "What it costs",
        ),
        Misconception(
            "recompute_counted",
            edited(_hours, (_WORK, "8 * n_params * n_tokens")),
            "You count a second forward pass for recomputation; mfu counts useful FLOPs only, so 6 go with it.",
            "What it costs",
        ),
        Misconception(
            "multiply_adds",
            edited(_hours, (_WORK, "3 * n_params * n_tokens")),
            "You count a multiplication and its addition as one; peaks count them as two FLOPs.",
            "What it costs",
        ),
        Misconception(
            "whole_hours",
            edited(_hours, (_RATE, "run_flops // (3600 * mfu * peak_flops)")),
            "You cut the hours down to whole ones; return the exact number.",
            "What it costs",
        ),
    ),
    variants=(hours_in_steps, hours_by_token, hours_forward_and_backward),
)

CHAPTER = Chapter(
    name="08_planning",
    exercises=(TRANSFORMER_PARAMETERS, TRANSFORMER_ACTIVATION_BYTES, MEMORY_PER_GPU, SMALLEST_PLAN, GPU_HOURS),
)
