"""The picture a run ends with."""

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ictrl.experiment.results import Results
from ictrl.report import overview


def opened(png: bytes) -> Image.Image:
    return Image.open(BytesIO(png))


def results_of(run: Path) -> Results:
    return Results.read(run / "results.json")


def test_curves_and_what_memory_replays(odd_run: Path) -> None:
    results = results_of(odd_run)
    for channels in (1, 3):
        replayed = {label: torch.randint(256, (10, channels, 8, 8), dtype=torch.uint8) for label in range(4)}
        picture = opened(overview(results, replayed))
        assert picture.size == (1056, 462)
        assert picture.getpixel((0, 0))[:3] == (255, 255, 255)  # type: ignore[index]


def test_a_method_that_draws_nothing_has_only_curves(stripes: dict[str, Path]) -> None:
    picture = opened(overview(results_of(stripes["finetune"]), {}))
    assert picture.size == (616, 462)


def test_other_runs_are_drawn_beside_and_may_have_other_tasks(odd_run: Path, stripes: dict[str, Path]) -> None:
    results, other = results_of(odd_run), results_of(stripes["joint"])
    alone, beside = (np.asarray(opened(overview(results, {}, others))) for others in ({}, {"joint": other}))
    assert alone.shape == beside.shape
    assert not np.array_equal(alone, beside)
    longer = replace(other, tasks=[[0], [1], [2, 3]])  # the third is not measured yet
    overview(results, {}, {"longer": longer})
