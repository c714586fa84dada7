"""Each player moves in its own direction, and the loop of a task keeps its promises."""

from dataclasses import replace

import pytest
import torch
from support import NO_ANCHORS, pictures, tiny_recipe

from ictrl.config import AnchorsConfig, GameConfig, ObjectiveConfig
from ictrl.errors import NonFiniteError
from ictrl.memory.store import Gaussians, Memory, form_class_memory
from ictrl.nets.dcgan import Decoder, Encoder, to_float
from ictrl.theory.objectives import decoder_objective, encoder_objective
from ictrl.theory.rates import class_layout
from ictrl.training.game import Batch, EpochReport, Rules, decoder_step, encoder_step, play
from ictrl.training.graphs import Captured
from ictrl.training.loader import shown
from ictrl.training.players import Players

D = 16
OBJECTIVE = ObjectiveConfig(lambda_new=3.0, lambda_first=0.7)


def players(learning_rate: float = 1e-3) -> Players:
    generator = torch.Generator().manual_seed(0)
    encoder, decoder = Encoder(8, 1, 8, D, generator), Decoder(8, 1, 8, D, generator)
    return Players.pair(encoder.eval(), decoder.eval(), learning_rate, (0.5, 0.999))


def old_memory(encoder: Encoder) -> Gaussians:
    images, labels = pictures([0, 1])
    with torch.no_grad():
        Z = encoder(to_float(images))
    return Memory({label: form_class_memory(Z[labels == label], 3, 5) for label in (0, 1)}).gaussians()


def batch(encoder: Encoder, old: bool, former: tuple[Encoder, Decoder] | None = None) -> Batch:
    images, labels = pictures([2, 3])
    X = to_float(images)
    if not old:
        return Batch(X, None, torch.zeros(0, D), None, class_layout(labels - 2, 2, D), old_classes=0)
    Z_old, y_old = old_memory(encoder).sample(4, torch.Generator().manual_seed(0))
    with torch.no_grad():
        Z_before, X_before = (former[0](X), former[1](Z_old)) if former else (None, None)
    return Batch(X, Z_before, Z_old, X_before, class_layout(torch.cat([labels, y_old]), 4, D), old_classes=2)


def former_players() -> tuple[Encoder, Decoder]:
    generator = torch.Generator().manual_seed(9)
    return Encoder(8, 1, 8, D, generator).eval(), Decoder(8, 1, 8, D, generator).eval()


ANCHORS = AnchorsConfig(new=5.0, replayed=20.0, loop=3.0, redrawn=2.0)


def weights(old: bool) -> tuple[float, float]:
    return (OBJECTIVE.lambda_new if old else OBJECTIVE.lambda_first), OBJECTIVE.gamma_old


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("anchored", [False, True])
def test_an_encoder_step_raises_its_objective(old: bool, anchored: bool) -> None:
    pair = players(1e-4)
    former = former_players() if anchored and old else None
    played = batch(pair.encoder, old, former)
    rules = Rules(OBJECTIVE, ANCHORS if anchored else NO_ANCHORS, former[0] if former else None)

    def objective() -> float:
        terms = encoder_step(players_copy(pair), played, rules)  # the terms seen before the copy moves
        assert (terms.anchor_new is not None) == (terms.anchor_replayed is not None) == (anchored and old)
        assert (terms.loop is not None) == (anchored and old)
        return float(encoder_objective(terms, *weights(old), 5.0, 20.0, 3.0).detach())

    value, decoder = objective(), [p.clone() for p in pair.decoder.parameters()]
    encoder_step(pair, played, rules)
    assert objective() > value
    assert all(torch.equal(a, b) for a, b in zip(decoder, pair.decoder.parameters()))


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("anchored", [False, True])
def test_a_decoder_step_lowers_its_objective(old: bool, frozen: bool, anchored: bool) -> None:
    pair = players(1e-4)
    played = batch(pair.encoder, old, former_players())
    rules = Rules(OBJECTIVE, ANCHORS if anchored else NO_ANCHORS, frozen=frozen)

    def objective() -> float:
        terms = decoder_step(players_copy(pair), played, rules)
        assert (terms.loop is not None) == (terms.redrawn is not None) == (anchored and old)
        return float(decoder_objective(terms, *weights(old), 3.0, 2.0).detach())

    value, encoder = objective(), [p.clone() for p in pair.encoder.parameters()]
    decoder_step(pair, played, rules)
    assert objective() < value
    assert all(torch.equal(a, b) for a, b in zip(encoder, pair.encoder.parameters()))
    assert all(p.grad is None for p in pair.encoder.parameters())
    assert all(p.requires_grad for p in pair.encoder.parameters())


@pytest.mark.parametrize("name", ["new", "replayed", "loop", "redrawn"])
def test_each_anchor_holds_what_it_names(name: str) -> None:
    """Paid for dearly, its term stays smaller than where it is nearly free."""
    term = {"new": "encoder.anchor_new", "replayed": "encoder.anchor_replayed"}.get(name, f"decoder.{name}")
    ends = []
    for weight in (1e-6, 1e6):
        reports = play_second_task(replace(GAME, epochs=40), anchors=replace(NO_ANCHORS, **{name: weight}))
        ends.append(reports[-1].terms[term])
    assert ends[1] < 0.5 * ends[0]


def test_a_cosine_takes_the_rate_to_nothing_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    monkeypatch.setattr(Players, "set_rate", lambda self, rate: rates.append(rate))
    play_second_task(replace(GAME, epochs=4, schedule="cosine"))
    assert rates == pytest.approx([1e-3, 0.8536e-3, 0.5e-3, 0.1464e-3, 1e-3], rel=1e-3)


def test_the_rate_rises_during_the_first_epochs_of_a_later_task(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    monkeypatch.setattr(Players, "set_rate", lambda self, rate: rates.append(rate))
    play_second_task(replace(GAME, epochs=5, warmup=3))
    assert rates == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3, 1e-3])


@pytest.mark.parametrize("optimiser", ["kept", "fresh"])
def test_moments_are_forgotten_after_the_first_task_if_they_are_to_be(optimiser: str) -> None:
    pair, game = players(), replace(GAME, first_epochs=1, epochs=1, optimiser=optimiser)
    images, labels = pictures([0, 1])
    given = {"samples": 4, "objective": OBJECTIVE, "anchors": NO_ANCHORS, "generator": torch.Generator().manual_seed(0)}
    for old in (None, old_memory(pair.encoder)):
        play(pair, images, labels + (2 if old else 0), 4 if old else 2, old, game=game, **given)  # type: ignore[arg-type]
        moments = [len(player.state) for player in (pair.encoder_optimiser, pair.decoder_optimiser)]
        forgotten = optimiser == "fresh" and old is None
        assert [count == 0 for count in moments] == [forgotten, forgotten]


def test_the_rate_that_is_set_is_the_rate_that_is_used() -> None:
    still, moved = players(), players()
    still.set_rate(0.0)
    for pair in (still, moved):
        encoder_step(pair, batch(pair.encoder, old=True), Rules(OBJECTIVE, NO_ANCHORS))
    weight, other = (pair.encoder.layers[0].weight.detach() for pair in (still, moved))
    assert torch.equal(weight, players().encoder.layers[0].weight)
    assert not torch.equal(weight, other)


def players_copy(pair: Players) -> Players:
    other = players()
    other.encoder.load_state_dict(pair.encoder.state_dict())
    other.decoder.load_state_dict(pair.decoder.state_dict())
    return other


def play_second_task(game: GameConfig, seed: int = 0, anchors: AnchorsConfig | None = None) -> list[EpochReport]:
    pair, reports = players(), []
    images, labels = pictures([2, 3])
    play(
        pair,
        images,
        labels,
        4,
        old_memory(pair.encoder),
        samples=4,
        game=game,
        objective=OBJECTIVE,
        anchors=anchors or NO_ANCHORS,
        generator=torch.Generator().manual_seed(seed),
        progress=reports.append,
    )
    return reports


GAME = tiny_recipe().game


@pytest.mark.parametrize("replay", ["live", "frozen"])
@pytest.mark.parametrize("resample", ["task", "step"])
@pytest.mark.parametrize("flips", [False, True])
def test_every_way_of_playing_is_reproducible(replay: str, resample: str, flips: bool) -> None:
    game = replace(GAME, replay=replay, resample=resample, flips=flips)
    first, second, other = (play_second_task(game, seed) for seed in (0, 0, 1))
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
        replace(GAME, epochs=3, replay=replay, resample=resample, flips=flips)
        for replay in ("live", "frozen")
        for resample in ("task", "step")
        for flips in (False, True)
    ]
    ways += [replace(GAME, epochs=3, shifts=1), replace(GAME, epochs=3, schedule="cosine")]
    ways += [replace(GAME, epochs=3, warmup=1)]
    outcomes = [tuple(play_second_task(way)[-1].terms.values()) for way in ways]
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
    reports = play_second_task(replace(GAME, epochs=3))
    for name, values in GOLDEN.items():
        assert [report.terms[name] for report in reports] == pytest.approx(values, rel=0.02), name


def test_anchors_are_reported_and_hold_the_encoder() -> None:
    free = play_second_task(replace(GAME, epochs=40), anchors=replace(NO_ANCHORS, new=1e-9))
    held = play_second_task(replace(GAME, epochs=40), anchors=AnchorsConfig(new=50.0, replayed=50.0))
    for name in ("encoder.anchor_new", "encoder.anchor_replayed"):
        assert held[-1].terms[name] < 0.5 * free[-1].terms[name]
        assert name.replace("encoder", "decoder") not in held[-1].terms


def play_first_task(pair: Players, game: GameConfig, labels: list[int]) -> list[EpochReport]:
    reports: list[EpochReport] = []
    images, y = pictures(labels)
    play(
        pair,
        images,
        y,
        len(labels),
        None,
        samples=4,
        game=game,
        objective=OBJECTIVE,
        anchors=AnchorsConfig(new=1.0, replayed=1.0),
        generator=torch.Generator().manual_seed(0),
        progress=reports.append,
    )
    return reports


def test_batchnorm_learns_on_the_first_task_and_never_again() -> None:
    pair = players()
    statistics = [b for b in pair.decoder.buffers() if b.is_floating_point()]
    initial = [b.clone() for b in statistics]
    reports = play_first_task(pair, GAME, [0, 1])
    assert "encoder.anchor_new" not in reports[0].terms  # nothing to hold on to yet
    assert not any(torch.equal(a, b) for a, b in zip(initial, statistics))
    assert not pair.encoder.training
    assert not pair.decoder.training

    frozen = [b.clone() for b in (*pair.encoder.buffers(), *pair.decoder.buffers())]
    scale = pair.decoder.layers[1].norm.weight.clone()
    images, labels = pictures([2, 3])
    play(
        pair,
        images,
        labels,
        4,
        old_memory(pair.encoder),
        samples=4,
        game=GAME,
        objective=OBJECTIVE,
        anchors=NO_ANCHORS,
        generator=torch.Generator().manual_seed(0),
    )
    assert all(torch.equal(a, b) for a, b in zip(frozen, (*pair.encoder.buffers(), *pair.decoder.buffers())))
    assert not torch.equal(scale, pair.decoder.layers[1].norm.weight)  # scale and shift go on learning


def test_one_class_alone_trains() -> None:
    pair = players()
    before = [p.clone() for p in pair.encoder.parameters()]
    reports = play_first_task(pair, replace(GAME, first_epochs=10), [5 - 5])
    assert abs(reports[-1].terms["encoder.reduction"]) < 1e-4
    assert reports[-1].terms["encoder.distance_new"] > 0
    assert not any(torch.equal(a, b) for a, b in zip(before, pair.encoder.parameters()))


@pytest.mark.parametrize(("batch_size", "steps"), [("rule", 1), (40, 1), (39, 2), (15, 3), (7, 6), (1000, 1)])
def test_batches_are_equal_and_no_larger_than_asked(
    batch_size: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 images; the rule gives 3 directions · 4 samples · 2 old · 2 new = 48."""
    sizes: list[int] = []
    monkeypatch.setattr(
        "ictrl.training.game.shown", lambda pixels, *how: sizes.append(len(pixels)) or shown(pixels, *how)
    )
    play_second_task(replace(GAME, batch=batch_size, epochs=1))
    assert sizes == [40 // steps] * steps


def test_turns_are_classes_while_a_task_is_learned() -> None:
    """With one class there is nothing to tell apart; with its four turns there is."""
    straight, turned = (
        play_first_task(players(), replace(GAME, first_turns=turns), [0])[-1] for turns in (False, True)
    )
    assert abs(straight.terms["encoder.reduction"]) < 1e-4
    assert turned.terms["encoder.reduction"] > 0.01


def test_one_optimiser_serves_all_tasks() -> None:
    pair = players()
    play_first_task(pair, GAME, [0, 1])
    steps = [int(state["step"]) for state in pair.encoder_optimiser.state.values()]
    assert set(steps) == {4 * 3}  # four epochs of 40 images in batches of at most 16
    play_first_task(pair, GAME, [0, 1])
    assert {int(state["step"]) for state in pair.encoder_optimiser.state.values()} == {24}


def test_a_non_finite_term_stops_the_task_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    real = encoder_step

    def broken(*arguments: object) -> object:
        return replace(real(*arguments), distance_old=torch.tensor(float("inf")))  # type: ignore[arg-type]

    monkeypatch.setattr("ictrl.training.game.encoder_step", broken)
    with pytest.raises(NonFiniteError, match=r"encoder\.distance_old became inf in epoch 1: lower game\.learning_rate"):
        play_second_task(GAME)


def test_a_learning_rate_out_of_bounds_stops_the_task() -> None:
    pair = players(learning_rate=1e30)
    with pytest.raises(NonFiniteError):
        play_first_task(pair, replace(GAME, first_epochs=20), [0, 1])


def ten_steps(side: int, width: int, d: int, resample: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Parameters before and after ten steps of a later task on a GPU, in float32, with all that a step can have."""
    generator = torch.Generator().manual_seed(0)
    encoder, decoder = (kind(side, 1, width, d, generator).cuda().eval() for kind in (Encoder, Decoder))
    images, labels = pictures([2, 3], each=80)
    images = images.repeat_interleave(side // 8, dim=2).repeat_interleave(side // 8, dim=3)
    means = torch.nn.functional.normalize(torch.randn(6, d, generator=generator), dim=1)
    factors = 0.05 * torch.randn(6, 4, d, generator=generator)

    def parameters() -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in (*encoder.parameters(), *decoder.parameters())])

    before = parameters()
    play(
        Players.pair(encoder, decoder, 1e-4, (0.5, 0.999)),
        images,
        labels.cuda(),
        4,
        Gaussians(means.cuda(), factors.cuda(), torch.tensor([0, 0, 0, 1, 1, 1]).cuda()),
        samples=4,
        game=replace(GAME, epochs=5, batch=80, flips=True, resample=resample),
        objective=OBJECTIVE,
        anchors=AnchorsConfig(new=1.0, replayed=1.0),
        generator=torch.Generator("cuda").manual_seed(0),
    )
    return before, parameters()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares recorded with plain steps; needs a GPU")
@pytest.mark.parametrize("resample", ["task", "step"])
def test_a_recorded_step_does_what_a_plain_one_does(resample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters within 1e-4, a tenth of the way they may have gone; sums by atomic additions vary from run to run."""
    _, recorded = ten_steps(8, 8, D, resample)
    monkeypatch.setattr("ictrl.training.graphs.PLAIN_CALLS", 10**9)
    _, plain = ten_steps(8, 8, D, resample)
    assert float((recorded - plain).abs().max()) < 1e-4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares the fast path with the plain one; needs a GPU")
def test_the_fast_path_does_what_plain_pytorch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's networks: recorded and with kernels, against PyTorch's operations one by one.

    Where a gradient is nearly 0, rounding decides its sign, and Adam makes a whole step of it: of a few parameters in
    ten thousand nothing can be said. All others agree within 1e-4.
    """
    before, fast = ten_steps(32, 64, 128, "step")
    monkeypatch.setattr("ictrl.training.graphs.PLAIN_CALLS", 10**9)
    monkeypatch.setattr("ictrl.kernels.ENABLED", False)
    _, plain = ten_steps(32, 64, 128, "step")
    apart = (fast - plain).abs()
    assert float((apart > 1e-4).float().mean()) < 0.001
    assert float(apart.square().mean().sqrt()) < 0.05 * float((plain - before).square().mean().sqrt())


def test_a_graph_is_let_go_when_its_task_ends_even_by_an_error() -> None:
    """Otherwise its memory stays taken, task after task, until nothing can be recorded any more."""

    class Graph:
        resets = 0

        def reset(self) -> None:
            self.resets += 1

    graph, captured = Graph(), Captured(print, torch.Generator(), torch.device("cpu"))
    captured.graph = graph  # type: ignore[assignment]
    with pytest.raises(KeyError), captured:
        raise KeyError
    assert graph.resets == 1
    assert captured.graph is None
