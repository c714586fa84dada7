"""icarl and eeil: which exemplars are kept, what a step pays for, what classifies, and two stages in one task."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, everything, learner_of, recipe_of, same, stop_after
from numpy.typing import NDArray
from support import pictures
from torch import Tensor

from ictrl import ConfigError, EpochReport, StageConfig, load_learner
from ictrl.memory.buffer import Exemplars
from ictrl.methods.eeil import EEIL, Tutor
from ictrl.methods.exemplars import ExemplarLearner
from ictrl.methods.icarl import ICaRL
from ictrl.methods.supervised import Seen
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with

BOTH = pytest.mark.parametrize("method", ["icarl", "eeil"])
LONG = {"epochs": 12, "learning_rate": 0.1}
STAGES = {"icarl": {"stage": LONG}, "eeil": {"first": LONG, "later": LONG, "balanced": {"epochs": 6}}}


def exemplar_learner(method: str, tasks: int = 2, **settings: Any) -> ExemplarLearner:
    learner = learner_of(method, tasks, **settings)
    assert isinstance(learner, ExemplarLearner)
    return learner


def seen_of(images: Tensor, rows: Tensor) -> Seen:
    return Seen(to_float(images), rows, images, torch.arange(len(images)))


def logits_of(learner: Any, images: Tensor) -> NDArray[np.float64]:
    with torch.no_grad():
        return learner.head(learner.encoder(to_float(images))).double().numpy()


def softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


@BOTH
def test_old_classes_survive(method: str) -> None:
    learner, other = learner_of(method, **STAGES[method]), learner_of("finetune", later={"epochs": 30})
    old = (TEST_LABELS == 5) | (TEST_LABELS == -4)
    assert learner.score(TESTS, TEST_LABELS) > 0.9
    assert learner.score(TESTS[old], TEST_LABELS[old]) > other.score(TESTS[old], TEST_LABELS[old]) + 0.3


@BOTH
def test_equally_many_are_kept_and_old_classes_give_up_their_last_ones(method: str) -> None:
    first = exemplar_learner(method, 1).exemplars()
    assert first.rows.tolist() == [0] * 6 + [1] * 6
    learner = exemplar_learner(method)
    second = learner.exemplars()
    assert second.rows.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert torch.equal(second.images[:6], first.images[[0, 1, 2, 6, 7, 8]])
    more = {"icarl": 4 * 4 * 16, "eeil": 2 * 8}[method]  # means; sizes of tasks
    assert learner.kept_bytes == 12 * (64 + 8) + more + 4 * 8
    assert len(exemplar_learner(method, 1, buffer={"images": 1000}).exemplars().rows) == 40
    uneven = exemplar_learner(method, buffer={"images": 10}).exemplars().rows
    assert uneven.bincount().tolist() == [3, 3, 2, 2]


@BOTH
def test_exemplars_are_herded_by_the_networks_after_the_task(method: str) -> None:
    learner = exemplar_learner(method)
    images, labels = TASKS[1]
    kept = learner.exemplars()
    for row, label in ((2, 2), (3, 30)):
        own = images[labels == label]
        Z = learner.encode(own).double().numpy()
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        chosen: list[int] = []
        for k in (1, 2, 3):
            left = [i for i in range(len(Z)) if i not in chosen]
            chosen.append(min(left, key=lambda i: np.linalg.norm(Z.mean(0) - Z[[*chosen, i]].sum(0) / k)))
        assert torch.equal(kept.images[kept.rows == row], own[chosen])


@BOTH
def test_every_step_sees_new_images_and_exemplars(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, shown = exemplar_learner(method, 1), list[Tensor]()
    train = type(learner).train

    def watched(self: Any, X: Tensor, rows: Tensor, stage: StageConfig, *more: Any) -> None:
        shown.append(rows.bincount())
        train(self, X, rows, stage, *more)

    monkeypatch.setattr(type(learner), "train", watched)
    learner.learn(*TASKS[1])
    expected = {"icarl": [[6, 6, 20, 20]], "eeil": [[6, 6, 20, 20], [6, 6, 6, 6]]}[method]
    assert [counts.tolist() for counts in shown] == expected


def test_icarls_loss_against_numpy() -> None:
    learner = exemplar_learner("icarl", 1)
    assert isinstance(learner, ICaRL)
    images, rows = pictures([5, -4, 2, 30], each=3, seed=4)[0], torch.arange(12) % 4
    teacher, before = learner.teacher(), logits_of(learner, images)
    learner.resize(4)
    now, targets = logits_of(learner, images), np.eye(4)[rows.numpy()]
    terms = learner.loss(seen_of(images, rows), {"teacher": teacher})
    targets[:, :2] = 1 / (1 + np.exp(-before))
    q = 1 / (1 + np.exp(-now))
    every = -(targets * np.log(q) + (1 - targets) * np.log(1 - q))
    assert float(terms["distillation"].detach()) == pytest.approx(every[:, :2].sum() / 48, rel=1e-4)
    assert float(terms["cross_entropy"].detach()) == pytest.approx(every[:, 2:].sum() / 48, rel=1e-4)
    assert set(learner.loss(seen_of(images, rows), {})) == {"cross_entropy"}


def test_icarl_classifies_by_the_nearest_mean_of_exemplars() -> None:
    learner = exemplar_learner("icarl")
    kept = learner.exemplars()
    Z, M = learner.encode(TESTS).double().numpy(), learner.encode(kept.images).double().numpy()
    Z, M = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (Z, M))
    means = np.stack([M[kept.rows.numpy() == learner.labels.index(label)].mean(0) for label in (-4, 2, 5, 30)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    distances = ((Z[:, None] - means) ** 2).sum(2)
    np.testing.assert_allclose(learner.scores(TESTS).numpy(), -distances, atol=1e-5)
    assert learner.predict(TESTS).tolist() == np.array([-4, 2, 5, 30])[distances.argmin(1)].tolist()


def test_eeils_loss_against_numpy() -> None:
    """Distillation within the classes of each task that the teacher knows, two and one here."""
    learner = exemplar_learner("eeil", 1, temperature=3.0)
    assert isinstance(learner, EEIL)
    learner.resize(3)
    images, rows = pictures([5, -4, 2, 30], each=3, seed=4)[0], torch.arange(12) % 4
    tutor, before = Tutor(learner.teacher(), [1, 2], torch.zeros(0)), logits_of(learner, images) / 3
    learner.resize(4)
    with torch.no_grad():
        learner.head.weight.mul_(1.5)  # type: ignore[union-attr, operator]
    now = logits_of(learner, images)
    terms = learner.loss(seen_of(images, rows), {"tutor": tutor})
    expected = 0.0
    for part in (slice(0, 1), slice(1, 3)):
        p, q = softmax(before[:, part]), softmax(now[:, part] / 3)
        expected += (p * np.log(p / q)).sum(1).mean()
    assert expected > 0
    assert float(terms["distillation"].detach()) == pytest.approx(expected, rel=1e-3)
    plain = -np.log(softmax(now)[np.arange(12), rows.numpy()]).mean()
    assert float(terms["cross_entropy"].detach()) == pytest.approx(plain, rel=1e-4)


def test_eeil_fine_tunes_on_a_herd_of_each_class() -> None:
    learner = exemplar_learner("eeil", 1)
    assert isinstance(learner, EEIL)
    images, labels = TASKS[1]
    both = learner.with_exemplars(images, 2 + (labels == 30).long())
    chosen = both.at(learner.balanced(both))
    assert chosen.rows.bincount().tolist() == [6, 6, 6, 6]
    assert torch.equal(chosen.images[:12], learner.exemplars().images)
    new = Exemplars(images, 2 + (labels == 30).long())
    assert torch.equal(chosen.images[12:], new.images[learner.herd(*new, {2: 6, 3: 6})])


@pytest.mark.parametrize("ema", [0.0, 1.5])
@pytest.mark.parametrize("epoch", [1, 2, 3, 4])
def test_eeil_goes_on_exactly_in_either_stage(epoch: int, ema: float, tmp_path: Path) -> None:
    """After each of two epochs of its first stage and two of its second, in a learner that was read from a file."""
    settings = {"first": {"ema": ema}, "later": {"ema": ema}, "balanced": {"epochs": 2, "ema": ema}}
    learner = learner_of("eeil", 1, **settings)
    learner.save(tmp_path / "before")
    stop_after(learner, TASKS[1], epoch, tmp_path / "stopped")
    again, reports = load_learner(tmp_path / "before"), list[EpochReport]()
    again.learn(*TASKS[1], progress=reports.append, resume=tmp_path / "stopped")
    assert [(report.epoch, report.epochs) for report in reports] == [(e, 4) for e in range(epoch + 1, 5)]
    assert same(everything(again), everything(learner.learn(*TASKS[1])))


def test_eeil_knows_which_classes_came_together() -> None:
    learner = learner_of("eeil")
    assert learner.kept_tensors()["tasks"].tolist() == [2, 2]
    assert learner.learn(*pictures([7, 8, 9])).kept_tensors()["tasks"].tolist() == [2, 2, 3]


@BOTH
def test_every_class_needs_an_exemplar(method: str) -> None:
    learner = learner_of(method, 1, buffer={"images": 3})
    before = everything(learner)
    with pytest.raises(ConfigError, match="Expected buffer.images to be at least the 4 classes but got 3"):
        learner.learn(*TASKS[1])
    assert same(everything(learner), before)


@BOTH
def test_kept_tensors_that_do_not_fit_are_refused(method: str) -> None:
    learner = learner_of(method)
    kept, other = learner.kept_tensors(), {"icarl": "means", "eeil": "tasks"}[method]
    for wrong in ({"rows": kept["rows"][:-1]}, {"rows": kept["rows"] % 3}, {other: kept[other][:-1]}):
        with pytest.raises(ValueError):  # noqa: PT011
            learner.kept_from(learner.labels, {**kept, **wrong})


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("icarl", {"buffer": {"images": 0}}, "Expected buffer.images to be at least 1 but got 0"),
        ("icarl", {"stage": {"batch": "rule"}}, 'Expected stage.batch to be a number but got "rule"'),
        ("eeil", {"balanced": {"batch": "rule"}}, 'Expected balanced.batch to be a number but got "rule"'),
        ("eeil", {"temperature": 0.0}, "Expected temperature to be above 0 but got 0.0"),
    ],
)
def test_wrong_settings_are_refused(method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of(method), {"method": settings})
