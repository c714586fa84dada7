"""wide-ictrl: classifies exactly as wide does, and draws from moments that stay exact for ever."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, Mine, everything, learner_of, part_of, recipe_of, same, stop_after
from support import pictures
from torch import nn

import ictrl
from ictrl import ConfigError, EpochReport, InputError, create_learner, load_learner, tasks_from_arrays
from ictrl.experiment.evaluation import measure, measure_floor
from ictrl.experiment.measured import Measured
from ictrl.experiment.run import Stopped
from ictrl.memory.store import form_class_memory
from ictrl.methods.wide_ictrl import WideICTRL
from ictrl.nets.dcgan import Encoder
from ictrl.recipes.tables import recipe_with
from ictrl.training.loop import TaskHooks
from ictrl.visualize.walks import walk

DRAWN_WELL = {"first": {"epochs": 60}, "later": {"epochs": 60}}


@pytest.fixture(scope="module")
def learner() -> Any:
    """After two tasks, to look at and to leave as it is."""
    return learner_of("wide-ictrl")


def test_it_classifies_to_the_last_bit_as_wide_does(learner: WideICTRL) -> None:
    plain = learner_of("wide")
    assert torch.equal(learner.scores(TESTS), plain.scores(TESTS))
    assert torch.equal(learner.predict_proba(TESTS), plain.predict_proba(TESTS))
    assert torch.equal(learner.strangeness(TESTS), plain.strangeness(TESTS))
    assert learner.score(TESTS, TEST_LABELS) > 0.9


def test_trunk_and_head_learn_the_first_task_and_never_again_and_the_decoder_learns_every_task() -> None:
    new, first, second = (learner_of("wide-ictrl", tasks) for tasks in (0, 1, 2))
    for network in ("encoder.", "head."):
        assert not same(part_of(new, network), part_of(first, network))
        assert same(part_of(first, network), part_of(second, network))
    assert not same(part_of(new, "decoder."), part_of(first, "decoder."))
    assert not same(part_of(first, "decoder."), part_of(second, "decoder."))


def test_the_trunk_is_that_of_wide_and_the_game_does_not_touch_it() -> None:
    """Neither its weights nor the statistics of its BatchNorm, with the EMA on too."""
    for ema in (0.0, 1.5):
        stages = {name: {"ema": ema} for name in ("first", "later")}
        learner, plain = learner_of("wide-ictrl", **stages), learner_of("wide")
        assert same(part_of(learner, "encoder."), part_of(plain, "encoder."))
        assert all(parameter.requires_grad for parameter in learner.reader.encoder.parameters())


def test_what_is_kept_to_draw_from_is_that_of_all_old_images_for_ever(learner: WideICTRL) -> None:
    memory = learner.settings.memory
    for X, y in TASKS:
        Z = learner.features(X)
        for label in y.unique().tolist():
            expected = form_class_memory(Z[y == label], memory.directions, memory.neighbours)
            for name, tensor in learner.recall(label).tensors().items():
                torch.testing.assert_close(tensor, expected.tensors()[name], atol=1e-5, rtol=1e-4, msg=name)


def test_features_are_a_linear_map_of_the_last_stage_at_unit_length(learner: WideICTRL) -> None:
    with torch.no_grad():
        last = learner.encoder.stages(TESTS / 127.5 - 1)[-1]
        product = torch.einsum("ncij,dcij->nd", last, learner._state.networks["head"].last.weight)  # type: ignore
    torch.testing.assert_close(learner.features(TESTS), product / product.norm(dim=1, keepdim=True))
    assert not torch.equal(learner.features(TESTS), learner.reader.encoder(TESTS / 127.5 - 1))  # a head of its own


def test_it_draws_classes_that_it_recognises_itself() -> None:
    learner = learner_of("wide-ictrl", **DRAWN_WELL)
    for label in learner.labels:
        drawn = learner.sample(label, 30)
        assert (drawn.shape, drawn.dtype) == ((30, 1, 8, 8), torch.uint8)
        assert float((learner.predict(drawn) == label).float().mean()) > 0.8
    assert learner.replay_recognised() > 0.8
    error = (learner.reconstruct(TESTS).float() - TESTS.float()).square().mean().sqrt()
    assert float(error) < 0.7 * float(TESTS.float().std())
    assert walk(learner, 5, 0).shape == (7, 1, 8, 8)


def test_without_feature_matching_an_encoder_that_stands_still_is_deceived() -> None:
    """What the trunk does not see is noise: matched, the images come closer to those that they stand for."""
    none = {"weights": {"match_new": 0.0, "match_replayed": 0.0}}
    plain = {stage: {**settings, **none} for stage, settings in DRAWN_WELL.items()}
    errors = [
        float((learner_of("wide-ictrl", **settings).reconstruct(TESTS).float() - TESTS.float()).square().mean())
        for settings in (DRAWN_WELL, plain)
    ]
    assert errors[0] < 0.5 * errors[1]


def test_looking_does_not_change_what_is_learned_next() -> None:
    learner = learner_of("wide-ictrl", tasks=1)
    learner.sample(5, 7)
    learner.reconstruct(TESTS)
    learner.replay_recognised()
    learner.learn(*TASKS[1])
    assert same(everything(learner), everything(learner_of("wide-ictrl")))


def test_epochs_of_both_stages_are_counted_through() -> None:
    heard = list[EpochReport]()
    create_learner(recipe_of("wide-ictrl", trunk={"epochs": 2})).learn(*TASKS[0], progress=heard.append)
    assert [(report.epoch, report.epochs) for report in heard] == [(epoch, 5) for epoch in range(1, 6)]
    assert [("rotations" in report.terms, "decoder.match_new" in report.terms) for report in heard] == (
        [(True, False)] * 2 + [(False, True)] * 3
    )


@pytest.mark.parametrize("epoch", [2, 3, 4])
def test_a_stage_that_was_left_behind_is_not_trained_again(
    epoch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the trunk's last epochs or in the game's first: the trunk is trained to its end, or not at all."""
    stop_after(learner_of("wide-ictrl", tasks=0), TASKS[0], epoch, tmp_path / "stopped")
    trained = list[TaskHooks]()
    monkeypatch.setattr("ictrl.methods.wide_ictrl.train_trunk", lambda *given: trained.append(given[-1]))
    create_learner(recipe_of("wide-ictrl")).learn(*TASKS[0], resume=tmp_path / "stopped")
    assert [hooks.resume and hooks.resume.epoch for hooks in trained] == ([epoch] if epoch <= 3 else [])


def test_a_run_goes_on_in_the_stage_that_it_was_stopped_in(tmp_path: Path) -> None:
    stream = tasks_from_arrays([(*task, *task) for task in TASKS])
    recipe = recipe_of("wide-ictrl")
    whole = ictrl.run(recipe, tmp_path / "whole", stream=stream).results
    asked = iter([False, True, False, False, True])  # after the second epoch of the trunk, and of the game
    with pytest.raises(Stopped):
        ictrl.run(recipe, tmp_path / "stopped", stream=stream, stop=lambda: next(asked))
    with pytest.raises(Stopped):
        ictrl.resume(tmp_path / "stopped", stream=stream, stop=lambda: next(asked))
    found = ictrl.resume(tmp_path / "stopped", stream=stream).results
    assert (found.memory, found.untrained, found.frozen, found.replay) == (
        whole.memory,
        whole.untrained,
        whole.frozen,
        whole.replay,
    )
    lines = [(tmp_path / run / "metrics.jsonl").read_text() for run in ("whole", "stopped")]
    assert lines[0] == lines[1]
    assert [json.loads(line)["epoch"] for line in lines[1].splitlines()] == [1, 2, 3, 4, 5, 6, 1, 2, 3]


def test_in_later_tasks_the_decoder_plays_alone(learner: WideICTRL) -> None:
    heard = list[EpochReport]()
    again = learner_of("wide-ictrl", tasks=1).learn(*TASKS[1], progress=heard.append)
    assert {name.split(".")[0] for report in heard for name in report.terms} == {"decoder"}
    assert {"decoder.distance_old", "decoder.match_new", "decoder.match_replayed"} <= set(heard[0].terms)
    assert same(everything(again), everything(learner))


def test_the_optimiser_of_the_head_is_forgotten_with_the_first_task() -> None:
    for kind, kept in (("kept", True), ("fresh", False)):
        optimisers = learner_of("wide-ictrl", tasks=1, game={"optimiser": kind})._state.optimisers
        assert not optimisers["head"].state
        assert bool(optimisers["decoder"].state) == kept


def test_all_bytes_are_counted(learner: WideICTRL) -> None:
    plain = learner_of("wide")
    assert learner.kept_bytes == plain.kept_bytes + learner.memory.nbytes - 8 * 4  # labels once
    D = learner.wide_memory.means.shape[1]
    assert plain.kept_bytes == 4 * (8 + 4 * D + 8) + 8 * D + 2 * D * (D - 1) // 2


def test_the_floors_are_those_of_wide() -> None:
    _, tasks = tasks_from_arrays([(*task, *task) for task in TASKS])
    found = []
    for method in ("wide", "wide-ictrl"):
        learner, measured = create_learner(recipe_of(method)), Measured([40, 40])
        measure_floor(learner, tasks, measured, "untrained")
        for number, task in enumerate(tasks, start=1):
            learner.learn(task.images, task.labels)
            measure(learner, tasks[:number], measured)
            if number == 1:
                measure_floor(learner, tasks, measured, "frozen")
        found.append(measured)
    plain, drawing = found
    assert (drawing.untrained, drawing.frozen, drawing.memory) == (plain.untrained, plain.frozen, plain.memory)
    assert drawing.frozen == drawing.memory  # with a trunk that stands still
    assert drawing.reencoded == []  # which memory equals by construction
    assert len(drawing.replay) == 2


def test_a_class_of_few_images_is_refused_before_anything_is_trained() -> None:
    learner, heard = learner_of("wide-ictrl", 0), list[EpochReport]()
    with pytest.raises(InputError, match=r"at least 10 training images of each class but got 9 of class '7'"):
        learner.learn(*pictures([7], each=9), progress=heard.append)
    assert heard == []


def test_one_class_at_a_time() -> None:
    learner = create_learner(recipe_of("wide-ictrl"))
    for label in range(3):
        learner.learn(*pictures([label]))
    assert learner.score(*pictures([0, 1, 2], seed=1)) > 0.8
    assert learner.sample(0, 5).shape == (5, 1, 8, 8)


def test_networks_of_ones_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    learner = WideICTRL(recipe_of("wide-ictrl"), encoder=Mine())
    for task in TASKS:
        learner.learn(*task)
    assert learner.score(TESTS, TEST_LABELS) > 0.8
    learner.save(tmp_path / "mine")
    again = WideICTRL.load(tmp_path / "mine", encoder=Mine())
    assert same(everything(again), everything(learner))
    with pytest.raises(InputError, match=r"needs them again: load\(path, encoder=…, decoder=…\)"):
        load_learner(tmp_path / "mine")


def test_an_encoder_without_stages_is_refused() -> None:
    mine = nn.Sequential(nn.Flatten(), nn.Linear(64, 16))
    with pytest.raises(InputError, match=r"an encoder with a method stages\(X\).* but Sequential has none"):
        WideICTRL(recipe_of("wide-ictrl"), encoder=mine)


def test_a_kept_part_that_does_not_fit_is_refused(learner: WideICTRL) -> None:
    tensors = learner.kept_tensors()
    with pytest.raises(KeyError):
        learner.kept_from(learner.labels, {name: t for name, t in tensors.items() if not name.startswith("drawn.5.")})
    with pytest.raises(ValueError, match="wide memory has shapes"):
        learner.kept_from(learner.labels, {**tensors, "wide.factor": tensors["wide.factor"].to(torch.int8)})


def test_settings_out_of_range() -> None:
    with pytest.raises(ConfigError, match='first.batch to be a number but got "rule"'):
        recipe_with(recipe_of("wide-ictrl"), {"method": {"first": {"batch": "rule"}}})
    with pytest.raises(ConfigError, match="match_new to be at least 0"):
        recipe_with(recipe_of("wide-ictrl"), {"method": {"first": {"weights": {"match_new": -1.0}}}})


def test_a_whole_encoder_is_kept_so_that_wide_could_go_on(learner: WideICTRL) -> None:
    """Its own last layer is no part of the loop, but of the file: the trunk is an encoder like any other."""
    assert isinstance(learner.reader.encoder, Encoder)
    names = {name.split(".")[0] for name in learner._state.tensors()}
    assert names == {"encoder", "head", "decoder", "decoder_optimiser", "generator"}
