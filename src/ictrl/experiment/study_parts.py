"""Parts of a study for several machines: the K-th of N is the same wherever it is asked for."""

import re
from collections.abc import Sequence
from math import ceil

from ictrl.errors import InputError
from ictrl.experiment.study import Planned
from ictrl.recipes.tables import beginning


def read_part(text: str) -> tuple[int, int]:
    """K and N of a text K/N.

    >>> read_part("2/8")
    (2, 8)
    """
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, flags=re.ASCII)
    k, n = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= k <= n:
        raise InputError(f"Expected --part to be K/N with K from 1 to N, such as 1/4, but got {text!r}.")
    return k, n


def part_of(planned: Sequence[Planned], k: int, n: int) -> list[Planned]:
    """The runs of the k-th of n parts, counted from 1: every run is in one part, whatever is done of it already.

    Parts have about as many epochs each. Runs that begin alike stay together, so that one of them learns their first
    task for all, unless they are more than a fair share: several parts at once are then worth a first task each.
    """
    alike: dict[str, list[int]] = {}
    for index, item in enumerate(planned):
        alike.setdefault(beginning(item.recipe), []).append(index)
    share = ceil(len(planned) / n)
    bundles = [group[i : i + share] for group in alike.values() for i in range(0, len(group), share)]
    epochs = [item.epochs[1] for item in planned]
    parts, loads = [list[int]() for _ in range(n)], [0] * n
    for bundle in sorted(bundles, key=lambda bundle: -sum(epochs[i] for i in bundle)):  # the largest first
        lightest = loads.index(min(loads))
        parts[lightest] += bundle
        loads[lightest] += sum(epochs[i] for i in bundle)
    return [planned[i] for i in sorted(parts[k - 1])]
