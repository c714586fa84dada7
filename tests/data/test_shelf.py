"""Which images are held out."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ictrl.data.shelf import are_held_out, held_out_count, is_held_out


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_all_at_once_are_those_one_by_one(labels: list[int], share: float) -> None:
    seen = dict.fromkeys(labels, 0)
    expected = []
    for label in labels:
        expected.append(is_held_out(seen[label], share))
        seen[label] += 1
    found = are_held_out(torch.tensor(labels), share)
    assert found.tolist() == expected
    assert int(found.sum()) == sum(held_out_count(count, share) for count in seen.values())
