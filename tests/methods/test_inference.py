"""Learners that were saved to predict: small, exact, and honest about what they cannot do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from method_support import METHODS, TASKS, TESTS, learner_of
from support import pictures

from ictrl import ICTRL, InputError, WideICTRL, create_learner, load_learner
from ictrl.methods.capabilities import Draws, DrawsFeatures, Probabilities, Replays, TellsUnknown

DRAWING = [method for method in METHODS if issubclass(type(learner_of(method, 0)), Draws)]


@pytest.mark.parametrize("method", METHODS)
def test_it_predicts_to_the_last_bit_as_the_whole_learner_does(method: str, tmp_path: Path) -> None:
    learner = learner_of(method)
    learner.save(tmp_path / "whole")
    learner.save(tmp_path / "small", inference_only=True)
    assert (tmp_path / "small").stat().st_size < (tmp_path / "whole").stat().st_size
    again = load_learner(tmp_path / "small")
    assert again.classes_.tolist() == learner.classes_.tolist()
    assert torch.equal(again.scores(TESTS), learner.scores(TESTS))
    assert torch.equal(again.predict(TESTS), learner.predict(TESTS))
    if isinstance(learner, Probabilities):
        assert isinstance(again, Probabilities)
        assert torch.equal(again.predict_proba(TESTS), learner.predict_proba(TESTS))
    if isinstance(learner, TellsUnknown):
        assert isinstance(again, TellsUnknown)
        assert torch.equal(again.strangeness(TESTS), learner.strangeness(TESTS))
    assert again.parameter_count <= learner.parameter_count
    assert "whole learner to learn but this one was saved with inference_only=True" in refused(again.learn, *TASKS[0])
    assert "to be saved as a whole but" in refused(again.save, tmp_path / "again")
    again.save(tmp_path / "copy", inference_only=True)
    assert torch.equal(load_learner(tmp_path / "copy").scores(TESTS), learner.scores(TESTS))


def refused(call, *args, **kwargs) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as error:
        call(*args, **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("method", DRAWING)
def test_with_its_decoder_it_draws_as_before(method: str, tmp_path: Path) -> None:
    learner = learner_of(method)
    learner.save(tmp_path / "draws", inference_only=True, decoder=True)
    again = load_learner(tmp_path / "draws")
    assert isinstance(learner, Draws)
    assert isinstance(again, Draws)
    assert torch.equal(again.sample(5, 4), learner.sample(5, 4))
    assert torch.equal(again.reconstruct(TESTS), learner.reconstruct(TESTS))
    assert torch.equal(again.scores(TESTS), learner.scores(TESTS))
    again.save(tmp_path / "smaller", inference_only=True)
    assert torch.equal(load_learner(tmp_path / "smaller").scores(TESTS), learner.scores(TESTS))


@pytest.mark.parametrize("method", DRAWING)
def test_without_its_decoder_it_says_that_it_cannot_draw(method: str, tmp_path: Path) -> None:
    learner_of(method).save(tmp_path / "small", inference_only=True)
    again = load_learner(tmp_path / "small")
    drawing = "Expected a learner with its decoder to"
    assert isinstance(again, Draws)
    calls: list[tuple[Any, tuple[Any, ...]]] = [(again.sample, (5, 4)), (again.reconstruct, (TESTS,))]
    if isinstance(again, DrawsFeatures):
        calls += [(again.decode, (torch.zeros(1, 16),)), (again.recall, (5,))]
    if isinstance(again, Replays):
        calls.append((again.replay_recognised, ()))
    for call, args in calls:
        assert drawing in refused(call, *args)
    assert drawing in refused(again.save, tmp_path / "draws", inference_only=True, decoder=True)


def test_wide_ictrl_without_its_head_gives_no_features(tmp_path: Path) -> None:
    learner_of("wide-ictrl").save(tmp_path / "small", inference_only=True)
    again = WideICTRL.load(tmp_path / "small")
    assert "with its decoder to give features to draw from" in refused(again.features, TESTS)


def test_review_and_odd_requests_are_refused(tmp_path: Path) -> None:
    learner_of("ictrl").save(tmp_path / "small", inference_only=True)
    assert "a whole learner to review" in refused(ICTRL.load(tmp_path / "small").review, pictures([5])[0])
    wide = learner_of("wide")
    assert "wide has none" in refused(wide.save, tmp_path / "x", inference_only=True, decoder=True)
    assert "decoder=True with inference_only=True" in refused(wide.save, tmp_path / "x", decoder=True)


@pytest.mark.parametrize("method", METHODS)
def test_one_that_has_learned_nothing_is_stored_too(method: str, tmp_path: Path) -> None:
    create_learner(learner_of(method, 0).recipe).save(tmp_path / "new", inference_only=True)
    assert "call learn before predict" in refused(load_learner(tmp_path / "new").predict, TESTS)


def test_a_run_folder_stands_for_its_newest_learner(short_run: Path) -> None:
    newest = short_run / "checkpoint" / "after-task-002.safetensors"
    expected = load_learner(newest)
    for path in (short_run, str(short_run)):
        found = load_learner(path)
        assert found.classes_.tolist() == expected.classes_.tolist()
        assert isinstance(found, type(expected))
        assert type(expected).load(path).classes_.tolist() == expected.classes_.tolist()


def test_damaged_learners_of_a_run_folder_are_passed_over(short_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoint"
    folder.mkdir(parents=True)
    first, second = (f"after-task-00{i}.safetensors" for i in (1, 2))
    (folder / first).write_bytes((short_run / "checkpoint" / first).read_bytes())
    (folder / second).write_bytes(b"no learner")
    with pytest.warns(UserWarning, match=f"{second} is cut short.* Going back to {first}."):
        assert len(load_learner(tmp_path / "run").classes_) == 5
    (folder / first).write_bytes(b"nor this")
    assert "a run folder with a good learner but" in refused(load_learner, tmp_path / "run")


def test_a_file_that_only_predicts_does_not_say_where_the_data_lay(tmp_path: Path) -> None:
    learner = learner_of("wide")
    learner.recipe = replace(learner.recipe, stream=replace(learner.recipe.stream, root="customers/of-ours"))
    learner.save(tmp_path / "whole")
    learner.save(tmp_path / "predicts", inference_only=True)
    assert b"of-ours" in (tmp_path / "whole").read_bytes()
    assert b"of-ours" not in (tmp_path / "predicts").read_bytes()
    assert load_learner(tmp_path / "predicts").recipe.stream.root is None
