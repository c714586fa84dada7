"""Coding rates of small moments, each matrix in the registers of one program: one launch instead of ten.

The libraries factorise a batch of matrices, solve, multiply, and take logarithms, and on so little data each of these
steps is waiting. Here every pivot is eliminated in turn (Gauss and Jordan), which leaves the inverse in the matrix's
place and the pivots as factors of the determinant.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST = 128  # rows of a matrix that still fit into a program's registers


def coding_rates(S: Tensor, n: Tensor, eps_sq: float) -> tuple[Tensor, Tensor, Tensor]:
    """½ log det(I + αS) with α = d/(n ε²), its derivative ½α(I + αS)⁻¹, and 0 or the first row that failed.

    S is (m, d, d) with d up to WIDEST, n is (m,), both float32.
    """
    S = S.contiguous()
    m, d, _ = S.shape
    rates, derivatives = torch.empty_like(n), torch.empty_like(S)
    failed = torch.empty(m, dtype=torch.int32, device=S.device)
    _coding_rate[(m,)](S, n, rates, derivatives, failed, d, eps_sq, SIDE=triton.next_power_of_2(d), num_warps=4)
    return rates, derivatives, failed


@triton.jit
def _coding_rate(S, n, rates, derivatives, failed, d, eps_sq, SIDE: tl.constexpr):
    matrix = tl.program_id(0)
    i = tl.arange(0, SIDE)
    diagonal = i[:, None] == i[None, :]
    at = matrix.to(tl.int64) * d * d + i[:, None] * d + i[None, :]
    there = (i < d)[:, None] & (i < d)[None, :]
    count = tl.load(n + matrix)
    alpha = tl.where(count > 0, d / (tl.maximum(count, 1e-30) * eps_sq), 0.0)
    A = alpha * tl.load(S + at, there, 0.0) + tl.where(diagonal, 1.0, 0.0)
    log_det = 0.0
    failure = 0
    for k in range(d):
        row = tl.sum(tl.where(i[:, None] == k, A, 0.0), 0)
        pivot = tl.sum(tl.where(i == k, row, 0.0), 0)
        failure = tl.where((failure == 0) & ((pivot > 0) == 0), k + 1, failure)  # NaN fails too
        log_det += tl.log(pivot)
        # A stays symmetric, so its row is also its column. With pivot − 1 in the pivot's place, one outer product does
        # the elimination and turns row and column k into those of 2I − A⁻¹
        r = tl.where(i == k, pivot - 1, row)
        A -= r[:, None] * (r / pivot)[None, :]
    tl.store(rates + matrix, 0.5 * log_det)
    tl.store(failed + matrix, failure)
    tl.store(derivatives + at, 0.5 * alpha * (tl.where(diagonal, 2.0, 0.0) - A), there)
