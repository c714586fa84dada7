"""`ictrl compare`: several methods on one stream by one command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import call

from ictrl.experiment.results import Results

SMALL = "method.network = { image_size = 8, channels = 1, width = 8, feature_dim = 16 }\n"
RECIPES = {
    "ours.toml": f'base = "finetune-digits"\nmethod.first.epochs = 1\nmethod.later.epochs = 1\n{SMALL}',
    "theirs.toml": f'base = "er-digits"\nmethod.stage.epochs = 1\n{SMALL}',
    "longer.toml": 'base = "theirs.toml"\nmethod.stage.epochs = 2\n',
    "copy.toml": 'base = "theirs.toml"\n',
}
QUICK = ["ours.toml", "theirs.toml", "--stream.tasks", "2", "--stream.limit", "6", "--device", "cpu", "--out", "both"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder one stands in, with recipes of few digits."""
    for name, text in RECIPES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_methods_in_one_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("compare", *QUICK) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["ours and theirs on the same stream", "Runs: 2, still to be done: 2; written to both."]
    head, _, first, second, _, few, _, report = printed[-8:]
    assert few.startswith("Few test images: ")
    assert " do not tell apart accuracies that differ by less than " in few
    assert head == "|  | memory | forgetting | keeps | kept | learning | seeds |"
    found = [Results.read(here / "both" / f"{name}-seed0" / "results.json") for name in ("ours", "theirs")]
    for row, name, keeps, results in zip((first, second), ("ours", "theirs"), ("nothing", "some images"), found):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        memory = results.memory
        assert cells[:2] == [name, f"{memory.last:.3f} / {memory.average:.3f}"]
        assert float(cells[2]) == pytest.approx(memory.forgetting, abs=6e-4)
        assert cells[3] == keeps
        assert (results.recipe.stream.tasks, results.recipe.stream.limit) == (2, 6)
    assert found[0].test_images == found[1].test_images
    assert report == f"Report: {Path('both/report.html')}"
    page = (here / "both" / "report.html").read_text()
    assert "2 runs compared" in page
    assert {"table.md", "ours-seed0", "theirs-seed0", "report.html"} <= {path.name for path in Path("both").iterdir()}
    assert (here / "both" / "table.md").read_text().splitlines() == printed[-8:-4]


def test_the_same_command_goes_on(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def stopped_later() -> Iterator[Callable[[], bool]]:
        yield Path("both/theirs-seed0/metrics.jsonl").exists  # Ctrl-C in the second run

    with monkeypatch.context() as patch:
        patch.setattr("ictrl.cli.many_runs.stop_requests", stopped_later)
        assert call("compare", *QUICK) == 130
    assert capsys.readouterr().err == "Stopped. The same command goes on where it was.\n"
    assert not Path("both/report.html").exists()
    assert call("compare", *QUICK) == 0
    assert "Runs: 2, still to be done: 1; " in capsys.readouterr().out
    assert call("compare", *QUICK, "--seeds", "0", "1", "--jobs", "2") == 0
    assert "Runs: 4, still to be done: 2; " in capsys.readouterr().out
    assert call("compare", "longer.toml", *QUICK) == 0  # a recipe more
    assert "Runs: 3, still to be done: 1; " in capsys.readouterr().out
    assert call("compare", *QUICK, "--stream.limit", "7") == 2
    assert "(stream.limit: 6 → 7): remove it, or choose another --out." in capsys.readouterr().err


def test_other_pictures_are_not_taken_for_the_same(
    here: Path, own_pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_pictures = [f"--stream.{name}" for name in ("dataset", "task-sizes", "root")]
    values = [["folder"], ["2", "1"], ["mine"]]
    options = [word for option, given in zip(on_pictures, values) for word in (option, *given)]
    (here / "mine").symlink_to(own_pictures)
    command = ["compare", "ours.toml", "theirs.toml", *options, "--device", "cpu", "--out", "both"]
    assert call(*command) == 0
    Path("mine").unlink()
    for name in ("blue", "green", "red"):  # fewer of each
        Path("mine", name).mkdir(parents=True)
        for i in range(6):
            file = next(own_pictures.glob(f"{name}/{i}.*g"))
            Path("mine", name, file.name).write_bytes(file.read_bytes())
    capsys.readouterr()
    assert call(*command) == 2
    assert "was begun with but it has changed" in capsys.readouterr().err


MISTAKES = {
    "": "Expected at least two recipes to compare but got none: name them one after another, as in `ictrl compare ",
    "er-digits": "Expected at least two recipes to compare but got only er-digits: ",
    "er-digits slda-digits er-digits": "Expected different recipes but er-digits comes twice: leave one out",
    "theirs.toml copy.toml": "Expected recipes that differ but theirs and copy have the same method and settings: ",
    "er-digits slda-digit": "Expected a recipe but got 'slda-digit'",
    "er-digits none.toml": "Expected a recipe file but could not read none.toml: ",
    "er-digits slda-letters": "Expected recipes on the same stream but slda-letters differs from er-digits "
    "(stream.dataset: digits → letters): choose recipes of one stream",
    "er-cifar10-5 er-cifar10-10": "(stream.tasks: 5 → 10): give --stream.tasks, which then holds for all, as in ",
    "er-digits slda-digits --stream.tasks 3": "Expected a number of tasks that divides the 10 classes of digits but ",
    "er-digits slda-digits --stage.epochs 1": "but --stage.epochs is a method's: write it into a recipe file",
    "er-digits slda-digits --seeds 1 1": "Expected different seeds but got 1 1: ",
    "er-digits slda-digits --jobs 0": "Expected --jobs to be at least 1 but got 0.",
    "pictures er-pictures": "Expected stream.root to be a folder of pictures for stream.dataset folder but got none: ",
    "pictures er-pictures --stream.root empty": "but empty has no folders in it.",
    "pictures er-pictures --stream.root few": "Expected at least 2 pictures in few/cat but got 1: ",
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_mistakes_are_one_line_and_nothing_is_written(
    arguments: str, here: Path, own_pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    for name in ("cat", "dog"):
        Path("few", name).mkdir(parents=True)
        Path("few", name, "one.png").write_bytes((own_pictures / "red" / "1.png").read_bytes())
    before = sorted(here.iterdir())
    assert call("compare", *arguments.split()) == 2
    captured = capsys.readouterr()
    assert MISTAKES[arguments] in captured.err
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(here.iterdir()) == before


def test_sizes_of_tasks_take_the_place_of_their_number(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ten.toml").write_text('base = "theirs.toml"\nmethod.stage.epochs = 2\nstream.tasks = 10\n')
    options = ["--stream.task-sizes", "5", "5", "--stream.limit", "6", "--device", "cpu"]
    assert call("compare", "ten.toml", "theirs.toml", *options) == 0
    assert capsys.readouterr().out.endswith(f"\nReport: {Path('runs/ten-theirs/report.html')}\n")


def test_the_help_shows_the_first_recipe_s_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("compare", "er-cifar10-10", "slda-cifar10-10", "--help") == 0
    assert "(default: cifar10)" in " ".join(capsys.readouterr().out.replace("│", " ").split())
