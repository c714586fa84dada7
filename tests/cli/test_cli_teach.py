"""`ictrl teach`, `classes` and `forget`: a learner that lives learns from new pictures alone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest
import torch
from support import call, script
from teach_support import NAMES, WIDE, draw_digits

import ictrl
from ictrl import load_learner
from ictrl.data import read_picture
from ictrl.experiment.taught import TAUGHT
from ictrl.methods.storage import LEARNER, read_stored


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned zero, one and two, whose pictures are gone, and pictures of other digits beside it."""
    folder = tmp_path_factory.mktemp("three")
    for digit in range(3):
        draw_digits(folder / "old" / NAMES[digit], digit)
    assert call("run", *WIDE, "--stream.root", folder / "old", "--out", folder / "run") == 0
    shutil.rmtree(folder / "old")
    for digit in (3, 4):
        draw_digits(folder / NAMES[digit] / NAMES[digit], digit)
    draw_digits(folder / "same" / "two again", 2, first=100, last=170)
    for digit in range(5):
        draw_digits(folder / "tests" / NAMES[digit], digit, first=60, last=80)
    return folder


@pytest.fixture
def here(three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A copy of all that, to stand in and to change; `learner.safetensors` is the run's learner as a file."""
    shutil.copytree(three, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    shutil.copy("run/checkpoint/after-task-002.safetensors", "learner.safetensors")
    capsys.readouterr()
    return tmp_path / "here"


def images_of(digits: list[int]) -> torch.Tensor:
    files = [file for digit in digits for file in sorted(Path("tests", NAMES[digit]).iterdir())]
    return torch.stack([read_picture(file, 8, 1) for file in files])


def known(learner: str | Path, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    assert call("classes", learner, "--json") == 0
    return {row["class"]: row for row in json.loads(capsys.readouterr().out)}


def bytes_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != TAUGHT}


def test_a_run_is_taught_a_fourth_and_a_fifth_class(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, X = bytes_of(Path("run")), images_of([0, 1, 2])
    old = load_learner("run/checkpoint/after-task-002.safetensors", "cpu")
    assert call("teach", "run", "three") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    table = [line.split() for line in captured.out.splitlines()]
    assert table[0] == ["Learning", "1", "new", "class", "from", "60", "pictures."]
    assert table[3][:3] == ["three", "48", "12"]
    assert float(table[3][3]) > 0.8
    assert table[5] == ["The", "learner", "knows", "4", "classes", "now:", "run/taught.safetensors"]
    assert call("teach", "run", "--label", "four", *sorted(Path("four/four").iterdir()), "--json") == 0
    captured = capsys.readouterr()
    said = json.loads(captured.out)
    assert captured.err == "Opened run/taught.safetensors, which was taught since the run.\n"
    assert said["known"] == 5
    assert said["written"] == "run/taught.safetensors"
    assert said["classes"][0].items() >= {"label": 4, "name": "four", "images": 48, "held_out": 12}.items()
    assert bytes_of(Path("run")) == before  # the run itself is as it was
    taught = load_learner(Path("run") / TAUGHT, "cpu")
    assert torch.equal(taught.predict(X), old.predict(X))  # those of old classes stay what they were
    X, y = images_of([3, 4]), torch.tensor([3] * 20 + [4] * 20)
    assert taught.score(X, y) > 0.9
    files = sorted(map(str, Path("tests/four").iterdir()))[:3]
    assert call("predict", "run", *files, "--json") == 0
    assert [found["class"] for found in json.loads(capsys.readouterr().out)] == ["four"] * 3


def test_a_run_goes_on_as_if_it_had_taught_nothing(here: Path, tmp_path: Path) -> None:
    for digit in range(3):
        draw_digits(Path("old") / NAMES[digit], digit)
    assert call("teach", "run", "three") == 0
    results = Path("run/results.json").read_bytes()
    assert call("resume", "run", "--root", "old") == 0
    assert ictrl.Results.from_json(results.decode()).done == 2
    assert ictrl.evaluate("run", "cpu", root=Path("old")).tasks == [[0, 1], [2]]
    assert (Path("run") / TAUGHT).is_file()


def test_what_is_known_of_classes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("teach", "learner.safetensors", "three", "--held-out", "0") == 0
    assert call("teach", "learner.safetensors", "four", "--seed", "3") == 0
    found = known("learner.safetensors", capsys)
    assert list(found) == ["one", "two", "zero", "three", "four"]
    assert [row["task"] for row in found.values()] == [1, 1, 2, None, None]
    assert [row["images"] for row in found.values()] == [48, 48, 48, 60, 48]
    assert [row["measured_on"] for row in found.values()] == [*["test images"] * 3, None, "held-out pictures"]
    assert [row["among"] for row in found.values()] == [3, 3, 3, None, 5]
    assert [row["tested"] for row in found.values()] == [12, 12, 12, None, 12]
    assert found["three"]["accuracy"] is None
    assert all(row["since"].endswith("Z") for row in found.values())
    assert call("classes", "learner.safetensors") == 0
    out = capsys.readouterr().out
    assert out.startswith("5 classes, learned by wide\n")
    assert "12 held-out pictures among 5 classes" in out


def nameless(path: str) -> None:
    """A saved learner whose file does not say what its classes are called."""
    learner = load_learner("learner.safetensors", "cpu")
    learner.class_names = {}
    learner.save(path)


def test_older_files_leave_blanks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nameless("older.safetensors")
    assert {tuple(row.values())[2:] for row in known("older.safetensors", capsys).values()} == {(None,) * 7}
    assert call("classes", "older.safetensors") == 0
    assert call("teach", "older.safetensors", "three") == 0  # its classes are called 0, 1, 2
    assert list(known("older.safetensors", capsys)) == ["0", "1", "2", "three"]


def test_classes_called_by_numbers_keep_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nameless("numbers.safetensors")
    assert call("teach", "numbers.safetensors", "--label", "7", *sorted(Path("three/three").iterdir())) == 0
    assert known("numbers.safetensors", capsys)["7"]["label"] == 7


def test_elsewhere(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("learner.safetensors").read_bytes()
    assert call("teach", "learner.safetensors", "three", "--out", "new/larger.safetensors") == 0
    assert Path("learner.safetensors").read_bytes() == before
    assert "three" in known("new/larger.safetensors", capsys)
    assert not (Path("run") / TAUGHT).exists()


def test_a_class_that_looks_like_another_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("teach", "run", "three") == 0
    assert call("teach", "run", "four") == 0
    assert "looks like" not in capsys.readouterr().err
    assert call("teach", "run", "same") == 0
    assert "warning: two again looks like two: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "empty"], "error: Expected pictures of class nothing but got none.\n"),
        (["run", "nowhere"], "error: Expected a folder with one folder of pictures per class but nowhere is not there"),
        (["run", "three/three"], "three/three has no folders in it"),
        (["run", "parts"], "parts has parts: name one of them, such as parts/train."),
        (["run"], "error: Expected one folder with a folder per new class but got 0 paths"),
        (["run", "three", "four"], "got 2 paths: name the class of picture files with --label."),
        (["run", "--label", "x"], "error: Expected pictures of class x but got none.\n"),
        (["run", "--label", " ", "three/three/000.png"], "error: Expected --label to be the name of the new class"),
        (["run", "broken"], "could not read 2 of 62: broken/three/notes.txt (it is in no known picture format), "),
        (["run", "broken"], "broken/three/other (a folder: name the pictures in it"),
        (["run", "few"], "got 8 of class few (2 more are held out: --held-out 0 learns from them too)"),
        (["run", "few", "--held-out", "1"], "error: Expected a share held out of at least 0 and below 1 but got 1.0."),
        (["run", "three", "--out", "learner.png"], "--out to be a file that ends in .safetensors but got learner.png."),
        (["nobody", "three"], "error: Expected a run folder but nobody is not there"),
        (
            ["run/config.toml", "three"],
            "error: Expected a saved learner but run/config.toml is cut short or of another",
        ),
        (["run/checkpoint/after-task-002.safetensors", "three"], "is a checkpoint, from which its run goes on: name "),
        (["run", "--label", "two", "three/three/000.png"], "error: Expected new classes but two is known already: "),
    ],
)
def test_mistakes(arguments: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty/nothing").mkdir(parents=True)
    Path("parts/train").mkdir(parents=True)
    Path("parts/test").mkdir()
    shutil.copytree("three", "broken")
    Path("broken/three/notes.txt").write_text("buy milk")
    Path("broken/three/other").mkdir()
    draw_digits(Path("few/few"), 3, last=10)
    before = bytes_of(here)
    assert call("teach", *arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert {path: content for path, content in bytes_of(here).items() if path.suffix != ".lock"} == before
    assert not Path("nobody").exists()


def test_only_one_teaches_at_a_time(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for learner, lock in (("run", "run/.lock"), ("learner.safetensors", ".learner.safetensors.lock")):
        with filelock.FileLock(lock):
            assert call("teach", learner, "three") == 2
        assert "to be free but another process is using it: wait for it." in capsys.readouterr().err


def test_ctrl_c_leaves_the_learner_as_it_was(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    before = Path("learner.safetensors").read_bytes()
    for place in ("ictrl.methods.wide.Wide.learn_task", "ictrl.methods.base.Learner.scores", "os.fsync"):
        with monkeypatch.context() as patched:
            patched.setattr(place, interrupt)
            assert call("teach", "learner.safetensors", "three") == 130
        assert capsys.readouterr().err == "Stopped. learner.safetensors is as it was.\n"
        assert Path("learner.safetensors").read_bytes() == before
        assert not list(here.glob("*.unfinished"))
    assert call("teach", "learner.safetensors", "three") == 0


def test_killed_at_any_moment_it_is_the_old_or_the_new_learner(tmp_path: Path) -> None:
    """A handful; run by hand, `experiments/kill_teaching.py` does it as often as one likes."""
    killing = script("kill_teaching")
    learner, new = killing.prepare(tmp_path)
    before = learner.read_bytes()
    for seconds in (0.5, None):  # None: while the new learner is written
        learner.write_bytes(before)
        killing.kill(killing.start(learner, new), learner, seconds)
        assert killing.state(learner) in (killing.OLD, killing.NEW)
        assert seconds is None or learner.read_bytes() == before
    learner.write_bytes(before)
    assert call("teach", learner, new) == 0
    assert killing.state(learner) == killing.NEW
    assert not list(tmp_path.glob(".*.unfinished"))  # what the dead left behind is gone


def test_forgotten_and_taught_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("teach", "run", "three") == 0
    capsys.readouterr()
    assert call("forget", "run", "one", "3", "--yes") == 0
    out = capsys.readouterr().out
    assert out.startswith("Forgotten: one, three. 2 classes left in run/taught.safetensors.\n")
    assert "its share of the spread that is kept of all classes together" in out
    assert "all that the run run holds of one: its own checkpoints" in out
    assert list(known("run", capsys)) == ["two", "zero"]
    notes = read_stored(Path("run") / TAUGHT, LEARNER).notes
    assert "one" not in "".join(notes.values()).replace("None", "")
    assert call("predict", "run", *sorted(Path("tests/one").iterdir()), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["class"] for row in found} <= {"two", "zero"}
    assert {other["class"] for row in found for other in row["residuals"]} == {"two", "zero"}
    assert call("teach", "run", "three") == 0
    assert call("teach", "run", "--label", "one", *sorted(Path("tests/one").iterdir())) == 0
    assert list(known("run", capsys)) == ["two", "zero", "three", "one"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learner.safetensors", "--yes"], "error: Expected the names of classes to forget but got none.\n"),
        (
            ["learner.safetensors", "nine", "--yes"],
            "error: Expected NAME to be a class that was learned but got 'nine'",
        ),
        (["learner.safetensors", "one"], "error: Expected a terminal to ask on but there is none: --yes forgets"),
        (["learner.safetensors", "one", "two", "zero", "--yes"], "error: Expected a class that remains but all are to"),
        (["run/checkpoint/after-task-002.safetensors", "one", "--yes"], "is a checkpoint, from which its run goes on"),
    ],
)
def test_mistakes_in_forgetting(
    arguments: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("learner.safetensors").read_bytes()
    assert call("forget", *arguments) == 2
    assert message in capsys.readouterr().err
    assert Path("learner.safetensors").read_bytes() == before


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("Yes", 0), ("n", 130), ("", 130)])
def test_forgetting_asks_on_a_terminal(
    answer: str, code: int, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: f"{answer}\n", raising=False)
    assert call("forget", "learner.safetensors", "one") == code
    assert capsys.readouterr().out.startswith("Forget one? It is gone for good. [y/N] ")
    assert ("one" in known("learner.safetensors", capsys)) == (code != 0)


def test_other_methods_are_taught_and_forget(
    ran: Callable[[str], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw_digits(tmp_path / "new" / "three again", 3)
    for recipe in ("ictrl-digits", "finetune-digits"):
        saved = shutil.copy(ran(recipe).folder / "checkpoint" / "after-task-002.safetensors", tmp_path / recipe)
        assert call("teach", saved, tmp_path / "new", "--device", "cpu") == 0
        assert known(saved, capsys)["three again"]["label"] == 10
        assert call("forget", saved, "3", "--yes") == 0
        assert "what the class has taught the networks" in capsys.readouterr().out
        assert "3" not in known(saved, capsys)
