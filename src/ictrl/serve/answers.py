"""What is said of a picture: every class with its distance and, where the method has it, its probability."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ictrl.methods.capabilities import Draws, TellsUnknown
from ictrl.serve.png import data_url
from ictrl.serve.served import Served
from ictrl.shapes import UInt8

NOTHING: dict[str, Any] = {"class": None, "label": None, "probability": None, "unknown": None, "classes": []}
NOTHING |= {"reconstruction": None, "seen": None}


@dataclass(frozen=True)
class Asked:
    """What is asked about pictures."""

    unknown: float | None = None
    """the rate of false alarms at which strangers are told"""
    reconstruct: bool = False


Answer = dict[str, Any]
"""of one picture: an entry of "predictions", but for its file"""


def answers(served: Served, images: UInt8[Tensor, "n c h w"], asked: Sequence[Asked]) -> list[Answer]:
    """The answer for each of these images, to what was asked about it."""
    learner, labels = served.learner, list(served.names)
    scores = learner.scores(images).cpu()  # (n, k)
    order = scores.argsort(dim=1, descending=True, stable=True)
    distances = (0.0 - scores).gather(1, order).tolist()
    shares = scores.softmax(1).gather(1, order).tolist() if served.can["probabilities"] else None
    unknown, drawn = _unknown(served, images, asked), _drawn(served, images, asked)
    found = []
    for i, columns in enumerate(order.tolist()):
        classes = [
            {
                "class": served.names[labels[column]],
                "label": labels[column],
                "probability": None if shares is None else round(shares[i][place], 6),
                "distance": round(distances[i][place], 6),
            }
            for place, column in enumerate(columns)
        ]
        nearest = {key: classes[0][key] for key in ("class", "label", "probability")}
        seen = data_url(images[i]) if asked[i].reconstruct else None
        found.append(
            {**nearest, "unknown": unknown.get(i), "classes": classes, "reconstruction": drawn.get(i), "seen": seen}
        )
    return found


def _unknown(served: Served, images: Tensor, asked: Sequence[Asked]) -> dict[int, bool]:
    """Whether each image looks like no class, where that was asked; once per rate of false alarms."""
    learner, found = served.learner, dict[int, bool]()
    for share in {one.unknown for one in asked if one.unknown is not None}:
        rows = [i for i, one in enumerate(asked) if one.unknown == share]
        if isinstance(learner, TellsUnknown):
            found |= zip(rows, learner.unknown(images[rows], share).tolist())
    return found


def _drawn(served: Served, images: Tensor, asked: Sequence[Asked]) -> dict[int, str]:
    """The reconstruction of each image for which that was asked."""
    rows, learner = [i for i, one in enumerate(asked) if one.reconstruct], served.learner
    if not rows or not served.can["draw"] or not isinstance(learner, Draws):
        return {}
    return {i: data_url(image) for i, image in zip(rows, learner.reconstruct(images[torch.tensor(rows)]))}
