"""A task of the game keeps its promises, in every way that it can be played."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from support import changed, pictures, tiny_memory, tiny_players, tiny_recipe
from torch import Tensor, nn

import ictrl.training.task
from ictrl import ICTRL, kernels
from ictrl.config import GameConfig, GameStageConfig, WeightsConfig
from ictrl.errors import NonFiniteError
from ictrl.memory.store import Gaussians
from ictrl.nets.dcgan import Decoder, Encoder
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder, to_float
from ictrl.theory.objectives import Objective, Transcription, closed_loop, needs
from ictrl.training.game import Batch, encoder_step
from ictrl.training.graphs import unrecorded
from ictrl.training.loop import EpochReport, TaskHooks
from ictrl.training.players import Players
from ictrl.training.state import TrainingState
from ictrl.training.task import GameTask, play_task

D = 16
FIRST = changed(tiny_recipe().method.first, {"weights": WeightsConfig(lambda_new=0.7)})
LATER = changed(tiny_recipe().method.later, {"weights": WeightsConfig(lambda_new=3.0)})


def play(
    pair: Players,
    task: GameTask,
    stage: GameStageConfig,
    game: GameConfig | None = None,
    seed: int = 0,
    objective: Objective | None = None,
) -> list[EpochReport]:
    reports: list[EpochReport] = []
    state = TrainingState(
        {"encoder": pair.encoder.backbone, "decoder": pair.decoder.backbone},
        {"encoder": pair.encoder_optimiser, "decoder": pair.decoder_optimiser},
        torch.Generator(task.y.device).manual_seed(seed),
    )
    objective = objective or closed_loop(vars(stage.weights), first=task.old is None)
    play_task(pair, task, stage, game or GameConfig(), objective, state, TaskHooks(reports.append))
    return reports


def second_task(
    seed: int = 0,
    game: GameConfig | None = None,
    pair: Players | None = None,
    objective: Objective | None = None,
    labels: tuple[int, ...] = (2, 3),
    **stage: Any,
) -> list[EpochReport]:
    """New classes after two old ones; keywords change the stage."""
    pair = pair or tiny_players()
    images, y = pictures(list(labels))
    task = GameTask(images, y, 2 + len(labels), tiny_memory(pair.encoder), samples=4)
    return play(pair, task, changed(LATER, stage), game, seed, objective)


def first_task(pair: Players, labels: list[int], **stage: Any) -> list[EpochReport]:
    images, y = pictures(labels)
    return play(pair, GameTask(images, y, len(labels)), changed(FIRST, stage))


class Watched:
    """The batches that the encoder was shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[Batch] = []
        monkeypatch.setattr(ictrl.training.task, "encoder_step", self.step)

    def step(self, players: Players, batch: Batch, *rest: Any) -> dict[str, Tensor]:
        self.batches.append(batch)
        return encoder_step(players, batch, *rest)


# Every way of playing


@pytest.mark.parametrize("replay", ["live", "frozen"])
@pytest.mark.parametrize("resample", ["task", "step"])
@pytest.mark.parametrize("mirror", [False, True])
def test_every_way_of_playing_is_reproducible(replay: str, resample: str, mirror: bool) -> None:
    game = GameConfig(replay=replay, resample=resample)  # type: ignore[arg-type]
    first, second, other = (second_task(seed, game, augmentation={"mirror": mirror}) for seed in (0, 0, 1))
    assert first == second
    assert first != other
    assert [report.epoch for report in first] == [1, 2]
    assert set(first[0].terms) == {
        f"{player}.{name}"
        for player in ("encoder", "decoder")
        for name in ("reduction", "reduction_hat", "distance_new", "distance_old")
    }


def test_the_ways_of_playing_differ() -> None:
    ways = [
        (GameConfig(replay=replay, resample=resample), {"augmentation": {"mirror": mirror}})  # type: ignore[arg-type]
        for replay in ("live", "frozen")
        for resample in ("task", "step")
        for mirror in (False, True)
    ]
    ways += [(GameConfig(), {"augmentation": {"shifts": 1}}), (GameConfig(), {"augmentation": {"rotations": True}})]
    ways += [(GameConfig(), {"schedule": "cosine"}), (GameConfig(), {"warmup": 1})]
    outcomes = [tuple(second_task(0, game, epochs=3, **stage)[-1].terms.values()) for game, stage in ways]
    assert len(set(outcomes)) == len(ways)


GOLDEN = {
    "encoder.reduction": [1.4845, 1.5940, 1.6144],
    "encoder.distance_new": [1.4871, 1.3140, 1.4458],
    "encoder.distance_old": [1.4878, 1.3161, 0.9360],
    "decoder.reduction_hat": [1.6518, 1.5765, 1.4923],
    "decoder.distance_new": [1.4847, 1.5056, 1.5190],
    "decoder.distance_old": [1.4607, 1.2542, 0.7466],
}


def test_three_epochs_go_as_they_always_went() -> None:
    """A trace from when the game was known to work: whoever changes it changes the game."""
    reports = second_task(epochs=3)
    for name, values in GOLDEN.items():
        assert [report.terms[name] for report in reports] == pytest.approx(values, rel=0.02), name


def test_one_class_alone_trains() -> None:
    pair = tiny_players()
    before = [p.clone() for p in pair.encoder.parameters()]
    reports = first_task(pair, [0], epochs=10)
    assert abs(reports[-1].terms["encoder.reduction"]) < 1e-4
    assert reports[-1].terms["encoder.distance_new"] > 0
    assert not any(torch.equal(a, b) for a, b in zip(before, pair.encoder.parameters()))


def test_networks_of_ones_own_play_in_half_precision() -> None:
    """Under autocast, on a CPU too: they know nothing of precision, and their weights stay float32."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, D))
    decoder = nn.Sequential(nn.Linear(D, 64), nn.Tanh(), nn.Unflatten(1, (1, 8, 8)))
    half = torch.bfloat16
    pair = Players.pair(ImageEncoder(encoder, D, half), ImageDecoder(decoder, half), 1e-3, (0.5, 0.999))
    before = [p.clone() for p in (*encoder.parameters(), *decoder.parameters())]
    reports = second_task(pair=pair, weights=WeightsConfig(3.0, 1.0, 5.0, 20.0, 1.0, 1.0))
    after = [*encoder.parameters(), *decoder.parameters()]
    assert not any(torch.equal(a, b) for a, b in zip(before, after))
    assert {p.dtype for p in after} == {torch.float32}
    assert all(torch.tensor(value).isfinite() for value in reports[-1].terms.values())


# The stage


@pytest.mark.parametrize(("batch", "steps"), [("rule", 1), (40, 1), (39, 2), (15, 3), (7, 6), (1000, 1)])
def test_batches_are_equal_and_no_larger_than_asked(
    batch: int | str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 images; the rule gives 3 directions · 4 samples · 2 old · 2 new = 48."""
    watched = Watched(monkeypatch)
    second_task(batch=batch, epochs=1)
    assert [len(batch.X) for batch in watched.batches] == [40 // steps] * steps


def test_the_rule_is_a_batch_size_in_proportion_to_what_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, images = Watched(monkeypatch), pictures([2, 3], each=60)
    pair = tiny_players()
    old = tiny_memory(pair.encoder)
    play(pair, GameTask(*images, 4, old, samples=4), replace(LATER, epochs=1))
    assert [len(batch.X) for batch in watched.batches] == [40, 40, 40]  # at most 48 of 120


def test_the_rate_follows_the_schedule_of_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    monkeypatch.setattr("ictrl.training.loop.set_learning_rate", lambda optimiser, rate: rates.append(rate))
    second_task(epochs=4, schedule="cosine")
    assert rates[::2] == rates[1::2] == pytest.approx([1e-3, 0.8536e-3, 0.5e-3, 0.1464e-3], rel=1e-3)
    rates.clear()
    second_task(epochs=5, warmup=3)
    assert rates[::2] == rates[1::2] == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3])


def test_a_learning_rate_out_of_bounds_stops_the_task() -> None:
    with pytest.raises(NonFiniteError):
        first_task(tiny_players(), [0, 1], epochs=20, learning_rate=1e30)


def test_a_non_finite_term_stops_the_task_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> dict[str, Tensor]:
        return {**encoder_step(*given), "distance_old": torch.tensor(float("inf"))}

    monkeypatch.setattr(ictrl.training.task, "encoder_step", broken)
    with pytest.raises(NonFiniteError, match=r"encoder\.distance_old became inf in epoch 1: lower learning_rate"):
        second_task()


# Optimisers and BatchNorm from task to task


def test_one_optimiser_serves_all_tasks() -> None:
    pair = tiny_players()
    first_task(pair, [0, 1])
    steps = [int(state["step"]) for state in pair.encoder_optimiser.state.values()]
    assert set(steps) == {4 * 3}  # four epochs of 40 images in batches of at most 16
    first_task(pair, [0, 1])
    assert {int(state["step"]) for state in pair.encoder_optimiser.state.values()} == {24}


@pytest.mark.parametrize("optimiser", ["kept", "fresh"])
def test_moments_are_forgotten_after_the_first_task_if_they_are_to_be(optimiser: str) -> None:
    learner = ICTRL(tiny_recipe(first={"epochs": 1}, later={"epochs": 1}, game={"optimiser": optimiser}))
    for labels in ([0, 1], [2, 3]):
        learner.learn(*pictures(labels))
        forgotten = optimiser == "fresh" and labels == [0, 1]
        assert [not part.state for part in learner._state.optimisers.values()] == [forgotten, forgotten]


def test_batchnorm_learns_on_the_first_task_and_never_again() -> None:
    pair = tiny_players()
    statistics = [b for b in pair.decoder.buffers() if b.is_floating_point()]
    initial = [b.clone() for b in statistics]
    reports = first_task(pair, [0, 1], weights={"distill_new": 1.0, "distill_replayed": 1.0})
    assert "encoder.distill_new" not in reports[0].terms  # nothing to hold on to yet
    assert not any(torch.equal(a, b) for a, b in zip(initial, statistics))
    assert not pair.encoder.training
    assert not pair.decoder.training

    frozen = [b.clone() for b in (*pair.encoder.buffers(), *pair.decoder.buffers())]
    norm = next(module for module in pair.decoder.modules() if isinstance(module, nn.BatchNorm2d))
    scale = norm.weight.clone()
    second_task(pair=pair)
    assert all(torch.equal(a, b) for a, b in zip(frozen, (*pair.encoder.buffers(), *pair.decoder.buffers())))
    assert not torch.equal(scale, norm.weight)  # scale and shift go on learning


# Distillation


@pytest.mark.parametrize("name", ["distill_new", "distill_replayed", "loop", "redrawn"])
def test_each_weight_of_distillation_holds_what_it_names(name: str) -> None:
    """Paid for dearly, its term stays smaller than where it is nearly free."""
    term = f"{'encoder' if name.startswith('distill') else 'decoder'}.{name}"
    ends = [second_task(epochs=40, weights={name: weight})[-1].terms[term] for weight in (1e-6, 1e6)]
    assert ends[1] < 0.5 * ends[0]


def test_a_player_without_a_loss_rests() -> None:
    for resting in ("encoder", "decoder"):
        pair = tiny_players()
        before = {name: [p.clone() for p in getattr(pair, name).parameters()] for name in ("encoder", "decoder")}
        objective = closed_loop(vars(LATER.weights), first=False)._replace(**{resting: {}})
        (report, *_) = second_task(pair=pair, objective=objective)
        for name, weights in before.items():
            moved = [not torch.equal(*both) for both in zip(weights, getattr(pair, name).parameters())]
            assert any(moved) == (name != resting)
        assert not any(name.startswith(resting) for name in report.terms)


def test_matched_images_come_closer_to_those_they_stand_for() -> None:
    def far(match_new: float) -> float:
        pair, (images, _) = tiny_players(), pictures([0, 1])
        first_task(pair, [0, 1], epochs=40, weights={"match_new": match_new})
        with torch.no_grad():
            return float((pair.decoder(pair.encoder(to_float(images))) - to_float(images)).square().mean())

    assert far(match_new=100.0) < 0.7 * far(match_new=0.0)


def test_distillation_is_reported_and_holds_the_encoder() -> None:
    free, held = (
        second_task(epochs=40, weights={"distill_new": weight, "distill_replayed": weight}) for weight in (1e-9, 50.0)
    )
    for name in ("encoder.distill_new", "encoder.distill_replayed"):
        assert held[-1].terms[name] < 0.5 * free[-1].terms[name]
        assert name.replace("encoder", "decoder") not in held[-1].terms


@pytest.mark.parametrize(
    "augmentation", [{}, {"mirror": True}, {"shifts": 1}, {"rotations": True, "mirror": True}], ids=str
)
def test_features_of_before_are_those_of_the_image_as_it_is_shown(
    augmentation: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed once where images come as they are or mirrored, and at every step where they are moved or turned."""
    watched, before = Watched(monkeypatch), tiny_players().encoder
    second_task(weights={"distill_new": 1.0}, augmentation=augmentation, batch=15)
    assert len(watched.batches) == 6
    for batch in watched.batches:
        assert batch.Z_before is not None
        assert torch.allclose(batch.Z_before, before(batch.X), atol=1e-5)


# Rotations


def test_rotations_are_classes_while_a_first_task_is_learned() -> None:
    """With one class there is nothing to tell apart; with its four rotations there is."""
    straight, turned = (
        first_task(tiny_players(), [0], augmentation={"rotations": rotations})[-1] for rotations in (False, True)
    )
    assert abs(straight.terms["encoder.reduction"]) < 1e-4
    assert turned.terms["encoder.reduction"] > 0.01


def test_rotations_are_classes_while_a_later_task_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old classes keep their numbers and come as memory has them; each new one is four."""
    images, y = pictures([2, 3])
    kinds = {tuple(to_float(images[i : i + 1]).flatten().tolist()): int(y[i]) for i in range(40)}
    watched = Watched(monkeypatch)
    second_task(epochs=3, augmentation={"rotations": True})
    for batch in watched.batches:
        assert batch.old_classes == 2
        assert batch.layout.counts[:2].tolist() == [12, 12]
        expected = torch.zeros(8)
        for X in batch.X:
            # turning a picture on, by as many quarters as it takes to find it among the images, undoes its rotation
            (turned, label) = next(
                (quarters, kinds[key])
                for quarters in range(4)
                if (key := tuple(X.rot90(-quarters, (1, 2)).flatten().tolist())) in kinds
            )
            expected[4 * (label - 2) + turned] += 1
        assert batch.layout.counts[2:].tolist() == expected.tolist()
        assert int((expected > 0).sum()) > 4


def test_one_new_class_is_told_from_its_own_rotations_in_a_later_task() -> None:
    straight, turned = (
        second_task(labels=(2,), epochs=20, augmentation={"rotations": rotations})[-1].terms["encoder.reduction"]
        for rotations in (False, True)
    )
    assert turned > straight + 0.2


# An objective of one's own


def test_a_term_of_ones_own_changes_the_game_and_is_reported() -> None:
    def length(seen: Transcription) -> Tensor:
        return (seen.Z - seen.Z.mean(0)).square().sum(1).mean()

    bare = closed_loop(vars(LATER.weights), first=False)
    own = Objective({**bare.encoder, length: 1e3}, bare.decoder)
    plain, held = second_task(epochs=20), second_task(epochs=20, objective=own)
    assert set(held[0].terms) == {*plain[0].terms, "encoder.length"}
    assert held[-1].terms["encoder.length"] < 0.5 * held[0].terms["encoder.length"]
    assert held[-1].terms["encoder.reduction"] < 0.5 * plain[-1].terms["encoder.reduction"]


@pytest.mark.parametrize("name", ["Z_before", "Z_hat_before", "X_before"])
def test_what_a_term_of_ones_own_needs_is_there(name: str) -> None:
    given: list[dict[str, bool]] = []

    @needs(name)
    def look(seen: Transcription) -> Tensor:
        there = ("Z_before", "Z_hat_before", "X_before")
        given.append({part: getattr(seen, part) is not None for part in there})
        return seen.Z.sum() * 0

    bare = closed_loop(vars(LATER.weights), first=False)
    second_task(epochs=1, objective=Objective({**bare.encoder, look: 1.0}, bare.decoder))
    assert given == [{"Z_before": False, "Z_hat_before": False, "X_before": False, name: True}]


# On a GPU


def ten_steps(side: int, width: int, d: int, resample: str) -> tuple[Tensor, Tensor]:
    """Parameters before and after ten steps of a later task on a GPU, in float32, with all that a step can have."""
    generator = torch.Generator().manual_seed(0)
    encoder, decoder = (kind(side, 1, width, d, generator).cuda().eval() for kind in (Encoder, Decoder))
    images, labels = pictures([2, 3], each=80)
    images = images.repeat_interleave(side // 8, dim=2).repeat_interleave(side // 8, dim=3)
    means = torch.nn.functional.normalize(torch.randn(6, d, generator=generator), dim=1)
    factors = 0.05 * torch.randn(6, 4, d, generator=generator)
    old = Gaussians(means.cuda(), factors.cuda(), torch.tensor([0, 0, 0, 1, 1, 1]).cuda())

    def parameters() -> Tensor:
        return torch.cat([p.detach().flatten() for p in (*encoder.parameters(), *decoder.parameters())])

    before = parameters()
    pair = Players.pair(ImageEncoder(encoder, d), ImageDecoder(decoder), 1e-4, (0.5, 0.999))
    weights = {"distill_new": 1.0, "distill_replayed": 1.0}
    stage = {"epochs": 5, "batch": 80, "learning_rate": 1e-4, "augmentation": {"mirror": True}, "weights": weights}
    game = GameConfig(resample=resample)  # type: ignore[arg-type]
    play(pair, GameTask(images, labels.cuda(), 4, old, samples=4), changed(LATER, stage), game)
    return before, parameters()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares recorded with plain steps; needs a GPU")
@pytest.mark.parametrize("resample", ["task", "step"])
def test_a_recorded_step_does_what_a_plain_one_does(resample: str) -> None:
    """Parameters within 1e-4, a tenth of the way they may have gone; sums by atomic additions vary from run to run."""
    _, recorded = ten_steps(8, 8, D, resample)
    with unrecorded():
        _, plain = ten_steps(8, 8, D, resample)
    assert float((recorded - plain).abs().max()) < 1e-4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares the fast path with the plain one; needs a GPU")
def test_the_fast_path_does_what_plain_pytorch_does() -> None:
    """The paper's networks: recorded and with kernels, against PyTorch's operations one by one.

    Where a gradient is nearly 0, rounding decides its sign, and Adam makes a whole step of it: of a few parameters in
    ten thousand nothing can be said. All others agree within 1e-4.
    """
    before, fast = ten_steps(32, 64, 128, "step")
    with unrecorded(), kernels.plain_torch():
        _, plain = ten_steps(32, 64, 128, "step")
    apart = (fast - plain).abs()
    assert float((apart > 1e-4).float().mean()) < 0.001
    assert float(apart.square().mean().sqrt()) < 0.05 * float((plain - before).square().mean().sqrt())
