"""The picture a run ends with: accuracy after each task, and what memory replays of every class."""

from collections.abc import Mapping
from io import BytesIO
from itertools import accumulate
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray
from torch import Tensor

from ictrl.experiment.results import Results
from ictrl.methods.base import LEARNERS
from ictrl.report.house_style import house_style
from ictrl.report.palette import LIGHT, method_colour
from ictrl.report.plots import DASHES
from ictrl.report.words import printable
from ictrl.shapes import UInt8

CURVES = {
    "memory": ("from memory alone", "o-"),
    "reencoded": ("reencoded (needs the old images)", "s--"),
    "untrained": ("untrained floor, reencoded", ":"),
}


def overview(
    results: Results,
    replayed: Mapping[int, UInt8[Tensor, "n c h w"]],
    others: Mapping[str, Results] = MappingProxyType({}),
) -> bytes:
    """A PNG: accuracy over all classes seen after each task, and a row of replayed images per class.

    Where nothing was replayed it is the curves alone. `others` are results of further runs, by name, whose memory
    curve is drawn beside.
    """
    with house_style():
        drawing = Drawing(figsize=(9.6 if replayed else 5.6, 4.2), dpi=110, layout="constrained", facecolor="white")
        grid = drawing.add_gridspec(1, 2 if replayed else 1, width_ratios=[1.25, 1] if replayed else None)
        _draw_curves(drawing.add_subplot(grid[0]), results, others)
        if replayed:
            _draw_replayed(drawing.add_subplot(grid[1]), replayed)
        buffer = BytesIO()
        FigureCanvasAgg(drawing).print_figure(buffer, format="png")
    return buffer.getvalue()


def _draw_curves(axes: Axes, results: Results, others: Mapping[str, Results]) -> None:
    """Accuracy over the classes seen so far, of this run and of the others."""
    learned, method = _classes_learned(results), results.recipe.method.name
    keeps_images = LEARNERS[method].keeps_images
    every = keeps_images and results.kept_bytes >= results.image_bytes
    for name, (title, look) in CURVES.items():
        if name in results.scores:
            title = "from all images, which are kept" if every else title
            axes.plot(learned, results.scores[name].seen, look, color=LIGHT[name], label=title)
    for i, (name, other) in enumerate(others.items()):
        colour = LIGHT[method_colour(other.recipe.method.name)]
        title = f"{printable(name)}, from memory alone"
        dash = DASHES[3 - i % 3]  # any but the solid one
        axes.plot(_classes_learned(other), other.memory.seen, "v", linestyle=dash, color=colour, label=title)
    axes.set_xticks(learned[:: -(-len(learned) // 20)])
    axes.set_ylim(0.0, 1.02)
    axes.set_xlabel("classes learned")
    axes.set_ylabel("accuracy over all of them")
    kept = "every image kept" if every else "some images kept" if keeps_images else "no old image kept"
    axes.set_title(f"{results.recipe.name}: {method}, {results.done} tasks, {kept}", fontsize=11)
    axes.legend(fontsize=9, loc="lower left", borderaxespad=0.5)


def _draw_replayed(axes: Axes, replayed: Mapping[int, UInt8[Tensor, "n c h w"]]) -> None:
    """A row of pictures per class, with its label."""
    rows = [np.concatenate(list(_padded(pictures)), axis=1) for pictures in replayed.values()]
    picture = np.concatenate(rows, axis=0)
    axes.imshow(picture.squeeze(-1) if picture.shape[-1] == 1 else picture, cmap="gray", interpolation="nearest")
    height = picture.shape[0] / len(rows)
    axes.set_yticks([height * (i + 0.5) for i in range(len(rows))], [str(label) for label in replayed])
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.set_title("replayed from memory after the last task", fontsize=11)


def _classes_learned(results: Results) -> list[int]:
    """How many classes were learned after each task that was measured."""
    return list(accumulate(len(task) for task in results.tasks[: results.done]))


def _padded(pictures: UInt8[Tensor, "n c h w"]) -> NDArray[np.uint8]:
    """Images as (n, h, w, c) with a pixel of white around each."""
    pixels = pictures.permute(0, 2, 3, 1).cpu().numpy()
    return np.pad(pixels, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
