"""er and derpp: what a step pays for, what is kept, and that old classes survive by it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, everything, learner_of, recipe_of, same
from support import pictures
from torch import Tensor
from torch.nn.functional import cross_entropy

from ictrl import ConfigError, create_learner, load_learner
from ictrl.memory.buffer import ReservoirBuffer
from ictrl.methods.derpp import DERPP
from ictrl.methods.er import ER
from ictrl.methods.supervised import Seen
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with

LONG = {"epochs": 12, "learning_rate": 0.1}


def seen_of(learner: Any, images: Tensor, rows: Tensor) -> Seen:
    return Seen(to_float(images), rows, images, torch.arange(len(images)))


def buffer_of(learner: Any, images: Tensor, rows: Tensor, logits: Tensor | None = None) -> ReservoirBuffer:
    buffer = ReservoirBuffer(len(rows), tuple(images.shape[1:]), 0 if logits is None else logits.shape[1])
    buffer.add(images, rows, torch.Generator().manual_seed(0), logits)
    return buffer


@pytest.mark.parametrize("method", ["er", "derpp"])
def test_old_classes_survive(method: str) -> None:
    learner, other = learner_of(method, 2, stage=LONG), learner_of("finetune", 2, later={"epochs": 30})
    old = (TEST_LABELS == 5) | (TEST_LABELS == -4)
    assert learner.score(TESTS, TEST_LABELS) > 0.8
    assert learner.score(TESTS[old], TEST_LABELS[old]) > other.score(TESTS[old], TEST_LABELS[old]) + 0.3


def test_no_more_images_are_kept_than_the_buffer_holds_and_all_bytes_count() -> None:
    learner = learner_of("er")
    kept = learner.kept_tensors()
    assert len(kept["images"]) == 12
    assert learner.kept_bytes == 12 * (64 + 8) + 8 + 4 * 8  # pixels, rows, the count of what was seen, labels
    assert set(kept["rows"].tolist()) == {0, 1, 2, 3}
    given = {tuple(image.flatten().tolist()) for images, _ in TASKS for image in images}
    assert {tuple(image.flatten().tolist()) for image in kept["images"]} <= given
    few = learner_of("er", 1, buffer={"images": 1000})
    assert len(few.kept_tensors()["images"]) == 3 * 40  # every epoch adds its images again, as the authors have it


def test_er_pays_for_new_and_old_images_alike() -> None:
    learner = learner_of("er", 1, buffer={"images": 6, "batch": 6})
    assert isinstance(learner, ER)
    images, rows = TASKS[0][0][:10], torch.arange(10) % 2
    old, old_rows = pictures([5, -4], each=3, seed=4)[0], torch.arange(6) % 2
    found = learner.loss(seen_of(learner, images, rows), {"buffer": buffer_of(learner, old, old_rows)})
    both = torch.cat([images, old])
    with torch.no_grad():
        logits = learner.head(learner.encoder(to_float(both))).double().numpy()
    every = np.log(np.exp(logits).sum(1)) - logits[np.arange(16), torch.cat([rows, old_rows]).numpy()]
    assert {name: float(value.detach()) for name, value in found.items()} == {
        "cross_entropy": pytest.approx(every.mean(), rel=1e-5)
    }


def test_derpp_against_its_formula() -> None:
    learner = learner_of("derpp", 1, buffer={"images": 6, "batch": 6}, alpha=0.3, beta=0.7)
    assert isinstance(learner, DERPP)
    images, rows = TASKS[0][0][:10], torch.arange(10) % 2
    old, old_rows = pictures([5, -4], each=3, seed=4)[0], torch.arange(6) % 2
    stored = torch.randn(6, 2, generator=torch.Generator().manual_seed(1))
    buffer = buffer_of(learner, old, old_rows, stored)
    terms = learner.loss(seen_of(learner, images, rows), {"buffer": buffer})
    with torch.no_grad():
        new, again = (learner.head(learner.encoder(to_float(part))) for part in (images, old))
    assert float(terms["cross_entropy"].detach()) == pytest.approx(float(cross_entropy(new, rows)), rel=1e-5)
    assert float(terms["logits"].detach()) == pytest.approx(0.3 * float((again - stored).square().mean()), rel=1e-5)
    assert float(terms["replayed"].detach()) == pytest.approx(0.7 * float(cross_entropy(again, old_rows)), rel=1e-5)


def test_derpp_keeps_the_logits_of_before_the_step() -> None:
    learner = learner_of("derpp", 1)
    kept = learner.kept_tensors()
    assert kept["logits"].shape == (12, 2)
    assert kept["widths"].tolist() == [2] * 12
    later = learner_of("derpp", 2).kept_tensors()
    assert later["logits"].shape == (12, 4)
    old = later["widths"] == 2
    assert bool(old.any())
    assert not later["logits"][old][:, 2:].any()


@pytest.mark.parametrize("method", ["er", "derpp", "agem", "cls_er", "rainbow"])
def test_a_head_may_have_all_rows_from_the_start(method: str, tmp_path: Path) -> None:
    learner = learner_of(method, 1, head_rows=4)
    assert len(next(learner.head.parameters())) == 4  # type: ignore[attr-defined]
    scores = learner.scores(TESTS)
    assert scores.shape == (len(TESTS), 2)  # of the classes learned so far alone
    assert torch.allclose(scores.exp().sum(1), torch.ones(len(TESTS)), atol=1e-5)
    learner.save(tmp_path / "one.safetensors")
    again = load_learner(tmp_path / "one.safetensors")
    assert torch.equal(again.scores(TESTS), scores)
    assert same(everything(again.learn(*TASKS[1])), everything(learner.learn(*TASKS[1])))
    assert again.scores(TESTS).shape == (len(TESTS), 4)


@pytest.mark.parametrize("method", ["er", "derpp", "agem", "cls_er", "rainbow"])
def test_rows_of_the_head_may_begin_as_those_of_pytorch_do(method: str) -> None:
    settings = {"network": {"feature_dim": 100}, "head_rows": 50, "head_initialisation": "torch"}
    learner = create_learner(recipe_of(method, **settings))
    learner.resize(2)  # type: ignore[attr-defined]
    weight, bias = (part.detach() for part in learner.head.parameters())  # type: ignore[attr-defined]
    assert weight.shape == (50, 100)
    for part in (weight, bias):
        assert 0.08 < float(part.abs().max()) <= 0.1
        assert float(part.std()) == pytest.approx(0.1 / 3**0.5, rel=0.2)
    learner.resize(60)  # type: ignore[attr-defined]
    grown, also = (part.detach() for part in learner.head.parameters())  # type: ignore[attr-defined]
    assert torch.equal(grown[:50], weight)
    assert torch.equal(also[:50], bias)
    assert 0.08 < float(grown[50:].abs().max()) <= 0.1


def test_a_learner_of_others_settings_learns_and_is_read_again(tmp_path: Path) -> None:
    """Pixels scaled by channel, black edges, a head as PyTorch's: what the DER++ authors surround their step with."""
    network = {"pixel_means": (0.3,), "pixel_deviations": (0.2,), "kind": "resnet18", "width": 2, "feature_dim": 16}
    stage = {"augmentation": {"shifts": 1, "edges": "black"}}
    learner = learner_of("derpp", 1, network=network, stage=stage, head_rows=4, head_initialisation="torch")
    learner.save(tmp_path / "one.safetensors")
    again = load_learner(tmp_path / "one.safetensors")
    assert torch.equal(again.scores(TESTS), learner.scores(TESTS))
    assert same(everything(again.learn(*TASKS[1])), everything(learner.learn(*TASKS[1])))
    assert np.isin(learner.predict(TASKS[1][0]), TASKS[1][1]).mean() > 0.9


def test_with_all_rows_from_the_start_derpp_keeps_what_was_said_of_classes_to_come() -> None:
    kept = learner_of("derpp", 2, head_rows=5).kept_tensors()
    assert kept["logits"].shape == (12, 5)
    assert kept["widths"].tolist() == [5] * 12
    first = kept["rows"] < 2  # images of the first task
    assert bool(first.any())
    assert bool(kept["logits"][first][:, 2:].any())


def test_with_an_empty_buffer_the_first_step_is_cross_entropy_alone() -> None:
    learner = create_learner(recipe_of("derpp"))
    learner.resize(2)
    assert isinstance(learner, DERPP)
    empty = ReservoirBuffer(6, (1, 8, 8), 2)
    terms = learner.loss(seen_of(learner, TASKS[0][0][:10], torch.arange(10) % 2), {"buffer": empty})
    assert float(terms["logits"].detach()) == float(terms["replayed"].detach()) == 0.0


@pytest.mark.parametrize("method", ["er", "cls_er"])
def test_an_empty_buffer_shows_batchnorm_nothing_else(method: str) -> None:
    """The authors leave out what is not there; here a step has as many images as any other."""
    learner: Any = create_learner(recipe_of(method, network={"kind": "resnet"}, buffer={"images": 10, "batch": 10}))
    learner.resize(2)
    learner.encoder.train()
    images, rows = TASKS[0][0][:10], torch.arange(10) % 2
    expected = cross_entropy(learner.logits(to_float(images)), rows)
    terms = learner.loss(seen_of(learner, images, rows), {"buffer": ReservoirBuffer(10, (1, 8, 8))})
    assert float(terms["cross_entropy"].detach()) == pytest.approx(float(expected.detach()), rel=1e-4)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("er", {"buffer": {"images": 0}}, "Expected buffer.images to be at least 1 but got 0"),
        ("er", {"buffer": {"batch": 0}}, "Expected buffer.batch to be at least 1 but got 0"),
        ("er", {"stage": {"batch": "rule"}}, 'Expected stage.batch to be a number but got "rule"'),
        ("er", {"head_rows": -1}, "Expected head_rows to be at least 0 but got -1"),
        (
            "er",
            {"head_initialisation": "he"},
            "Expected method.head_initialisation to be 'own' or 'torch' but",
        ),
        ("derpp", {"alpha": -1.0}, "Expected alpha to be at least 0 but got -1.0"),
        ("derpp", {"optimiser": {"momentum": 1.0}}, "Expected optimiser.momentum to be at least 0 and below 1"),
        ("derpp", {"optimiser": {"weight_decay": -1.0}}, "Expected optimiser.weight_decay to be at least 0"),
    ],
)
def test_wrong_settings_are_refused(method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of(method), {"method": settings})
