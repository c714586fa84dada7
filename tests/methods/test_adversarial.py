"""joint_dcgan, dgr and mergan: what both sides pay, what is replayed and by whom, what is drawn of digits."""

from typing import Any

import numpy as np
import pytest
import torch
from generative_support import CLASSES, accuracies, digits, judge, learned, recognised
from method_support import TASKS, learner_of, recipe_of
from torch import Tensor, nn

from ictrl import ConfigError, InputError, Learner
from ictrl.methods.supervised import Seen
from ictrl.nets.critic import Codes, Critic
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with
from ictrl.training.gan_losses import critic_loss, decoder_loss, gradient_penalty


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# what both sides pay


def test_losses_against_their_formulas() -> None:
    real, drawn = torch.randn(2, 50, generator=seeded(), dtype=torch.float64)
    x, g = real.numpy(), drawn.numpy()
    ours = critic_loss("non-saturating", real, drawn), decoder_loss("non-saturating", drawn)
    sigmoid = [1 / (1 + np.exp(-scores)) for scores in (x, g)]
    assert float(ours[0]) == pytest.approx(-np.log(sigmoid[0]).mean() - np.log(1 - sigmoid[1]).mean())
    assert float(ours[1]) == pytest.approx(-np.log(sigmoid[1]).mean())
    assert float(critic_loss("wasserstein", real, drawn)) == pytest.approx(g.mean() - x.mean())
    assert float(decoder_loss("wasserstein", drawn)) == pytest.approx(-g.mean())


def test_the_penalty_image_by_image_by_differences() -> None:
    """Against gradients by central differences at the same points."""
    critic = Critic(8, 1, 4, 6, normed=False, generator=seeded()).double()
    real, drawn = torch.rand(2, 3, 1, 8, 8, generator=seeded(1), dtype=torch.float64)

    def scores(X: Tensor) -> Tensor:
        return critic.score(critic(X))

    found = float(gradient_penalty(scores, real, drawn, seeded(2)).detach())
    u = torch.rand(3, 1, 1, 1, generator=seeded(2))
    points, h = (u * real + (1 - u) * drawn), 1e-6
    expected = []
    with torch.no_grad():
        for point in points:
            moves = h * torch.eye(64, dtype=torch.float64).view(64, 1, 8, 8)
            slope = (scores(point + moves) - scores(point - moves)) / (2 * h)
            expected.append((float(slope.norm()) - 1) ** 2)
    assert found == pytest.approx(np.mean(expected), rel=1e-5)


def test_the_penalty_reaches_the_weights() -> None:
    critic = Critic(8, 1, 4, 6, normed=False, generator=seeded())
    real, drawn = torch.rand(2, 5, 1, 8, 8, generator=seeded(1))
    gradient_penalty(lambda X: critic.score(critic(X)), real, drawn, seeded()).backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in critic.parameters())


def test_codes_are_rows_of_a_table() -> None:
    codes = Codes(5).grown(3, seeded())
    rows = torch.tensor([2, 0, 2])
    assert torch.equal(codes(rows), codes.weight[rows])
    grown = codes.grown(4, seeded(1))
    assert torch.equal(grown.weight[:3], codes.weight)
    assert torch.equal(codes.without(1).weight, codes.weight[[0, 2]])


# who moves, and what is replayed


def weights(network: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@pytest.mark.parametrize("method", ["joint_dcgan", "dgr", "mergan"])
def test_each_side_moves_alone(method: str) -> None:
    learner: Any = learner_of(method, 1)
    rows, networks = torch.arange(10) % 2, learner._state.networks

    def moved(step: Any) -> set[str]:
        before = {name: weights(network) for name, network in networks.items()}
        assert all(bool(term.isfinite()) for term in step().values())
        return {name for name, network in networks.items() if not torch.equal(weights(network), before[name])}

    told = {"told"} if method == "mergan" else set()
    codes = {"codes"} if method == "mergan" else set()
    assert moved(lambda: learner.adversaries.critic_step(to_float(TASKS[0][0][:10]), rows)) == {"critic"} | told
    assert moved(lambda: learner.adversaries.decoder_step(rows, {})) == {"decoder"} | codes


def test_old_classes_are_replayed_by_the_decoder_as_it_was() -> None:
    learner: Any = learner_of("mergan", 1)
    replay = learner.replay_of(learner.artist.frozen(), 2)
    generator = torch.Generator()
    generator.set_state(learner._state.generator.get_state())
    with torch.no_grad():
        rows = torch.randint(2, (6,), generator=generator)
        expected = learner.artist.of(learner.noise(6, generator), rows)
        for parameter in learner.artist.decoder.parameters():
            parameter.zero_()
    images, replayed = replay(6)
    assert torch.equal(replayed, rows)
    assert torch.equal(images, expected)


def test_dgr_labels_what_it_replays_by_the_classifier_of_before() -> None:
    learner: Any = learner_of("dgr", 1)
    replay = learner.scholar()
    with torch.no_grad():
        learner.head.weight.neg_()
    images, rows = replay(12)
    with torch.no_grad():
        now = (learner.encoder(images) @ learner.head.weight.T - learner.head.bias).argmax(1)  # −h′
    assert torch.equal(rows, 1 - now)


def test_images_are_replaced_by_the_share_of_old_classes() -> None:
    learner: Any = learner_of("mergan", 1)
    new, rows = torch.zeros(4000, 1, 1, 1), torch.full((4000,), 3)
    assert learner.mixed(new, rows)[0] is new
    learner._replay = lambda n: (torch.ones(n, 1, 1, 1), torch.ones(n, dtype=torch.long))
    learner._share = 0.25
    X, mixed = learner.mixed(new, rows)
    assert torch.equal(mixed == 1, X.flatten() == 1)
    assert 0.22 < float((mixed == 3).double().mean()) < 0.28


def test_the_solvers_loss_against_its_formula() -> None:
    learner: Any = learner_of("dgr", 2)
    images, rows = TASKS[1][0][:8], torch.arange(8) % 2 + 2
    old, old_rows = to_float(TASKS[0][0][:8]), torch.arange(8) % 2
    learner._replay, learner._share = (lambda n: (old, old_rows)), 0.4
    terms = learner.loss(Seen(to_float(images), rows, images, torch.arange(8)), {})
    with torch.no_grad():
        logits = learner.logits(torch.cat([to_float(images), old])).double().numpy()
    every = np.log(np.exp(logits).sum(1)) - logits[np.arange(16), torch.cat([rows, old_rows])]
    assert float(terms["cross_entropy"].detach()) == pytest.approx(0.4 * every[:8].mean(), rel=1e-4)
    assert float(terms["replayed"].detach()) == pytest.approx(0.6 * every[8:].mean(), rel=1e-4)


def test_alignment_against_its_formula() -> None:
    learner: Any = learner_of("mergan", 1, replay="alignment", alignment=0.5)
    learner._before, learner._old = learner.artist.frozen(), 2
    noise, rows = learner.noise(5, seeded()), torch.tensor([0, 1, 1, 0, 1])
    assert float(learner.apart(noise, rows).detach()) == 0.0
    with torch.no_grad():
        learner.artist.codes.weight.add_(0.3)
        now, before = (artist.of(noise, rows).numpy() for artist in (learner.artist, learner._before))
    expected = np.mean([((one - other) ** 2).sum() / 2 for one, other in zip(now, before)])
    assert float(learner.apart(noise, rows).detach()) == pytest.approx(expected, rel=1e-5)
    assert set(learner.held(5)) == {"decoder.alignment"}


def test_alignment_shows_the_critic_new_images_alone() -> None:
    learner: Any = learner_of("mergan", 1, replay="alignment")
    learner._replay, learner._share = (lambda n: pytest.fail("replayed")), 0.1
    new, rows = torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.long)
    assert learner.mixed(new, rows) == (new, rows)


def test_a_scholar_draws_what_its_classifier_takes_for_the_class() -> None:
    learner: Any = learner_of("dgr", 1)
    for label in (5, -4):
        images = learner.sample(label, 10)
        assert images.shape == (10, 1, 8, 8)
        assert images.dtype == torch.uint8
    with torch.no_grad():  # one class that is never predicted
        learner.head.bias.copy_(torch.tensor([50.0, -50.0]))
    assert learner.sample(-4, 10).shape == learner.sample(5, 10).shape == (10, 1, 8, 8)


@pytest.mark.parametrize("method", ["dgr", "mergan"])
def test_looking_changes_nothing_that_is_learned(method: str) -> None:
    learners: list[Any] = [learner_of(method, 1), learner_of(method, 1)]
    first = learners[0].sample(5, 4)
    assert not torch.equal(learners[0].sample(5, 4), first)
    learners[0].reconstruct(TASKS[0][0][:3])
    for learner in learners:
        learner.learn(*TASKS[1])
    assert torch.equal(learners[0].scores(TASKS[0][0]), learners[1].scores(TASKS[0][0]))


# digits


@pytest.fixture(scope="module", params=["dgr", "mergan"])
def two_tasks(request: pytest.FixtureRequest) -> Learner[Any]:
    return learned(request.param, drawing={"epochs": 40 if request.param == "dgr" else 20}, stage={"epochs": 8})


def test_pictures_of_old_and_new_digits_are_recognised(two_tasks: Any) -> None:
    _, _, images, labels = digits()
    assert judge().score(images, labels) > 0.95
    shares = recognised(two_tasks)
    floor = 0.85 if two_tasks.conditional else 0.6
    assert min(shares) > 0.4
    assert np.mean(shares) > floor, shares


def test_old_digits_are_not_forgotten(two_tasks: Learner[Any]) -> None:
    every, old = accuracies(two_tasks)
    assert accuracies(learned("finetune", later={"epochs": 8}))[1] < 0.3
    assert old > 0.8
    assert every > 0.85


def test_a_picture_is_redrawn_nearer_than_another_of_its_class(two_tasks: Any) -> None:
    _, _, images, labels = digits()
    again = two_tasks.reconstruct(images[:20])
    others = torch.stack([two_tasks.sample(int(label), 1)[0] for label in labels[:20]])
    apart = [(images[:20].float() - drawn.float()).square().mean() for drawn in (again, others)]
    assert again.dtype == torch.uint8
    assert again.shape == images[:20].shape
    assert float(apart[0]) < 0.6 * float(apart[1])


def test_what_cannot_be_drawn_is_refused() -> None:
    learner: Any = learner_of("mergan", 1)
    for arguments, message in (
        ((7, 3), r"^Expected a learned label but got 7; learned are -4, 5.$"),
        ((5, 0), r"^Expected n to be at least 1 but got 0.$"),
        ((5, 3, 1), r"^Expected no direction but got 1: mergan keeps none of a class.$"),
    ):
        with pytest.raises(InputError, match=message):
            learner.sample(*arguments)


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        (
            "dgr",
            {"adversary": {"loss": "hinge"}},
            "Expected method.adversary.loss to be 'non-saturating' or 'wasserstein' but got 'hinge'",
        ),
        ("dgr", {"adversary": {"critic_steps": 0}}, "Expected adversary.critic_steps to be at least 1 but got 0"),
        ("dgr", {"adversary": {"penalty": -1.0}}, "Expected adversary.penalty to be at least 0 but got -1.0"),
        (
            "joint_dcgan",
            {"adversary": {"beta1": 1.0}},
            "Expected adversary.beta1 to be at least 0 and below 1 but got 1.0",
        ),
        ("joint_dcgan", {"drawing": {"batch": "rule"}}, "Expected drawing.batch to be a number but got"),
        ("mergan", {"replay": "both"}, "Expected method.replay to be 'joint' or 'alignment' but got 'both'"),
        ("mergan", {"alignment": -1.0}, "Expected alignment to be at least 0 but got -1.0"),
        ("mergan", {"network": {"feature_dim": 15}}, "Expected network.feature_dim to be even but got 15"),
    ],
)
def test_wrong_settings_are_refused(method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of(method), {"method": settings})


def test_the_classes_are_those_that_are_meant() -> None:
    assert digits()[1].unique().tolist() == CLASSES
