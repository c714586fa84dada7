"""Distillation: how far a network's logits are from those of another that is to be imitated."""

from torch import Tensor

from ictrl.parallel.sharing import mean
from ictrl.shapes import Float


def soft_targets(logits: Float[Tensor, "n k"], wanted: Float[Tensor, "n k"], temperature: float) -> Float[Tensor, ""]:
    """T² · KL(softmax(wanted / T) ‖ softmax(logits / T)), the mean over rows (Hinton et al., 2015).

    T² makes gradients as large as those of cross-entropy, whatever T.

    >>> import torch
    >>> one = torch.tensor([[2.0, 0.0, -1.0]])
    >>> round(float(soft_targets(one, one + 3, 2.0)), 5)
    0.0
    """
    p, log_q = (wanted / temperature).log_softmax(1), (logits / temperature).log_softmax(1)
    return temperature**2 * mean((p.exp() * (p - log_q)).sum(1))
