"""A run that version 0.1 began goes on, to the same end, bit for bit."""

import json
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_support import newest, outcome, quick, stopped_run, tensors
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ictrl import InputError, Recipe, Results, evaluate, load_learner, load_recipe, resume, run
from ictrl.experiment.run_folder import RunFolder
from ictrl.methods.storage import LEARNER, STOPPED_TASK, _digest, read_stored
from ictrl.recipes.legacy import RESULTS, SETTINGS, flat, put
from ictrl.recipes.tables import recipe_to_table

# settings that version 0.1 had: all of them
SECTIONS = {"network", "objective", "anchors", "memory", "classifier", "game", "data", "checkpoint"}


def old_recipe(recipe: Recipe) -> dict[str, Any]:
    """The recipe as version 0.1 wrote it; what it had no setting for must be as it was done then."""
    values = dict(flat(recipe_to_table(recipe)))
    del values["run.keep_pictures"]  # it always kept four
    old = {"name": values.pop("name"), "description": values.pop("description")}
    for setting, targets in SETTINGS.items():
        found = [values.pop(target) for target in targets]
        assert all(value == found[0] for value in found), f"version 0.1 had one {setting} for all tasks"
        put(old, setting, found[0])
    defaults = dict(flat(recipe_to_table(Recipe()))) | {"method.memory.disjoint": False}
    assert values == {name: defaults[name] for name in values}
    return old


def toml(table: dict[str, Any]) -> str:
    """As version 0.1 wrote it: settings, then a section each."""

    def line(key: str, value: Any) -> str:
        return f"{key} = {json.dumps('none' if value is None else value)}"

    top = [line(key, value) for key, value in table.items() if not isinstance(value, dict)]
    for section, values in table.items():
        if isinstance(values, dict):
            top += ["", f"[{section}]", *(line(key, value) for key, value in values.items())]
    return "\n".join(top) + "\n"


def old_checkpoint(path: Path, recipe: Recipe) -> None:
    """Rewrite a checkpoint's description, with the digest that belongs to it; the numbers stay."""
    with safe_open(path, framework="pt") as file:
        described = {key: value for key, value in file.metadata().items() if key != "digest"}
    contents, notes = load_file(path), json.loads(described["notes"])
    if "measured" in notes:
        measured = json.loads(notes["measured"])
        measured["floor"] = measured.pop("untrained")
        measured["seconds"]["floor"] = measured["seconds"].pop("floors")
        notes["measured"] = json.dumps(measured)
    described |= {"version": "1", "recipe": json.dumps(old_recipe(recipe)), "notes": json.dumps(notes)}
    save_file(contents, path, {**described, "digest": _digest(described, contents)})


def make_old(out: Path) -> Path:
    """Turn a run folder into one of version 0.1."""
    recipe = RunFolder(out).recipe()
    (out / "config.toml").write_text(toml(old_recipe(recipe)), encoding="utf-8")
    for path in (out / "checkpoint").iterdir():
        old_checkpoint(path, recipe)
    if (out / "results.json").exists():
        names = {new: old for old, new in RESULTS.items()}
        table = Results.read(out / "results.json").to_table()
        table = {names.get(key, key): value for key, value in table.items() if key not in ("line", "calibration")}
        table["seconds"]["floor"] = table["seconds"].pop("floors")
        table["recipe"] = old_recipe(recipe)
        (out / "results.json").write_text(json.dumps(table, indent=2))
    return out


def test_the_fixture_is_what_version_0_1_wrote(begun: Callable[..., Path]) -> None:
    """Against the run of version 0.1 that lies with the tests: the same sections, settings and entries."""
    out, real = make_old(begun()), Path(__file__).parents[1] / "cifar10-run"
    mine, theirs = (tomllib.loads((path / "config.toml").read_text()) for path in (out, real))
    assert set(mine) == set(theirs) == {"name", "description", "seed", "device", *SECTIONS}
    later = {"objective.lambda_first", "memory.transport_replayed", "game.optimiser", "game.warmup"}  # than that run
    assert {name for name, _ in flat(mine)} - {name for name, _ in flat(theirs)} == later
    assert {name for name, _ in flat(theirs)} <= {name for name, _ in flat(mine)}
    written, expected = (json.loads((path / "results.json").read_text()) for path in (out, real))
    assert set(written) == set(expected)
    assert set(written["seconds"]) == set(expected["seconds"])
    for path in (out / "checkpoint").iterdir():
        with safe_open(path, framework="pt") as file:
            assert file.metadata()["format"] in ("ictrl.learner", "ictrl.stopped-task")
            assert file.metadata()["version"] == "1"


@pytest.mark.parametrize("epochs", [2, 4, 10])
def test_a_run_of_version_0_1_goes_on_to_the_same_end(
    epochs: int, begun: Callable[..., Path], undisturbed: Path
) -> None:
    """Stopped in its first task, between two tasks, and in its third."""
    out = make_old(begun(epochs))
    position = RunFolder(out).position()
    assert position.warnings == []
    assert 4 * position.done + position.epoch == epochs
    resume(out, keep_pictures=4)
    whole, again = outcome(undisturbed), outcome(out)
    for part in ("tensors", "metrics", "files", "pictures"):
        assert again[part] == whole[part]
    assert whole["results"].recipe.run.checkpoint != again["results"].recipe.run.checkpoint  # which decides nothing
    assert vars(again["results"]) | {"recipe": None} == vars(whole["results"]) | {"recipe": None}


@pytest.mark.parametrize("stage", [{"ema": 1.5, "schedule": "cosine"}, {"augmentation": {"mirror": True, "shifts": 1}}])
def test_settings_that_held_for_all_tasks_hold_for_both_stages(stage: dict[str, Any], tmp_path: Path) -> None:
    first = {**stage, "augmentation": {**stage.get("augmentation", {}), "rotations": True}}
    method = {"first": first, "later": {**stage, "warmup": 2}}
    recipe = quick(stream={"tasks": 2}, method=method, run={"keep_pictures": 0})
    run(recipe, tmp_path / "whole")
    out = make_old(stopped_run(recipe, tmp_path / "old", 6))
    assert RunFolder(out).recipe() == recipe
    resume(out)
    assert outcome(out) == outcome(tmp_path / "whole")


def test_a_finished_run_of_version_0_1_can_be_looked_at(undisturbed: Path, tmp_path: Path) -> None:
    whole = Results.read(undisturbed / "results.json")
    before = replace(whole, recipe=replace(whole.recipe, run=replace(whole.recipe.run, keep_pictures=0)))  # as today
    out = make_old(Path(shutil.copytree(undisturbed, tmp_path / "run")))
    assert Results.read(out / "results.json") == before
    assert evaluate(out) == before
    learner = load_learner(newest(out))
    assert learner.recipe == before.recipe
    learner.save(tmp_path / "again")
    assert tensors(tmp_path / "again") == tensors(newest(undisturbed))
    assert read_stored(newest(out), LEARNER).recipe == before.recipe


def test_a_changed_setting_of_version_0_1_is_named_as_it_is_now(begun: Callable[..., Path]) -> None:
    out = make_old(begun())
    text = (out / "config.toml").read_text()
    assert text.count("replayed = 50.0") == 1
    (out / "config.toml").write_text(text.replace("replayed = 50.0", "replayed = 5.0"))
    with pytest.raises(InputError, match=r"was changed \(method.later.weights.distill_replayed: 50.0 → 5.0\)"):
        resume(out, keep_pictures=4)


def test_a_damaged_checkpoint_of_version_0_1_is_found(begun: Callable[..., Path]) -> None:
    out = make_old(begun())
    path = out / "checkpoint" / "task-003-epoch-00002.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        read_stored(path, STOPPED_TASK)
    assert RunFolder(out).position().epoch == 1


def test_its_config_is_no_recipe_of_today(begun: Callable[..., Path]) -> None:
    """A run folder is read as it is; a recipe file has to be migrated, so that nobody goes on writing old names."""
    with pytest.raises(Exception, match="today's names of settings .*ictrl migrate"):
        load_recipe(make_old(begun()) / "config.toml")
