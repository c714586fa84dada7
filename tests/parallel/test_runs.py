"""One run, several processes: all measure the same, one writes, and any number of them goes on."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from method_support import recipe_of
from parallel_support import together
from run_support import StopAfter, outcome, quick, timeless
from torch import nn

import ictrl
from ictrl import InputError, Results, create_learner
from ictrl.data import tasks_from_arrays
from ictrl.experiment.run import Listener, Stopped, resume, run
from ictrl.methods.base import LEARNERS
from ictrl.methods.capabilities import check_shares
from ictrl.nets.mlp import mlp
from ictrl.parallel.sharing import group
from ictrl.theory.objectives import closed_loop

RUN = {"run": {"keep_pictures": 2}}


class Asks(Listener):
    """Someone who looks at the learner while it learns, as only the first process does."""

    def __init__(self) -> None:
        self.heard = 0

    def on_measured(self, results: Results) -> None:
        self.heard += 1


def whole(kind: str, out: Path) -> tuple[Results, list[int], int]:
    """A run of all tasks."""
    listener = Asks()
    finished = run(quick(kind, **RUN), out, listener=listener)
    generator = finished.learner._state.generator
    return timeless(finished.results), generator.get_state().tolist(), listener.heard


@pytest.mark.parametrize("kind", ["ictrl", "wide"])
def test_every_process_ends_with_the_same_results(kind: str, tmp_path: Path) -> None:
    alone, state, _ = whole(kind, tmp_path / "one")
    found = together(2, lambda: whole(kind, tmp_path / "two"), share=False)
    assert found[0] == found[1]
    results, generator, heard = found[0]
    assert heard == 3
    assert generator == state  # one stream of random numbers
    assert results.memory.confusion == found[1][0].memory.confusion
    assert results.test_images == alone.test_images
    for name, scores in alone.scores.items():
        assert results.scores[name].last == pytest.approx(scores.last, abs=0.1), name
    assert timeless(Results.read(tmp_path / "two" / "results.json")) == results
    one, two = (outcome(tmp_path / name) for name in ("one", "two"))
    assert one["files"] == two["files"]
    assert one["pictures"].keys() == two["pictures"].keys()
    assert len(one["metrics"].splitlines()) == len(two["metrics"].splitlines())


def stopped(out: Path) -> str:
    """A run that is asked to stop by its second process, after six epochs."""
    found = group()
    assert found is not None
    stop = StopAfter(6 if found.rank == 1 else 10**6)
    try:
        run(quick(), out, listener=stop, stop=stop)
    except Stopped:
        return "stopped"
    return "done"


def test_all_stop_after_the_epoch_in_which_one_is_asked_to(tmp_path: Path) -> None:
    assert together(2, lambda: stopped(tmp_path / "run"), share=False) == ["stopped", "stopped"]
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 6
    assert (tmp_path / "run" / "checkpoint" / "task-002-epoch-00002.safetensors").exists()


def test_any_number_of_processes_goes_on(tmp_path: Path) -> None:
    """With as many as before exactly; with another number, of which one may be none, with the same random numbers."""
    runs = {name: tmp_path / name for name in ("whole", "two", "one", "three")}
    together(2, lambda: (run(quick(), runs["whole"]), stopped(runs["two"]))[1], share=False)
    for name in ("one", "three"):
        shutil.copytree(runs["two"], runs[name])
    together(2, lambda: resume(runs["two"]).results.done, share=False)
    resume(runs["one"])
    together(3, lambda: resume(runs["three"]).results.done, share=False)
    expected, *others = (outcome(runs[name]) for name in ("whole", "two", "one", "three"))
    for other in others:
        assert other["files"] == expected["files"]
        assert other["tensors"]["generator"] == expected["tensors"]["generator"]
        assert len(other["metrics"].splitlines()) == 12
    assert others[0]["metrics"] == expected["metrics"]
    assert others[0]["tensors"] == expected["tensors"]
    assert others[0]["results"] == expected["results"]


def refused(do: Any) -> str:
    try:
        do()
    except InputError as error:
        return str(error)
    return ""


def test_a_method_that_cannot_be_shared_is_refused(tmp_path: Path) -> None:
    said = together(2, lambda: refused(lambda: run(quick("er"), tmp_path / "run")), share=False)
    assert said[0] == said[1]
    assert "several processes can learn together (finetune, frozen, ictrl, joint, lwf, wide, wide-ictrl)" in said[0]
    assert "but got er: run it in one process" in said[0]
    assert not (tmp_path / "run").exists()
    assert run(quick("er"), tmp_path / "run").results.complete  # in one it learns


def test_networks_and_objectives_of_ones_own() -> None:
    generator = torch.Generator().manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), mlp(64, 8, 16, generator))
    normed = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), mlp(64, 8, 16, generator))
    check_shares(ictrl.ICTRL(recipe_of("ictrl"), encoder=encoder))
    for given, said in (({"encoder": normed}, "BatchNorm"), ({"objective": partial(closed_loop)}, "objective")):
        with pytest.raises(InputError, match=said):
            check_shares(ictrl.ICTRL(recipe_of("ictrl"), **given))


def test_every_method_says_whether_it_can() -> None:
    able = {name for name, kind in LEARNERS.items() if kind.shares_batches}
    for name in able:
        check_shares(create_learner(recipe_of(name)))


def test_a_process_needs_an_image_of_each_batch(tmp_path: Path) -> None:
    recipe = quick(method={"first": {"batch": 2}})
    said = together(3, lambda: refused(lambda: run(recipe, tmp_path / "run")), share=False)
    assert said[0] == (
        "Expected at most 2 processes, since a batch (first, task 1) has 2 images, but got 3: begin fewer, or raise "
        "first.batch."
    )
    assert len(set(said)) == 1
    assert not (tmp_path / "run").exists()


def test_processes_that_read_other_data_do_not_learn_together(tmp_path: Path) -> None:
    def elsewhere() -> str:
        found = group()
        assert found is not None
        X = torch.randint(0, 256, (40, 1, 8, 8), generator=torch.Generator().manual_seed(found.rank)).byte()
        y = torch.arange(40) % 2
        stream = tasks_from_arrays([(X, y, X, y)])
        return refused(lambda: run(quick("wide", stream={"tasks": 1}), tmp_path / "run", stream=stream))

    said = together(2, elsewhere, share=False)
    assert said[0] == said[1]
    assert "Expected every process to read the same data" in said[0]
