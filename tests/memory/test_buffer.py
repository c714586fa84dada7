"""Images that are kept: a uniform sample by the reservoir, equally many of each class, herding."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ictrl.memory.buffer import EMPTY, Exemplars, ReservoirBuffer, balanced, exemplars_from, herded


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images_of(rows: Tensor) -> Tensor:
    """An image a row, all its pixels the row's number."""
    return rows.to(torch.uint8)[:, None, None, None].expand(-1, 1, 2, 2).contiguous()


def filled(capacity: int, count: int, batch: int, seed: int = 0, **more: Any) -> ReservoirBuffer:
    buffer, random = ReservoirBuffer(capacity, (1, 2, 2), **more), generator(seed)
    for rows in torch.arange(count).split(batch):
        buffer.add(images_of(rows), rows, random)
    return buffer


def test_while_there_is_room_everything_is_kept_in_order() -> None:
    buffer = filled(10, 7, batch=3)
    kept = buffer.tensors()
    assert kept["rows"].tolist() == list(range(7))
    assert torch.equal(kept["images"], images_of(kept["rows"]))
    assert int(kept["seen"]) == 7


@pytest.mark.parametrize("batch", [1, 7, 40])
def test_every_image_is_kept_with_the_same_chance(batch: int) -> None:
    counts = np.zeros(40)
    for seed in range(600):
        kept = filled(8, 40, batch, seed).tensors()
        assert torch.equal(kept["images"], images_of(kept["rows"]))  # images and rows belong together
        assert len(kept["rows"].unique()) == 8
        counts[kept["rows"].numpy()] += 1
    expected, deviation = 600 * 8 / 40, (600 * 0.2 * 0.8) ** 0.5
    assert np.abs(counts - expected).max() < 4 * deviation
    assert abs(counts[:20].sum() - counts[20:].sum()) < 4 * (600 * 8) ** 0.5


def test_it_draws_different_images_and_says_which_are_not_there() -> None:
    buffer = filled(10, 4, batch=2)
    drawn = buffer.draw(6, generator())
    assert sorted(drawn.rows[drawn.there].tolist()) == [0, 1, 2, 3]
    assert drawn.rows[~drawn.there].tolist() == [EMPTY] * 2
    shown = drawn.filled(images_of(torch.tensor([7, 8, 9])))
    assert torch.equal(shown.rows, drawn.rows)
    assert torch.equal(shown.images[drawn.there], drawn.images[drawn.there])
    assert torch.equal(shown.images[~drawn.there], images_of(torch.tensor([8, 9])))
    whole = filled(10, 10, batch=5).draw(4, generator(3))
    assert bool(whole.there.all())
    assert len(whole.rows.unique()) == 4
    assert torch.equal(whole.images, images_of(whole.rows))


def test_all_are_drawn_equally_often() -> None:
    buffer, random, counts = filled(10, 10, batch=5), generator(), torch.zeros(10)
    for _ in range(500):
        counts[buffer.draw(3, random).rows] += 1
    assert float((counts - 150).abs().max()) < 4 * (500 * 0.3 * 0.7) ** 0.5


def test_logits_lie_beside_their_image_and_may_become_more() -> None:
    buffer, random = ReservoirBuffer(4, (1, 2, 2), classes=2), generator()
    rows = torch.arange(3)
    buffer.add(images_of(rows), rows, random, torch.stack([rows, -rows], 1).float())
    larger = ReservoirBuffer(4, (1, 2, 2), classes=3)
    larger.load(buffer.tensors())
    larger.add(images_of(torch.tensor([9])), torch.tensor([9]), random, torch.tensor([[9.0, -9.0, 5.0]]))
    drawn = larger.draw(4, random)
    assert drawn.logits is not None
    for row, logits, known in zip(drawn.rows.tolist(), drawn.logits.tolist(), drawn.known.tolist()):
        assert logits == [row, -row, 5.0 if row == 9 else 0.0]
        assert known == [True, True, row == 9]


def test_what_it_holds_can_be_loaded() -> None:
    one = filled(5, 30, batch=4)
    other = ReservoirBuffer(5, (1, 2, 2))
    other.load(one.tensors())
    for buffer in (one, other):
        buffer.add(images_of(torch.arange(4)), torch.arange(4), generator(1))
    for name, tensor in one.state_dict().items():
        assert torch.equal(
            tensor[:5] if tensor.ndim else tensor, other.state_dict()[name][:5] if tensor.ndim else tensor
        )


def test_equally_many_of_each_class() -> None:
    rows = torch.tensor([0] * 9 + [1] * 9 + [4] * 9)
    assert balanced(rows, 10) == {0: 4, 1: 3, 4: 3}
    assert balanced(rows, 100) == {0: 9, 1: 9, 4: 9}
    assert balanced(rows, 2) == {0: 1, 1: 1, 4: 0}


def test_herding_against_a_slow_reference() -> None:
    Z = torch.randn(20, 3, generator=generator(), dtype=torch.float64)
    chosen: list[int] = []
    for k in range(1, 8):
        distances = {
            i: np.linalg.norm(Z.numpy().mean(0) - Z.numpy()[[*chosen, i]].sum(0) / k)
            for i in range(20)
            if i not in chosen
        }
        chosen.append(min(distances, key=distances.__getitem__))
    assert herded(Z, 7).tolist() == chosen
    assert sorted(herded(Z, 50).tolist()) == list(range(20))


@pytest.mark.parametrize(
    ("images", "rows", "message"),
    [
        (torch.zeros(3, 1, 2, 2), torch.zeros(3).long(), "torch.float32"),
        (torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.zeros(2).long(), r"rows \(2,\)"),
        (torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.tensor([5]), "for 2 classes"),
    ],
)
def test_exemplars_that_are_none_are_refused(images: Tensor, rows: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        exemplars_from({"images": images, "rows": rows}, 2)


def test_exemplars_are_joined_and_chosen() -> None:
    one, other = (Exemplars(images_of(rows), rows) for rows in (torch.tensor([0, 1]), torch.tensor([2])))
    both = one.joined(other)
    assert both.rows.tolist() == [0, 1, 2]
    assert torch.equal(both.at(torch.tensor([2, 0])).images, images_of(torch.tensor([2, 0])))
