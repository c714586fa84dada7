"""A run whose images stay in a file comes to the very numbers of one whose images are held in memory."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from run_support import outcome, quick, stopped_run, timeless
from support import call

from ictrl import Dataset, Results, load_dataset, resume, run, split_tasks
from ictrl.data.image_file import FileImages
from ictrl.experiment.run_data import fingerprint


def in_a_file(dataset: Dataset) -> Dataset:
    """The same images, as a file has them."""
    parts = (FileImages(part.numpy()) for part in (dataset.images, dataset.test_images))
    return replace(dataset, **dict(zip(("images", "test_images"), parts)))


@pytest.mark.parametrize("method", ["ictrl", "wide", "er", "icarl", "ewc", "slda", "joint"])
def test_a_method_learns_the_same(method: str, tmp_path: Path) -> None:
    recipe = quick(method, stream={"tasks": 2})
    dataset = load_dataset(recipe.stream, 8, 1)
    runs = []
    for name, given in (("memory", dataset), ("file", in_a_file(dataset))):
        run(recipe, tmp_path / name, stream=(given, split_tasks(given, recipe.stream)))
        runs.append(outcome(tmp_path / name))
    assert runs[0] == runs[1]


def test_data_is_known_again_wherever_it_lies() -> None:
    recipe = quick()
    dataset = load_dataset(recipe.stream, 8, 1)
    assert fingerprint(split_tasks(in_a_file(dataset), recipe.stream)) == fingerprint(
        split_tasks(dataset, recipe.stream)
    )


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "data"))
    dataset = load_dataset(quick().stream, 8, 1)
    for label in range(4):
        folder = tmp_path / "digits" / str(label)
        folder.mkdir(parents=True)
        for number, image in enumerate(dataset.images[dataset.labels == label][:15]):
            Image.fromarray(image[0].numpy()).save(folder / f"{number}.png")
    return tmp_path / "digits"


def test_a_run_that_was_stopped_may_go_on_from_memory(root: Path, tmp_path: Path) -> None:
    stream = {"dataset": "folder", "root": str(root), "tasks": 2, "cache": "always"}
    recipe = quick(stream=stream)
    whole = run(recipe, tmp_path / "whole").results
    stopped = stopped_run(recipe, tmp_path / "run", 3)
    toml = stopped / "config.toml"
    assert 'cache = "always"' in toml.read_text()
    toml.write_text(toml.read_text().replace('cache = "always"', 'cache = "never"'))
    found = resume(stopped).results
    assert replace(timeless(found), recipe=recipe) == replace(timeless(whole), recipe=recipe)


def test_commands_say_what_they_decode(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data" / "decoded"
    options = ("--stream.root", root, "--stream.tasks", "2", "--stream.cache", "always")
    assert call("data", "show", "pictures", *options) == 0
    shown = capsys.readouterr()
    assert f"Decoding 60 pictures once: 1 MB into {folder}" in shown.err
    (path,) = folder.glob("*.safetensors")
    assert f"Images stay in {path} (0.19 MB)." in shown.out
    path.write_bytes(path.read_bytes()[:-1])
    assert call("data", "show", "pictures", *options) == 0
    (warned,) = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
    assert warned.startswith(f"warning: {path} is damaged (")
    assert call("data", "show", "pictures", *options[:-1], "never") == 0
    assert "stay in" not in capsys.readouterr().out
    assert call("data", "show", "pictures", *options[:-1], "perhaps") == 2


def test_predictions_of_images_in_a_file_are_those_of_memory(tmp_path: Path) -> None:
    recipe = quick(stream={"tasks": 2})
    learner = run(recipe, tmp_path / "run").learner
    images = load_dataset(recipe.stream, 8, 1).test_images
    there = FileImages(images.numpy())
    assert type(learner.predict(there)) is torch.Tensor
    for ask in ("predict", "scores", "features", "reconstruct"):
        assert torch.equal(getattr(learner, ask)(there), getattr(learner, ask)(images))
    assert isinstance(Results.read(tmp_path / "run" / "results.json"), Results)
