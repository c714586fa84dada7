"""What a run folder does not have, or has otherwise than expected, is said on the page."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from page_parser import Page, check_numbers
from support import call

from ictrl.report import write_report

ROOT = Path(__file__).parents[2]
CIFAR10 = ROOT / "tests" / "cifar10-run"


def rewrite(run: Path, **changes: Any) -> None:
    """Put other entries into results.json; None takes one out."""
    results = json.loads((run / "results.json").read_text())
    results = {key: value for key, value in {**results, **changes}.items() if value is not None}
    (run / "results.json").write_text(json.dumps(results))


def test_what_an_older_run_does_not_have_is_said(run: Path) -> None:
    published = json.loads((ROOT / "docs" / "results" / "digits.json").read_text())["runs"]["ictrl-digits"][0]
    rewrite(run, drift=None, frozen=None, measured_on=None)
    assert set(published) - set(json.loads((run / "results.json").read_text())) <= {
        "frozen",
        "measured_on",
        "calibration",
        "drift",
        "line",
    }
    shutil.rmtree(run / "pictures")
    page = Page(write_report([run]).page)
    assert "Drift is not shown" in page.words
    assert "Reconstructions are not shown: they need images" in page.words
    assert "frozen" not in {key.split(".")[0] for key in page.places()}
    assert not [path for path in (run / "figures").iterdir() if path.stem.startswith(("drift", "reconstr"))]


def test_a_folder_of_version_0_1_is_read_under_todays_names(tmp_path: Path) -> None:
    old = json.loads((CIFAR10 / "results.json").read_text())
    page = Page(write_report([CIFAR10], tmp_path / "page.html", tmp_path / "figures").page)
    shown = {key: float(value) for _, key, value, _ in page.numbers}
    assert shown["untrained.last"] == old["floor"]["last"]
    assert shown["kept_bytes"] == old["memory_bytes"]
    assert shown["memory.matrix.4.0"] == old["memory"]["matrix"][4][0]
    assert "no checkpoint that can be read" in page.words
    assert 'name = "ictrl"' in page.words  # the recipe, spelled out as it would be today


def test_a_run_without_a_checkpoint_still_has_its_numbers(run: Path) -> None:
    shutil.rmtree(run / "checkpoint")
    page = Page(write_report([run]).page)
    assert "no checkpoint that can be read" in page.words
    check_numbers(page, [run])


def test_a_damaged_checkpoint_and_a_damaged_sheet_are_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "checkpoint" / "after-task-002.safetensors").write_bytes(b"nothing")
    (run / "pictures" / "after-task-002.png").write_bytes(b"nothing")
    assert call("report", run) == 0
    page = Page(run / "report.html")
    assert (
        "structure and replayed pictures are those of the newest learner that can be read, after task 1" in page.words
    )
    assert "Expected a sheet of pictures but could not read" in page.words
    assert "but checkpoint/after-task-002.safetensors is" in page.words
    assert str(run) not in page.words  # where it lies is nobody's business
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_a_learner_that_was_taught_since_is_not_what_the_page_is_about(run: Path) -> None:
    before = Page(write_report([run]).page)
    shutil.copy(run / "checkpoint" / "after-task-001.safetensors", run / "taught.safetensors")
    page = Page(write_report([run]).page)
    said = "Since the run its learner was taught or forgot classes (taught.safetensors): this is the run as it ended."
    assert said not in before.words
    assert page.words.replace(said, "").split() == before.words.split()


def test_an_unfinished_run_says_so(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    for part in ("memory", "reencoded", "untrained", "frozen"):
        results[part]["seen"], results[part]["matrix"] = results[part]["seen"][:1], [results[part]["matrix"][0][:1]]
        if results[part]["confusion"]:
            results[part]["confusion"] = [
                {place: count for place, count in row.items() if int(place) < 2}
                for row in results[part]["confusion"][:2]
            ]
    for part in ("mean", "affinity"):
        results["drift"][part] = results["drift"][part][:1]
    rewrite(run, **{**results, "complete": False})
    (run / "checkpoint" / "after-task-002.safetensors").unlink()
    page = Page(write_report([run]).page)
    assert "This run is not finished: 1 of its 2 tasks are learned." in page.words
    assert "Forgetting of each task" not in page.words  # nothing to forget after one task


@pytest.mark.parametrize("joint", [None, {"memory": 0.7, "reencoded": 0.75}])
def test_review(run: Path, joint: dict[str, float] | None) -> None:
    cycles = [
        {"cycle": 0, "memory": 0.45, "reencoded": 0.58, "recognised": None},
        {"cycle": 1, "memory": 0.512, "reencoded": 0.59, "recognised": 0.9},
    ]
    (run / "review.json").write_text(json.dumps({"cycles": cycles, "joint": joint, "with_labels": False}))
    written = write_report([run])
    page = Page(written.page)
    assert "review.svg" in {path.name for path in written.figures}
    assert "without labels" in page.words
    assert {"<td>0.450</td>", "<td>0.512</td>", "<td>90 %</td>"} <= set(
        re.findall(r"<td>[^<]*</td>", written.page.read_text())
    )
    assert ("joint model" in page.words) == (joint is not None)
    assert "distillation" not in page.words.split("once more")[1].split("The axis")[0]


@pytest.mark.parametrize("name", ["distillation", "anchors"])  # as it is called today, and as it was
def test_review_with_less_distillation(run: Path, name: str) -> None:
    cycles = [{"cycle": 0, "memory": 0.45, "reencoded": 0.58, "recognised": None}]
    (run / "review.json").write_text(json.dumps({"cycles": cycles, "joint": None, name: 0.5}))
    assert "with 0.5 times the recipe's distillation" in Page(write_report([run]).page).words
