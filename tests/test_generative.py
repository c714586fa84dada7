"""The page on generative methods says what the files say, and of those that are not run why not."""

import importlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from ictrl.experiment.study import load_study
from ictrl.experiment.study_table import read_published
from ictrl.methods.base import LEARNERS
from ictrl.methods.capabilities import Draws

RESULTS = ROOT / "docs" / "results"


@pytest.fixture
def generative(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))  # where it finds its neighbours
    return importlib.import_module("publish_generative")


def test_the_page_is_that_of_the_files(generative: Any) -> None:
    assert generative.page() == generative.PAGE.read_text(encoding="utf-8")


def test_rows_are_made_of_runs_and_what_has_none_is_named(generative: Any, tmp_path: Path) -> None:
    line = next(line for line in load_study("generative").lines if line.label == "cifar10-5, redunet")
    found = next(iter(read_published(RESULTS / "methods-digits").values()))[0]
    memory = replace(found.memory, last=0.5, average=0.625, forgetting=0.25)
    made = replace(found, line=line.label, recipe=line.recipe, memory=memory, kept_bytes=83_360, parameters=910_720)
    made = replace(made, seconds={"learn": 12.0}, replay=[0.5, 0.75], device="cuda, a GPU", seed=3)
    (tmp_path / "generative").mkdir()
    (tmp_path / "generative" / "one.json").write_text(json.dumps(made.to_table()))
    whole = {
        "images": {"training": 300, "test images": 200, "samples": 300},
        "classified": {"test images": 0.99, "samples": 0.5},
        "distances": {"test images": 7.0, "samples": 12.25},
        "precision": {"test images": 0.9, "samples": 0.75},
        "recall": {"test images": 0.8, "samples": 0.625},
        "copies": {"share": 0.0125},
    }
    drawn = {"runs": [{"name": "cifar10-5-redunet-seed3", "overall": whole}], "distance": "frechet_efficientnet"}
    drawn |= {"device": "cuda, a GPU", "versions": {"torch": "2"}}
    (tmp_path / "drawings" / "generative").mkdir(parents=True)
    (tmp_path / "drawings" / "generative" / "cifar10.json").write_text(json.dumps(drawn))
    page = generative.page(tmp_path)
    assert "`cifar10`: frechet_efficientnet of 300 samples to 300 training images. 200 test images have 7.0" in page
    samples = "50% | 12.2 | 0.75 | 0.62 | 1.2%"
    assert (
        f"| cifar10-5, redunet | 0.500 | 0.625 | 0.250 | 75% | {samples} | 83 kB | 0.91 M | 12 | 3 | 0.539 / 0.645 |"
        in page
    )
    assert "cuda, a GPU, torch" in page
    assert "Not run yet: mnist-5, ictrl; mnist-5, wide-gan; mnist-5, dgr; " in page
    assert "mnist-5, redunet (i-CTRL paper: 0.961 / 0.982)" in page
    assert "No runs yet." in page.partition("## MNIST")[0]


def test_others_on_the_same_digits_stand_beside_them(generative: Any) -> None:
    table = generative.page().partition("## MNIST")[0]
    assert "| ictrl (study methods-digits) | 0.973 ± 0.005 | 0.992 |" in table
    assert "| finetune: cross-entropy, nothing protected (study methods-digits) |" in table


def test_whoever_draws_and_whoever_does_not_stands_in_the_study() -> None:
    run = {line.recipe.method.name for line in load_study("generative").lines}
    drawing = {name for name, kind in LEARNERS.items() if issubclass(kind, Draws)}
    assert run == drawing - {"frozen"} | {"fearnet", "redunet"}
    assert {line.recipe.method.name for line in load_study("generative-digits").lines} == run - {"ictrl"}  # beside it


def test_figures_are_those_that_are_quoted() -> None:
    quoted = tomllib.loads((ROOT / "experiments" / "quoted.toml").read_text(encoding="utf-8"))
    for line in load_study("generative").lines:
        stream, method = line.label.split(", ")[:2]
        assert dict(line.paper) == quoted[stream].get(method, {})


def test_of_methods_that_are_not_run_the_reason_is_said(generative: Any) -> None:
    methods = tomllib.loads(generative.NOT_RUN.read_text(encoding="utf-8"))["methods"]
    assert [method["name"] for method in methods] == ["PNN", "DEN", "DER"]
    page = generative.page()
    for method in methods:
        assert method["name"].lower() not in LEARNERS
        assert f"| {method['name']} | {method['paper']} | none | {method['reason']} |" in page
