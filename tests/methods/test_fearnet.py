"""fearnet: who decides, what each memory says, what the cortex pays, what a sleep leaves."""

from typing import Any

import numpy as np
import pytest
import torch
from generative_support import accuracies, learned
from method_support import TASKS, TESTS, learner_of, recipe_of
from support import pictures

from ictrl import ConfigError
from ictrl.memory.recent import EPS
from ictrl.memory.triangles import whole
from ictrl.recipes.tables import recipe_with


def test_two_memories_say_what_a_slow_reference_says() -> None:
    """Image by image, in NumPy, from what is kept."""
    learner: Any = learner_of("fearnet")
    recent, rows = (learner.kept[name].double().numpy() for name in ("recent", "recent_rows"))
    assert sorted(set(rows)) == [2, 3]
    Z = learner.seen(TESTS)
    with torch.no_grad():
        logits = learner.cortex.head(learner.cortex(Z)).double().numpy()[:, :2]
        amygdala = torch.sigmoid(learner._state.networks["amygdala"](Z)).double().numpy()[:, 0]
    found = {True: 0, False: 0}
    predicted = [learner.labels.index(label) for label in learner.predict(TESTS).tolist()]
    for z, logit, A, decided in zip(Z.double().numpy(), logits, amygdala, predicted):
        beta = [1 / (EPS + min(np.linalg.norm(z - u) for u in recent[rows == row])) for row in (2, 3)]
        P_H = np.array(beta) / sum(beta)
        P_C = np.exp(logit) / np.exp(logit).sum()
        new = A / (1 - A) * P_H.max() > P_C.max()
        assert decided == (2 + P_H.argmax() if new else P_C.argmax())
        found[bool(new)] += 1
    assert min(found.values()) > 0


def test_the_cortex_pays_its_formula() -> None:
    learner: Any = learner_of("fearnet", 1, features=3.0, layers=0.5)
    Z, rows = learner.seen(TASKS[0][0][:8]), torch.arange(8) % 2
    with torch.no_grad():
        found = {name: float(term) for name, term in learner.losses(Z, rows).items()}
    weights = {name: p.detach().double().numpy() for name, p in learner.cortex.named_parameters()}

    def layer(name: str, x: Any) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def elu(x: Any) -> Any:
        return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)

    z = Z.double().numpy()
    h = elu(layer("first", z))
    code = elu(layer("second", h))
    again = elu(layer("third", code))
    logits = layer("head", code)
    each = np.log(np.exp(logits).sum(1)) - logits[np.arange(8), rows]
    assert found["cross_entropy"] == pytest.approx(each.mean(), rel=1e-4)
    assert found["features"] == pytest.approx(3.0 * ((layer("fourth", again) - z) ** 2).mean(), rel=1e-4)
    assert found["layers"] == pytest.approx(0.5 * ((again - h) ** 2).mean(), rel=1e-4)


def test_pseudo_examples_are_decoded_codes_of_the_class() -> None:
    learner: Any = learner_of("fearnet", 1)
    decoded: list[Any] = []
    learner.cortex.decode = lambda codes: decoded.append(codes) or torch.ones(len(codes), 16)
    learner.pseudo_examples(1, 20_000)
    codes = decoded[0].double()
    torch.testing.assert_close(codes.mean(0), learner.kept["code_means"][1].double(), atol=0.05, rtol=0.05)
    S = whole(learner.kept["code_covariances"][1]).double()
    torch.testing.assert_close(torch.cov(codes.T), S, atol=float(0.05 * S.diagonal().max()), rtol=0.1)


def test_recent_features_are_kept_until_a_sleep() -> None:
    learner: Any = learner_of("fearnet", 1)
    assert len(learner.kept["recent"]) == 0  # the first task goes to the cortex at once
    learner.learn(*TASKS[1])
    assert torch.equal(learner.kept["recent"], learner.seen(TASKS[1][0]))
    assert learner.older() == 2
    bytes_awake = learner.kept_bytes
    learner.learn(*pictures([9]))  # the third recent class
    assert learner.older() == 5
    assert len(learner.kept["recent"]) == 0
    assert learner.kept_bytes < bytes_awake


def test_a_class_is_forgotten_wherever_it_lies() -> None:
    learner: Any = learner_of("fearnet")
    learner.forget(2)  # recent
    assert learner.kept["recent_rows"].unique().tolist() == [2]
    assert len(learner.kept["recent"]) == 20
    learner.forget(5)  # older
    assert learner.older() == 1
    assert learner.kept["recent_rows"].unique().tolist() == [1]
    assert set(learner.predict(TESTS).tolist()) <= {-4, 30}


def test_old_digits_are_not_forgotten_awake_or_asleep() -> None:
    forgetful = accuracies(learned("finetune", later={"epochs": 8}))[1]
    for sleep in (2, 4):
        every, old = accuracies(learned("fearnet", sleep=sleep))
        assert every > 0.85
        assert old > forgetful + 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sleep": 0}, "Expected sleep to be at least 1 but got 0"),
        ({"features": -1.0}, "Expected features to be at least 0 but got -1.0"),
        ({"cortex": {"epochs": 0}}, "Expected epochs to be at least 1 but got 0"),
        ({"amygdala": {"learning_rate": 0.0}}, "Expected learning_rate to be above 0 but got 0.0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("fearnet"), {"method": settings})
