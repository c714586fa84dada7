"""An autoencoder learns images: their pixels, and what another network sees of them."""

from typing import Any

import torch
from torch import Tensor, nn

from ictrl.nets.wrappers import run_in, run_stages, to_float
from ictrl.shapes import Float, UInt8
from ictrl.training.augmentation import draw
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import adam, untrained
from ictrl.training.state import TrainingState


def learn_to_code(
    pair: tuple[nn.Module, nn.Module],
    witness: nn.Module,
    images: UInt8[Tensor, "n c h w"],
    settings: Any,
    precision: torch.dtype,
    state: TrainingState,
    hooks: TaskHooks,
) -> None:
    """A stage, `settings.coding`, of encoder and decoder; the witness, whose stages they are held to, stays as it is.

    All of the state is written with a stopped task, which may have several stages.
    """
    both, stage, generator = nn.Sequential(*pair), settings.coding, state.generator
    device = next(both.parameters()).device
    source = ImageSource(images, device)
    batches = Batches(len(source), stage.batch, generator, device)
    optimiser = adam(both, stage.learning_rate, (0.9, 0.999))

    def step(chosen: Tensor, *sent: Tensor) -> dict[str, Tensor]:
        X = draw(stage.augmentation, chosen, generator).apply(source.pixels(chosen, *sent), precision)
        X_hat = run_in(precision, pair[1], run_in(precision, pair[0], X))
        terms = {"pixels": (1 - settings.content) * (X_hat.float() - X.float()).square().mean()}
        if settings.content:
            terms["content"] = settings.content * content(witness, X, X_hat, precision)
        optimiser.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimiser.step()
        return terms

    both.train()
    whole = TrainingState(state.networks, {**state.optimisers, "coding": optimiser}, generator)
    with untrained(witness):  # gradients pass through it, on their way to the decoder
        run_epochs(step, source, batches, stage, whole, hooks)
    if stage.ema:
        batches.shuffle()  # a task stopped after its last epoch does not know that epoch's order
        refresh_batchnorm(both, (to_float(source.pixels(*given)) for given in source.batches(batches.rows)))
    both.eval()


def content(
    witness: nn.Module, X: Float[Tensor, "n c h w"], X_hat: Float[Tensor, "n c h w"], precision: torch.dtype
) -> Float[Tensor, ""]:
    """mean (a(x) − a(x̂))² / mean a(x)², a the last stage of a network."""
    with torch.no_grad():
        wanted = run_stages(precision, witness, X)[-1].float()
    apart = run_stages(precision, witness, X_hat)[-1].float() - wanted
    return apart.square().mean() / wanted.square().mean()
