"""A study on a Ray cluster of two nodes: the same as on one machine, whatever dies in between, and in one place."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from run_support import outcome
from study_support import write_study

from ictrl import InputError
from ictrl.errors import RunsFailedError
from ictrl.experiment.ray_cluster import connected
from ictrl.experiment.ray_crew import RayCrew
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.study import Planned, Study, plan
from ictrl.experiment.study_workers import carry_out
from ictrl.recipes.tables import recipe_with

pytest.importorskip("ray")
SOURCE = Path(__file__).parents[2] / "src"
KILLS = """
import glob, os, signal, sys, time
def killed(event, arguments):
    # once, as λ = 10 writes its fourth checkpoint within the second task; one of its earlier ones has been fetched
    if event == "open" and "lambda-10-seed0" in str(arguments[0]) and "task-002-epoch-00008" in str(arguments[0]):
        place = {place!r}
        if os.path.isdir(place) and not os.path.exists(place + "/killed"):
            while not glob.glob(place + "/ray/lambda-10-seed0/checkpoint/task-002-*.safetensors"):
                time.sleep(0.02)
            open(place + "/killed", "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
if any("default_worker" in argument for argument in sys.orig_argv):
    sys.addaudithook(killed)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def address(place: Path) -> Iterator[str]:
    """Two nodes with a core each, and no folder in common but the one where data lies."""
    from ray.cluster_utils import Cluster

    own = Path(tempfile.mkdtemp(prefix="nodes", dir="/tmp"))  # short: sockets lie below
    (own / "sitecustomize.py").write_text(KILLS.replace("{place!r}", repr(str(place))))
    cluster = Cluster()
    small = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(own), str(SOURCE)]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        try:
            for name in ("one", "two"):
                (own / name / "ray").mkdir(parents=True)
                patch.setenv("TMPDIR", str(own / name))
                cluster.add_node(**small, temp_dir=str(own / "ray"))
            yield cluster.address
            left = [path for name in ("one", "two") for path in (own / name).glob("ictrl-*")]
            assert [path for path in left if not (path / ".lock").exists()] == []
        finally:
            cluster.shutdown()
            shutil.rmtree(own, ignore_errors=True)


def on_ray(study: Study, planned: list[Planned], out: Path, address: str, **given: Any) -> list[str]:
    """Carry it out on the cluster; returns what was said."""
    said: list[str] = []
    with connected(address, 1, None, {"cpu"}) as cluster:
        assert cluster.slots == 2
        carry_out(study, planned, out, crew=RayCrew(cluster, out, said.append), **given)
    return said


def test_a_worker_is_killed_and_the_study_is_as_if_it_had_not_been(address: str, place: Path) -> None:
    """Nor does a line that cannot be run hold up the others."""
    study = write_study(place)
    checkpoints = {"run": {"checkpoint": {"every_epochs": 2}}, "method": {"later": {"epochs": 10}}}
    lines = [replace(line, recipe=recipe_with(line.recipe, checkpoints)) for line in study.lines]
    wrong = replace(lines[0], label="wrong", recipe=recipe_with(lines[0].recipe, {"stream": {"task_sizes": [99]}}))
    study = replace(study, lines=(*lines, wrong))
    begun, threads = [], torch.get_num_threads()
    planned = plan(replace(study, lines=tuple(lines)), place / "one", seeds=[0])
    torch.set_num_threads(1)
    try:
        carry_out(study, planned, place / "one")
    finally:
        torch.set_num_threads(threads)
    there = plan(study, place / "ray", seeds=[0])
    failed: list[str] = []
    said: list[str] = []
    with connected(address, 1, None, {"cpu"}) as cluster:
        crew = RayCrew(cluster, place / "ray", said.append)
        with pytest.raises(InputError, match=r"1 of 3 did not\. wrong-seed0: Expected"):
            carry_out(
                study,
                there,
                place / "ray",
                crew=crew,
                finished=lambda item: begun.append(item.folder.name),
                failed=lambda item, error: failed.append(item.folder.name),
            )
    assert (place / "killed").exists()
    assert said == ["lambda-10-seed0: its worker died; it goes on from its last checkpoint on another."]
    assert failed == ["wrong-seed0"]
    assert sorted(begun) == ["lambda-10-seed0", "lambda-3-seed0"]  # each once
    for item in planned:
        assert outcome(place / "ray" / item.folder.name) == outcome(item.folder)
        files = {path.name for path in item.folder.iterdir()}
        assert {path.name for path in (place / "ray" / item.folder.name).iterdir()} == files
    assert [p.name for p in (place / "ray" / "first-tasks").iterdir()] == [
        p.name for p in (place / "one" / "first-tasks").iterdir()
    ]
    assert [p.name for p in place.rglob("*.unfinished")] == []


def test_a_study_that_is_stopped_goes_on_anywhere(address: str, tmp_path: Path) -> None:
    study, out = write_study(tmp_path), tmp_path / "out"
    endless = {"method": {"later": {"epochs": 10**6}}}
    study = replace(study, lines=tuple(replace(x, recipe=recipe_with(x.recipe, endless)) for x in study.lines))
    planned = plan(study, out, seeds=[0])

    def both_in_their_second_task() -> bool:
        logs = [item.folder / "metrics.jsonl" for item in planned]
        return all(log.exists() and '"task": 2' in log.read_text() for log in logs)

    with pytest.raises(KeyboardInterrupt):
        on_ray(study, planned, out, address, stop=both_in_their_second_task)
    for item in planned:
        with RunFolder.reopen(item.folder) as folder:  # nobody holds it any more
            position = folder.position()
        lines = (item.folder / "metrics.jsonl").read_text().splitlines()
        assert (position.done, position.epoch) == (1, len(lines) - 2)
        assert position.epoch > 0


def test_a_run_that_always_dies_is_given_up(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, out = write_study(tmp_path), tmp_path / "out"
    (planned,) = plan(study, out, seeds=[0])[:1]

    class Dies:
        def __init__(self, *given: object) -> None:
            pass

        def run(self, *given: object) -> None:
            os._exit(1)

        def news(self) -> Any:
            return SimpleNamespace(whole={}, grown={}, gone=())

    monkeypatch.setattr("ictrl.experiment.ray_crew.Seat", Dies)
    monkeypatch.setattr("ictrl.experiment.ray_crew.DEATHS", 1)
    with pytest.raises(RunsFailedError, match=r"its worker died 2 times at the same place, perhaps because memory ran"):
        on_ray(study, [planned], out, address)


def test_what_no_machine_has_is_refused_and_not_waited_for(address: str) -> None:
    with (
        pytest.raises(InputError, match=r"with 1 CPUs and 4 GPUs for a run but .* have 1 CPUs, 0 GPUs at most: lower"),
        connected(address, 1, 4, {"auto"}),
    ):
        pass
    with pytest.raises(InputError, match="nobody answers there"), connected("127.0.0.1:1", 1, 0, {"cpu"}):
        pass
