"""What a run's part of the page begins with, its training curves, and its classes one by one."""

import html
import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_parser import Page, check_numbers
from support import CLASS_NAMES, call

from ictrl.experiment.findings import filled, of_left_out, of_review, remarks, verdict
from ictrl.experiment.results import Results
from ictrl.report import write_report
from ictrl.report.class_rows import class_rows
from ictrl.report.figures.training_curves import POINTS, training
from ictrl.report.house_style import house_style
from ictrl.report.record import read_run
from ictrl.theory.metrics import confusion_table


def words_of(page: Path, begin: str, end: str) -> str:
    """The words of a part of a page."""
    part = page.read_text(encoding="utf-8").split(begin, 1)[1].split(end, 1)[0]
    return " ".join(html.unescape(re.sub("<[^>]*>", "", part)).split())


def table_rows(page: Path, name: str) -> list[list[str]]:
    """The cells of a table's rows."""
    table = page.read_text(encoding="utf-8").split(f'aria-label="{name}"', 1)[1].split("</table>", 1)[0]
    cells = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>.*?</tr>", table, flags=re.DOTALL)
    ]
    return [[html.unescape(cell) for cell in row] for row in cells]


def note_data(run: Path, **changes: Any) -> None:
    noted = {**json.loads((run / "data.json").read_text()), **changes}
    (run / "data.json").write_text(json.dumps({key: value for key, value in noted.items() if value is not None}))


def test_each_run_begins_with_its_verdict(run: Path, stripes: dict[str, Path], tmp_path: Path) -> None:
    runs = [run, stripes["finetune"]]
    page = write_report(runs, tmp_path / "both.html").page
    text = page.read_text(encoding="utf-8")
    for path, part in zip(runs, text.split('<p class="verdict">')[1:], strict=True):
        results = Results.read(path / "results.json")
        shown = " ".join(html.unescape(re.sub("<[^>]*>", "", part.split("</p>")[0])).split())
        assert shown == filled(verdict(results), results).replace("`", "")
    assert 'data-key="frozen.last"' in text.split('<p class="verdict">')[1].split("</p>")[0]
    check_numbers(Page(page), runs[:1])


def test_data_counts_and_date_are_said(run: Path) -> None:
    begun = json.loads((run / "data.json").read_text())["begun"]
    said = words_of(write_report([run]).page, "Method", "</p>")
    assert "Data: a folder of pictures, 40 training images of 4 classes in 8 × 8 pixels, in colour" in said
    assert "measured on 8 test images" in said
    assert f"Begun on {begun[:10]}, {begun[11:16]} UTC." in said
    note_data(run, begun=None)
    assert "The date is not known: the run was made before it was noted." in Page(write_report([run]).page).words


def test_notes_of_data_that_are_missing_or_odd_are_done_without(run: Path) -> None:
    def found() -> tuple[int, str | None]:
        record = read_run(run, "run")
        assert record.warnings == remarks(record.results)
        return record.training_images, record.begun

    begun = read_run(run, "run").begun
    note_data(run, image_shape="wide", files_left_out="many")
    assert found() == (40, begun)
    note_data(run, image_shape=[3, 16, 8], begun="some day")  # pictures that were larger than the network takes them
    assert found() == (20, None)
    (run / "data.json").write_text("[1]")
    assert found() == (40, None)
    (run / "data.json").unlink()
    assert found() == (40, None)


def test_the_page_warns_as_the_console_does(run: Path) -> None:
    note_data(run, files_left_out=3)
    cycles = [{"cycle": i, "memory": 0.8 - 0.1 * i, "reencoded": 0.8, "recognised": 1.0 if i else None} for i in (0, 1)]
    (run / "review.json").write_text(json.dumps({"cycles": cycles, "joint": None}))
    results = Results.read(run / "results.json")
    expected = [*remarks(results), str(of_left_out(3)), str(of_review(0.8, 0.7))]
    assert len(expected) > 2
    text = write_report([run]).page.read_text(encoding="utf-8")
    notes = [html.unescape(note) for note in re.findall(r'<p class="note">(.*?)</p>', text)]
    for line in expected:
        assert sum(note.startswith(line) for note in notes) == 1, line


def test_files_that_were_left_out_are_counted_on_console_and_page_and_named_on_the_console_alone(
    run: Path, odd_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(odd_run.parent / "pictures", tmp_path / "pictures")
    (tmp_path / "pictures" / CLASS_NAMES[0] / "broken.png").write_bytes(b"nothing")
    recipe = (run / "config.toml").read_text().replace(str(odd_run.parent / "pictures"), str(tmp_path / "pictures"))
    (tmp_path / "odd.toml").write_text(recipe)
    assert call("run", tmp_path / "odd.toml", "--out", tmp_path / "new") == 0
    said = capsys.readouterr().err
    assert f"warning: {of_left_out(1)}:\n" in said
    assert "broken.png: it is in no known picture format" in said
    assert sum(line.startswith(str(of_left_out(1))) for line in read_run(tmp_path / "new", "new").warnings) == 1
    for path in ("report.html", "data.json", "results.json"):
        assert "broken.png" not in (tmp_path / "new" / path).read_text(encoding="utf-8")


def test_each_class_is_a_row_with_its_numbers(run: Path) -> None:
    results = Results.read(run / "results.json")
    page = write_report([run]).page
    _, *rows = table_rows(page, "Accuracy of each class")
    assert [row[0] for row in rows] == [results.class_names[label] for task in results.tasks for label in task]
    for i, row in enumerate(rows):
        assert row[1:4] == [str(1 + i // 2), "10", "2"]
        for cell, scores in zip(row[4:6], results.protocols.values(), strict=True):
            assert scores.confusion is not None
            confusion = confusion_table(scores.confusion)
            assert cell == f"{confusion[i, i] / confusion[i].sum():.3f}"
        assert results.memory.confusion is not None
        wrong = {other: count for other, count in results.memory.confusion[i].items() if other != i}
        assert (row[6] == "") == (not wrong)
    chart = page.read_text(encoding="utf-8").split('id="run-1-figure-class-accuracy"')[1].split("</figure>")[0]
    assert all(name in html.unescape(chart) for name in CLASS_NAMES if len(name) < 24)


def hundred(run: Path) -> Path:
    """A run without a learner whose results speak of a hundred classes in ten tasks of unequal difficulty."""
    shutil.rmtree(run / "checkpoint")
    table = json.loads((run / "results.json").read_text())
    random = np.random.default_rng(0)
    confusion = np.diag(random.integers(0, 20, 100)) + random.integers(0, 2, (100, 100))
    table |= {
        "tasks": np.arange(100).reshape(10, 10).tolist(),
        "class_names": {str(i): f"kind of thing {i}" for i in range(100)},
        "test_images": [100] * 10,
        "drift": None,
    }
    for name in ("memory", "reencoded", "untrained", "frozen"):
        matrix = [[0.5 if j <= t else None for j in range(10)] for t in range(10)]
        table[name] |= {"seen": [0.5] * 10, "matrix": matrix}
        table[name]["confusion"] = confusion.tolist() if name in ("memory", "reencoded") else None
    (run / "results.json").write_text(json.dumps(table))
    return run


def test_a_hundred_classes_have_a_bar_and_a_row_each(run: Path) -> None:
    page = write_report([hundred(run)]).page
    rows = class_rows(read_run(run, "run"))
    _, *shown = table_rows(page, "Accuracy of each class")
    assert [row[0] for row in shown] == [f"kind of thing {i}" for i in range(100)]
    assert [row[4] for row in shown] == [f"{row.accuracy['memory']:.3f}" for row in rows]
    assert {row[2] for row in shown} == {"–"}  # nobody noted the training images
    chart = page.read_text(encoding="utf-8").split('id="run-1-figure-class-accuracy"')[1].split("</figure>")[0]
    for row in rows:
        assert f"<title>{row.name}, task {row.task}: {row.accuracy['memory']:.3f}</title>" in chart
    lowest = min(rows, key=lambda row: row.accuracy["memory"])
    assert f"Lowest: {lowest.name} ({lowest.accuracy['memory']:.3f})" in chart


def test_results_without_a_confusion_matrix_say_so(run: Path) -> None:
    table = json.loads((run / "results.json").read_text())
    for name in ("memory", "reencoded"):
        table[name]["confusion"] = None
    (run / "results.json").write_text(json.dumps(table))
    written = write_report([run])
    assert "Accuracy of each class is not shown" in Page(written.page).words
    assert "class-accuracy.svg" not in {path.name for path in written.figures}


def log(run: Path, lines: list[dict[str, Any]], end: str = "") -> None:
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + end)


def drawn_training(run: Path) -> Any:
    with house_style():
        return training(read_run(run, "run"))


def test_training_curves_follow_the_log(run: Path) -> None:
    """A panel per term, a piece per task, lines between tasks; half a line and what is no number are passed over."""
    lines = [
        {"task": t, "epoch": e, "encoder.gain": t + e / 10, "decoder.gain": 1.0} for t in (1, 2) for e in (1, 2, 3)
    ]
    lines += [{"task": 3, "epoch": 1, "encoder.gain": float("nan"), "decoder.gain": 3.0, "loss": 0.5}]
    log(run, lines, end='{"task": 3, "epo')
    figure = drawn_training(run)
    gain, loss = figure.drawing.axes
    assert [text.get_text() for text in figure.drawing.texts] == ["gain", "loss", "task"]
    pieces = [[tuple(point) for point in line.get_xydata()] for line in gain.get_lines()]
    assert pieces == [
        [(0.5, 1.1), (1.5, 1.2), (2.5, 1.3)],
        [(3.5, 2.1), (4.5, 2.2), (5.5, 2.3)],
        [(0.5, 1.0), (1.5, 1.0), (2.5, 1.0)],
        [(3.5, 1.0), (4.5, 1.0), (5.5, 1.0)],
        [(6.5, 3.0)],
    ]
    (borders,) = gain.collections
    assert [segment[0][0] for segment in borders.get_segments()] == [3, 6]
    assert gain.get_xlim() == loss.get_xlim() == (0, 7)
    assert "3 epochs of task 1, 1 to 3 of each later one" in figure.caption
    assert "encoder.gain from 1.1 to 2.3" in figure.alt
    assert "decoder.gain from 1 to 3" in figure.alt


def test_a_long_log_becomes_means_over_epochs(run: Path) -> None:
    log(run, [{"task": t, "epoch": e, "loss": 1 / e} for t in (1, 2) for e in range(1, 1001)])
    figure = drawn_training(run)
    points = [len(line.get_xdata()) for line in figure.drawing.axes[0].get_lines()]
    assert sum(points) <= POINTS + 2
    assert figure.drawing.axes[0].get_lines()[0].get_ydata()[0] == pytest.approx(np.mean([1 / e for e in range(1, 10)]))
    assert "Each point is the mean of up to 9 epochs." in figure.caption


def test_lines_that_cannot_be_read_take_no_other_with_them(run: Path) -> None:
    good = [json.dumps({"task": 1, "epoch": epoch, "loss": 0.5, "name": "x"}) for epoch in (1, 2)]
    bad = ["[]", "{", '{"task": "1", "epoch": 1}', '{"epoch": 1}', "[" * 100_000]
    (run / "metrics.jsonl").write_text("\n".join([good[0], *bad, good[1], '{"ta']))
    record = read_run(run, "run")
    assert [line["epoch"] for line in record.metrics or []] == [1, 2]
    assert "5 of the lines of metrics.jsonl could not be read" in record.warnings[-1]
    assert "2 epochs of task 1" in drawn_training(run).caption


def test_a_run_without_a_log_says_so_and_one_without_epochs_shows_nothing(run: Path) -> None:
    log(run, [])
    written = write_report([run])
    assert "training.svg" not in {path.name for path in written.figures}
    assert "Training" not in [word.strip() for word in re.findall(">([^<]*)</h2>", written.page.read_text())]
    (run / "metrics.jsonl").unlink()
    page = Page(write_report([run]).page)
    assert "Training curves are not shown: the folder has no metrics.jsonl." in page.words


def test_each_picture_opens_in_the_window_and_closes(run: Path) -> None:
    """Without a script and without a second copy: a link to itself, and one to its row."""
    page = Page(write_report([run]).page)
    pictures = [link for link in page.all("a") if link.get("class") == "larger"]
    assert len(pictures) == len(page.all("img")) > 12
    links = {name: [str(a["href"]) for a in page.all("a") if a.get("class") == name] for name in ("larger", "smaller")}
    assert links["larger"] == [f"#{picture['id']}" for picture in pictures]
    rows = {str(attributes["id"]) for attributes in page.all("tr") if "id" in attributes}
    assert {link.removeprefix("#") for link in links["smaller"]} == rows
    for before, after in pairwise(page.tags):
        if after[0] == "img":
            assert before[1].get("class") == "larger"
    sources = [image["src"] for image in page.all("img")]
    text = (run / "report.html").read_text()
    assert all(text.count(str(source)) == sources.count(source) for source in sources)
