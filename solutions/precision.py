"""Chapter 05, precision: what 16 bits can hold, what an addition in them loses, and how loss scaling helps."""

import math

import numpy as np


def bf16_round(x: np.ndarray) -> np.ndarray:
    """Round numbers to the nearest bfloat16, by arithmetic on their bits.

    x: float32 array of any shape (0-d included). Anything else, such as a
        float64 array or a Python number, becomes float32 first, as
        np.asarray(x, dtype=np.float32) makes it.

    Returns a float32 array of x's shape whose numbers are all bfloat16
    numbers: their lower 16 bits are zero. A number halfway between two goes
    to the one whose last kept bit is 0. NaN stays NaN; what is too large
    becomes infinity of its sign. x is left as it is.
    """
    # 1. Make it float32, then look at the same bytes as whole numbers:
    #    .view(np.uint32).
    # 2. The upper 16 bits are the bfloat16 that cutting off would give. Add
    #    something to the lower 16 bits that carries into the upper ones
    #    exactly where you must round up. In a tie, the last kept bit decides.
    # 3. Clear the lower 16 bits, and look at the bytes as float32 again.
    # 4. A NaN must not be rounded: give back NaN there.
    ### BEGIN SOLUTION
    single = np.asarray(x, dtype=np.float32)
    words = single.view(np.uint32)
    last_kept = (words >> np.uint32(16)) & np.uint32(1)
    carried = (words + (np.uint32(0x7FFF) + last_kept)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(single), np.float32(np.nan), carried.view(np.float32))
    ### END SOLUTION


def spacing(x: float, fraction_bits: int) -> float:
    """Give the gap between x and the next number of a format, away from zero.

    x: any number of the format's normal range but 0, of either sign.
    fraction_bits: bits of the format's fraction: 23 for FP32, 10 for FP16,
        7 for BF16, 52 for Python's own floats.

    Returns the gap, a positive number, exact: also where x is a power of two
    or the last number below one.
    Raises ValueError for x = 0.
    """
    # 1. Refuse 0: no power of two is below it.
    # 2. Find the whole number e with 2**e <= abs(x) < 2**(e + 1).
    # 3. The numbers from 2**e to 2**(e + 1) are evenly spaced: how many gaps
    #    are there?
    ### BEGIN SOLUTION
    if x == 0:
        raise ValueError("x is 0; it can be any other number: there is no power of two below 0")
    _, above = math.frexp(abs(x))
    return math.ldexp(1.0, above - 1 - fraction_bits)
    ### END SOLUTION


def is_swallowed(weight: float, update: float) -> bool:
    """Tell whether a bfloat16 weight is left where it is by an update.

    weight: a bfloat16 number.
    update: what is added to it, of either sign, not 0. The sum of the two is
        exact in float32.

    Returns True if the sum, rounded to bfloat16, is the weight again.
    """
    # 1. Add, then round the sum to bfloat16.
    # 2. Is that the weight from before?
    ### BEGIN SOLUTION
    landed = bf16_round(weight + update)
    return bool(landed == weight)
    ### END SOLUTION


def master_weight_step(
    master: np.ndarray,
    grad: np.ndarray,
    lr: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Take a step of SGD on the master copy, and make the next working weight.

    master: the weights in float32, an array of any shape (0-d included).
    grad: gradient, same shape: float32 that holds bfloat16 numbers, as they
        come from a backward pass in bfloat16.
    lr: learning rate, a positive float.

    Returns (new master, new weight), two new float32 arrays of master's
    shape: the master copy after the step, all its bits kept, and the
    bfloat16 weight that the next forward pass works with.
    No argument is changed.

    Source: Micikevicius et al. (2018), section 3.1, with BF16 for FP16.
    """
    # 1. Step in float32: learning rate times gradient, off the master copy.
    # 2. Make the working weight from the new master copy. The master copy
    #    itself is not rounded.
    # 3. Return both, master first.
    ### BEGIN SOLUTION
    change = np.float32(lr) * np.asarray(grad, dtype=np.float32)
    stepped = np.asarray(master, dtype=np.float32) - change
    return stepped, bf16_round(stepped)
    ### END SOLUTION


def flushes_to_zero(x: float) -> bool:
    """Tell whether a number that is not zero becomes zero in float16.

    x: a number, of either sign; 0 itself was zero before.

    Returns True if x is lost, False if something of it is left.
    """
    # 1. Which float16 is nearest to x? (A tie goes to the even one: zero is
    #    even.)
    # 2. Is it zero, and was x not?
    ### BEGIN SOLUTION
    return bool(x != 0 and abs(x) <= 2.0**-25)
    ### END SOLUTION


def choose_loss_scale(grads: "list[np.ndarray]") -> float:
    """Choose the largest loss scale that keeps all gradients within float16.

    grads: list of arrays of any shapes; all their numbers are finite.

    Returns the largest power of two with abs(g) * scale <= 65504 for every
    number g. It may be below 1. It is 1.0 if all numbers are 0, or if there
    are none.
    """
    # 1. Find the largest absolute value among all arrays.
    # 2. If there is none, or it is 0: nothing to scale.
    # 3. Find the largest power of two that keeps it within 65504. Should it
    #    land on 65504 exactly, it still fits.
    ### BEGIN SOLUTION
    largest = max((float(np.max(np.abs(array), initial=0.0)) for array in grads), default=0.0)
    if largest == 0:
        return 1.0
    share, power = math.frexp(largest)
    room, top = math.frexp(65504.0)
    return math.ldexp(1.0, top - power if share <= room else top - power - 1)
    ### END SOLUTION


def update_loss_scale(
    scale: float,
    overflow: bool,
    clean_steps: int,
    growth: float = 2.0,
    backoff: float = 0.5,
    interval: int = 2000,
) -> tuple[float, int]:
    """Adjust the loss scale after a step, as dynamic loss scaling does.

    scale: loss scale of this step.
    overflow: True if a gradient of this step was infinite or NaN.
    clean_steps: steps in a row without overflow since the scale last
        changed, this one not counted.
    growth: factor of the scale after `interval` clean steps in a row.
    backoff: factor of the scale after an overflow.
    interval: clean steps in a row until the scale grows.

    Returns (scale of the next step, new count of clean steps).

    Source: torch.amp.GradScaler.
    """
    # 1. After an overflow: back off, and start counting anew.
    # 2. Otherwise count this step.
    # 3. If that makes enough of them: grow, and start counting anew.
    ### BEGIN SOLUTION
    if overflow:
        return scale * backoff, 0
    unbroken = clean_steps + 1
    if unbroken == interval:
        return scale * growth, 0
    return scale, unbroken
    ### END SOLUTION
