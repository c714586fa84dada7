"""Every step of drawing, against its formulas on what both networks were shown."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, normalize

from ictrl.memory.latents import Latents
from ictrl.training.drawing import DrawingStageConfig, Looks, learn_to_draw
from ictrl.training.loop import EpochReport, TaskHooks
from ictrl.training.players import adam
from ictrl.training.state import TrainingState

N, OLD, CLASSES, D, CODE, SIDE = 12, 2, 4, 10, 4, 8


class Painter(nn.Module):
    """A decoder of one layer, which writes down what it is given and gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = nn.Linear(D, SIDE * SIDE), list[tuple[Tensor, Tensor]]()

    def forward(self, Z: Tensor) -> Tensor:
        X = self.layer(Z).tanh().view(-1, 1, SIDE, SIDE)
        self.seen.append((Z.detach(), X.detach()))
        return X


class Judge(nn.Module):
    """A critic of one layer, likewise."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = nn.Linear(SIDE * SIDE + CODE, 1), list[tuple[Tensor, Tensor, Tensor]]()

    def forward(self, X: Tensor, codes: Tensor) -> Tensor:
        scores = self.layer(torch.cat([X.flatten(1), codes], 1))[:, 0]
        self.seen.append((X.detach(), codes.detach(), scores.detach()))
        return scores


class Played(NamedTuple):
    """One step, and what was seen of it."""

    painter: Painter
    judge: Judge
    terms: dict[str, float]
    before: Tensor
    """the painter's weight when the step began"""


def stages(X: Tensor) -> list[Tensor]:
    """A frozen trunk of two stages."""
    first = torch.nn.functional.avg_pool2d(X, 2)
    return [first, torch.cat([first, first.square()], 1)]


def feature(found: list[Tensor], rows: Tensor) -> Tensor:
    own = normalize(found[0].flatten(1)[:, : D - CODE], dim=1)
    return torch.cat([own, CODES[rows]], 1)


def scores(found: list[Tensor]) -> Tensor:
    return found[1].flatten(1)[:, :CLASSES] * 3


CODES = torch.eye(CODE)[:CLASSES]
LOOKS = Looks(stages, feature, scores)


def played(monkeypatch: pytest.MonkeyPatch, old: int = OLD, **weights: Any) -> Played:
    """One step on one batch, with images shown to the critic as they are."""
    monkeypatch.setattr("ictrl.training.drawing.diff_augment", lambda X, generator: X)
    torch.manual_seed(0)
    painter, judge = Painter(), Judge()
    generator = torch.Generator().manual_seed(1)
    means, factors = torch.randn(CLASSES, D), torch.randn(CLASSES, D, D) / 10
    means[:, -CODE:], factors[:, :, -CODE:] = CODES, 0.0  # as of features, which all have their class's code
    latents = Latents(means, factors, CODES)
    images = torch.randint(0, 256, (N, 1, SIDE, SIDE), dtype=torch.uint8)
    rows = old + torch.arange(N) % (CLASSES - old)
    optimisers = {name: adam(part, 1e-3, (0.0, 0.99)) for name, part in (("decoder", painter), ("critic", judge))}
    state = TrainingState({"decoder": painter, "critic": judge}, optimisers, generator)
    heard = list[EpochReport]()
    before = painter.layer.weight.detach().clone()
    stage = DrawingStageConfig(epochs=1, batch=N, learning_rate=1e-3, ema=0.0, **weights)
    hooks = TaskHooks(heard.append)
    learn_to_draw((painter, judge), state, LOOKS, latents, old, images, rows, stage, torch.float32, hooks)
    return Played(painter, judge, heard[0].terms, before)


def share(images: list[Tensor], targets: list[Tensor]) -> float:
    """Mean over stages of the squared distance over the variance of the target."""
    parts = [float(((a - b) ** 2).mean() / (b.var(correction=0) + 1e-6)) for a, b in zip(images, targets)]
    return sum(parts) / len(parts)


def by_rows(images: Tensor, rows: slice) -> list[Tensor]:
    part = images[rows]
    return [part, *stages(part)]


def test_three_sets_are_drawn_and_each_pays_for_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = played(monkeypatch, recognised=0.5)
    (Z, drawn) = found.painter.seen[0]
    assert len(Z) == 3 * N
    new_codes, image_codes, old_codes = Z[:, -CODE:].split(N)
    real, told, scored = found.judge.seen[0]
    images = real[:N]
    # the sets: of new classes, of the images themselves, of old classes
    assert set(new_codes.argmax(1).tolist()) <= {2, 3}
    assert torch.equal(image_codes, told[:N])
    assert set(old_codes.argmax(1).tolist()) <= {0, 1}
    torch.testing.assert_close(
        Z[N : 2 * N, :-CODE], feature(stages(images), torch.zeros(N, dtype=torch.long))[:, :-CODE]
    )
    # the critic sees images and old classes as they were drawn before as real, what is drawn now as not
    assert len(real) == 4 * N
    torch.testing.assert_close(real[2 * N :], torch.cat([drawn[:N], drawn[2 * N :]]))
    hinge = (1 - scored[: 2 * N]).clamp(min=0).mean() + (1 + scored[2 * N :]).clamp(min=0).mean()
    assert found.terms["critic"] == pytest.approx(float(hinge), rel=1e-5)
    # the decoder pays by the critic as it is after its step
    shown, _, again = found.judge.seen[1]
    assert torch.equal(shown, real[2 * N :])
    assert found.terms["decoder.adversary"] == pytest.approx(-float(again.mean()), rel=1e-5)
    assert not torch.equal(again, scored[2 * N :])
    matching = share(by_rows(drawn, slice(N, 2 * N)), [images, *stages(images)])
    assert found.terms["decoder.matching"] == pytest.approx(matching, rel=1e-4)
    logits = log_softmax(scores(stages(drawn[:N])), 1)
    classes = new_codes.argmax(1)
    assert found.terms["decoder.recognised"] == pytest.approx(-float(logits[range(N), classes].mean()), rel=1e-4)


def test_old_classes_are_held_where_the_decoder_of_before_drew_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first step it still draws the same: there is nothing to pay. What is real of old classes is that, too."""
    found = played(monkeypatch)
    assert found.terms["decoder.held"] == pytest.approx(0.0, abs=1e-9)
    real, _, _ = found.judge.seen[0]
    torch.testing.assert_close(real[N : 2 * N], real[3 * N :])
    assert not torch.equal(found.painter.layer.weight, found.before)


def test_with_nothing_old_two_sets_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    found = played(monkeypatch, old=0)
    assert len(found.painter.seen[0][0]) == 2 * N
    assert set(found.terms) == {"critic", "decoder.adversary", "decoder.matching"}


def test_old_classes_may_be_kept_from_the_critic(monkeypatch: pytest.MonkeyPatch) -> None:
    found = played(monkeypatch, old_too=False)
    real, told, _ = found.judge.seen[0]
    assert len(real) == 2 * N
    assert set(told.argmax(1).tolist()) <= {2, 3}
    assert "decoder.held" in found.terms


def test_the_critic_learns_at_a_multiple_of_the_decoders_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first step of Adam moves each weight by the rate."""
    for times in (1.0, 4.0):
        torch.manual_seed(0)
        Painter()
        before = Judge().layer.weight.detach()
        found = played(monkeypatch, critic_rate=times)
        assert float((found.judge.layer.weight - before).detach().abs().max()) == pytest.approx(times * 1e-3, rel=1e-2)
        assert float((found.painter.layer.weight - found.before).detach().abs().max()) == pytest.approx(1e-3, rel=1e-2)


def test_the_critic_alone_moves_by_its_own_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the decoder pays does not reach it."""
    heavy = played(monkeypatch, adversary=1.0, matching=100.0).judge.layer.weight
    light = played(monkeypatch, adversary=1.0, matching=0.0).judge.layer.weight
    assert torch.equal(heavy, light)
