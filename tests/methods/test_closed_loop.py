"""What learners by closed-loop transcription share: drawing, classifying, networks and objectives of one's own."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from method_support import TASKS, TESTS, Learned, everything, same
from support import pictures, tiny_recipe
from torch import Tensor, nn

from ictrl import ICTRL, EpochReport, InputError, NetworkConfig, Recipe, create_learner
from ictrl.config import ICTRLConfig
from ictrl.methods.frozen import Frozen
from ictrl.nets.wrappers import to_uint8
from ictrl.recipes.tables import recipe_with
from ictrl.theory.objectives import Objective, Transcription, closed_loop

# drawing and classifying


def test_what_comes_back_is_of_the_kind_that_went_in(learned: Learned) -> None:
    learner = learned()
    images, _ = pictures([0, 3])
    for give in (learner.predict, learner.residuals, learner.scores, learner.reconstruct):
        tensor, array = give(images), give(images.numpy())
        assert isinstance(tensor, Tensor)
        assert isinstance(array, np.ndarray)
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert learner.predict(images).dtype == torch.int64
    assert learner.residuals(images).shape == (40, 4)
    assert torch.equal(learner.residuals(images), -learner.scores(images))
    assert torch.equal(torch.from_numpy(learner.classes_)[learner.residuals(images).argmin(1)], learner.predict(images))
    assert learner.reconstruct(images).shape == images.shape
    assert learner.reconstruct(images).dtype == torch.uint8


def test_samples_are_images_of_the_class(learned: Learned) -> None:
    learner = learned()
    for n in (1, 2, 7):
        sheet = learner.sample(2, n)
        assert sheet.shape == (n, 1, 8, 8)
        assert sheet.dtype == torch.uint8
    assert learner.sample(2, 5, direction=1).shape == (5, 1, 8, 8)


def test_samples_along_a_direction_come_from_its_gaussian() -> None:
    learner = ICTRL(tiny_recipe(memory={"disjoint": False})).learn(*pictures([0, 1], each=300))
    kept = learner.memory[0]
    with torch.no_grad():
        middle = to_uint8(learner.decoder(kept.direction_means))
    for i in range(3):
        mean = learner.sample(0, 400, direction=i).float().mean(0)
        distances = (middle.float() - mean).square().flatten(1).sum(1)
        assert int(distances.argmin()) == i


def test_the_mirror_image_is_looked_at_where_the_recipe_says_so() -> None:
    images, _ = pictures([0, 1])
    for mirror in (False, True):
        learner = ICTRL(tiny_recipe(classifier={"mirror": mirror})).learn(*pictures([0, 1]))
        views = learner.views(images)
        assert len(views) == 1 + mirror
        assert torch.equal(views[0], learner.features(images))
        assert torch.equal(views[-1], learner.features(images.flip(-1) if mirror else images))
        one_way = torch.allclose(learner.scores(images), learner.scores(images.flip(-1)), rtol=1e-4)
        assert one_way == mirror  # an image and its mirror image are then the same to it


# networks


def conv(inputs: int, outputs: int) -> int:
    """Weights of a 4×4 convolution without bias."""
    return 16 * inputs * outputs


def norm(channels: int) -> int:
    """Scale and shift of a BatchNorm."""
    return 2 * channels


def test_decoder_width_changes_the_decoder_alone() -> None:
    """The authors' pair: an encoder of 64-128-256 channels and a decoder of 512-256-128, at 32 pixels with d = 128."""
    network = NetworkConfig(image_size=32, channels=3, width=64, decoder_width=128, feature_dim=128)
    wide = ICTRL(Recipe(method=ICTRLConfig(network=network)), device="cpu")
    plain = ICTRL(Recipe(), device="cpu")
    sizes = {name: sum(p.numel() for p in network.parameters()) for name, network in wide._state.networks.items()}
    encoder = conv(3, 64) + conv(64, 128) + norm(128) + conv(128, 256) + norm(256) + conv(256, 128)
    decoder = conv(128, 512) + norm(512) + conv(512, 256) + norm(256) + conv(256, 128) + norm(128) + conv(128, 3)
    assert sizes == {"encoder": encoder, "decoder": decoder}
    assert wide.parameter_count == encoder + decoder == 4_861_440
    for name, tensor in plain._state.networks["encoder"].state_dict().items():
        assert torch.equal(wide._state.networks["encoder"].state_dict()[name], tensor)


def backbone(seed: int = 0) -> dict[str, nn.Module]:
    """A pair of networks such as a user may bring, with and without BatchNorm."""
    torch.manual_seed(seed)
    return {
        "encoder": nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 16)),
        "decoder": nn.Sequential(
            nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 64), nn.Unflatten(1, (1, 8, 8)), nn.Tanh()
        ),
    }


@pytest.mark.parametrize("method", ["ictrl", "frozen"])
def test_a_backbone_of_ones_own_is_used_saved_and_loaded(method: str, tmp_path: Path) -> None:
    recipe = recipe_with(tiny_recipe(), {"method": {"name": method}})
    kind, own = type(create_learner(recipe)), backbone()
    before = {name: copy.deepcopy(network.state_dict()) for name, network in own.items()}
    learner = kind(recipe, **own).learn(*TASKS[0])
    learned = {"encoder": learner.encoder.backbone, "decoder": learner.decoder.backbone}
    assert learner.parameter_count == sum(p.numel() for network in own.values() for p in network.parameters())
    for name, network in own.items():  # both have learned, as copies
        assert same(network.state_dict(), before[name])
        pairs = zip(learned[name].parameters(), network.parameters())
        assert not any(torch.equal(p, old) for p, old in pairs if p.ndim > 1)
    lengths = learner.features(TASKS[0][0]).norm(dim=1)
    assert torch.allclose(lengths, torch.ones(40))  # the learner adds unit length
    learner.save(tmp_path / "learner")
    again = kind.load(tmp_path / "learner", **backbone(seed=5))
    assert same(everything(again), everything(learner))
    for one in (learner, again):
        one.learn(*TASKS[1])
    assert same(everything(again), everything(learner))
    assert torch.equal(again.predict(TESTS), learner.predict(TESTS))


def test_a_backbone_must_be_given_again(tmp_path: Path) -> None:
    ICTRL(tiny_recipe(), **backbone()).learn(*TASKS[0]).save(tmp_path / "learner")
    for given in ({}, {"encoder": backbone()["encoder"]}, {"decoder": backbone()["decoder"]}):
        with pytest.raises(
            InputError, match="the contents of .* do not fit: (Error.*[mM]issing key|expected .* got none)"
        ) as error:
            ICTRL.load(tmp_path / "learner", **given)
        assert "\n" not in str(error.value)


def test_one_network_alone_may_be_ones_own() -> None:
    own = backbone()["encoder"]
    learner = Frozen(recipe_with(tiny_recipe(), {"method": {"name": "frozen"}}), encoder=own).learn(*TASKS[0])
    assert isinstance(learner.encoder.backbone, nn.Sequential)
    assert learner.sample(5, 3).shape == (3, 1, 8, 8)


class Pair(nn.Module):
    """Gives two things where one is expected."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 16)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        return (self.layer(X.flatten(1)), X)


WRONG_NETWORKS: dict[str, tuple[str, Callable[[], nn.Module], str]] = {
    "other features": (
        "encoder",
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
        r"Expected encoder to turn \(2, 1, 8, 8\) into \(2, 16\) but got \(2, 10\): change it, or the recipe's",
    ),
    "other images": (
        "decoder",
        lambda: nn.Linear(16, 64),
        r"Expected decoder to turn \(2, 16\) into \(2, 1, 8, 8\) but got \(2, 64\)",
    ),
    "images of another size": (
        "encoder",
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(256, 16)),
        r"Expected encoder to take a tensor \(2, 1, 8, 8\) but it failed: mat1 and mat2",
    ),
    "two things": ("encoder", Pair, r"into \(2, 16\) but got tuple"),
}


@pytest.mark.parametrize("case", WRONG_NETWORKS)
def test_a_network_of_another_shape_is_refused_in_a_line(case: str) -> None:
    name, network, message = WRONG_NETWORKS[case]
    with pytest.raises(InputError, match=message) as error:
        ICTRL(tiny_recipe(), **{name: network()})
    assert "\n" not in str(error.value)


# objectives


def sparsity(seen: Transcription) -> Tensor:
    """Mean over rows of the features' L1 norm."""
    return seen.Z.abs().sum(1).mean()


def paying(weight: float) -> Callable[[Mapping[str, float], bool], Objective]:
    """The game of the paper in which the encoder also pays for features that are not sparse."""

    def objective(weights: Mapping[str, float], first: bool) -> Objective:
        encoder, decoder = closed_loop(weights, first)
        return Objective({**encoder, sparsity: weight}, decoder)

    return objective


def learn_with(objective: Callable[..., Objective]) -> tuple[ICTRL, list[EpochReport]]:
    learner, reports = ICTRL(tiny_recipe(first={"epochs": 6}), objective=objective), list[EpochReport]()
    for task in TASKS:
        learner.learn(*task, progress=reports.append)
    return learner, reports


def test_a_term_of_ones_own_changes_what_is_learned_and_is_reported() -> None:
    usual, _ = learn_with(closed_loop)
    free, seen = learn_with(paying(0.0))
    dear, lowered = learn_with(paying(20.0))
    assert same(everything(free), everything(usual))  # a term that costs nothing is only watched
    norms = [[report.terms["encoder.sparsity"] for report in reports] for reports in (seen, lowered)]
    assert len(norms[0]) == len(norms[1]) == 6 + 2
    assert "decoder.sparsity" not in seen[0].terms
    assert norms[1][-1] < 0.8 * norms[0][-1]
    norm = [float(learner.features(TESTS).abs().sum(1).mean()) for learner in (free, dear)]
    assert norm[1] < 0.8 * norm[0]


def test_an_objective_hears_the_weights_of_the_stage_and_whether_it_is_the_first() -> None:
    heard: list[tuple[dict[str, float], bool]] = []

    def objective(weights: Mapping[str, float], first: bool) -> Objective:
        heard.append((dict(weights), first))
        return closed_loop(weights, first)

    recipe = tiny_recipe(first={"epochs": 1, "weights": {"lambda_new": 0.5}}, later={"epochs": 1})
    learner = ICTRL(recipe, objective=objective)
    for task in TASKS:
        learner.learn(*task)
    method = recipe.method
    assert isinstance(method, ICTRLConfig)
    assert heard == [(vars(method.first.weights), True), (vars(method.later.weights), False)]
