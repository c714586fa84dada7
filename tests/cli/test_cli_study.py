"""`ictrl study` with several methods side by side."""

import errno
import json
import os
import sys
from pathlib import Path

import pytest
from support import call

from ictrl import InputError

SMALL = "network = { image_size = 8, width = 8, feature_dim = 16 }"
STUDY = f"""description = "Methods on few digits"
settings.stream = {{ tasks = 2, limit = 12 }}
settings.run.device = "cpu"
settings.method.{SMALL}

[[lines]]
label = "i-CTRL"
recipe = "ictrl-digits"
settings.method.first.epochs = 1
settings.method.later.epochs = 1
settings.method.memory.neighbours = 4

[[lines]]
label = "finetune"
recipe = "finetune-digits"
settings.method.first.epochs = 1
settings.method.later.epochs = 1

[[lines]]
label = "joint"
recipe = "joint-digits"
settings.method.stage.epochs = 1
"""


def test_a_study_of_several_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "methods.toml").write_text(STUDY)
    assert call("study", "methods.toml", "--publish", "published") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["Methods on few digits", "Runs: 3, still to be done: 3; written to runs/studies/methods."]
    ended = [line.partition(":") for line in printed if "-seed0: " in line]
    assert [(name, rest.count("memory"), rest.count("reencoded")) for name, _, rest in ended] == [
        ("i-ctrl-seed0", 1, 1),
        ("finetune-seed0", 1, 0),
        ("joint-seed0", 1, 0),
    ]
    header, _, *rows = printed[-5:]
    columns = [cell.strip() for cell in header.strip("|").split("|")]
    table = {row.split("|")[1].strip(): [cell.strip() for cell in row.strip("|").split("|")] for row in rows}
    for label, known in {"i-CTRL": True, "finetune": False, "joint": False}.items():
        cells = dict(zip(columns, table[label]))
        assert cells["memory"] != ""
        assert [cells[name] != "" for name in ("reencoded", "untrained", "replay")] == [known] * 3
    published = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "published" / "methods").iterdir()}
    assert {name: table["recipe"]["method"]["name"] for name, table in published.items()} == {
        "i-ctrl-seed0": "ictrl",
        "finetune-seed0": "finetune",
        "joint-seed0": "joint",
    }
    assert call("study", "methods.toml", "--only", "joint") == 0
    assert "Runs: 1, still to be done: 0; " in capsys.readouterr().out


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 1), (None, 2)])
def test_a_study_whose_runs_fail_by_nobodys_mistake_is_a_failure(
    number: int | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*given: object, **more: object) -> None:
        raise InputError("Expected other data.") if number is None else OSError(number, os.strerror(number))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "methods.toml").write_text(STUDY)
    monkeypatch.setattr("ictrl.experiment.crew.run", fails)
    assert call("study", "methods.toml", "--only", "joint") == code
    said = capsys.readouterr().err
    assert said.startswith("error: Expected every run to come to its end but 1 of 1 did not. joint-seed0: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--gpus", "1"], "Expected --gpus together with --on ray"),
        (["--on", "ray", "--jobs", "2"], "Expected --jobs or --on ray but got both (--jobs 2)"),
        (["--on", "ray", "--part", "1/2"], "Expected --part or --on ray but got both"),
        (["--on", "ray", "--device", "cuda:1"], "Expected cpu, cuda or auto as --device on Ray"),
        (["--on", "ray", "--cpus", "1.5"], "Expected --cpus to be a whole number, or a share above 0, but got 1.5."),
        (["--on", "ray", "--gpus", "1"], "Expected --gpus 0 for runs on the CPU but got 1"),
        (["--on", "ray", "--address", "nowhere"], "Expected the address of a Ray cluster as HOST:PORT"),
        (["--on", "ray", "--address", "127.0.0.1:1"], "but nobody answers there"),
    ],
)
def test_what_does_not_go_together_with_a_cluster_is_refused(
    given: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "methods.toml").write_text(STUDY)
    assert call("study", "methods.toml", *given) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("ray", ["study", "methods.toml", "--on", "ray"]),
        ("optuna", ["search", "methods.toml"]),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    module: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "methods.toml").write_text(STUDY)
    monkeypatch.setitem(sys.modules, module, None)
    assert call(*command) == 2
    extra = {"ray": "ray", "optuna": "search"}[module]
    assert capsys.readouterr().err.endswith(f"): pip install 'ictrl[{extra}]'.\n")
