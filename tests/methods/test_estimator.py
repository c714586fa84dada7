"""Every learner is a scikit-learn estimator."""

import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_support import SEVERAL, TASKS, TESTS, everything, recipe_of, same
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted
from support import pictures, tiny_recipe

from ictrl import ICTRL, InputError, create_learner
from ictrl.nets.dcgan import Encoder

TABLES = "about the columns of tables; pictures of any size are taken, and numbers as pixels only"
WORDS = "refused, but in our words: what was expected, what came, what to do"
FLOAT_LABELS = "its labels are floats, which would not come back as they went in"
LEFT_OUT = {
    "check_no_attributes_set_in_init": "networks are built at once: a wrong recipe is refused where it is given",
    "check_do_not_raise_errors_in_init_or_set_params": "the same",
    "check_fit_score_takes_y": "score calls them images and labels, as learn does",
    "check_dont_overwrite_parameters": "recipe, seed, device and labels are public, and fit begins with new ones",
    "check_dict_unchanged": "the classifier is made of memory when it is first asked for",
    "check_methods_sample_order_invariance": "float32: the last digit depends on the place within a batch",
    "check_n_features_in": TABLES,
    "check_n_features_in_after_fitting": TABLES,
    "check_classifiers_train": TABLES,
    "check_dtype_object": TABLES,
    "check_fit2d_predict1d": WORDS,
    "check_fit2d_1sample": WORDS,
    "check_complex_data": WORDS,
    "check_estimators_empty_data_messages": WORDS,
    "check_estimator_sparse_tag": WORDS,
    "check_estimator_sparse_array": WORDS,
    "check_estimator_sparse_matrix": WORDS,
    "check_classifiers_regression_target": WORDS,
    "check_requires_y_none": WORDS,
    "check_supervised_y_2d": "a column of labels is refused, not flattened with a warning",
    "check_estimators_nan_inf": FLOAT_LABELS,
    "check_classifiers_one_label": FLOAT_LABELS,
}


class OfTables(ICTRL):
    """Shows each row of a table as a picture: scikit-learn's checks bring nothing but tables."""

    def _labelled(self, images: Any, labels: Any) -> Any:
        return super()._labelled(shown(images), labels)

    def _checked(self, images: Any) -> Any:
        return super()._checked(shown(images))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def shown(table: Any) -> Any:
    array = np.asarray(table)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.size:
        return array
    pixels, columns = np.zeros((len(array), 64)), min(64, array.shape[1])
    pixels[:, :columns] = 1 / (1 + np.exp(-array[:, :columns].astype(float)))
    return pixels.reshape(-1, 8, 8)


def test_scikit_learns_own_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.memory.few_images.LEAST", 2)  # its tables have few rows of each class
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            OfTables(tiny_recipe()), expected_failed_checks=LEFT_OUT, on_fail="raise", on_skip=None
        )
    status: dict[str, set[str]] = {}
    for result in results:
        status.setdefault(result["check_name"], set()).add(result["status"])
    assert {name for name, found in status.items() if "xfail" in found} == set(LEFT_OUT)
    assert {
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimators_unfitted",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_get_params_invariance",
        "check_parameters_default_constructible",
        "check_fit_idempotent",
        "check_fit_check_is_fitted",
        "check_classifiers_classes",
        "check_decision_proba_consistency",
        "check_methods_subset_invariance",
        "check_pipeline_consistency",
    } <= {name for name, found in status.items() if found == {"passed"}}


@pytest.mark.parametrize("method", SEVERAL)
def test_fit_begins_anew_and_learns_everything_as_one_task(method: str) -> None:
    images, labels = (torch.cat(parts) for parts in zip(*TASKS))
    expected = create_learner(recipe_of(method)).learn(images, labels)
    learner: Any = create_learner(recipe_of(method)).learn(*TASKS[1])
    assert learner.fit(images.numpy(), labels.tolist()) is learner
    assert same(everything(learner), everything(expected))
    probabilities = learner.predict_proba(TESTS)
    assert torch.allclose(probabilities.sum(1), torch.ones(len(TESTS)), atol=1e-5)
    assert torch.equal(probabilities.argmax(1), learner.scores(TESTS).argmax(1))
    assert torch.equal(learner.decision_function(TESTS), learner.scores(TESTS))


@pytest.mark.parametrize("method", SEVERAL)
def test_a_clone_is_a_new_learner_with_the_same_parameters(method: str) -> None:
    learner = create_learner(recipe_of(method), seed=3).learn(*TASKS[0])
    again = clone(learner)
    assert type(again) is type(learner)
    assert again.labels == []
    assert (again.seed, again.recipe) == (3, learner.recipe)
    assert {"recipe", "seed", "device"} <= set(again.get_params())
    assert is_classifier(again)
    with pytest.raises(NotFittedError):
        check_is_fitted(again)
    check_is_fitted(learner)
    assert same(everything(again.learn(*TASKS[0])), everything(learner))


def test_a_fit_that_fails_leaves_the_learner_as_it_was() -> None:
    learner: Any = ICTRL(tiny_recipe()).learn(*TASKS[0])
    before = everything(learner)
    with pytest.raises(InputError, match="Expected one label per image"):
        learner.fit(TASKS[1][0], [1, 2, 3])
    assert same(everything(learner), before)


def test_parameters_can_be_set() -> None:
    learner: Any = ICTRL(tiny_recipe())
    assert learner.set_params(seed=5) is learner
    assert learner.seed == learner.get_params()["seed"] == 5
    assert same(everything(learner.learn(*TASKS[0])), everything(ICTRL(tiny_recipe(), seed=5).learn(*TASKS[0])))
    before = everything(learner)
    learner.set_params(seed=6)  # nothing is forgotten until fit
    assert same(everything(learner), before)
    assert learner.fit(*TASKS[0]).seed == 6
    assert same(everything(learner), everything(ICTRL(tiny_recipe(), seed=6).learn(*TASKS[0])))
    with pytest.raises(InputError, match="Expected one of the parameters recipe, seed, device, .* but got 'depth'"):
        learner.set_params(depth=3)


def test_networks_of_ones_own_begin_anew_as_they_were_given(tmp_path: Path) -> None:
    own = Encoder(8, 1, 8, 16, torch.Generator().manual_seed(0))
    learner: Any = ICTRL(tiny_recipe(), encoder=own).learn(*TASKS[0])
    learner.save(tmp_path / "learner")
    expected = everything(ICTRL(tiny_recipe(), encoder=own).learn(*TASKS[1]))
    for one in (learner, ICTRL.load(tmp_path / "learner", encoder=own)):
        assert same(everything(one.fit(*TASKS[1])), expected)


def test_of_two_classes_one_decision() -> None:
    learner = ICTRL(tiny_recipe()).learn(*pictures([0, 1]))
    decided = learner.decision_function(TESTS)
    assert decided.shape == (len(TESTS),)
    assert torch.equal((decided > 0).long(), learner.predict(TESTS))


def test_a_learner_can_be_pickled() -> None:
    learner = ICTRL(tiny_recipe()).learn(TASKS[0][0], ["a" if label > 0 else "b" for label in TASKS[0][1]])
    again = pickle.loads(pickle.dumps(learner))
    assert again.predict(TESTS).tolist() == learner.predict(TESTS).tolist()
    for one in (learner, again):
        one.learn(TASKS[1][0], ["c" if label > 2 else "d" for label in TASKS[1][1]])
    assert same(everything(again), everything(learner))


def test_digits_are_cross_validated_in_a_pipeline() -> None:
    digits = load_digits()
    chosen = digits.target < 3
    names = np.array(["zero", "one", "two"])[digits.target[chosen]]
    pixels = FunctionTransformer(lambda rows: rows.reshape(-1, 8, 8) / 16)
    accuracies = cross_val_score(make_pipeline(pixels, ICTRL(tiny_recipe())), digits.data[chosen], names, cv=3)
    assert accuracies.min() > 0.8
    areas = cross_val_score(ICTRL(tiny_recipe()), digits.images[chosen] / 16, names, cv=2, scoring="roc_auc_ovr")
    assert areas.min() > 0.9


def test_recipes_are_searched_for_the_best() -> None:
    images, labels = pictures([0, 1, 2])
    recipes = [tiny_recipe(first={"epochs": epochs}) for epochs in (1, 4)]
    pipeline = Pipeline([("learner", ICTRL(recipes[0]))])
    grid = {"learner__recipe": recipes, "learner__seed": [0, 1]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(images.numpy(), labels.numpy())
    assert search.cv_results_["mean_test_score"].shape == (4,)
    best = search.best_estimator_.named_steps["learner"]
    assert {f"learner__{name}": best.get_params()[name] for name in ("recipe", "seed")} == search.best_params_
    assert search.score(images.numpy(), labels.numpy()) > 0.9


def test_scikit_learn_is_not_needed() -> None:
    script = (
        "import sys; sys.modules['sklearn'] = None; import torch, ictrl; from support import pictures, tiny_recipe;"
        "learner = ictrl.ICTRL(tiny_recipe()).fit(*pictures([0, 1]));"
        "print(learner.predict_proba(pictures([0])[0]).shape, learner.get_params()['seed'])"
    )
    path = ":".join(entry for entry in sys.path if entry)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": path})
    assert found.stdout == "torch.Size([20, 2]) None\n", found.stderr


def test_verbose_learning_says_some_lines(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[int] = []
    recipe = tiny_recipe(first={"epochs": 25})
    quiet = ICTRL(recipe).learn(*TASKS[0])
    assert capsys.readouterr().out == ""
    learner = ICTRL(recipe).learn(*TASKS[0], progress=lambda report: heard.append(report.epoch), verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "learning 2 new classes from 40 images"
    assert lines[-1].startswith("epoch 25/25, ")
    assert len(lines) <= 15
    assert heard == list(range(1, 26))
    assert same(everything(learner), everything(quiet))
