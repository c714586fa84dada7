"""wide-gan: classifies exactly as wide does, and draws classes that stand still, against a critic."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, Mine, everything, learner_of, part_of, recipe_of, same
from sklearn.decomposition import PCA
from support import pictures
from torch import Tensor
from torch.nn.functional import normalize

from ictrl import ConfigError, EpochReport, InputError, create_learner, load_learner
from ictrl.memory.latents import HALF
from ictrl.memory.store import form_class_memory
from ictrl.methods.wide_gan import WideGAN
from ictrl.recipes.tables import recipe_with
from ictrl.training.loop import TaskHooks
from ictrl.visualize.walks import walk

DRAWN_WELL = {"first": {"epochs": 60}, "later": {"epochs": 60}}
OWN = 16 - 6  # numbers of a feature that are the image's own


@pytest.fixture(scope="module")
def learner() -> Any:
    """After two tasks, to look at and to leave as it is."""
    return learner_of("wide-gan")


@pytest.fixture(scope="module")
def artist() -> Any:
    """After two tasks, and long enough to draw."""
    return learner_of("wide-gan", **DRAWN_WELL)


def test_it_classifies_to_the_last_bit_as_wide_does(learner: WideGAN) -> None:
    plain = learner_of("wide")
    assert torch.equal(learner.scores(TESTS), plain.scores(TESTS))
    assert torch.equal(learner.predict_proba(TESTS), plain.predict_proba(TESTS))
    assert torch.equal(learner.strangeness(TESTS), plain.strangeness(TESTS))


def test_trunk_and_directions_learn_the_first_task_and_never_again_and_who_draws_learns_every_task() -> None:
    new, first, second = (learner_of("wide-gan", tasks) for tasks in (0, 1, 2))
    for network in ("encoder.", "head."):
        assert not same(part_of(new, network), part_of(first, network))
        assert same(part_of(first, network), part_of(second, network))
    for network in ("decoder.", "critic."):
        assert not same(part_of(new, network), part_of(first, network))
        assert not same(part_of(first, network), part_of(second, network))


def test_the_trunk_is_that_of_wide_with_averages_too() -> None:
    for ema in (0.0, 1.5):
        stages = {name: {"ema": ema} for name in ("first", "later")}
        assert same(
            part_of(learner_of("wide-gan", **stages), "encoder."), part_of(learner_of("wide", **{}), "encoder.")
        )


def test_an_images_own_part_is_what_scikit_learn_finds_in_the_last_stage(learner: WideGAN) -> None:
    """Its first principal directions on the first task's images, each of variance one, at unit length."""

    def last_stage(X: Tensor) -> np.ndarray:
        with torch.no_grad():
            return learner.encoder.stages(X / 127.5 - 1)[-1].flatten(1).numpy()

    found = PCA(OWN, whiten=True).fit(last_stage(TASKS[0][0]))
    expected = normalize(torch.from_numpy(found.transform(last_stage(TESTS))).float(), dim=1)
    with torch.no_grad():
        own = learner.encoder(TESTS / 127.5 - 1)
    signs = (own * expected).sum(0).sign()
    assert float((own * expected * signs).sum(1).min()) > 0.99


def test_a_feature_is_an_images_own_part_and_the_code_of_the_class_predicted(learner: WideGAN) -> None:
    Z = learner.features(TESTS)
    torch.testing.assert_close(Z.norm(dim=1), torch.ones(len(TESTS)))
    with torch.no_grad():
        torch.testing.assert_close(Z[:, :OWN], HALF * learner.encoder(TESTS / 127.5 - 1))
    for label in learner.labels:
        code = learner.recall(label).mean[OWN:]
        of_class = Z[learner.predict(TESTS) == label, OWN:]
        torch.testing.assert_close(of_class, code.expand(len(of_class), -1))


def test_points_are_brought_within_reach_without_touching_the_code(learner: WideGAN) -> None:
    """Features of images are where they are; a mean, which is shorter, is where images of its class may be."""
    Z, kept = learner.features(TESTS), learner.recall(learner.labels[0])
    torch.testing.assert_close(learner.within_reach(Z), Z)
    brought = learner.within_reach(kept.mean[None])[0]
    torch.testing.assert_close(brought[OWN:], kept.mean[OWN:])
    assert float(kept.mean[:OWN].norm()) < 0.99 * HALF
    torch.testing.assert_close(brought[:OWN], HALF * kept.mean[:OWN] / kept.mean[:OWN].norm())


def test_codes_of_classes_are_orthogonal_and_forgotten_ones_are_given_again(tmp_path: Path) -> None:
    learner = learner_of("wide-gan")

    def codes() -> Tensor:
        return torch.stack([learner.recall(label).mean[OWN:] / HALF for label in learner.labels])

    before = codes()
    torch.testing.assert_close(before @ before.T, torch.eye(4))
    learner.forget(-4)
    learner.learn(*pictures([7, 8, 9]))  # beyond the codes of one block of six there are others
    after = codes()
    assert torch.equal(after[:3], before[[1, 2, 3]])
    assert torch.equal(after[3], before[0])  # the one that was free again
    learner.learn(*pictures([11, 12]))
    assert float((codes() @ codes().T - torch.eye(8)).abs().max()) < 0.99


def test_what_is_kept_to_draw_from_is_that_of_all_old_images_for_ever(learner: WideGAN) -> None:
    memory = learner.settings.memory
    for X, y in TASKS:
        with torch.no_grad():
            own = learner.encoder(X / 127.5 - 1)
        for label in y.unique().tolist():
            kept = learner.recall(label)
            chosen = own[y == label]
            Z = torch.cat([HALF * chosen, kept.mean[OWN:].expand(len(chosen), -1)], 1)
            expected = form_class_memory(Z, memory.directions, memory.neighbours)
            for name in ("count", "mean", "covariance", "direction_means"):
                torch.testing.assert_close(getattr(kept, name), getattr(expected, name), atol=1e-5, rtol=1e-4)


def test_samples_have_the_mean_and_the_covariance_of_their_class(learner: WideGAN) -> None:
    latents, rows = learner._latents(learner.memory), torch.full((40_000,), 2)
    Z = latents.sample(rows, torch.Generator().manual_seed(0))
    kept = learner.recall(learner.labels[2])
    torch.testing.assert_close(Z.mean(0), kept.mean, atol=0.01, rtol=0)
    torch.testing.assert_close(torch.cov(Z.T, correction=0), kept.covariance, atol=0.01, rtol=0)
    assert float(Z[:, OWN:].std(0).max()) < 1e-3  # of a code there is nothing to draw


def test_it_draws_classes_that_it_recognises_itself(artist: WideGAN) -> None:
    assert artist.score(TESTS, TEST_LABELS) > 0.9
    for label in artist.labels:
        drawn = artist.sample(label, 30)
        assert (drawn.shape, drawn.dtype) == ((30, 1, 8, 8), torch.uint8)
        assert float((artist.predict(drawn) == label).float().mean()) > 0.8
        assert artist.sample(label, 3, direction=0).shape == (3, 1, 8, 8)
    assert artist.replay_recognised() > 0.8
    error = (artist.reconstruct(TESTS).float() - TESTS.float()).square().mean().sqrt()
    assert float(error) < 0.7 * float(TESTS.float().std())
    assert walk(artist, 5, 0).shape == (7, 1, 8, 8)
    with pytest.raises(InputError, match="direction from 0 to"):
        artist.sample(5, 3, direction=99)


def test_unless_old_classes_are_held_the_decoder_forgets_them() -> None:
    """As they were drawn after the first task, against how they are drawn after the second."""
    moved = {}
    for name, later in (("held", {}), ("let go", {"held": 0.0, "old_too": False})):
        learner = learner_of("wide-gan", 1, first={"epochs": 60}, later={"epochs": 60, **later})
        Z, _ = learner.replayed(torch.Generator().manual_seed(0))
        before = learner.decode(Z).float()
        learner.learn(*TASKS[1])
        moved[name] = float((learner.decode(Z).float() - before).square().mean())
    assert moved["held"] < 0.5 * moved["let go"]


def test_looking_does_not_change_what_is_learned_next() -> None:
    learner = learner_of("wide-gan", tasks=1)
    learner.sample(5, 7)
    learner.reconstruct(TESTS)
    learner.replay_recognised()
    learner.learn(*TASKS[1])
    assert same(everything(learner), everything(learner_of("wide-gan")))


def test_epochs_of_both_stages_are_counted_through() -> None:
    heard = list[EpochReport]()
    create_learner(recipe_of("wide-gan", trunk={"epochs": 2})).learn(*TASKS[0], progress=heard.append)
    assert [(report.epoch, report.epochs) for report in heard] == [(epoch, 5) for epoch in range(1, 6)]
    assert [("rotations" in report.terms, "decoder.matching" in report.terms) for report in heard] == (
        [(True, False)] * 2 + [(False, True)] * 3
    )


@pytest.mark.parametrize(
    ("settings", "terms"),
    [
        ({}, {"critic", "decoder.adversary", "decoder.matching", "decoder.held", "decoder.recognised"}),
        ({"adversary": 0.0, "recognised": 0.0}, {"decoder.matching", "decoder.held"}),
        ({"matching": 0.0, "held": 0.0, "recognised": 0.0}, {"critic", "decoder.adversary"}),
        ({"matching": 0.0, "old_too": False}, {"critic", "decoder.adversary", "decoder.held", "decoder.recognised"}),
    ],
)
def test_what_weighs_nothing_is_not_computed(settings: dict[str, Any], terms: set[str]) -> None:
    heard = list[EpochReport]()
    learner_of("wide-gan", tasks=1, later=settings).learn(*TASKS[1], progress=heard.append)
    assert [set(report.terms) for report in heard] == [terms] * 3


def test_optimisers_begin_afresh_with_every_task(learner: WideGAN) -> None:
    assert not any(optimiser.state for optimiser in learner._state.optimisers.values())


def test_all_bytes_are_counted(learner: WideGAN) -> None:
    plain = learner_of("wide")
    assert learner.kept_bytes == plain.kept_bytes + learner.memory.nbytes - 8 * 4  # labels once


def test_one_class_at_a_time() -> None:
    learner = create_learner(recipe_of("wide-gan"))
    for label in range(3):
        learner.learn(*pictures([label]))
    assert learner.score(*pictures([0, 1, 2], seed=1)) > 0.8
    assert learner.sample(0, 5).shape == (5, 1, 8, 8)


def test_a_class_of_few_images_is_refused_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, trained = create_learner(recipe_of("wide-gan")), list[TaskHooks]()
    monkeypatch.setattr("ictrl.methods.wide_gan.train_trunk", lambda *given: trained.append(given[-1]))
    with pytest.raises(InputError, match=r"at least 10 training images of each class but got 9 of class '7'"):
        learner.learn(*pictures([7], each=9))
    assert not trained


def test_networks_of_ones_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    learner = WideGAN(recipe_of("wide-gan"), encoder=Mine())
    for task in TASKS:
        learner.learn(*task)
    assert learner.score(TESTS, TEST_LABELS) > 0.8
    learner.save(tmp_path / "mine")
    again = WideGAN.load(tmp_path / "mine", encoder=Mine())
    assert same(everything(again), everything(learner))
    with pytest.raises(InputError, match=r"needs them again: load\(path, encoder=…, decoder=…\)"):
        load_learner(tmp_path / "mine")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"code": 16}, "code to be above 0 and below feature_dim, 16, but got 16"),
        ({"code": 0}, "code to be above 0"),
        ({"critic_width": 0}, "critic_width to be none or at least 1 but got 0"),
        ({"beta1": 1.0}, "beta1 to be at least 0 and below 1 but got 1.0"),
        ({"first": {"batch": "rule"}}, 'batch to be a number but got "rule"'),
        ({"first": {"critic_rate": 0.0}}, "critic_rate to be above 0 but got 0.0"),
        ({"later": {"held": -1.0}}, "held to be at least 0 but got -1.0"),
        ({"later": {"matching": float("nan")}}, "matching to be at least 0"),
        ({"first": {"adversary": 0.0, "matching": 0.0}}, "adversary or matching above 0: nothing would be drawn"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        recipe_with(recipe_of("wide-gan"), {"method": settings})
