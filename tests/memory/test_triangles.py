"""Half a symmetric matrix is all of it."""

import pytest
import torch

from ictrl.memory.triangles import half_size, lower_half, whole


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (7, 7), (3, 5, 5), (0, 4, 4)])
def test_there_and_back(shape: tuple[int, ...], generator: torch.Generator) -> None:
    A = torch.randn(shape, generator=generator)
    S = A + A.mT
    half = lower_half(S)
    assert half.shape == (*shape[:-2], half_size(shape[-1]))
    assert torch.equal(whole(half), S)


def test_what_lies_right_of_the_diagonal_is_not_looked_at() -> None:
    assert lower_half(torch.tensor([[1.0, 99.0], [2.0, 3.0]])).tolist() == [1, 2, 3]
