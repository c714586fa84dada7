"""ewc and si: importance by the formula, a penalty that holds what matters, new rows of the head free."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, learner_of, recipe_of
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from ictrl import ConfigError, EpochReport, create_learner
from ictrl.methods.consolidation import Held, flat
from ictrl.methods.ewc import EWC
from ictrl.methods.si import SI, PathIntegral
from ictrl.methods.supervised import Seen
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with

STILL = {"epochs": 1, "batch": 40, "learning_rate": 1e-12}
BOTH = pytest.mark.parametrize("method", ["ewc", "si"])
STRENGTH = {"ewc": "penalty", "si": "c"}


def ewc(tasks: int, **settings: Any) -> EWC:
    learner = learner_of("ewc", tasks, **settings)
    assert isinstance(learner, EWC)
    return learner


def si(tasks: int, **settings: Any) -> SI:
    learner = learner_of("si", tasks, **settings)
    assert isinstance(learner, SI)
    return learner


@BOTH
def test_the_first_task_is_plain_cross_entropy(method: str) -> None:
    reports: list[EpochReport] = []
    learner_of(method, 0).learn(*TASKS[0], progress=reports.append)
    assert {name for report in reports for name in report.terms} == {"cross_entropy"}


@BOTH
def test_the_penalty_against_numpy(method: str) -> None:
    learner: Any = learner_of(method, 1, **{STRENGTH[method]: 3.0})
    rng = np.random.default_rng(0)
    weights = np.concatenate([p.detach().numpy().ravel() for n in ("encoder", "head") for p in network(learner, n)])
    importance, anchor = rng.random(len(weights)), rng.normal(size=len(weights))
    learner._held = Held(torch.from_numpy(importance).float(), torch.from_numpy(anchor).float())
    images, rows = TASKS[0][0][:10], torch.arange(10) % 2
    terms = learner.loss(Seen(to_float(images), rows, images, torch.arange(10)), {})
    expected = {"ewc": 3.0 / 2, "si": 3.0}[method] * (importance * (weights - anchor) ** 2).sum()
    assert float(terms["penalty"].detach()) == pytest.approx(expected, rel=1e-4)
    plain = cross_entropy(learner.logits(to_float(images)), rows)
    assert float(terms["cross_entropy"].detach()) == pytest.approx(float(plain.detach()), rel=1e-5)


def network(learner: Any, name: str) -> list[nn.Parameter]:
    return list(learner._state.networks[name].parameters())


@BOTH
def test_anchors_lie_where_the_weights_were_and_new_rows_are_free(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first step of the second task nothing has moved but rows of the head that came, at no cost."""
    learner: Any = learner_of(method, 1, stage=STILL, **{STRENGTH[method]: 1e6})
    learner.kept = learner.kept._replace(importance=torch.ones_like(learner.kept.importance))
    reports: list[EpochReport] = []
    held: list[Held] = []
    loss = type(learner).loss

    def watched(self: Any, seen: Seen, working: Any) -> dict[str, Tensor]:
        held.append(self._held)
        return loss(self, seen, working)

    monkeypatch.setattr(type(learner), "loss", watched)
    learner.learn(*TASKS[1], progress=reports.append)
    assert reports[0].terms["penalty"] == 0.0
    d = learner.head.weight.shape[1]
    importance = held[0].importance
    weight, bias = importance[-4 * d - 4 : -4].view(4, d), importance[-4:]
    assert bool((importance[: -4 * d - 4] == 1).all())
    for part in (weight, bias):
        assert bool((part[:2] == 1).all())
        assert not part[2:].any()
    assert learner._held is None


@pytest.mark.parametrize(
    ("method", "stage"),
    [("ewc", {"epochs": 5, "learning_rate": 0.03}), ("si", {"epochs": 6, "learning_rate": 0.02})],
)
def test_what_matters_moves_less_and_less_is_forgotten(method: str, stage: dict[str, Any]) -> None:
    """Against the same learner without the penalty, which is finetune by SGD."""
    moved, right = [], []
    for strength in (0.0, 1000.0):
        learner: Any = learner_of(method, 1, **{STRENGTH[method]: strength, "stage": stage})
        encoder = sum(p.numel() for p in network(learner, "encoder"))
        importance, anchor = (part[:encoder] for part in learner.kept)
        learner.learn(*TASKS[1])
        way = (flat(network(learner, "encoder")).detach() - anchor).square()
        moved.append(float((importance * way).sum()))
        right.append(learner.score(TESTS, TEST_LABELS))
    assert moved[1] < 0.1 * moved[0]
    assert right[1] > right[0] + 0.15


def test_squared_gradients_against_vmap_and_the_heads_formula() -> None:
    learner = ewc(1)
    images, rows = TASKS[0][0][:12], torch.arange(12) % 2
    found = learner.squared_gradients(images, rows)
    whole = nn.Sequential(learner.encoder, learner.head)
    parameters = {name: p.detach() for name, p in whole.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor, row: Tensor) -> Tensor:
        return -functional_call(whole, parameters, (x[None],)).log_softmax(1).gather(1, row.view(1, 1)).sum()

    X = to_float(images).to(memory_format=torch.channels_last)
    each = vmap(grad(loss), (None, 0, 0))(parameters, X, rows)
    torch.testing.assert_close(found, flat(g.square().mean(0) for g in each.values()), rtol=1e-4, atol=1e-9)
    with torch.no_grad():
        Z = learner.encode(images)
        apart = (learner.head(Z).softmax(1) - torch.eye(2)[rows]).double().numpy()  # (n, k)
    np.testing.assert_allclose(found[-2:].numpy(), (apart**2).mean(0), rtol=1e-4)
    weight = ((apart[:, :, None] * Z.double().numpy()[:, None]) ** 2).mean(0)
    np.testing.assert_allclose(found[-2 - weight.size : -2].view(weight.shape).numpy(), weight, rtol=1e-4)


def test_classes_are_drawn_from_what_the_network_says(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = ewc(1)
    drawn: list[Tensor] = []
    monkeypatch.setattr(learner, "squared_gradients", lambda X, rows: drawn.append(rows) or torch.zeros(1))
    images = TASKS[0][0]
    with torch.no_grad():
        learner.head.weight.zero_()  # type: ignore[union-attr, operator]
        for bias in (0.0, 100.0):
            learner.head.bias.copy_(torch.tensor([0.0, bias]))  # type: ignore[union-attr, operator]
            learner.importance(images, None, torch.zeros(1), {})
    assert 10 <= int(drawn[0].sum()) <= 30  # of 40, as likely as not
    assert drawn[1].tolist() == [1] * 40


def test_fisher_information_is_added_to_what_remains_of_that_of_before() -> None:
    first = ewc(1).kept
    assert first is not None
    kept = {decay: ewc(2, decay=decay).kept for decay in (0.0, 0.5, 1.0)}
    none, half, whole = (held.importance for held in kept.values() if held is not None)
    torch.testing.assert_close(half, (none + whole) / 2)
    torch.testing.assert_close((whole - none).sum(), first.importance.sum(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("task", "rate"), [(0, 0.02), (1, 0.003)])
def test_the_path_integral_is_what_the_loss_has_lost(task: int, rate: float) -> None:
    """By small steps on all images at once Σ ω is the fall of the cross-entropy alone, whatever the penalty."""
    learner = si(task, c=2.0)
    small = {"stage": {"epochs": 60, "batch": 40, "learning_rate": rate}, "optimiser": {"kind": "sgd", "momentum": 0.0}}
    learner.recipe = recipe_with(learner.recipe, {"method": small})
    if learner.kept is not None:  # a penalty that pulls from the first step on
        away = 0.02 * torch.randn(len(learner.kept.anchor), generator=torch.Generator().manual_seed(0))
        learner.kept = Held(torch.ones_like(away), learner.kept.anchor + away)
    losses, integrals = [], []

    def progress(report: EpochReport) -> None:
        losses.append(report.terms["cross_entropy"])
        path = report.state.networks["path"]
        assert isinstance(path, PathIntegral)
        integrals.append(float(path.omega.sum()))

    learner.learn(*TASKS[task], progress=progress)
    assert losses[0] - losses[-1] > 0.05
    assert integrals[-2] == pytest.approx(losses[0] - losses[-1], rel=0.05)  # losses are of before the step


def test_importance_of_a_path() -> None:
    learner = si(1, xi=0.5)
    weights = learner.weights().detach()
    generator = torch.Generator().manual_seed(0)
    omega, start, before = (torch.randn(len(weights), generator=generator) for _ in range(3))
    path = PathIntegral(start)
    path.omega.copy_(omega)
    found = learner.importance(TASKS[0][0], before, start, {"path": path}).double().numpy()
    way = weights.double().numpy() - start.double().numpy()
    expected = np.maximum(0, before.double().numpy() + omega.double().numpy() / (way**2 + 0.5))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@BOTH
def test_two_numbers_are_kept_per_weight(method: str) -> None:
    learner = learner_of(method)
    assert learner.kept_bytes == 2 * 4 * learner.parameter_count + 8 * 4
    kept = learner.kept_tensors()
    assert torch.equal(kept["anchor"], flat([*network(learner, "encoder"), *network(learner, "head")]).detach())
    assert float(kept["importance"].min()) >= 0
    with pytest.raises(ValueError, match="importance torch.float32"):
        learner.kept_from(learner.labels, {**kept, "importance": kept["importance"][:-1]})
    with pytest.raises(KeyError):
        learner.kept_from(learner.labels, {"anchor": kept["anchor"]})


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        ("ewc", {"penalty": -1.0}, "Expected penalty to be at least 0 but got -1.0"),
        ("ewc", {"decay": 1.5}, "Expected decay to be from 0 to 1 but got 1.5"),
        ("si", {"c": -1.0}, "Expected c to be at least 0 but got -1.0"),
        ("si", {"xi": 0.0}, "Expected xi to be above 0 but got 0.0"),
        ("si", {"stage": {"batch": "rule"}}, 'Expected stage.batch to be a number but got "rule"'),
    ],
)
def test_wrong_settings_are_refused(method: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of(method), {"method": settings})


def test_a_new_learner_keeps_nothing() -> None:
    assert create_learner(recipe_of("ewc")).kept_tensors() == {}
