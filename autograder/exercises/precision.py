"""Chapter 05, precision: hidden cases, known mistakes and accepted variants.

The functions below are sent to other processes as source. Each is self-contained: it uses np, torch and what it
imports itself, apart from the chapter's own earlier functions.
"""

import math

import numpy as np
import torch

from autograder.edited import edited
from autograder.exercise import Case, Chapter, Exercise, Misconception
from solutions import precision
from solutions.precision import bf16_round

_rng = np.random.default_rng(5)
_EXACT = {"rtol": 0.0, "atol": 0.0}
_SHARP = {"atol": 0.0}  # gaps may be far smaller than the usual tolerance


def _single(*numbers):
    return np.array(numbers, dtype=np.float32)


def _from_bits(*words):
    return np.array(words, dtype=np.uint32).view(np.float32)


def _bfloat16(numbers):
    """These numbers, cut to bfloat16 (which of the two neighbours does not matter here)."""
    return (np.asarray(numbers, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


# --- bf16_round -------------------------------------------------------------------------------------------------------

_random_bits = _rng.integers(0x30000000, 0x4F000000, size=(5, 7), dtype=np.uint32)
_random_bits |= _rng.integers(0, 2, size=(5, 7), dtype=np.uint32) << np.uint32(31)
_random = _random_bits.view(np.float32)


def bf16_saturates(x):
    single = np.asarray(x, dtype=np.float32)
    words = single.view(np.uint32)
    last = (words >> np.uint32(16)) & np.uint32(1)
    rounded = (words + (np.uint32(0x7FFF) + last)) & np.uint32(0xFFFF0000)
    rounded = np.where(np.isnan(single), np.float32(np.nan), rounded.view(np.float32))
    most = np.float32(3.3895314e38)
    return np.where(np.isinf(rounded), np.copysign(most, rounded), rounded)


def bf16_as_float16(x):
    with np.errstate(over="ignore"):
        return np.asarray(x, dtype=np.float32).astype(np.float16).astype(np.float32)


def bf16_decimals(x):
    return np.round(np.asarray(x, dtype=np.float32), 2)


def bf16_significant_digits(x):
    single = np.asarray(x, dtype=np.float32)
    return np.array([float(f"{number:.2e}") for number in single.ravel()], np.float32).reshape(single.shape)


def bf16_no_subnormals(x):
    single = np.asarray(x, dtype=np.float32)
    with np.errstate(over="ignore"):
        fraction, exponent = np.frexp(single.astype(np.float64))
        return np.ldexp(np.rint(fraction * 256) / 256, exponent).astype(np.float32)


def bf16_in_place(x):
    single = np.asarray(x, dtype=np.float32)
    missing = np.isnan(single)
    words = single.view(np.uint32)
    words += np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))
    words &= np.uint32(0xFFFF0000)
    single[missing] = np.nan
    return single


def bf16_by_torch(x):
    return torch.as_tensor(np.asarray(x, dtype=np.float32)).to(torch.bfloat16).to(torch.float32)


def bf16_left_in_torch(x):
    return torch.tensor(np.array(x), dtype=torch.bfloat16)


def bf16_number_by_number(x):
    import struct

    single = np.asarray(x, dtype=np.float32)
    result = np.empty(single.shape, dtype=np.float32)
    for place in np.ndindex(single.shape):
        number = single[place]
        if number != number:
            result[place] = float("nan")
            continue
        word = int(number.view(np.uint32))
        upper, lower = word >> 16, word & 0xFFFF
        if lower > 0x8000 or (lower == 0x8000 and upper % 2 == 1):
            upper += 1
        result[place] = struct.unpack("<f", struct.pack("<I", upper << 16))[0]
    return result


def bf16_by_division(x):
    single = np.asarray(x, dtype=np.float32)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(single.astype(np.float64))
        gap = np.ldexp(1.0, np.maximum(exponent - 8, -133))
        nearest = (np.rint(single.astype(np.float64) / gap) * gap).astype(np.float32)
        nearest = np.where(np.abs(nearest) > np.float32(3.3895314e38), np.copysign(np.inf, single), nearest)
    return nearest.astype(np.float32)


BF16_ROUND = Exercise(
    reference=precision.bf16_round,
    points=5,
    section="Rounding to the nearest",
    cases=(
        Case("bfloat16 numbers stay as they are", (_single(1.0, -2.5, 0.0, 3.140625, 96.0),), weight=0.5, **_EXACT),
        Case("nearer to the number below", (_single(1.001, 3.142, 100.2, 0.3001),), **_EXACT),
        Case("nearer to the number above", (_single(1.006, 3.1549, 100.4, 0.0302),), weight=1.5, **_EXACT),
        Case("a tie, the number below is even", (_single(1 + 2**-8, 1 + 5 * 2**-8, 97.25, 64.25),), **_EXACT),
        Case("a tie, the number above is even", (_single(1 + 3 * 2**-8, 1.99609375, 96.75, 0.3740234375),), **_EXACT),
        Case("negative numbers", (_single(-1.001, -1.006, -1 - 2**-8, -1 - 3 * 2**-8),), **_EXACT),
        Case("a matrix, numbers of many sizes", (_random,), weight=1.5, **_EXACT),
        Case("a single number (0-d)", (np.array(0.1, np.float32),), **_EXACT),
        Case("float64 numbers", (np.array([[0.1, -np.pi], [1e-20, 54321.0]]),), weight=0.5, **_EXACT),
        Case("numbers below the normal range", (_single(1.2e-39, -5e-40, 4e-41, 1e-44),), weight=0.5, **_EXACT),
        Case(
            "numbers above the largest one",
            (_from_bits(0x7F7FFFFF, 0xFF7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x7F7F0000, 0x7F800000, 0xFF800000),),
            weight=0.5,
            **_EXACT,
        ),
        Case(
            "NaN stays NaN, whatever its bits",
            (_from_bits(0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF80ABCD, 0x3F810000),),
            weight=0.5,
            **_EXACT,
        ),
        Case("the argument by keyword", kwargs={"x": _single(2.003, -0.77, 5.5)}, weight=0.5, **_EXACT),
        Case("leaves its argument unchanged", (_single(1.003, -7.77, 1e10),), unchanged=True, weight=0.5, **_EXACT),
    ),
    misconceptions=(
        Misconception(
            "cuts_off",
            edited(
                precision.bf16_round,
                ("(words + (np.uint32(0x7FFF) + last_kept)) & np.uint32(0xFFFF0000)", "words & np.uint32(0xFFFF0000)"),
            ),
            "You cut the lower 16 bits off, which always goes towards zero; the nearest number may lie beyond.",
            "Trap 3: cutting off is not rounding",
        ),
        Misconception(
            "ties_away",
            edited(precision.bf16_round, ("(np.uint32(0x7FFF) + last_kept)", "np.uint32(0x8000)")),
            "You round every tie away from zero; a tie goes to the neighbour whose last bit is 0.",
            "Rounding to the nearest",
        ),
        Misconception(
            "ties_towards_zero",
            edited(precision.bf16_round, ("(np.uint32(0x7FFF) + last_kept)", "np.uint32(0x7FFF)")),
            "You round every tie towards zero; half of them have their even neighbour above.",
            "Rounding to the nearest",
        ),
        Misconception(
            "ties_to_odd",
            edited(precision.bf16_round, ("(np.uint32(0x7FFF) + last_kept)", "(np.uint32(0x8000) - last_kept)")),
            "Your ties go to the odd neighbour: add the last kept bit, do not subtract it.",
            "Rounding to the nearest",
        ),
        Misconception(
            "always_up",
            edited(precision.bf16_round, ("(np.uint32(0x7FFF) + last_kept)", "np.uint32(0xFFFF)")),
            "You round away from zero whenever anything is cut off; only more than half does that.",
            "Rounding to the nearest",
        ),
        Misconception(
            "lower_bits_left",
            edited(precision.bf16_round, (" & np.uint32(0xFFFF0000)", "")),
            "You round up but leave the lower 16 bits as they are: clear them.",
            "Rounding to the nearest",
        ),
        Misconception(
            "eight_bits_of_fraction",
            edited(
                precision.bf16_round,
                (">> np.uint32(16)", ">> np.uint32(15)"),
                ("0x7FFF", "0x3FFF"),
                ("0xFFFF0000", "0xFFFF8000"),
            ),
            "You keep eight bits of fraction; bfloat16 stores seven, and the leading 1 is not stored.",
            "A number in three fields",
        ),
        Misconception(
            "float16",
            bf16_as_float16,
            "You round to float16, whose 16 bits are split in another way: 5 for the exponent, 10 for the fraction.",
            "A number in three fields",
        ),
        Misconception(
            "nan_rounded",
            edited(
                precision.bf16_round,
                (
                    "np.where(np.isnan(single), np.float32(np.nan), carried.view(np.float32))",
                    "carried.view(np.float32)",
                ),
            ),
            "You round the bits of NaN like those of a number: it may carry into infinity or zero, so treat it apart.",
            "Rounding to the nearest",
        ),
        Misconception(
            "saturates",
            bf16_saturates,
            "You stop at the largest number; what lies beyond half a gap above it is infinity, "
            "and the carry into the exponent makes it so by itself.",
            "Rounding to the nearest",
        ),
        Misconception(
            "normal_range_only",
            bf16_no_subnormals,
            "You keep eight significant bits at every size; below the normal range the gap no longer shrinks.",
            "A number in three fields",
        ),
        Misconception(
            "decimals",
            bf16_decimals,
            "You round to two decimals; the format keeps binary digits, counted from the leading 1.",
            "A number in three fields",
        ),
        Misconception(
            "decimal_digits",
            bf16_significant_digits,
            "You keep three decimal digits, which is only about the precision of bfloat16: round its bits.",
            "Rounding to the nearest",
        ),
        Misconception(
            "bits_returned",
            edited(precision.bf16_round, ("carried.view(np.float32)", "carried")),
            "You return the bits as whole numbers: look at the same bytes as float32 again.",
            "Rounding to the nearest",
        ),
        Misconception(
            "in_place",
            bf16_in_place,
            "Your result is right, but you changed the caller's array: a view shares its bytes, and += writes there.",
            "Rounding to the nearest",
        ),
    ),
    variants=(bf16_by_torch, bf16_left_in_torch, bf16_number_by_number, bf16_by_division),
)

# --- spacing ----------------------------------------------------------------------------------------------------------


def several(answer, arguments):
    return [answer(*each) for each in arguments]


def spacing_relative(x, fraction_bits):
    if x == 0:
        raise ValueError("x")
    return abs(x) * 2.0**-fraction_bits


def spacing_always_eps(x, fraction_bits):
    if x == 0:
        raise ValueError("x")
    return 2.0**-fraction_bits


def spacing_log_towards_zero(x, fraction_bits):
    if x == 0:
        raise ValueError("x")
    return 2.0 ** (int(np.log2(abs(x))) - fraction_bits)


def spacing_log_rounded(x, fraction_bits):
    if x == 0:
        raise ValueError("x")
    return 2.0 ** (round(float(np.log2(abs(x)))) - fraction_bits)


def spacing_log_up(x, fraction_bits):
    if x == 0:
        raise ValueError("x")
    return 2.0 ** (math.ceil(np.log2(abs(x))) - fraction_bits)


def spacing_floating_log(x, fraction_bits):
    if x == 0:
        raise ValueError("x")
    return 2.0 ** (math.floor(np.log2(abs(x))) - fraction_bits)


def spacing_quotient_of_logs(x, fraction_bits):
    if x == 0:
        raise ValueError("x")
    return 2.0 ** (math.floor(math.log(abs(x)) / math.log(2)) - fraction_bits)


def spacing_below(x, fraction_bits):
    if x == 0:
        raise ValueError("x")
    share, above = math.frexp(abs(x))
    return 2.0 ** (above - 1 - fraction_bits - (share == 0.5))


def spacing_by_loop(x, fraction_bits):
    if x == 0:
        raise ValueError("x is 0")
    size, power = abs(x), 1.0
    while power > size:
        power /= 2
    while power * 2 <= size:
        power *= 2
    return power / 2**fraction_bits


def spacing_by_ulp(x, fraction_bits):
    if not x:
        raise ValueError("x must not be zero")
    return math.ulp(float(x)) * 2.0 ** (52 - fraction_bits)


def spacing_by_numpy(x, fraction_bits):
    if x == 0:
        raise ValueError("no gap at zero")
    return np.ldexp(1.0, np.frexp(np.abs(np.float64(x)))[1] - 1 - fraction_bits)


def spacing_by_bits(x, fraction_bits):
    if x == 0:
        raise ValueError("zero")
    exponent = (int(np.array(x, np.float64).view(np.uint64)) >> 52 & 0x7FF) - 1023
    return np.float64(2.0) ** (exponent - fraction_bits)


SPACING = Exercise(
    reference=precision.spacing,
    points=2,
    section="How far to the next number",
    probe=several,
    cases=(
        Case("at one, in three formats", ([(1.0, 7), (1.0, 10), (1.0, 23)],), weight=0.5, **_SHARP),
        Case("between two powers of two", ([(1.5, 7), (5.0, 10), (300.0, 7), (50000.0, 10)],), weight=1.5, **_SHARP),
        Case("numbers below one", ([(0.75, 7), (0.3, 10), (0.001, 7), (6e-5, 23)],), weight=1.5, **_SHARP),
        Case("negative numbers", ([(-6.5, 23), (-0.01, 7)],), **_SHARP),
        Case("powers of two", ([(1024.0, 7), (2.0**-12, 10), (2.0**40, 23), (2.0**-31, 7), (8.0, 7)],), **_SHARP),
        Case("the last number below a power of two", ([(255.0, 7), (1 - 2.0**-11, 10), (16777215.0, 23)],), **_SHARP),
        Case(
            "the last float64 below a power of two",
            ([(float(np.nextafter(1024.0, 0)), 52), (float(np.nextafter(2.0**-20, 0)), 52)],),
            weight=0.5,
            **_SHARP,
        ),
        Case("whole numbers", ([(5, 7), (-1000, 10)],), weight=0.5, **_SHARP),
        Case("very large and very small numbers", ([(3e38, 7), (2e-38, 7), (1e300, 52)],), weight=0.5, **_SHARP),
        Case("zero", ([(0.0, 7)],), raises=ValueError, weight=0.5, **_SHARP),
        Case("zero as a whole number", ([(0, 23)],), raises=ValueError, weight=0.25, **_SHARP),
    ),
    misconceptions=(
        Misconception(
            "relative",
            spacing_relative,
            "You multiply by x itself; all numbers between two powers of two have the gap of the lower one.",
            "How far to the next number",
        ),
        Misconception(
            "same_everywhere",
            spacing_always_eps,
            "You give the gap at 1 for every number; the gap grows with the power of two below x.",
            "How far to the next number",
        ),
        Misconception(
            "exponent_towards_zero",
            spacing_log_towards_zero,
            "int() cuts towards zero, so your exponent is one too high for numbers below 1: round it down, with floor.",
            "How far to the next number",
        ),
        Misconception(
            "exponent_rounded",
            spacing_log_rounded,
            "You round the logarithm to the nearest whole number; the power of two below x needs floor.",
            "How far to the next number",
        ),
        Misconception(
            "exponent_rounded_up",
            spacing_log_up,
            "You take the power of two above x; the gap is set by the one below it.",
            "How far to the next number",
        ),
        Misconception(
            "floating_logarithm",
            spacing_floating_log,
            "Your logarithm rounds: just below a power of two it is already a whole number. math.frexp is exact.",
            "How far to the next number",
        ),
        Misconception(
            "quotient_of_logarithms",
            spacing_quotient_of_logs,
            "A quotient of two logarithms misses some powers of two by a hair, and floor then takes the one below: "
            "math.frexp is exact.",
            "How far to the next number",
        ),
        Misconception(
            "frexp_off_by_one",
            edited(precision.spacing, ("above - 1 - fraction_bits", "above - fraction_bits")),
            "math.frexp gives a share between one half and 1, so its exponent is one more than that of 1.f times 2**e.",
            "How far to the next number",
        ),
        Misconception(
            "half_the_gap",
            edited(precision.spacing, ("above - 1 - fraction_bits", "above - 2 - fraction_bits")),
            "You give half the gap: the fraction's bits are all stored, and the leading 1 is not one of them.",
            "How far to the next number",
        ),
        Misconception(
            "gap_below",
            spacing_below,
            "At a power of two you give the gap to the number below; asked is the one away from zero.",
            "How far to the next number",
        ),
        Misconception(
            "no_absolute_value",
            edited(
                precision.spacing,
                ("_, above = math.frexp(abs(x))", "above = math.floor(math.log2(x)) + 1"),
            ),
            "The logarithm of a negative number does not exist: the gap depends on the absolute value.",
            "How far to the next number",
        ),
        Misconception(
            "zero_passes",
            edited(precision.spacing, ("if x == 0:", "if x is None:")),
            "You accept 0; no power of two lies below it, so raise ValueError.",
            "How far to the next number",
        ),
    ),
    variants=(spacing_by_loop, spacing_by_ulp, spacing_by_numpy, spacing_by_bits),
)

# --- is_swallowed -----------------------------------------------------------------------------------------------------


def swallowed_ratio(weight, update):
    return abs(weight) >= 256 * abs(update)


def swallowed_half_gap(weight, update):
    if weight == 0:
        return update == 0
    gap = 2.0 ** (math.frexp(weight)[1] - 8)
    return abs(update) <= gap / 2


def swallowed_below_half_gap(weight, update):
    if weight == 0:
        return update == 0
    gap = 2.0 ** (math.frexp(weight)[1] - 8)
    return abs(update) < gap / 2


def swallowed_whole_gap(weight, update):
    if weight == 0:
        return update == 0
    gap = 2.0 ** (math.frexp(weight)[1] - 8)
    return abs(update) < gap


def swallowed_in_float16(weight, update):
    return bool(np.float16(weight) + np.float16(update) == np.float16(weight))


def swallowed_in_float32(weight, update):
    return bool(np.float32(weight) + np.float32(update) == np.float32(weight))


def swallowed_underflow(weight, update):
    return bool(abs(update) < 2.0**-24)


def swallowed_close(weight, update):
    return bool(np.isclose(bf16_round(weight + update), weight))


def swallowed_cut_off(weight, update):
    total = np.asarray(weight + update, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bool(total.view(np.float32) == weight)


def swallowed_by_torch(weight, update):
    before = torch.tensor(float(weight), dtype=torch.bfloat16)
    return torch.equal(torch.tensor(float(weight) + float(update)).to(torch.bfloat16), before)


def swallowed_added_in_bfloat16(weight, update):
    weight, update = (torch.tensor(float(number), dtype=torch.bfloat16) for number in (weight, update))
    return bool(weight + update == weight)


def swallowed_difference(weight, update):
    return np.bool_(bf16_round(np.float64(weight) + update) - weight == 0.0)


def swallowed_as_a_number(weight, update):
    return int(float(bf16_round(weight + update)) == float(weight))


def swallowed_kept_in_torch(weight, update):
    weight, update = (torch.tensor(float(number), dtype=torch.float32) for number in (weight, update))
    return (weight + update).to(torch.bfloat16) == weight


_HAIR = 2.0**-16  # all updates are bfloat16 numbers themselves: an addition in bfloat16 is right too

IS_SWALLOWED = Exercise(
    reference=precision.is_swallowed,
    points=2,
    section="Swallowed by the addition",
    probe=several,
    builds_on=("bf16_round",),
    cases=(
        Case("a weight of one", ([(1.0, 2.0**-13), (1.0, 2.0**-7), (1.0, 2.0**-4), (1.0, 2.0**-20)],)),
        Case(
            "the same update, other weights", ([(32.0, 0.0625), (3.0, 0.0625), (0.5, 2.0**-11), (2.0**-6, 2.0**-11)],)
        ),
        Case(
            "a hair less, a hair more than half a gap",
            ([(1.0, 2.0**-8 - _HAIR), (1.0, 2.0**-8 + 2 * _HAIR), (1.9921875, 2.0**-8 - _HAIR), (1.9921875, 2.0**-7)],),
        ),
        Case("ties, from an even and from an odd weight", ([(1.0, 2.0**-8), (1.0078125, 2.0**-8), (1.5, 2.0**-8)],)),
        Case(
            "steps down",
            ([(1.5, -(2.0**-9)), (1.5, -(2.0**-6)), (1.5, -(2.0**-8)), (1.5, -(2.0**-8) - 2 * _HAIR)],),
        ),
        Case(
            "steps down from a power of two",
            ([(1.0, -(2.0**-9)), (1.0, -(2.0**-9) - _HAIR), (1.0, -(2.0**-8)), (4.0, 2.0**-7)],),
        ),
        Case(
            "negative weights",
            ([(-1.0, 2.0**-13), (-1.0, -(2.0**-8)), (-1.0, 2.0**-8), (-1.0078125, -(2.0**-8)), (-3.0, 0.5)],),
        ),
        Case("large weights", ([(256.0, 0.75), (256.0, 1.5), (1e5 - 160, 100.0), (65536.0, 1024.0)],), weight=0.5),
        Case(
            "tiny updates: small is not the same as swallowed",
            ([(0.0, 2.0**-100), (2.0**-90, 2.0**-95), (2.0**-40, 2.0**-60), (2.0**-40, -(2.0**-46))],),
        ),
        Case(
            "numpy scalars",
            ([(np.float32(1.0), np.float32(2.0**-13)), (np.float32(0.75), np.float32(-0.25))],),
            weight=0.5,
        ),
    ),
    misconceptions=(
        Misconception(
            "ratio_of_256",
            swallowed_ratio,
            "A ratio of 256 is the limit at powers of two only; between them the gap stays and the weight grows.",
            "Swallowed by the addition",
        ),
        Misconception(
            "half_a_gap_or_less",
            swallowed_half_gap,
            "You swallow every tie, in both directions; from an odd weight a tie moves on, "
            "and below a power of two the gap is half as large. Add, round, compare.",
            "Swallowed by the addition",
        ),
        Misconception(
            "less_than_half_a_gap",
            swallowed_below_half_gap,
            "You let every tie move; from an even weight it comes back. Add, round, compare.",
            "Swallowed by the addition",
        ),
        Misconception(
            "less_than_a_gap",
            swallowed_whole_gap,
            "You compare with the whole gap; past the middle of it the sum already rounds to the next number.",
            "Swallowed by the addition",
        ),
        Misconception(
            "upside_down",
            edited(precision.is_swallowed, ("landed == weight", "landed != weight")),
            "You have it the wrong way round: swallowed means that the weight comes back.",
            "Swallowed by the addition",
        ),
        Misconception(
            "float16",
            swallowed_in_float16,
            "You add in float16, which has three more bits of fraction: this is about bfloat16.",
            "Swallowed by the addition",
        ),
        Misconception(
            "not_rounded",
            swallowed_in_float32,
            "Your sum is rounded to float32 only: round it to bfloat16 before you compare.",
            "Swallowed by the addition",
        ),
        Misconception(
            "underflow",
            swallowed_underflow,
            "You ask whether the update is too small for a format, which is underflow; "
            "swallowing depends on the weight that it is added to.",
            "Two ways to lose a number",
        ),
        Misconception(
            "subtracts",
            edited(precision.is_swallowed, ("weight + update", "weight - update")),
            "You subtract the update; it is added, and may itself be negative.",
            "Swallowed by the addition",
        ),
        Misconception(
            "nearly_equal",
            swallowed_close,
            "You ask whether the two are close; swallowed means exactly equal, also for tiny weights.",
            "Swallowed by the addition",
        ),
        Misconception(
            "cuts_off",
            swallowed_cut_off,
            "You cut the sum off instead of rounding it to the nearest.",
            "Trap 3: cutting off is not rounding",
        ),
    ),
    variants=(
        swallowed_by_torch,
        swallowed_added_in_bfloat16,
        swallowed_difference,
        swallowed_as_a_number,
        swallowed_kept_in_torch,
    ),
)

# --- master_weight_step -----------------------------------------------------------------------------------------------


def only_master(answer, *args):
    result = answer(*args)
    return result[0] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def only_weight(answer, *args):
    result = answer(*args)
    return result[1] if isinstance(result, (tuple, list)) and len(result) == 2 else result


def many_steps(answer, master, grad, lr, steps):
    weight = None
    for _ in range(steps):
        master, weight = answer(master, grad, lr)
    return master, weight


def master_by_torch(master, grad, lr):
    master, grad = (torch.as_tensor(np.asarray(a, np.float32)) for a in (master, grad))
    master = torch.sub(master, grad, alpha=lr)
    return master, master.to(torch.bfloat16)


def master_in_a_list(master, grad, lr):
    new = np.array(master, dtype=np.float32)
    new -= np.asarray(lr * grad, dtype=np.float32)
    return [new, bf16_round(new)]


def master_in_float64(master, grad, lr):
    new = np.asarray(master, np.float64) - lr * np.asarray(grad, np.float64)
    return new, bf16_round(new)


def master_grad_rounded_again(master, grad, lr):
    new = np.asarray(master, np.float32) - np.float32(lr) * bf16_round(grad)
    return new, bf16_round(new)


_master = _rng.normal(size=(3, 4)).astype(np.float32)
_grad = _bfloat16(_rng.normal(size=(3, 4)))
_vector = (_single(1.0, -0.75, 2.5, 0.3), _single(0.5, -2.0, 1.0, 0.25), 2.0**-10)

MASTER_WEIGHT_STEP = Exercise(
    reference=precision.master_weight_step,
    points=4,
    results=("master", "weight"),
    section="A copy that remembers",
    builds_on=("bf16_round",),
    cases=(
        Case("the new master of a vector, small steps", _vector, weight=2, probe=only_master),
        Case(
            "the new weight of a vector, large steps",
            (_single(1.0, -0.75, 2.5, 0.3), _single(0.5, -2.0, 1.0, 0.25), 0.3),
            weight=1.5,
            probe=only_weight,
        ),
        Case("the weight, where the step is too small to show", _vector, probe=only_weight),
        Case("a matrix, both results", (_master, _grad, 0.125)),
        Case(
            "a master between two bfloat16 numbers",
            (_single(1.003, -2.011, 0.10009), _single(0.0625, 0.5, -0.125), 2.0**-8),
            probe=only_master,
        ),
        Case("forty small steps in a row", (_single(1.0, -3.0), _single(1.0, -2.0), 2.0**-13, 40), probe=many_steps),
        Case("a single number (0-d)", (np.array(0.5, np.float32), np.array(-1.5, np.float32), 0.01), weight=0.5),
        Case(
            "arguments by keyword",
            kwargs={"lr": 0.04, "grad": _single(3.0, -1.0), "master": _single(0.7, 0.1)},
            weight=0.5,
        ),
        Case("leaves its arguments unchanged", (_master, _grad, 0.01), weight=0.5, unchanged=True),
    ),
    misconceptions=(
        Misconception(
            "rounded_master",
            edited(precision.master_weight_step, ("return stepped, bf16", "return bf16_round(stepped), bf16")),
            "You round the master copy too, and with it goes what small steps had added up to: keep all its bits.",
            "A copy that remembers",
        ),
        Misconception(
            "steps_from_the_weight",
            edited(
                precision.master_weight_step,
                ("np.asarray(master, dtype=np.float32) - change", "bf16_round(master) - change"),
            ),
            "You step from the rounded weight; the step starts from the master copy.",
            "A copy that remembers",
        ),
        Misconception(
            "weight_not_rounded",
            edited(precision.master_weight_step, ("bf16_round(stepped)", "stepped.copy()")),
            "Your working weight has all bits of the master copy: it is what bfloat16 leaves of it.",
            "A copy that remembers",
        ),
        Misconception(
            "weight_from_the_old_master",
            edited(precision.master_weight_step, ("bf16_round(stepped)", "bf16_round(master)")),
            "Your weight is made from the master copy before the step: step first, then round.",
            "A copy that remembers",
        ),
        Misconception(
            "ascent",
            edited(precision.master_weight_step, (" - change", " + change")),
            "You add the gradient; a step that lowers the loss goes against it.",
            "A copy that remembers",
        ),
        Misconception(
            "no_learning_rate",
            edited(precision.master_weight_step, ("np.float32(lr) * ", "")),
            "You step by the whole gradient: the learning rate scales it.",
            "A copy that remembers",
        ),
        Misconception(
            "rounded_step",
            edited(precision.master_weight_step, (" - change", " - bf16_round(change)")),
            "You round learning rate times gradient to bfloat16; the product is float32, like the master copy.",
            "A copy that remembers",
        ),
        Misconception(
            "weight_stepped_apart",
            edited(
                precision.master_weight_step,
                ("bf16_round(stepped)", "bf16_round(bf16_round(master) - change)"),
            ),
            "You let the weight take its own step beside the master copy's; it is made from the new master copy.",
            "A copy that remembers",
        ),
        Misconception(
            "results_swapped",
            edited(precision.master_weight_step, ("stepped, bf16_round(stepped)", "bf16_round(stepped), stepped")),
            "You return the weight first: the order is master copy, then weight.",
            "A copy that remembers",
        ),
        Misconception(
            "only_master",
            edited(precision.master_weight_step, ("stepped, bf16_round(stepped)", "stepped")),
            "You return the master copy alone: the next forward pass needs the rounded weight.",
            "A copy that remembers",
        ),
        Misconception(
            "in_place",
            edited(
                precision.master_weight_step,
                (
                    "stepped = np.asarray(master, dtype=np.float32) - change",
                    "stepped = np.subtract(master, change, out=master)",
                ),
            ),
            "Your results are right, but you changed the caller's master copy on the way: make a new array.",
            "A copy that remembers",
        ),
    ),
    variants=(master_by_torch, master_in_a_list, master_in_float64, master_grad_rounded_again),
)

# --- flushes_to_zero --------------------------------------------------------------------------------------------------


def flushes_by_numpy(x):
    return x != 0 and np.float16(x) == 0


def flushes_by_torch(x):
    return bool(torch.tensor(float(x)).to(torch.float16) == 0) and float(x) != 0.0


def flushes_as_array(x):
    return np.logical_and(np.not_equal(x, 0), np.asarray(x, np.float32).astype(np.float16) == 0)


def flushes_as_number(x):
    return int(0 < abs(x) <= 0.5 * 2**-24)


FLUSHES_TO_ZERO = Exercise(
    reference=precision.flushes_to_zero,
    points=2,
    section="Too small for the format",
    probe=several,
    cases=(
        Case("far below and far above the limit", ([(1e-8,), (1e-3,), (3e-12,), (1.0,), (1e-30,)],)),
        Case("subnormal numbers are not zero", ([(1e-5,), (2.0**-20,), (7e-8,), (2.0**-24,), (1e-9,)],)),
        Case(
            "between half the smallest number and all of it",
            ([(2.0**-25 * (1 + 2.0**-20),), (2.0**-25 * 1.5,), (5.9e-8,), (2.0**-25 * (1 - 2.0**-20),)],),
            weight=1.5,
        ),
        Case("exactly half the smallest number", ([(2.0**-25,), (-(2.0**-25),), (2.0**-24,)],)),
        Case("negative numbers", ([(-1e-8,), (-1e-5,), (-1.0,), (-4e-8,), (-2.9e-8,)],)),
        Case("zero itself was never lost", ([(0.0,), (-0.0,), (0,), (1e-20,)],), weight=0.75),
        Case("large numbers, also those that overflow", ([(1e6,), (-7e4,), (2e-9,), (3e38,)],), weight=0.5),
        Case(
            "numpy scalars",
            ([(np.float32(1e-8),), (np.float64(1e-4),), (np.float32(6e-8),), (np.float64(-1e-12),)],),
            weight=0.5,
        ),
    ),
    misconceptions=(
        Misconception(
            "below_the_normal_range",
            edited(precision.flushes_to_zero, ("<= 2.0**-25", "< 2.0**-14")),
            "You stop at the smallest normal number; the subnormal ones reach ten powers of two further down.",
            "Too small for the format",
        ),
        Misconception(
            "below_the_smallest",
            edited(precision.flushes_to_zero, ("<= 2.0**-25", "< 2.0**-24")),
            "You flush everything below the smallest number; what is nearer to it than to zero rounds up to it.",
            "Too small for the format",
        ),
        Misconception(
            "smallest_included",
            edited(precision.flushes_to_zero, ("<= 2.0**-25", "<= 2.0**-24")),
            "You flush the smallest number itself; it exists, and what is nearer to it than to zero rounds to it.",
            "Too small for the format",
        ),
        Misconception(
            "tie_survives",
            edited(precision.flushes_to_zero, ("<= 2.0**-25", "< 2.0**-25")),
            "Half the smallest number is a tie, and of its two neighbours zero is the even one.",
            "Too small for the format",
        ),
        Misconception(
            "zero_counts",
            edited(precision.flushes_to_zero, ("x != 0 and ", "")),
            "You count zero itself: it was zero before, nothing is lost.",
            "Too small for the format",
        ),
        Misconception(
            "no_absolute_value",
            edited(precision.flushes_to_zero, ("abs(x)", "x")),
            "You call every negative number too small: compare absolute values.",
            "Too small for the format",
        ),
        Misconception(
            "epsilon",
            edited(precision.flushes_to_zero, ("<= 2.0**-25", "< 2.0**-10")),
            "You compare with eps, the gap at 1, which limits additions; a number on its own may be far smaller.",
            "Two ways to lose a number",
        ),
        Misconception(
            "bfloat16",
            edited(precision.flushes_to_zero, ("<= 2.0**-25", "<= 2.0**-134")),
            "You take the limit of bfloat16 or float32, whose exponents reach much further down than float16's.",
            "Too small for the format",
        ),
        Misconception(
            "upside_down",
            edited(precision.flushes_to_zero, ("x != 0 and abs(x) <=", "x != 0 and not abs(x) <=")),
            "You have it the wrong way round: True means that the number is lost.",
            "Too small for the format",
        ),
    ),
    variants=(flushes_by_numpy, flushes_by_torch, flushes_as_array, flushes_as_number),
)

# --- choose_loss_scale ------------------------------------------------------------------------------------------------


def scale_by_trying(grads):
    most = max((float(abs(g)) for array in grads for g in np.ravel(array)), default=0.0)
    scale = 1.0
    if most == 0:
        return scale
    while most * scale * 2 <= 65504:
        scale *= 2
    while most * scale > 65504:
        scale /= 2
    return scale


def scale_by_logarithm(grads):
    numbers = np.concatenate([np.asarray(a, np.float64).ravel() for a in grads]) if len(grads) else np.zeros(1)
    most = np.abs(numbers).max(initial=0.0)
    return 1.0 if most == 0 else 2.0 ** np.floor(np.log2(65504 / most))


def scale_by_torch(grads):
    largest = [torch.as_tensor(np.array(a)).double().abs().max() for a in grads if np.size(a)]
    most = torch.stack(largest).max() if largest else torch.zeros(())
    if most == 0:
        return 1
    return torch.exp2(torch.floor(torch.log2(65504.0 / most)))


_LAYERS = [_rng.normal(size=(4, 3)) * 3e-5, _rng.normal(size=5) * 2e-7]

CHOOSE_LOSS_SCALE = Exercise(
    reference=precision.choose_loss_scale,
    points=3,
    section="Loss scaling",
    cases=(
        Case("one array of small gradients", ([np.array([1e-5, 3e-7, 2e-6])],), weight=1.5),
        Case(
            "several arrays, the largest value in the second", ([np.array([1e-8, 2e-7]), np.array([[3e-3], [1e-6]])],)
        ),
        Case("several arrays, the largest value in the first", ([np.array([0.02, 1e-7]), np.array([1e-4, 3e-9])],)),
        Case("the largest value is negative", ([np.array([2e-6, -9e-4, 1e-5]), np.array([-1e-7])],)),
        Case("layers of different shapes", (_LAYERS,), weight=0.5),
        Case("exactly at the largest float16", ([np.array([65504.0 * 2.0**-20, 1e-3])],)),
        Case("a little above the largest float16", ([np.array([65520.0 * 2.0**-20, 1e-3])],)),
        Case("a power of two", ([np.array([2.0**-12, 2.0**-20])],)),
        Case("gradients that are too large: a scale below 1", ([np.array([3e6, 1.0]), np.array([-2e5])],)),
        Case("one that fits without scaling", ([np.array([40000.0, -3.0])],), weight=0.5),
        Case("all zero", ([np.zeros(3), np.zeros((2, 2))],), weight=0.5),
        Case("no arrays at all", ([],), weight=0.5),
        Case("float32, single numbers (0-d)", ([np.float32(0.001) * np.ones((), np.float32)],), weight=0.5),
        Case("very small gradients", ([np.array([1e-15, -2e-14]), np.zeros(2)],), weight=0.5),
        Case(
            "leaves its arguments unchanged", ([np.array([-0.5, 0.25]), np.array([2.0])],), unchanged=True, weight=0.5
        ),
    ),
    misconceptions=(
        Misconception(
            "not_a_power_of_two",
            edited(
                precision.choose_loss_scale,
                ("math.ldexp(1.0, top - power if share <= room else top - power - 1)", "65504.0 / largest"),
            ),
            "You scale to 65504 exactly; a power of two changes the exponent alone and so rounds nothing.",
            "Loss scaling",
        ),
        Misconception(
            "rounded_up",
            edited(precision.choose_loss_scale, ("if share <= room else top - power - 1", "+ (share <= room)")),
            "Your scale is twice too large, so the largest gradient overflows: round the power of two down.",
            "Loss scaling",
        ),
        Misconception(
            "nearest_power",
            edited(
                precision.choose_loss_scale,
                (
                    "math.ldexp(1.0, top - power if share <= room else top - power - 1)",
                    "2.0 ** round(math.log2(65504.0 / largest))",
                ),
            ),
            "You take the nearest power of two, which may overflow: round the exponent down.",
            "Loss scaling",
        ),
        Misconception(
            "no_absolute_value",
            edited(precision.choose_loss_scale, ("np.max(np.abs(array), initial=0.0)", "np.max(array, initial=0.0)")),
            "You look at the largest number; a negative gradient overflows just as well.",
            "Loss scaling",
        ),
        Misconception(
            "smallest",
            edited(
                precision.choose_loss_scale,
                (
                    "max((float(np.max(np.abs(array), initial=0.0)) for array in grads), default=0.0)",
                    "min((float(g) for array in grads for g in np.abs(array).ravel() if g), default=0.0)",
                ),
            ),
            "You let the smallest gradient decide; the largest one is the first to overflow.",
            "Loss scaling",
        ),
        Misconception(
            "first_array",
            edited(precision.choose_loss_scale, ("for array in grads)", "for array in grads[:1])")),
            "You look at the first array only: one scale holds for all of them.",
            "Loss scaling",
        ),
        Misconception(
            "last_array",
            edited(precision.choose_loss_scale, ("for array in grads)", "for array in grads[-1:])")),
            "You look at the last array only: one scale holds for all of them.",
            "Loss scaling",
        ),
        Misconception(
            "sum",
            edited(precision.choose_loss_scale, ("np.max(np.abs(array), initial=0.0)", "np.sum(np.abs(array))")),
            "You add the gradients up; each of them has to fit on its own.",
            "Loss scaling",
        ),
        Misconception(
            "never_below_one",
            edited(
                precision.choose_loss_scale,
                (
                    "math.ldexp(1.0, top - power if share <= room else top - power - 1)",
                    "max(1.0, math.ldexp(1.0, top - power if share <= room else top - power - 1))",
                ),
            ),
            "Your scale never goes below 1; gradients that are too large need a scale that makes them smaller.",
            "Loss scaling",
        ),
        Misconception(
            "65536",
            edited(precision.choose_loss_scale, ("65504.0", "65535.9")),
            "You take 65,536 as the limit; the largest float16 is 65,504, and what lies above it does not fit.",
            "Loss scaling",
        ),
        Misconception(
            "strictly_below",
            edited(precision.choose_loss_scale, ("share <= room", "share < room")),
            "A gradient that lands on 65,504 exactly still fits.",
            "Loss scaling",
        ),
        Misconception(
            "the_exponent",
            edited(
                precision.choose_loss_scale,
                (
                    "math.ldexp(1.0, top - power if share <= room else top - power - 1)",
                    "float(top - power if share <= room else top - power - 1)",
                ),
            ),
            "You return the exponent: the scale is the power of two itself.",
            "Loss scaling",
        ),
        Misconception(
            "nothing_gives_zero",
            edited(precision.choose_loss_scale, ("return 1.0", "return 0.0")),
            "Where there is nothing to scale, the scale is 1; a scale of 0 would wipe out the loss.",
            "Loss scaling",
        ),
    ),
    variants=(scale_by_trying, scale_by_logarithm, scale_by_torch),
)

# --- update_loss_scale ------------------------------------------------------------------------------------------------


def a_run(answer, overflows, scale, growth, backoff, interval):
    clean, seen = 0, []
    for overflow in overflows:
        scale, clean = answer(scale, overflow, clean, growth, backoff, interval)
        seen.append((scale, clean))
    return seen


def update_by_cases(scale, overflow, clean_steps, growth=2.0, backoff=0.5, interval=2000):
    clean_steps = 0 if overflow else clean_steps + 1
    grows = clean_steps >= interval
    factor = backoff if overflow else growth if grows else 1.0
    return [scale * factor, 0 if grows else clean_steps]


def update_by_remainder(scale, overflow, clean_steps, growth=2.0, backoff=0.5, interval=2000):
    if overflow:
        return np.float64(scale) * backoff, np.int64(0)
    clean_steps = (clean_steps + 1) % interval
    return np.float64(scale) * (growth if clean_steps == 0 else 1), np.int64(clean_steps)


def update_as_torch_does(scale, overflow, clean_steps, growth=2.0, backoff=0.5, interval=2000):
    new = torch.tensor([float(scale)])
    count = torch.tensor([clean_steps], dtype=torch.int32)
    torch._amp_update_scale_(new, count, torch.tensor([float(overflow)]), growth, backoff, interval)
    return new[0], count[0]


UPDATE_LOSS_SCALE = Exercise(
    reference=precision.update_loss_scale,
    points=3,
    results=("scale", "clean_steps"),
    section="A scale that adjusts itself",
    cases=(
        Case("a clean step, early on", (1024.0, False, 5)),
        Case("an overflow", (1024.0, True, 7), weight=1.5),
        Case("the last clean step before the scale grows", (512.0, False, 1998)),
        Case("the clean step with which it grows", (512.0, False, 1999), weight=1.5),
        Case("an overflow where it would have grown", (512.0, True, 1999)),
        Case("another interval", (64.0, False, 9, 2.0, 0.5, 10)),
        Case("other factors: growth", (64.0, False, 2, 4.0, 0.125, 3)),
        Case("other factors: backing off", (64.0, True, 2, 4.0, 0.125, 3)),
        Case("a scale that goes below 1", (1.0, True, 0), weight=0.5),
        Case("an interval of one: every clean step grows", (8.0, False, 0, 2.0, 0.5, 1), weight=0.5),
        Case(
            "a run of several steps",
            ([False, False, True, False, False, False, False, True, True, False], 256.0, 2.0, 0.25, 3),
            probe=a_run,
        ),
        Case(
            "arguments by keyword",
            kwargs={"interval": 50, "clean_steps": 49, "overflow": False, "scale": 16.0, "growth": 8.0},
            weight=0.5,
        ),
    ),
    misconceptions=(
        Misconception(
            "one_step_late",
            edited(precision.update_loss_scale, ("unbroken == interval", "clean_steps == interval")),
            "You grow one step too late: this clean step counts too.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "one_step_early",
            edited(precision.update_loss_scale, ("unbroken == interval", "unbroken + 1 >= interval")),
            "You grow one step too early: wait until the count reaches the interval.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "count_kept_after_overflow",
            edited(precision.update_loss_scale, ("scale * backoff, 0", "scale * backoff, clean_steps")),
            "You keep the count after an overflow; the row is broken, so it starts at 0.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "count_kept_after_growth",
            edited(precision.update_loss_scale, ("scale * growth, 0", "scale * growth, unbroken")),
            "You keep the count after growing; the next row starts at 0.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "count_starts_at_one",
            edited(precision.update_loss_scale, ("scale * growth, 0", "scale * growth, 1")),
            "After growing you start at 1: no step was taken with the new scale yet.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "never_counts",
            edited(precision.update_loss_scale, ("return scale, unbroken", "return scale, clean_steps")),
            "You never count a clean step, so the scale never grows.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "grows_at_once",
            edited(precision.update_loss_scale, ("if unbroken == interval:", "if unbroken >= 1:")),
            "You grow after every clean step: wait for a whole interval of them.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "never_grows",
            edited(precision.update_loss_scale, ("scale * growth, 0", "scale, 0")),
            "Your scale only ever falls; after enough clean steps it is tried larger again.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "grows_after_overflow",
            edited(precision.update_loss_scale, ("scale * backoff, 0", "scale * growth, 0  # too large")),
            "You grow after an overflow, which means that the scale was too large already: back off.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "fixed_factors",
            edited(precision.update_loss_scale, ("scale * backoff", "scale * 0.5"), ("scale * growth", "scale * 2.0")),
            "You wrote the defaults into the formula: use the arguments growth and backoff.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "fixed_interval",
            edited(precision.update_loss_scale, ("unbroken == interval", "unbroken == 2000")),
            "You wrote the default into the formula: use the argument interval.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "divides_by_backoff",
            edited(precision.update_loss_scale, ("scale * backoff", "scale / backoff")),
            "You divide by backoff, which makes the scale larger: it is a factor below 1.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "divides_by_growth",
            edited(precision.update_loss_scale, ("scale * backoff", "scale / growth")),
            "After an overflow you divide by growth; backing off has a factor of its own.",
            "A scale that adjusts itself",
        ),
        Misconception(
            "results_swapped",
            edited(
                precision.update_loss_scale,
                ("scale * backoff, 0", "0, scale * backoff"),
                ("scale * growth, 0", "0, scale * growth"),
                ("return scale, unbroken", "return unbroken, scale"),
            ),
            "You return the count first: the order is scale, then count.",
            "A scale that adjusts itself",
        ),
    ),
    variants=(update_by_cases, update_by_remainder, update_as_torch_does),
)

CHAPTER = Chapter(
    name="05_precision",
    exercises=(
        BF16_ROUND,
        SPACING,
        IS_SWALLOWED,
        MASTER_WEIGHT_STEP,
        FLUSHES_TO_ZERO,
        CHOOSE_LOSS_SCALE,
        UPDATE_LOSS_SCALE,
    ),
)
