"""Every method that draws can be measured, one class at first included; the others are refused in one line."""

import pytest
import torch
from run_support import quick
from support import pictures
from visualize.stand_in_judges import Means

from ictrl.data import tasks_from_arrays
from ictrl.errors import InputError
from ictrl.methods.base import LEARNERS, create_learner
from ictrl.methods.capabilities import Draws
from ictrl.visualize.fidelity import SETS, measure_each

DRAW = sorted(
    name for name, kind in LEARNERS.items() if issubclass(kind, Draws) and kind.__module__.startswith("ictrl")
)


def test_these_draw() -> None:
    assert {"dgmw", "dgr", "eec", "eecs", "frozen", "ictrl", "joint_dcgan", "mergan", "wide-ictrl"} <= {*DRAW}


@pytest.mark.parametrize("name", DRAW)
def test_drawings_are_measured(name: str) -> None:
    groups = ([3], [1, 0])
    _, tasks = tasks_from_arrays([(*pictures(group, 14), *pictures(group, 6, seed=1)) for group in groups])
    learners = [create_learner(quick(name)) for _ in groups]
    for count, learner in enumerate(learners, start=1):
        for task in tasks[:count]:
            learner.learn(task.images, task.labels)
    one, all_three = measure_each(learners, tasks, Means(), images=30)
    assert one.overall.images == {"training": 10, "test images": 6, "reconstructions": 6, "samples": 10}
    assert sorted(all_three.by_class) == [0, 1, 3]
    assert one.by_class[3].recognised["samples"] == 1.0  # it knows no other class
    for whole in (one.overall, all_three.overall):
        for shares in (whole.distances, whole.precision, whole.recall, whole.recognised):
            assert tuple(shares) == SETS
            assert torch.tensor([*shares.values()]).isfinite().all()


def test_a_method_without_a_decoder_is_refused() -> None:
    _, tasks = tasks_from_arrays([(*pictures([0, 1], 14), *pictures([0, 1], 6))])
    learner = create_learner(quick("finetune")).learn(tasks[0].images, tasks[0].labels)
    with pytest.raises(InputError, match=r"Expected a method that can draw \(.*ictrl.*\) but finetune cannot."):
        measure_each([learner], tasks, Means(), images=30)
