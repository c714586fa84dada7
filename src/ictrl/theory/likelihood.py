"""Cross-entropy: how unlikely a classifier holds the classes that images have."""

from torch import Tensor
from torch.nn import functional

from ictrl.parallel.sharing import mean, shared
from ictrl.shapes import Float, Int


def cross_entropy(logits: Float[Tensor, "n k"], rows: Int[Tensor, " n"]) -> Float[Tensor, ""]:
    """−log softmax(logits) of each image's row, the mean over all images, those of other processes too.

    >>> import torch
    >>> round(float(cross_entropy(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))), 5)
    0.41004
    """
    if shared() is None:
        return functional.cross_entropy(logits, rows)
    return mean(functional.cross_entropy(logits, rows, reduction="none"))
