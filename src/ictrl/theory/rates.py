"""Coding rates: how many nats it takes to describe features up to an error, and what that says about classes.

The features of a class that fill few directions are cheap to encode; features that fill the whole space are expensive.
The rate of n features Z (rows, dimension d) up to a squared error ε² is that of a Gaussian with their second moments,

    R(Z) = ½ log det(I + d / (n ε²) · ZᵀZ).

Two numbers follow from it, and the whole method is a game on them:

- the *rate reduction* ΔR(Z) = R(Z) − Σⱼ nⱼ/n R(Zⱼ): what knowing the classes saves. Large when every class is cheap
  and all of them together are expensive, that is, when classes lie in different low-dimensional subspaces;
- the *distance* ΔR(Zⱼ, Ẑⱼ) = R(Zⱼ ∪ Ẑⱼ) − ½R(Zⱼ) − ½R(Ẑⱼ) between two equally large sets of features of one class:
  zero exactly if their second moments agree.

All of it is a function of the k matrices Sⱼ = ZⱼᵀZⱼ and their counts nⱼ, so nothing of size n×n is ever formed, classes
are a batch dimension, and every log-determinant of an objective comes out of one batched, blocked Cholesky (on a GPU
out of one kernel, where features are not too wide for it). What is returned here are these quantities themselves; signs
and weights belong to `objectives`.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ictrl.errors import NonFiniteError
from ictrl.kernels import gpu
from ictrl.shapes import Float, Int

PIVOT = 32  # rows factorised at a time; 16 to 64 are alike
WHOLE = 256  # a GPU factorises up to so many rows at once: block by block it would launch more and wait longer


class TranscriptionRates(NamedTuple):
    """What the loop X → Z → X̂ → Ẑ is judged by."""

    reduction: Float[Tensor, ""]
    """ΔR(Z)"""
    reduction_hat: Float[Tensor, ""]
    """ΔR(Ẑ)"""
    distance: Float[Tensor, " k"]
    """ΔR(Zⱼ, Ẑⱼ) of each class"""


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


def transcription_rates(S: Float[Tensor, "2 k d d"], n: Float[Tensor, "2 k"], eps_sq: float) -> TranscriptionRates:
    """ΔR(Z), ΔR(Ẑ) and every ΔR(Zⱼ, Ẑⱼ) from the moments of Z and Ẑ: 3k + 2 log-determinants at once."""
    k = n.shape[1]
    moments = torch.cat([S.flatten(0, 1), S.sum(0), S.sum(1)])  # (3k + 2, d, d)
    try:
        rates = coding_rate(moments, torch.cat([n.flatten(), n.sum(0), n.sum(1)]), eps_sq)
    except _CholeskyError as failure:
        sets = ("Z", "Z_hat", "Z and Z_hat")
        place = f"class {failure.index % k} of {sets[failure.index // k]}" if failure.index < 3 * k else "all classes"
        raise NonFiniteError(f"{failure.reason} ({place}).") from None
    each, both, whole = rates.split([2 * k, k, 2])
    R = each.view(2, k)
    reduction, reduction_hat = (whole - _weighted(R, n)).unbind()
    return TranscriptionRates(reduction, reduction_hat, distance=both - R.mean(0))


def _weighted(R: Float[Tensor, "*sets k"], n: Float[Tensor, "*sets k"]) -> Float[Tensor, "*sets"]:
    """Σ nⱼ/n Rⱼ, and 0 for no rows at all."""
    return (n * R).sum(-1) / n.sum(-1).clamp(min=1)


class _CodingRate(torch.autograd.Function):
    """½ log det(I + αS) with α = d/(n ε²), and its gradient ½α(I + αS)⁻¹ from the same factorisation."""

    @staticmethod
    def forward(ctx: Any, S: Tensor, n: Tensor, eps_sq: float) -> Tensor:
        d = S.shape[-1]
        each = S.reshape(-1, d, d)
        fast = gpu(S) if S.dtype == n.dtype == torch.float32 else None
        rates, derivatives, info = (
            fast.coding_rates(each, n.reshape(-1), eps_sq)
            if fast and d <= fast.WIDEST
            else _rates_and_derivatives(each, n.reshape(-1), eps_sq)
        )
        if not (S.is_cuda and torch.cuda.is_current_stream_capturing()):  # reading `info` waits for the device
            _check_cholesky(info, each, eps_sq)
        ctx.save_for_backward(derivatives.view(S.shape))
        return rates.view(n.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (derivative,) = ctx.saved_tensors
        return grad[..., None, None] * derivative, None, None


def _rates_and_derivatives(
    S: Float[Tensor, "m d d"], n: Float[Tensor, " m"], eps_sq: float
) -> tuple[Float[Tensor, " m"], Float[Tensor, "m d d"], Int[Tensor, " m"]]:
    """Rates, their derivatives, and 0 or the row at which a matrix failed."""
    d = S.shape[-1]
    alpha = torch.where(n > 0, d / eps_sq / n, 0.0)[:, None, None]  # an empty class has rate 0
    matrices = alpha * S
    matrices.diagonal(dim1=1, dim2=2).add_(1)
    half_log_det, inverse, info = (_cholesky if S.is_cuda and d <= WHOLE else _cholesky_sweep)(matrices)
    return half_log_det, inverse.mul_(0.5 * alpha), info


def _cholesky(A: Float[Tensor, "m d d"]) -> tuple[Float[Tensor, " m"], Float[Tensor, "m d d"], Int[Tensor, " m"]]:
    """½ log det A, A⁻¹, and 0 or the failing row of each of a batch of positive definite matrices."""
    m, d, _ = A.shape
    factor, info = torch.linalg.cholesky_ex(A)
    # by a triangular solve: `cholesky_inverse` of a batch is slow on a GPU and cannot be recorded in a graph
    eye = torch.eye(d, dtype=A.dtype, device=A.device)
    if A.is_cuda and m <= 8:  # so few are solved one after another: a ninth makes them a batch
        factor = torch.cat([factor, eye.expand(9 - m, d, d)])
    inverse = torch.linalg.solve_triangular(factor, eye, upper=False)[:m]
    return factor[:m].diagonal(dim1=1, dim2=2).log().sum(1), inverse.transpose(1, 2) @ inverse, info


def _cholesky_sweep(A: Float[Tensor, "m d d"]) -> tuple[Float[Tensor, " m"], Float[Tensor, "m d d"], Int[Tensor, " m"]]:
    """½ log det A, A⁻¹ (in A's place), and 0 or the failing row of each of a batch of positive definite matrices.

    Block by block: a Cholesky of the pivot block gives its share of the determinant and its inverse P⁻¹, and the sweep

        A_KK → −P⁻¹,   A_KR → P⁻¹A_KR,   A_RR → A_RR − A_RK P⁻¹ A_KR

    leaves −A⁻¹ once every block has had its turn. Nearly all of the work is batched products; a Cholesky of whole
    matrices and their triangular inverses would go one by one on a CPU.
    """
    m, d, _ = A.shape
    half_log_det = A.new_zeros(m)
    failed = torch.zeros(m, dtype=torch.int32, device=A.device)
    for start in range(0, d, PIVOT):
        K = slice(start, min(start + PIVOT, d))
        share, pivot_inverse, info = _cholesky(A[:, K, K])
        half_log_det += share
        failed = torch.where((failed == 0) & (info != 0), info + start, failed)
        rows = A[:, K].clone()  # (m, PIVOT, d)
        scaled = pivot_inverse @ rows
        A.baddbmm_(rows.transpose(1, 2), scaled, alpha=-1)
        A[:, K] = scaled
        A[:, :, K] = scaled.transpose(1, 2)
        A[:, K, K] = -pivot_inverse
    return half_log_det, A.neg_(), failed


class _CholeskyError(NonFiniteError):
    """A failed factorisation, and which matrix of the batch it was."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"{reason} (class {index})")
        self.index = index
        self.reason = reason

    def __reduce__(self) -> tuple[type["_CholeskyError"], tuple[int, str]]:
        """It is sent from one process to another, by what it was made of."""
        return type(self), (self.index, self.reason)


def _check_cholesky(failed: Tensor, S: Tensor, eps_sq: float) -> None:
    if not failed.any():
        return
    index = int(failed.nonzero()[0])
    if not S[index].isfinite().all():
        reason = "Expected finite features but got NaN or infinite second moments: lower the learning rate"
    else:
        digits, row = str(S.dtype).removeprefix("torch."), int(failed[index])
        reason = (
            f"Expected I + αS to be positive definite but rounding in {digits} broke it at row {row}: "
            f"raise eps_sq (now {eps_sq:g}), shorten the features, or use float64"
        )
    raise _CholeskyError(index, reason)
