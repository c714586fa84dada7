"""No command leaves a picture of the user's in what it writes."""

import shutil
from pathlib import Path

import pytest
import torch
from private_support import holds, pictures_in, shows
from support import call
from teach_support import draw_digits
from visualize.stand_in_judges import Means

from ictrl.data.pictures import read_picture
from ictrl.visualize.judges import EfficientNetLite0

SMALL = "method.network = { image_size = 8, channels = 1, width = 8, feature_dim = 16 }\n"
GAME = "method.first.epochs = 2\nmethod.later.epochs = 1\n"
RECIPES = {
    "drawing.toml": f'base = "ictrl-digits"\n{SMALL}{GAME}',
    "tuning.toml": f'base = "finetune-digits"\n{SMALL}{GAME}',
    "study.toml": """description = "One line"
settings.run.device = "cpu"
[[lines]]
label = "drawing"
recipe = "drawing.toml"
settings.stream = { dataset = "folder", root = "own", task_sizes = [2, 1] }
""",
}
STREAM = ["--stream.dataset", "folder", "--stream.root", "own", "--stream.task-sizes", "2", "1", "--device", "cpu"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pictures of three digits, of a fourth to be taught, and recipes that take a second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(EfficientNetLite0, "installed", lambda: Means())
    for digit in range(4):
        draw_digits(Path("more" if digit == 3 else "own") / f"digit {digit}", digit, last=30)
    for name, text in RECIPES.items():
        Path(name).write_text(text)
    return tmp_path


def test_whatever_is_done_with_a_run(here: Path) -> None:
    pictures = [read_picture(path, 8, 1) for path in sorted(here.rglob("*.png"))]
    images = torch.stack(pictures)
    assert call("run", "drawing.toml", *STREAM, "--out", "mine/run") == 0
    for command in (
        ["report", "mine/run"],
        ["teach", "mine/run", "more"],
        ["review", "mine/run", "--device", "cpu"],
        ["fidelity", "mine/run", "--images", "60", "--learner", "mine/run/checkpoint/after-task-002.safetensors"],
        ["predict", "mine/run", "own/digit 0/000.png"],
        ["evaluate", "mine/run"],
        ["forget", "mine/run", "digit 3", "--yes"],
        ["report", "mine/run"],
        ["compare", "drawing.toml", "tuning.toml", *STREAM, "--out", "mine/both"],
        ["study", "study.toml", "--out", "mine/study"],
    ):
        assert call(*command) == 0, command
    written = [path for path in (here / "mine").rglob("*") if path.is_file()]
    assert {"report.html", "taught.safetensors", "review.json", "table.md", "results.json"} <= {p.name for p in written}
    assert holds(here / "mine", images) == []
    for name, picture in pictures_in(here / "mine"):
        assert not shows(picture, images), name
    assert not [path for path in here.iterdir() if path.name not in {"own", "more", "mine", *RECIPES}]


def test_the_search_finds_what_is_there(here: Path) -> None:
    images = torch.stack([read_picture(path, 8, 1) for path in sorted(here.rglob("*.png"))])
    (here / "mine").mkdir()
    shutil.copy("own/digit 0/000.png", "mine/copy.png")
    (here / "mine" / "raw.bin").write_bytes(b"x" + (images[5].float() / 255).numpy().tobytes())
    assert holds(here / "mine", images) == ["raw.bin"]
    assert [shows(picture, images) for _, picture in pictures_in(here / "mine")] == [True]
