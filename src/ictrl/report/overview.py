"""The picture a run ends with: accuracy after each task, and what memory replays of every class."""

from collections.abc import Mapping
from io import BytesIO
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

CURVES = {
    "memory": ("from memory alone", "o-", "#1b6ca8"),
    "reencoded": ("reencoded (needs the old images)", "s--", "#d1782b"),
    "floor": ("untrained floor, reencoded", ":", "#777777"),
}


def overview(
    results: dict[str, Any],
    replayed: dict[int, UInt8[Tensor, "n c h w"]],
    others: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> bytes:
    """A PNG: accuracy over all classes seen after each task, and a row of replayed images for every class.

    `others` are results of further runs whose memory curve is drawn beside, by name.
    """
    figure = Figure(figsize=(9.6, 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)  # no screen, no global state
    curves, images = figure.subplots(1, 2, width_ratios=[1.25, 1])

    classes = np.cumsum([len(task) for task in results["tasks"]])
    for protocol, (title, style, colour) in CURVES.items():
        curves.plot(classes, results[protocol]["seen"], style, color=colour, label=title)
    for name, other in others.items():
        curves.plot(classes, other["memory"]["seen"], "v-.", color="#9c3d54", label=f"{name}, from memory alone")
    curves.set_xticks(classes)
    curves.set_ylim(min(0.0, curves.get_ylim()[0]), 1.02)
    curves.set_xlabel("classes learned")
    curves.set_ylabel("accuracy over all of them")
    curves.set_title(f"{results['recipe']['name']}: {len(classes)} tasks, no old image kept", fontsize=10)
    curves.grid(alpha=0.3)
    curves.legend(fontsize=8, loc="lower left")

    rows = [np.concatenate(list(_padded(sheet)), axis=1) for sheet in replayed.values()]
    picture = np.concatenate(rows, axis=0)
    images.imshow(picture.squeeze(-1) if picture.shape[-1] == 1 else picture, cmap="gray", interpolation="nearest")
    height = picture.shape[0] / len(rows)
    images.set_yticks([height * (i + 0.5) for i in range(len(rows))], [str(label) for label in replayed])
    images.set_xticks([])
    images.set_title("replayed from memory after the last task", fontsize=10)
    for side in images.spines.values():
        side.set_visible(False)

    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _padded(sheet: UInt8[Tensor, "n c h w"]) -> np.ndarray:
    """Images as (n, h, w, c) with a pixel of white around each."""
    return np.pad(sheet.permute(0, 2, 3, 1).numpy(), ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
