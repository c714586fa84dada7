"""A thousand classes in a hundred tasks: the benchmark, and that nothing grows faster with classes than it has to."""

import pytest
from support import script

BENCH = script("classes")


def test_what_is_measured_of_many_classes() -> None:
    BENCH.MEASURED, measured = (10, 20, 40), {}
    found = BENCH.measure(BENCH.Scale(classes=40, tasks=4, images=12, d=16), game=(20,))
    for name in ("wide", "ictrl"):
        measured[name] = {row["classes"]: row for row in found[name]}
        assert list(measured[name]) == [10, 20, 40]
        assert all(row["right"] > 0.5 for row in found[name])  # the learners are real ones
    d, per_class = 16, 4 * 16 + 2 * 8  # a mean, its label and the count
    assert measured["wide"][40]["kept_bytes"] - measured["wide"][20]["kept_bytes"] == pytest.approx(
        20 * per_class, abs=400
    )
    own = 8 + 8 + 4 * (d + d * d)
    directions = measured["ictrl"][10]["kept_bytes"] / 10 - own
    assert measured["ictrl"][40]["kept_bytes"] == 40 * (own + directions)  # as much of each class as of the first
    assert [row["classes"] for row in found["game"]] == [20]
    assert [row["classes"] for row in found["run"]["rows"]] == [10, 20, 40]
