"""Which images remain: balance by greed, and spread."""

import pytest
import torch
from torch import Tensor

from ictrl.memory.selection import greedy_balanced, spread

NONE = torch.zeros(0, dtype=torch.long)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def counts(rows: Tensor) -> list[int]:
    return torch.bincount(rows).tolist()


@pytest.mark.parametrize(
    ("capacity", "expected"), [(12, [3, 3, 3, 3]), (40, [10, 10, 10, 10]), (100, [20, 20, 20, 20])]
)
def test_each_class_gets_its_share(capacity: int, expected: list[int]) -> None:
    new = torch.arange(80) % 4
    places = greedy_balanced(NONE, new, capacity, seeded())
    assert counts(new[places]) == expected
    assert len(places.unique()) == len(places)


def test_where_shares_do_not_come_out_no_place_stays_free_and_no_class_has_two_more() -> None:
    new = torch.arange(80) % 4
    found = counts(new[greedy_balanced(NONE, new, 14, seeded())])
    assert sum(found) == 14
    assert max(found) - min(found) == 1


def test_new_classes_take_their_places_from_the_old_ones() -> None:
    held, new = torch.arange(20) % 2, torch.full((30,), 2)
    places = greedy_balanced(held, new, 21, seeded())
    both = torch.cat([held, new])
    assert counts(both[places]) == [7, 7, 7]
    old = places[places < 20]
    assert torch.equal(both[old], held[old])  # old ones keep their places in front


def test_a_small_class_keeps_all_and_nothing_goes_while_there_is_room() -> None:
    held, new = torch.tensor([0] * 11 + [1]), torch.tensor([2, 2])
    both = torch.cat([held, new])
    assert counts(both[greedy_balanced(held, new, 14, seeded())]) == [11, 1, 2]
    assert counts(both[greedy_balanced(held, new, 12, seeded())]) == [9, 1, 2]


def test_every_image_of_a_class_has_the_same_chance() -> None:
    held, new, kept = torch.zeros(8, dtype=torch.long), torch.arange(16) // 8 + 1, torch.zeros(24)
    for seed in range(2000):
        kept[greedy_balanced(held, new, 9, seeded(seed))] += 1
    assert kept.view(3, 8).sum(1).tolist() == [6000] * 3
    assert float((kept / 2000 - 3 / 8).abs().max()) < 5 * (3 / 8 * 5 / 8 / 2000) ** 0.5


def test_a_spread_is_even_from_the_smallest_on() -> None:
    numbers = torch.rand(100, generator=seeded())
    rank = numbers.argsort().argsort()
    assert rank[spread(numbers, 10)].tolist() == list(range(0, 100, 10))
    assert rank[spread(numbers, 3)].tolist() == [0, 33, 66]
    assert sorted(spread(numbers, 500).tolist()) == list(range(100))
    assert spread(numbers, 0).tolist() == []
