"""Old classes during a task: what is drawn of them, how often, and by whom."""

import pytest
import torch
from support import tiny_memory, tiny_players

from ictrl.training.replay import Replay, frozen_copy


def replay(resample: str, drawn_by_decoder: bool = False) -> Replay:
    players = tiny_players()
    decoder = frozen_copy(players.decoder) if drawn_by_decoder else None
    return Replay(tiny_memory(players.encoder), 4, decoder, resample, torch.Generator().manual_seed(0))  # type: ignore[arg-type]


def test_every_direction_is_drawn_from_equally_often() -> None:
    found = replay("task")
    Z_old, y_old, X_before = found.draw()
    assert (found.classes, found.rows) == (2, 2 * 3 * 4)  # classes · directions · samples
    assert Z_old.shape == (24, 16)
    assert y_old.tolist() == [0] * 12 + [1] * 12
    assert X_before is None


def test_features_are_drawn_once_or_at_every_step() -> None:
    kept, drawn = replay("task"), replay("step")
    assert kept.draw()[0] is kept.draw()[0]
    first, second = drawn.draw()[0], drawn.draw()[0]
    assert torch.equal(first, kept.draw()[0])  # from the same numbers
    assert not torch.equal(first, second)


@pytest.mark.parametrize("resample", ["task", "step"])
def test_the_decoder_of_before_draws_their_images(resample: str) -> None:
    found = replay(resample, drawn_by_decoder=True)
    Z_old, _, X_before = found.draw()
    assert X_before is not None
    assert not X_before.requires_grad
    assert torch.equal(X_before, tiny_players().decoder(Z_old))


def test_a_frozen_copy_never_changes() -> None:
    players = tiny_players()
    players.train_statistics(True)
    copied = frozen_copy(players.encoder)
    X = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    before = copied(X)
    with torch.no_grad():
        for parameter in players.encoder.parameters():
            parameter.add_(1)
    assert torch.equal(copied(X), before)
    assert not copied.training
    assert players.encoder.training
    assert not any(parameter.requires_grad for parameter in copied.parameters())
