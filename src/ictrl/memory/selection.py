"""Which images remain of old and new ones, beyond the rules of `buffer`: by greed for balance, by spread.

greedy balance   whoever comes takes a place while its class has less than its share, if need be from the largest
                 class (Prabhu et al., ECCV 2020)
spread           evenly spaced in the order of some number, such as how sure a network is (Bang et al., CVPR 2021)
"""

import torch
from torch import Tensor

from ictrl.shapes import Float, Int


def greedy_balanced(
    held: Int[Tensor, " m"], new: Int[Tensor, " n"], capacity: int, generator: torch.Generator
) -> Int[Tensor, " kept"]:
    """Places of those that remain, among the rows that are held and, behind these, the new ones.

    The new ones come in random order; one whose class has less than capacity / classes images gets in, and where all
    places are taken, a random image of the largest class goes.
    """
    device = generator.device
    order = torch.randperm(len(new), generator=generator, device=device).tolist()
    dice, rows = torch.rand(len(new), generator=generator, device=device).tolist(), new.tolist()
    kept: dict[int, list[int]] = {}
    for place, row in enumerate(held.tolist()):
        kept.setdefault(row, []).append(place)
    for place, die in zip(order, dice):
        mine = kept.setdefault(rows[place], [])
        if len(mine) * len(kept) >= capacity:
            continue
        if sum(map(len, kept.values())) >= capacity:
            largest = max(kept.values(), key=len)
            largest.pop(int(die * len(largest)))
        mine.append(len(held) + place)
    places = [place for row in sorted(kept) for place in kept[row]]
    return torch.tensor(places, dtype=torch.long, device=new.device)


def spread(numbers: Float[Tensor, " n"], count: int) -> Int[Tensor, " count"]:
    """So many places, evenly spaced in ascending order of their numbers, the smallest first.

    >>> spread(torch.tensor([0.3, 0.1, 0.4, 0.2, 0.0, 0.5]), 3).tolist()
    [4, 3, 2]
    """
    count = min(count, len(numbers))
    steps = torch.arange(count, device=numbers.device) * len(numbers) // max(count, 1)
    return numbers.argsort(stable=True)[steps]
