"""Plots and measuring instruments of The Training Ledger. Keep this file beside your notebook.

It holds no answer to any exercise. Only the standard library is imported at the top, so that `environment()` can say
what is missing.
"""

from __future__ import annotations

import importlib
import math
import os
import platform
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

GREY = "#808080"
"""Axes, ticks and contours: a mid-tone that shows on a light and on a dark page."""

COLOURS = {
    "sgd": "#7f7f7f",
    "momentum": "#E69F00",
    "adagrad": "#56B4E9",
    "rmsprop": "#009E73",
    "adam": "#0072B2",
    "adamw": "#D55E00",
    "lars": "#CC79A7",
    "lamb": "#8c6bb1",
    "parameters": "#2f6d99",
    "gradients": "#4585b0",
    "master": "#5f9dc3",
    "states": "#7fb4d3",
    "activations": "#a3cae1",
}
"""The course's fixed colours: one for each optimizer, and one calm scale for the lines of the ledger."""

MARKERS = {
    "sgd": "o",
    "momentum": "s",
    "adagrad": "^",
    "rmsprop": "v",
    "adam": "D",
    "adamw": "P",
    "lars": "X",
    "lamb": "*",
}
LINES = {
    "sgd": "-",
    "momentum": "--",
    "adagrad": "-.",
    "rmsprop": ":",
    "adam": (0, (5, 1)),
    "adamw": (0, (3, 1, 1, 1)),
    "lars": (0, (1, 1)),
    "lamb": (0, (5, 2, 1, 2, 1, 2)),
}
HATCHES = {"parameters": "", "gradients": "//", "master": "..", "states": "xx", "activations": "\\\\"}


def device() -> torch.device:
    """The device on which the chapters run: a `torch.device`.

    DEVICE=cpu or DEVICE=cuda in the environment decides; without it, a GPU is used where there is one.
    """
    import torch

    wanted = os.environ.get("DEVICE", "").strip().lower()
    if wanted not in ("", "cpu", "cuda"):
        raise ValueError(f"DEVICE is {wanted!r}; it can be 'cpu' or 'cuda', or be left unset")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ValueError("DEVICE is 'cuda', but PyTorch finds no GPU here; unset DEVICE or set it to 'cpu'")
    return torch.device(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))


def environment(*more: str) -> None:
    """Print the versions in use and the device; for anything missing, print what to do.

    more: names of further packages that a chapter needs.
    """
    found = [f"Python {platform.python_version()}"]
    missing = []
    for name in ("numpy", "torch", "matplotlib", *more):
        try:
            module = importlib.import_module(name)
        except Exception as error:
            missing.append((name, error))
        else:
            found.append(f"{name} {getattr(module, '__version__', '')}".strip())
    print(" · ".join(found))
    for name, error in missing:
        if isinstance(error, ModuleNotFoundError):
            print(f"{name} is missing: run `pip install {name}` in a terminal, then restart the kernel.")
        else:
            print(
                f"{name} does not load ({error}): run `pip install --force-reinstall {name}`, then restart the kernel."
            )
    if not any(name == "torch" for name, _ in missing):
        try:
            place = device()
            import torch

            name = torch.cuda.get_device_name(place) if place.type == "cuda" else f"{os.cpu_count()} cores"
            print(f"Device: {place.type} ({name})")
        except ValueError as error:
            print(f"Device: {error}.")
    if not missing:
        print("Everything is here.")


def style() -> None:
    """Set the course's look for matplotlib: transparent ground and mid-tone axes, for light and dark pages."""
    import matplotlib as mpl

    mpl.rcParams.update(
        {
            "figure.figsize": (5.6, 3.6),
            "figure.dpi": 150,
            "figure.facecolor": "none",
            "figure.constrained_layout.use": True,
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "savefig.transparent": True,
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.labelsize": 11,
            "text.color": GREY,
            "axes.labelcolor": GREY,
            "axes.edgecolor": GREY,
            "axes.titlecolor": GREY,
            "xtick.color": GREY,
            "ytick.color": GREY,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": False,
            "lines.linewidth": 1.8,
            "lines.markersize": 5,
            "legend.frameon": False,
            "legend.labelcolor": "linecolor",
        }
    )


def line(optimizer: str, **changes: Any) -> dict[str, Any]:
    """Colour, line style and marker of an optimizer, as keyword arguments for `plot`."""
    return {
        "color": COLOURS[optimizer],
        "linestyle": LINES[optimizer],
        "marker": MARKERS[optimizer],
        **changes,
    }


def label(ax: Axes, x: float, y: float, text: str, colour: str = GREY, **changes: Any) -> Text:
    """Write a label straight onto a plot, beside what it names."""
    options = {"color": colour, "fontsize": 10.5, "fontweight": "bold", "ha": "left", "va": "center", **changes}
    return ax.text(x, y, text, **options)


def ravine(ax: Axes, curvature: Iterable[float], width: float, height: float) -> None:
    """Draw the contours of the ravine L(a, b) = (curvature[0]·a² + curvature[1]·b²) / 2, a cross at its lowest point.

    width, height: half the length of the two axes shown.
    """
    import numpy as np

    a, b = np.meshgrid(np.linspace(-width, width, 161), np.linspace(-height, height, 121))
    loss = (curvature[0] * a**2 + curvature[1] * b**2) / 2
    levels = loss.max() * np.linspace(0.12, 1.0, 7) ** 2
    ax.contour(a, b, loss, levels=levels, colors=GREY, linewidths=0.8, alpha=0.55)
    ax.plot([0], [0], marker="+", markersize=11, markeredgewidth=2, color=GREY)
    ax.set_xlim(-width, width)
    ax.set_ylim(-height, height)
    ax.set_xlabel("θ₁, along the ravine")
    ax.set_ylabel("θ₂, across it")


def path(ax: Axes, points: Iterable[Any], optimizer: str, **changes: Any) -> list[Line2D]:
    """Draw the points that an optimizer visits, one marker for each step."""
    import numpy as np

    points = np.asarray(points, dtype=float)
    return ax.plot(points[:, 0], points[:, 1], **line(optimizer, **{"markersize": 4, "linewidth": 1.3, **changes}))


def bisect(too_much: Callable[[float], bool], low: float, high: float, digits: int = 6) -> float:
    """The number between low and high from which on `too_much(number)` is true, to so many digits."""
    if too_much(low) or not too_much(high):
        raise ValueError(f"the threshold does not lie between {low} and {high}")
    while high - low > abs(high) * 10.0**-digits:
        middle = (low + high) / 2
        low, high = (low, middle) if too_much(middle) else (middle, high)
    return (low + high) / 2


def compare(what: str, predicted: float, measured: float, unit: str = "", tolerance: float = 1e-3) -> None:
    """Print a prediction, its measurement and their ratio, and insist that they agree within the tolerance."""
    predicted, measured = float(predicted), float(measured)
    unit = f" {unit}" if unit else ""
    shown = [f"{x:,.0f}{unit}" if x == int(x) and abs(x) < 1e12 else f"{x:.5g}{unit}" for x in (predicted, measured)]
    if predicted == 0:
        ratio, agree = "–", measured == 0
    else:
        ratio, agree = f"{measured / predicted:.4f}", math.isclose(measured, predicted, rel_tol=tolerance)
    print(f"{what}: predicted {shown[0]}, measured {shown[1]}, ratio {ratio}")
    assert agree, f"{what}: predicted {shown[0]}, measured {shown[1]}"


# -- 04_memory ---------------------------------------------------------------------------------------------------------


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print rows below their headings: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for number, row in enumerate(cells):
        first, *others = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())
        if number == 0:
            print("  ".join("-" * w for w in widths))


def ledger_bars(
    ax: Axes, ledgers: dict[str, dict[str, float]], unit: float = 1e9, form: str = "{:.0f}", legend: bool = True
) -> None:
    """Draw ledgers that were computed elsewhere as stacked bars, one below the other, their sum at the end.

    ledgers: a dict of lines (parameters, gradients, master, states, activations; others are left out) by label.
    unit: how many bytes make one unit of the axis. form: how a sum is written.
    """
    lines = [name for name in HATCHES if any(name in ledger for ledger in ledgers.values())]
    places = range(len(ledgers))
    ends = [0.0] * len(ledgers)
    for name in lines:
        sizes = [float(ledger.get(name, 0)) / unit for ledger in ledgers.values()]
        ax.barh(
            places,
            sizes,
            left=ends,
            height=0.66,
            color=COLOURS[name],
            hatch=HATCHES[name],
            edgecolor="#16324a",
            linewidth=0.7,
            label=name,
        )
        ends = [end + size for end, size in zip(ends, sizes, strict=True)]
    for place, end in zip(places, ends, strict=True):
        label(ax, end + 0.012 * max(ends), place, form.format(end))
    ax.set_yticks(list(places), list(ledgers))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(ledgers) - 0.45, -0.55)
    ax.set_xlim(0, 1.13 * max(ends))
    if legend:
        handles, names = ax.get_legend_handles_labels()
        order = sorted(range(len(names)), key=lambda i: i % 3)  # a legend fills its columns first; this reads in rows
        handles, names = ([items[i] for i in order] for items in (handles, names))
        ax.legend(handles, names, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, labelcolor=GREY, fontsize=10)


def limit(ax: Axes, x: float, text: str, y: float, **changes: Any) -> None:
    """Draw an upright dashed line at x, with a label at the height y."""
    ax.axvline(x, color=GREY, linestyle="--", linewidth=1.4)
    label(ax, x, y, f" {text} ", **changes)


class SavedActivations:
    """Measures what forward keeps for backward: `with SavedActivations(model) as saved: y = model(x)`.

    saved.bytes: of all kept storages, each counted once, the parameters of the given modules left out.
    saved.requests: bytes of every tensor that an operation asked to keep, as often as it asked, parameters too.
    """

    def __init__(self, *modules: torch.nn.Module) -> None:
        self._own = {p.untyped_storage().data_ptr() for m in modules for p in m.parameters()}
        self._kept: dict[int, torch.Tensor] = {}  # held, so that no address is used a second time
        self.requests = 0

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        self.requests += tensor.numel() * tensor.element_size()
        address = tensor.untyped_storage().data_ptr()
        if address not in self._own:
            self._kept[address] = tensor.detach()
        return tensor

    @property
    def bytes(self) -> int:
        """Bytes kept so far."""
        return sum(tensor.untyped_storage().nbytes() for tensor in self._kept.values())

    def __enter__(self) -> SavedActivations:
        from torch.autograd.graph import saved_tensors_hooks

        self._hooks = saved_tensors_hooks(self._pack, lambda tensor: tensor)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)


# -- chapter 03 --


def sharpness(
    loss: Callable[[list[torch.Tensor]], torch.Tensor], parameters: Iterable[torch.Tensor], rounds: int = 25
) -> float:
    """The largest curvature of a loss at these parameters, by power iteration on its Hessian.

    loss: takes the list of parameters and gives a 0-d tensor, differentiable twice.
    rounds: products of the Hessian with a vector; each costs about two backward passes.
    """
    import torch

    parameters = [parameter.detach().clone().requires_grad_() for parameter in parameters]
    grads = torch.autograd.grad(loss(parameters), parameters, create_graph=True)
    generator = torch.Generator().manual_seed(0)
    vector = [torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device) for p in parameters]
    curvature = 0.0
    for _ in range(rounds):
        length = math.sqrt(sum(float((v * v).sum()) for v in vector))
        if not 0 < length < math.inf:
            break
        vector = [v / length for v in vector]
        product = sum((g * v).sum() for g, v in zip(grads, vector, strict=True))
        image = torch.autograd.grad(product, parameters, retain_graph=True)
        curvature = sum(float((a * b).sum()) for a, b in zip(image, vector, strict=True))
        vector = list(image)
    return curvature


# -- 06_flops ----------------------------------------------------------------------------------------------------------

PASSES = {"forward": "#4585b0", "backward": "#b5651d"}
PASS_HATCHES = {"forward": "", "backward": "//"}
"""The two passes of training, wherever their FLOPs are drawn."""

SERIES = ("#4585b0", "#b5651d", "#5a8f5a", "#9b5a86")
"""Colours of things that are not optimizers, such as families of models."""


def fastest(work: Callable[[], Any], repeats: int = 5) -> float:
    """Seconds that `work()` takes: the fastest of so many repeats or more, after one call to warm up.

    Short work is repeated until a fifth of a second has passed, so that one undisturbed repeat is among them. On a GPU,
    where calls return before the work is done, each repeat waits for it.
    """
    import time

    import torch

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    work()
    wait()
    times: list[float] = []
    while len(times) < repeats or (sum(times) < 0.2 and len(times) < 10_000):
        begin = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - begin)
    return min(times)


def metric(number: float, unit: str) -> str:
    """A number with its unit, in steps of a thousand: 2.5e12 and "FLOP/s" give "2.5 TFLOP/s"."""
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


# -- 08_planning -------------------------------------------------------------------------------------------------------


def legend_above(ax: Axes, names: dict[str, str]) -> None:
    """Name the lines of `ledger_bars(..., legend=False)` above the plot, in one's own words.

    names: what to call each line that was drawn.
    """
    handles, lines = ax.get_legend_handles_labels()
    words = [names.get(line, line) for line in lines]
    ax.legend(handles, words, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, labelcolor=GREY, fontsize=10)


def keep_clear(ax: Axes, x: float) -> None:
    """Move the sums of `ledger_bars` that an upright line at x would cross to its right side."""
    width = ax.get_xlim()[1]
    for text in ax.texts:
        if x - 0.06 * width < text.get_position()[0] < x + 0.012 * width:
            text.set_x(x + 0.012 * width)


# -- 05_precision ------------------------------------------------------------------------------------------------------

FORMATS: dict[str, dict[str, Any]] = {
    "FP32": {"color": "#808080", "linestyle": "-", "marker": "s"},
    "BF16": {"color": "#3f86b5", "linestyle": "--", "marker": "o"},
    "FP16": {"color": "#a9714b", "linestyle": ":", "marker": "^"},
}
"""Colour, line style and marker of the three number formats."""

FIELDS = {"FP32": (1, 8, 23), "BF16": (1, 8, 7), "FP16": (1, 5, 10)}
"""Bits of a number's sign, exponent and fraction, as they are stored."""


def bits(number: torch.Tensor) -> tuple[str, str, str]:
    """The bits of a 0-d tensor in float32, float16 or bfloat16, as it is stored: sign, exponent, fraction."""
    import torch

    kinds = {torch.float32: ("FP32", torch.int32), torch.bfloat16: ("BF16", torch.int16)}
    kinds[torch.float16] = ("FP16", torch.int16)
    if number.dtype not in kinds:
        raise ValueError(f"the number is {number.dtype}; it can be float32, float16 or bfloat16")
    name, whole = kinds[number.dtype]
    _, exponent, fraction = FIELDS[name]
    width = 1 + exponent + fraction
    text = format(number.detach().cpu().reshape(()).view(whole).item() % 2**width, f"0{width}b")
    return text[0], text[1 : 1 + exponent], text[1 + exponent :]


def bit_fields(ax: Axes) -> None:
    """Draw the three formats below each other, a box for every bit: sign, exponent, fraction."""
    shades = (("sign", "#5d6b78", ""), ("exponent", "#4585b0", "//"), ("fraction", "#a3cae1", ""))
    for row, (name, sizes) in enumerate(FIELDS.items()):
        start = 0
        for (field, colour, hatch), size in zip(shades, sizes, strict=True):
            for place in range(start, start + size):
                ax.bar(place, 0.42, 0.86, row - 0.21, color=colour, hatch=hatch, edgecolor="#16324a", lw=0.5)
            if size > 1:
                label(ax, start + size / 2 - 0.5, row - 0.42, f"{field} {size}", ha="center")
            start += size
        label(ax, -1.0, row, name, FORMATS[name]["color"], ha="right")
    ax.set_xlim(-4.6, 32)
    ax.set_ylim(2.3, -0.75)
    ax.set_axis_off()


# -- 07_checkpointing --------------------------------------------------------------------------------------------------


def live_tensors(at_least: int = 0) -> Any:
    """Measure which tensors are alive at once: `with toolbox.live_tensors() as live: ...`, forward and backward inside.

    live.timeline: bytes alive after each operation, of storages that were made inside; live.peak: the most of them.
    at_least: storages of fewer bytes are left out, so that weights' gradients can be told from activations.
    """
    import weakref

    from torch import Tensor
    from torch.utils._python_dispatch import TorchDispatchMode

    def tensors(values: Iterable[Any]) -> Iterable[Tensor]:
        for value in values:
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from tensors(value)

    class Live(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self._alive: dict[int, int] = {}  # bytes of a storage, by its address
            self.timeline = [0]

        @property
        def peak(self) -> int:
            return max(self.timeline)

        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = operation(*args, **(kwargs or {}))
            given = {t.untyped_storage()._cdata for t in tensors([*args, *(kwargs or {}).values()])}
            for storage in [t.untyped_storage() for t in tensors([result])]:
                address, size = storage._cdata, storage.nbytes()
                if size >= at_least and address not in given and address not in self._alive:
                    self._alive[address] = size
                    weakref.finalize(storage, self._alive.pop, address)
            self.timeline.append(sum(self._alive.values()))
            return result

    return Live()


def numpy_peak(call: Callable[[], Any]) -> tuple[Any, int]:
    """Give the result of call(), and the most bytes that the NumPy arrays made inside it took at once."""
    import tracemalloc

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
