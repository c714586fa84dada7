"""The loss against collapse, against NumPy and by what it is for."""

import numpy as np
import pytest
import torch

from ictrl.theory.collapse import JITTER, anti_collapse


@pytest.mark.parametrize("most", [0.5, 1.0, 10.0])
def test_it_is_the_formula(most: float, generator: torch.Generator) -> None:
    Z = torch.randn(40, 6, generator=generator, dtype=torch.float64) @ torch.diag(
        torch.tensor([0.1, 1, 3, 2, 0.5, 1]).double()
    )
    L = np.linalg.cholesky(np.cov(Z.numpy().T) + JITTER * np.eye(6))
    assert float(anti_collapse(Z, most)) == pytest.approx(-np.minimum(np.diag(L), most).mean(), rel=1e-10)


def test_its_gradient_is_right(generator: torch.Generator) -> None:
    Z = torch.randn(9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda Z: anti_collapse(Z, 0.9), Z)


def test_more_than_enough_is_not_rewarded(generator: torch.Generator) -> None:
    Z = 100 * torch.randn(40, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    loss = anti_collapse(Z)
    assert float(loss.detach()) == -1
    assert float(torch.autograd.grad(loss, Z)[0].abs().max()) == 0


@pytest.mark.parametrize("rows", [5, 40])
def test_descending_it_undoes_a_collapse(rows: int, generator: torch.Generator) -> None:
    """From features on a line, in batches of fewer rows than features too."""
    direction = torch.randn(6, generator=generator)
    line = torch.randn(40, 1, generator=generator) * direction + 1e-3 * torch.randn(40, 6, generator=generator)
    Z = line.clone().requires_grad_()
    optimiser = torch.optim.SGD([Z], 0.5)
    for i in range(300):
        optimiser.zero_grad()
        chosen = (torch.arange(rows) + i * rows) % 40
        anti_collapse(Z[chosen]).backward()
        torch.nn.utils.clip_grad_norm_([Z], 1.0)
        optimiser.step()
    assert Z.isfinite().all()
    assert float(anti_collapse(Z).detach()) < 2 * float(anti_collapse(line))
