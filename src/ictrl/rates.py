"""Coding rates: how many nats it takes to describe features up to an error, and what that says about classes.

The features of a class that fill few directions are cheap to encode; features that fill the whole space are expensive.
The rate of n features Z (rows, dimension d) up to a squared error ε² is that of a Gaussian with their second moments,

    R(Z) = ½ log det(I + d / (n ε²) · ZᵀZ).

Two numbers follow from it, and the whole method is a game on them:

- the *rate reduction* ΔR(Z) = R(Z) − Σⱼ nⱼ/n R(Zⱼ): what knowing the classes saves. Large when every class is cheap
  and all of them together are expensive, that is, when classes lie in different low-dimensional subspaces;
- the *distance* ΔR(Zⱼ, Ẑⱼ) = R(Zⱼ ∪ Ẑⱼ) − ½R(Zⱼ) − ½R(Ẑⱼ) between two sets of features of one class: zero exactly if
  their second moments agree.

All of it is a function of the k matrices Sⱼ = ZⱼᵀZⱼ and their counts nⱼ, so nothing of size n×n is ever formed, classes
are a batch dimension, and every log-determinant of an objective comes out of one batched Cholesky. The functions here
return these quantities themselves; signs and weights belong to `objectives`.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from ictrl.errors import InputError, NonFiniteError


class TranscriptionRates(NamedTuple):
    """What the loop X → Z → X̂ → Ẑ is judged by."""

    reduction: Float[Tensor, ""]
    """ΔR(Z)"""
    reduction_hat: Float[Tensor, ""]
    """ΔR(Ẑ)"""
    distance: Float[Tensor, " k"]
    """ΔR(Zⱼ, Ẑⱼ) of each class"""


def class_moments(
    Z: Float[Tensor, "n d"], y: Int[Tensor, " n"], classes: int
) -> tuple[Float[Tensor, "k d d"], Float[Tensor, " k"]]:
    """Second moments Sⱼ = ZⱼᵀZⱼ and counts nⱼ of the classes 0 … classes−1, in one pass over the rows.

    Rows may come in any order and classes may be empty. The work is n·d² + k·d³ whatever the sizes of the classes.

    >>> Z = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> S, n = class_moments(Z, torch.tensor([0, 1, 0]), classes=2)
    >>> S[0].tolist(), n.tolist()
    ([[10.0, 0.0], [0.0, 0.0]], [2.0, 1.0])
    """
    if y.shape != Z.shape[:1]:
        raise InputError(f"Expected one label a row but got {len(y)} labels for {len(Z)} rows.")
    if not Z.is_cuda and len(y) and not (int(y.min()) >= 0 and int(y.max()) < classes):
        raise InputError(
            f"Expected labels from 0 to {classes - 1} but got {int(y.min())} to {int(y.max())}: "
            "number the classes from 0, or raise `classes`."
        )
    if Z.dtype in (torch.bfloat16, torch.float16):
        Z = Z.float()  # half precision has too few digits for a log-determinant
    n = torch.zeros(classes, dtype=Z.dtype, device=Z.device).index_add_(0, y, Z.new_ones(len(y)))
    return _ClassMoments.apply(Z, y, n.long()), n


def coding_rate(S: Float[Tensor, "*k d d"], n: Float[Tensor, "*k"], eps_sq: float) -> Float[Tensor, "*k"]:
    """R(S, n) = ½ log det(I + d/(n ε²) S) for each of a batch of symmetric second moments; 0 where n is 0.

    >>> coding_rate(torch.eye(2), torch.tensor(2.0), eps_sq=1.0)  # ½ log det(2 I) = log 2
    tensor(0.6931)
    """
    return _CodingRate.apply(S, n, eps_sq)


def rate_reduction(S: Float[Tensor, "k d d"], n: Float[Tensor, " k"], eps_sq: float) -> Float[Tensor, ""]:
    """ΔR(Z) = R(ΣSⱼ, Σnⱼ) − Σ nⱼ/n R(Sⱼ, nⱼ)."""
    R = coding_rate(torch.cat([S, S.sum(0, keepdim=True)]), torch.cat([n, n.sum(0, keepdim=True)]), eps_sq)
    return R[-1] - _weighted(R[:-1], n)


def rate_distance(
    S: Float[Tensor, "k d d"],
    n: Float[Tensor, " k"],
    S_hat: Float[Tensor, "k d d"],
    n_hat: Float[Tensor, " k"],
    eps_sq: float,
) -> Float[Tensor, " k"]:
    """ΔR(Zⱼ, Ẑⱼ) = R(Sⱼ + Ŝⱼ, nⱼ + n̂ⱼ) − ½R(Sⱼ, nⱼ) − ½R(Ŝⱼ, n̂ⱼ) of each class; 0 where both sets are empty."""
    R, R_hat, R_both = coding_rate(
        torch.stack([S, S_hat, S + S_hat]), torch.stack([n, n_hat, n + n_hat]), eps_sq
    )  # each (k,)
    return R_both - 0.5 * R - 0.5 * R_hat


def transcription_rates(
    S: Float[Tensor, "k d d"],
    n: Float[Tensor, " k"],
    S_hat: Float[Tensor, "k d d"],
    n_hat: Float[Tensor, " k"],
    eps_sq: float,
) -> TranscriptionRates:
    """ΔR(Z), ΔR(Ẑ) and every ΔR(Zⱼ, Ẑⱼ): 3k + 2 log-determinants in one batched Cholesky."""
    k = len(n)
    moments = torch.cat([S, S_hat, S + S_hat, S.sum(0, keepdim=True), S_hat.sum(0, keepdim=True)])  # (3k + 2, d, d)
    counts = torch.cat([n, n_hat, n + n_hat, n.sum(0, keepdim=True), n_hat.sum(0, keepdim=True)])  # (3k + 2,)
    try:
        rates = coding_rate(moments, counts, eps_sq)
    except _CholeskyError as failure:
        sets = ("Z", "Z_hat", "Z and Z_hat")
        place = f"class {failure.index % k} of {sets[failure.index // k]}" if failure.index < 3 * k else "all classes"
        raise NonFiniteError(f"{failure.reason} ({place})") from None
    R, R_hat, R_both, R_all = rates.split([k, k, k, 2])
    return TranscriptionRates(
        reduction=R_all[0] - _weighted(R, n),
        reduction_hat=R_all[1] - _weighted(R_hat, n_hat),
        distance=R_both - 0.5 * R - 0.5 * R_hat,
    )


def _weighted(R: Float[Tensor, " k"], n: Float[Tensor, " k"]) -> Float[Tensor, ""]:
    """Σ nⱼ/n Rⱼ, and 0 for no rows at all."""
    return (n * R).sum() / n.sum().clamp(min=1)


class _ClassMoments(torch.autograd.Function):
    """Second moments by class: rows sorted by class, cut into blocks of one class each, one batched product.

    With blocks of d rows the padding costs at most k·d rows, so the product stays within n·d² + k·d³. The number of
    blocks is bounded by shapes alone: nothing has to be read back from the device to launch it.
    """

    @staticmethod
    def forward(ctx: Any, Z: Tensor, y: Tensor, counts: Tensor) -> Tensor:
        (n, d), k = Z.shape, len(counts)
        size = max(1, min(d, n))
        blocks = n // size + k  # Σ ceil(n_j / size) is at most this

        of_class = (counts + size - 1) // size  # blocks of each class  (k,)
        last_block = of_class.cumsum(0)
        order = y.argsort(stable=True)
        y_sorted = y[order]
        first_row = counts.cumsum(0) - counts
        rank = torch.arange(n, device=Z.device) - first_row[y_sorted]  # of a row within its class
        slot = (last_block - of_class)[y_sorted] * size + rank
        block_class = torch.searchsorted(last_block, torch.arange(blocks, device=Z.device), right=True)
        block_class.clamp_(max=k - 1)  # unused blocks hold zeros: they may go anywhere

        padded = Z.new_zeros(blocks * size, d).index_copy_(0, slot, Z[order]).view(blocks, size, d)
        products = padded.transpose(1, 2) @ padded  # (blocks, d, d)
        S = Z.new_zeros(k, d, d).index_add_(0, block_class, products)
        ctx.save_for_backward(padded, block_class, slot, order)
        return S

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """∂/∂z of a row of class j: (Gⱼ + Gⱼᵀ) z."""
        padded, block_class, slot, order = ctx.saved_tensors
        grad = grad + grad.transpose(1, 2)
        grad_sorted = (padded @ grad[block_class]).view(-1, grad.shape[-1])[slot]
        return torch.empty_like(grad_sorted).index_copy_(0, order, grad_sorted), None, None


class _CodingRate(torch.autograd.Function):
    """½ log det(I + αS), α = d/(n ε²), whose gradient ½α(I + αS)⁻¹ comes from the same Cholesky factor."""

    @staticmethod
    def forward(ctx: Any, S: Tensor, n: Tensor, eps_sq: float) -> Tensor:
        d = S.shape[-1]
        alpha = torch.where(n > 0, d / (n.clamp(min=1) * eps_sq), 0.0)  # an empty class has rate 0
        matrix = alpha[..., None, None] * S
        matrix.diagonal(dim1=-2, dim2=-1).add_(1)
        factor, info = torch.linalg.cholesky_ex(matrix)
        if not (S.is_cuda and torch.cuda.is_current_stream_capturing()):  # reading `info` waits for the device
            _check_cholesky(info, matrix, eps_sq)
        del matrix
        if ctx.needs_input_grad[0]:
            inverse = torch.cholesky_inverse(factor)
            ctx.save_for_backward(inverse.mul_(0.5 * alpha[..., None, None]))
        return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (derivative,) = ctx.saved_tensors
        return grad[..., None, None] * derivative, None, None


class _CholeskyError(NonFiniteError):
    """A failed factorisation, and which matrix of the batch it was."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"{reason} (class {index})")
        self.index = index
        self.reason = reason


def _check_cholesky(info: Tensor, matrix: Tensor, eps_sq: float) -> None:
    failed = info.flatten().nonzero().flatten()
    if not len(failed):
        return
    index = int(failed[0])
    if not matrix.reshape(-1, *matrix.shape[-2:])[index].isfinite().all():
        reason = "Expected finite features but got NaN or infinite second moments: lower the learning rate"
    else:
        digits, row = str(matrix.dtype).removeprefix("torch."), int(info.flatten()[index])
        reason = (
            f"Expected I + αS to be positive definite but rounding in {digits} broke it at row {row}: "
            f"raise eps_sq (now {eps_sq:g}), shorten the features, or use float64"
        )
    raise _CholeskyError(index, reason)
