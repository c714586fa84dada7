"""What commands that use a learner share."""

import pytest

from ictrl.cli.learners import find_label
from ictrl.errors import InputError


def test_a_name_goes_before_a_number() -> None:
    learned = {0: "1", 1: "cat", 5: "5"}  # folders called 1, 5 and cat would be counted so
    assert [find_label(given, learned) for given in ("1", "cat", "0", "5")] == [0, 1, 0, 5]
    with pytest.raises(InputError, match="learned are 0 1, 1 cat, 5."):
        find_label("dog", learned)


def test_of_many_classes_some_are_named() -> None:
    with pytest.raises(InputError, match=r"learned are 0, 1, .*, 19 … \(25 in all\)\.$"):
        find_label("cat", {label: str(label) for label in range(25)})
