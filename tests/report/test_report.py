"""The report: its numbers are those of results.json, and what a folder does not have is said."""

import json
import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import CLASS_NAMES
from scipy.linalg import subspace_angles

from ictrl import ICTRL, InputError
from ictrl.cli import main
from ictrl.report import page as report_page
from ictrl.report import write_report
from ictrl.report.drawing import ticks
from ictrl.report.forgetting import fallen
from ictrl.report.pictures import Cell, PictureTable, tiled
from ictrl.report.reading import read_run
from ictrl.report.structure import class_affinities, drawn_features, energies

ROOT = Path(__file__).parents[2]


def call(*arguments: str | Path) -> int:
    """The exit code, whether the command returns it or the parser raises it."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as error:
        return int(error.code or 0)


@pytest.fixture
def run(odd_run: Path, tmp_path: Path) -> Path:
    """A copy that may be spoiled."""
    return Path(shutil.copytree(odd_run, tmp_path / "run"))


class Page(HTMLParser):
    """Tags with their attributes, the words, and the numbers that name their place in results.json."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.numbers: list[tuple[int, str, str, str]] = []
        self._run = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.tags.append((tag, found))
        self._run = int(found.get("data-run") or self._run)
        if "data-key" in found:
            self.numbers.append((self._run, str(found["data-key"]), str(found["value"]), ""))

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.numbers and not self.numbers[-1][3]:
            self.numbers[-1] = (*self.numbers[-1][:3], data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def at(results: Any, path: str) -> Any:
    for step in path.split("."):
        results = results[int(step) if isinstance(results, list) else step]
    return results


def check_numbers(page: Page, runs: list[Path]) -> None:
    """Every number that stands on the page is the one in results.json, and the important ones stand there."""
    for index, run in enumerate(runs):
        results = json.loads((run / "results.json").read_text())
        numbers = {key: (value, shown) for i, key, value, shown in page.numbers if i == index}
        done = len(results["memory"]["seen"])
        wanted = {f"{p}.{k}" for p in ("memory", "reencoded") for k in ("last", "average", "forgetting")}
        wanted |= {f"{p}.seen.{t}" for p in ("memory", "reencoded", "floor", "frozen") for t in range(done)}
        wanted |= {f"{p}.matrix.{t}.{j}" for p in ("memory", "reencoded") for t in range(done) for j in range(t + 1)}
        wanted |= {"floor.last", "memory_bytes", "image_bytes", "seconds.learn", "seed"}
        assert wanted <= set(numbers)
        for key, (value, shown) in numbers.items():
            expected = at(results, key)
            assert float(value) == expected
            read = float(shown.replace(",", "").removesuffix("%")) / (100 if shown.endswith("%") else 1)
            coarse = 0.51 if key.startswith("seconds") else 0.0051 if shown.endswith("%") else 0.00051
            assert math.isclose(read, expected, abs_tol=coarse), key


def test_the_numbers_are_those_of_the_results(run: Path) -> None:
    page = Page(write_report([run]).page)
    check_numbers(page, [run])
    assert "drift.mean.1.3" in {key for _, key, _, _ in page.numbers}


def test_the_page_needs_nothing_and_says_what_it_shows(run: Path) -> None:
    page = Page(write_report([run]).page)
    assert page.all("html") == [{"lang": "en"}]
    assert not page.all("script")
    assert len(page.all("main")) == 1
    assert page.all("a")[0]["href"] == "#main"
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))  # no level is left out
    images = page.all("img") + page.all("image")
    assert all(str(image.get("src") or image.get("href")).startswith("data:image/png;base64,") for image in images)
    assert all(image["alt"] for image in page.all("img"))
    drawings = page.all("svg")
    assert len(drawings) == 10
    assert all(drawing["role"] == "img" and len(str(drawing["aria-label"])) > 20 for drawing in drawings)
    targets = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    identities = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(targets) == len(identities)
    assert {str(link["href"]).removeprefix("#") for link in page.all("a")} <= targets
    scrolled = [attributes for _, attributes in page.tags if attributes.get("class") == "scroll"]
    assert scrolled
    assert all(area["tabindex"] == "0" and area["aria-label"] for area in scrolled)
    assert "drawn from memory: no image is kept" in page.words
    assert "prefers-color-scheme: dark" in page.words
    assert "@media print" in page.words
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", (run / "report.html").read_text())


def test_names_of_classes_are_text(run: Path) -> None:
    """They come from folder names, which may hold anything."""
    written = write_report([run])
    text = written.page.read_text(encoding="utf-8")
    assert "<script" not in text
    page = Page(written.page)
    for name in CLASS_NAMES:
        assert name in page.words
        assert f"{name}, replayed" in {image["alt"] for image in page.all("img")}
    for figure in written.figures:
        if figure.suffix == ".svg":
            ElementTree.fromstring(figure.read_text(encoding="utf-8"))


def test_names_that_cannot_be_printed(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    results["class_names"]["0"] = "bell\x07 and half a letter\udcff"
    (run / "results.json").write_text(json.dumps(results))
    assert "bell\ufffd and half a letter\ufffd" in Page(write_report([run]).page).words


def test_the_figures_are_files_too(run: Path, tmp_path: Path) -> None:
    written = write_report([run], tmp_path / "new" / "page.html", tmp_path / "new" / "drawn")
    names = [path.name for path in written.figures]
    assert names == [
        "accuracy.svg", "forgetting.svg", "confusion-memory.svg", "confusion-reencoded.svg", "blocks.svg",
        "affinity.svg", "energy.svg", "drift-means.svg", "drift-subspaces.svg", "memory.svg", "replayed.png",
        "reconstructions.png",
    ]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "new" / "drawn").iterdir()) == sorted(names)
    for path in written.figures:
        content = path.read_bytes()
        assert b"var(--" not in content
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg xmlns=")


def test_the_same_folder_gives_the_same_page(run: Path) -> None:
    assert write_report([run]).page.read_bytes() == write_report([run]).page.read_bytes()


def test_no_data_is_needed_and_no_place_is_told(run: Path, odd_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.data.registry.load_dataset", None)
    text = write_report([run]).page.read_text()
    assert str(odd_run.parent) not in text
    assert "ictrl run odd.toml --data.root DATA --out runs/run" in text


def test_several_runs_side_by_side(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "elsewhere" / "run"))
    written = write_report([run, other], tmp_path / "both.html")
    page = Page(written.page)
    check_numbers(page, [run, other])
    assert written.figures == []
    assert page.words.index("Comparison") < page.words.index("Structure")
    assert str(run) in page.words  # two folders of one name are told apart
    assert str(other) in page.words
    drawn = write_report([run, other], tmp_path / "both.html", tmp_path / "figures").figures
    assert {path.name for path in drawn} >= {"compared-memory.svg", "1-run-accuracy.svg", "2-run-accuracy.svg"}


def test_what_an_older_run_does_not_have_is_said(run: Path) -> None:
    published = json.loads((ROOT / "docs" / "results" / "digits.json").read_text())["runs"]["digits"][0]
    results = json.loads((run / "results.json").read_text())
    del results["drift"], results["frozen"], results["measured_on"]
    assert set(published) - set(results) <= {"frozen", "measured_on"}
    (run / "results.json").write_text(json.dumps(results))
    shutil.rmtree(run / "pictures")
    page = Page(write_report([run]).page)
    assert "Drift is not shown" in page.words
    assert "Reconstructions are not shown: they need images" in page.words
    assert "frozen" not in {key.split(".")[0] for _, key, _, _ in page.numbers}
    assert not [path for path in (run / "figures").iterdir() if path.stem.startswith(("drift", "reconstr"))]


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
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_an_unfinished_run_says_so(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    results["complete"] = False
    for part in ("memory", "reencoded", "floor", "frozen"):
        results[part]["seen"], results[part]["matrix"] = results[part]["seen"][:1], [results[part]["matrix"][0][:1]]
        if "confusion" in results[part]:
            results[part]["confusion"] = [row[:2] for row in results[part]["confusion"][:2]]
    for part in ("mean", "affinity"):
        results["drift"][part] = results["drift"][part][:1]
    (run / "results.json").write_text(json.dumps(results))
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


def test_a_page_that_would_be_too_large_leaves_classes_out(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = len(write_report([run]).page.read_bytes())
    assert whole < report_page.LARGEST
    monkeypatch.setattr(report_page, "LARGEST", whole - 2000)
    page = Page(write_report([run]).page)
    assert len((run / "report.html").read_bytes()) <= whole - 2000
    assert re.search(r"[12] of 4 classes are left out to keep this page small", page.words)
    monkeypatch.setattr(report_page, "LARGEST", 10_000)
    with pytest.raises(InputError, match="report on fewer at a time"):
        write_report([run])


def test_a_limited_table_goes_from_the_first_class_to_the_last() -> None:
    rows = [(str(i), [Cell("", np.zeros((4, 4), np.uint8))]) for i in range(100)]
    table = PictureTable("t", "t", "t", ["one"], rows).limited(5)
    assert [name for name, _ in table.rows] == ["0", "25", "50", "74", "99"]
    assert table.left_out == 95
    assert PictureTable("t", "t", "t", ["one"], rows).limited(0).rows == []


def test_tiled_pictures_keep_their_pixels() -> None:
    images = torch.arange(3 * 3 * 4 * 4, dtype=torch.uint8).reshape(3, 3, 4, 4)
    pixels = tiled(images, 2)
    assert pixels.shape == (9, 9, 3)
    assert np.array_equal(pixels[5:, :4], images[2].permute(1, 2, 0).numpy())
    assert (pixels[5:, 5:] == 128).all()  # an empty place


def test_affinities_against_scipy(odd_run: Path) -> None:
    learner = read_run(odd_run, "run").learner
    assert isinstance(learner, ICTRL)
    labels, values, q = class_affinities(learner.memory)
    covariances = [learner.memory[label].covariance.double().numpy() for label in labels]
    bases = [np.linalg.eigh(covariance)[1][:, -q:] for covariance in covariances]
    for i, U in enumerate(bases):
        for j, V in enumerate(bases):
            assert values[i, j] == pytest.approx(np.square(np.cos(subspace_angles(U, V))).mean(), abs=1e-3)


def test_drawn_features_are_of_unit_length_and_leave_the_learner_alone(odd_run: Path) -> None:
    learner = read_run(odd_run, "run").learner
    assert isinstance(learner, ICTRL)
    before = learner._generator.get_state()
    Z, sizes = drawn_features(learner.memory)
    assert sizes == [80] * 4
    assert torch.allclose(Z.norm(dim=1), torch.ones(320))
    assert torch.equal(Z, drawn_features(learner.memory)[0])
    assert torch.equal(learner._generator.get_state(), before)


def test_energies_are_shares_of_the_variance() -> None:
    share = energies(torch.diag(torch.tensor([1.0, 3.0, 0.0])))
    assert share.tolist() == pytest.approx([0.75, 0.25, 0.0])


def test_forgetting_by_task_has_the_mean_of_the_results(odd_run: Path) -> None:
    for protocol in ("memory", "reencoded"):
        scores = json.loads((odd_run / "results.json").read_text())[protocol]
        lost = fallen(scores["matrix"])
        assert sum(lost) / len(lost) == pytest.approx(scores["forgetting"], abs=1e-5)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.9, 1), (-0.05, 0.3), (0, 0.0004), (1, 37)])
def test_ticks_are_few_and_within(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 3 <= len(found) <= 8
    assert low <= found[0] <= found[-1] <= high + 1e-12


def test_the_command(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("report", "run") == 0
    assert capsys.readouterr().out == f"12 figures in {Path('run/figures')}.\nReport: {Path('run/report.html')}\n"
    shutil.copytree(run, tmp_path / "second")
    assert call("report", "run", "second") == 0
    assert capsys.readouterr().out == "Report: report.html\n"
    assert call("report", "run", "-o", "page.html", "--figures", "drawn") == 0
    assert (tmp_path / "page.html").stat().st_size < 5_000_000
    assert (tmp_path / "drawn" / "blocks.svg").exists()


def test_mistakes_are_one_line_and_exit_code_2(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, begun = tmp_path / "empty", tmp_path / "begun"
    empty.mkdir()
    begun.mkdir()
    shutil.copy(run / "config.toml", begun)
    spoiled = Path(shutil.copytree(run, tmp_path / "spoiled"))
    (spoiled / "results.json").write_text("{")
    lost = Path(shutil.copytree(run, tmp_path / "lost"))
    (lost / "results.json").unlink()
    file = tmp_path / "file"
    file.write_text("")
    mistakes: dict[tuple[str | Path, ...], str] = {
        (): "Expected at least one run but got none",
        (tmp_path / "none",): "Expected a run folder but",
        (empty,): "has no config.toml",
        (begun,): "Expected a run with a task learned but",
        (spoiled,): "Expected what ictrl wrote in",
        (lost,): "writes it.",
        (run, run / ".." / "run"): "is named twice: leave one out.",
        (run, "-o", tmp_path / "report.pdf"): "Expected --out to be a file that ends in .html but got",
        (run, "-o", file / "report.html"): "but could not: ",
        (run, "--figures", file): "but could not: ",
    }
    for arguments, said in mistakes.items():
        assert call("report", *arguments) == 2, arguments
        captured = capsys.readouterr()
        assert said in captured.err
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        assert captured.out == ""
    assert call("report", run, "--colour", "red") == 2
