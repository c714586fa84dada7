"""Two and four processes learn what one does: every term, every gradient, every statistic."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from method_support import recipe_of
from parallel_support import together
from support import pictures, tiny_memory, tiny_players, tiny_recipe
from torch import Tensor, nn

from ictrl import EpochReport, create_learner, load_learner
from ictrl.config import WeightsConfig
from ictrl.nets.dcgan import Decoder, Encoder
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder, to_float
from ictrl.parallel.sharing import Group, everyones, member_of, mine, sharing
from ictrl.theory.objectives import closed_loop
from ictrl.training.game import Batch, Rules, decoder_step, encoder_step
from ictrl.training.loader import ImageSource
from ictrl.training.players import Players
from ictrl.training.replay import frozen_copy
from ictrl.training.task import _layout

D = 16
EVERY_TERM = WeightsConfig(3.0, 0.7, 5.0, 20.0, 1.0, 1.0, 2.0, 2.0)
SUMS = WeightsConfig(3.0, 0.7, 5.0, 20.0, 1.0)
"""terms that are computed in the precision of the features; images are compared in float32"""


def doubled(seed: int = 0) -> Players:
    generator = torch.Generator().manual_seed(seed)
    encoder, decoder = (kind(16, 1, 4, D, generator).double() for kind in (Encoder, Decoder))
    precision = torch.float64
    return Players.pair(ImageEncoder(encoder, D, precision), ImageDecoder(decoder, precision), 1e-3, (0.5, 0.999))


def step(first: bool) -> dict[str, Tensor]:
    """All that one step of both players computes, in float64, on seven new images and ten old features."""
    players = doubled()
    players.train_statistics(first)
    images, labels = pictures([2, 3], each=7)
    larger = images[:7].repeat_interleave(2, 2).repeat_interleave(2, 3)
    X, y = to_float(larger).double(), labels[:7] - (2 if first else 0)
    before = frozen_copy(players.encoder)
    Z_old, y_old = torch.zeros(0, D, dtype=torch.float64), y[:0]
    if not first:
        gaussians = tiny_memory(tiny_players().encoder)
        Z_old, y_old = gaussians.sample(2, torch.Generator().manual_seed(1))
        Z_old = nn.functional.normalize(Z_old.double(), dim=1)
    batch = Batch(
        mine(X),
        None if first else before(mine(X)),
        mine(Z_old),
        None,
        _layout([y, y_old], 2 if first else 4, D),
        0 if first else 2,
    )
    rules = Rules(closed_loop(vars(SUMS), first), 1.0, None if first else before)
    found = {f"encoder {name}": value for name, value in encoder_step(players, batch, rules).items()}
    found |= {f"encoder grad {name}": p.grad for name, p in players.encoder.named_parameters() if p.grad is not None}
    found |= {f"decoder {name}": value for name, value in decoder_step(players, batch, rules).items()}
    found |= {f"decoder grad {name}": p.grad for name, p in players.decoder.named_parameters() if p.grad is not None}
    for network in (players.encoder, players.decoder):
        found |= {f"{type(network).__name__} {name}": buffer for name, buffer in network.named_buffers()}
    return {name: value.detach().clone() for name, value in found.items()}


def both_steps() -> list[dict[str, Tensor]]:
    return [step(first=True), step(first=False)]


def test_gradients_are_equal_in_double_precision() -> None:
    alone = both_steps()
    assert len(alone[0]) > 25
    for size in (2, 4):
        for found in together(size, both_steps):
            for ours, expected in zip(found, alone, strict=True):
                for name, value in expected.items():
                    scale = float(value.double().abs().max())
                    torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-9 * max(1.0, scale), msg=name)


def streamed() -> Tensor:
    """Batches of images that wait outside of the device, and of the ones that lie there."""
    images, _ = pictures([0, 1])
    rows = list(torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).split(9))
    sources = (ImageSource(images, torch.device("cpu"), streamed) for streamed in (True, False))
    return torch.stack(
        [torch.cat([everyones(source.pixels(*given)).clone() for given in source.batches(rows)]) for source in sources]
    )


def test_a_process_reads_its_own_rows_of_what_is_streamed() -> None:
    expected = streamed()
    assert torch.equal(expected[0], expected[1])
    for found in together(2, streamed):
        assert torch.equal(found, expected)
    with member_of(Group(1, 2)), sharing():  # the second of nine rows' two parts
        source = ImageSource(pictures([0, 1])[0], torch.device("cpu"), streamed=True)
        assert [len(sent) for _, sent in source.batches([torch.arange(9)])] == [4]


# Ten steps of each kind of learning, in float32, each an epoch of its own

TEN = {"epochs": 10, "batch": 64, "learning_rate": 2e-4}
LARGER = {"image_size": 16, "width": 4}  # so that the encoder has BatchNorm
REDUCED = {"reduction": "channels", "sizes": (6,)}
VIEWS = {"mirror": True, "shifts": 1, "crop": 0.7, "jitter": 0.2, "grey": 0.2}


def game() -> Any:
    weights = vars(EVERY_TERM)
    return tiny_recipe(
        first={**TEN, "ema": 2.0, "weights": {"match_new": 2.0}},
        later={**TEN, "weights": weights, "augmentation": {"mirror": True, "shifts": 1, "rotations": True}},
        memory={"drift_compensation": True, "compensation_replayed": 1.0},
        game={"resample": "step"},
        network=LARGER,
    )


def cached() -> Any:
    """Images as they come: what they were before the task is computed once."""
    return tiny_recipe(
        first={**TEN}, later={**TEN, "weights": vars(EVERY_TERM)}, game={"replay": "frozen"}, network=LARGER
    )


def wide() -> Any:
    views = {**TEN, "ema": 2.0, "augmentation": VIEWS}
    on = {**TEN, "epochs": 4, "augmentation": VIEWS}
    return recipe_of("wide", trunk=views, learning_on=on, reading=REDUCED, network=LARGER)


def wide_ictrl() -> Any:
    return recipe_of("wide-ictrl", trunk=TEN, first={**TEN}, later={**TEN}, network=LARGER)


def supervised(method: str, stage: str) -> Callable[[], Any]:
    return lambda: recipe_of(method, **{stage: {**TEN, "augmentation": {"mirror": True, "shifts": 1}}}, network=LARGER)


LEARNERS: dict[str, Callable[[], Any]] = {
    "ictrl": game,
    "ictrl, cached": cached,
    "wide": wide,
    "wide-ictrl": wide_ictrl,
    "finetune": supervised("finetune", "later"),
    "joint": supervised("joint", "stage"),
    "lwf": supervised("lwf", "stage"),
}


TASKS = [pictures(labels, each=32) for labels in ([5, 3], [2, 30])]


def learned(begun: Path, names: Iterable[str] = LEARNERS) -> dict[str, dict[str, Any]]:
    """Of each learner the terms of every step of two tasks, the second one after a first that one process has learned
    and saved, and what has become of it."""
    found = {}
    for name in names:
        terms: list[dict[str, float]] = []

        def note(report: EpochReport, terms: list[dict[str, float]] = terms) -> None:
            terms.append(report.terms)

        saved, (X, y) = begun / f"{name}.safetensors", TASKS[0]
        first = create_learner(LEARNERS[name]()).learn(X[:62], y[:62], note)
        if not saved.exists():
            first.save(saved)
        X, y = TASKS[1]
        learner = load_learner(saved).learn(X[:63], y[:63], note)
        X, _ = pictures([5, 3, 2, 30], each=5, seed=1)
        networks = learner._state.networks
        found[name] = {
            "terms": terms,
            "buffers": {f"{key}.{b}": value for key, net in networks.items() for b, value in net.named_buffers()},
            "everything": {**learner._state.tensors(), **learner.kept_tensors()},
            "predicted": learner.predict(X).tolist(),
            "scores": learner.scores(X),
        }
    return found


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("begun")


@pytest.fixture(scope="module")
def alone(begun: Path) -> dict[str, dict[str, Any]]:
    return learned(begun)


@pytest.fixture(scope="module", params=[2, 4])
def shared(request: pytest.FixtureRequest, begun: Path, alone: Any) -> list[dict[str, dict[str, Any]]]:
    names = LEARNERS if request.param == 2 else ["ictrl", "wide"]
    return together(request.param, lambda: learned(begun, names))


def compared(alone: dict[str, Any], shared: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What one process has found of the learners that several have taught."""
    return [(name, alone[name]) for name in shared[0]]


def test_ten_steps_of_either_task_have_the_same_losses(alone: dict[str, Any], shared: list[dict[str, Any]]) -> None:
    for name, expected in compared(alone, shared):
        for found in shared:
            for ours, theirs in zip(found[name]["terms"], expected["terms"], strict=True):
                assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-5), name


def test_statistics_of_batchnorm_are_those_of_one_process(alone: dict[str, Any], shared: list[dict[str, Any]]) -> None:
    for name, expected in compared(alone, shared):
        for buffer, value in expected["buffers"].items():
            torch.testing.assert_close(shared[0][name]["buffers"][buffer], value, rtol=1e-3, atol=1e-4, msg=name)


def test_classes_are_those_of_one_process(alone: dict[str, Any], shared: list[dict[str, Any]]) -> None:
    for name, expected in compared(alone, shared):
        pairs = zip(shared[0][name]["predicted"], expected["predicted"], strict=True)
        assert sum(one != other for one, other in pairs) <= 1, name


def test_all_processes_are_the_same_to_the_last_bit(shared: list[dict[str, Any]]) -> None:
    first, *others = shared
    for other in others:
        for name, expected in first.items():
            assert other[name]["predicted"] == expected["predicted"]
            assert torch.equal(other[name]["scores"], expected["scores"])
            assert other[name]["everything"].keys() == expected["everything"].keys()
            for key, value in expected["everything"].items():
                assert torch.equal(other[name]["everything"][key], value), (name, key)
