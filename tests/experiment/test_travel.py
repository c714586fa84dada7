"""A run folder that is learned in one place and kept in another is the same in both, at any moment."""

from collections.abc import Callable
from pathlib import Path

import pytest
from run_support import outcome, quick

from ictrl import EpochReport, InputError, resume, run
from ictrl.experiment import travel
from ictrl.experiment.run import Listener
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.scratch import remove_abandoned, scratch_folder
from ictrl.experiment.travel import Parcel, Sender, pack, unpack


class Sending(Listener):
    """Sends what has changed after every epoch and task."""

    def __init__(self, sender: Sender, there: Path) -> None:
        self.sender, self.there = sender, there
        self.parcels: list[Parcel] = []

    def on_epoch(self, index: int, report: EpochReport) -> None:
        self.parcels.append(self.sender.parcel())
        unpack(self.there, self.parcels[-1])

    def on_measured(self, results: object) -> None:
        self.on_epoch(0, None)  # type: ignore[arg-type]


def test_what_arrives_is_what_was_sent_and_can_be_gone_on_with(tmp_path: Path) -> None:
    here, there, half = (tmp_path / name for name in ("here", "there", "half"))
    sending = Sending(Sender(here), there)
    run(quick(), here / "run", listener=sending)
    unpack(there, sending.sender.parcel())
    assert outcome(there / "run") == outcome(here / "run")
    assert not sending.sender.parcel()
    logs = [parcel.grown.get("run/metrics.jsonl") for parcel in sending.parcels[1:-1]]
    assert all(log is None or log[1].count(b"\n") == 1 for log in logs)  # a line per epoch, and never the whole again
    for parcel in sending.parcels[:7]:  # lost on the way from here on
        unpack(half, parcel)
    resume(half / "run")
    assert outcome(half / "run") == outcome(here / "run")


class Seldom(Sending):
    """Sends in the first epoch of each task: the learner after the task before it, and a line that counts on it."""

    def on_epoch(self, index: int, report: EpochReport) -> None:
        if report.epoch == 1:
            self.parcels.append(self.sender.parcel())

    def on_measured(self, results: object) -> None:
        pass


@pytest.mark.parametrize("lost", [3, 8, 9, 12, 16])
def test_a_parcel_that_arrived_in_part_leaves_a_run_that_goes_on(
    lost: int, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are written in an order in which whatever is missing is made again."""
    here, there, left = tmp_path / "here", tmp_path / "there", lost
    sending = Seldom(Sender(here), there)
    run(quick(), here / "run", listener=sending)

    def breaks(real: Callable[..., None]) -> Callable[..., None]:
        def write(*given: object) -> None:
            nonlocal left
            if (left := left - 1) < 0:
                raise KeyboardInterrupt
            real(*given)

        return write

    for name in ("_write", "_append"):
        monkeypatch.setattr(travel, name, breaks(getattr(travel, name)))
    parcels = [*sending.parcels, sending.sender.parcel()]
    with pytest.raises(KeyboardInterrupt):
        [unpack(there, parcel) for parcel in parcels]
    monkeypatch.undo()
    resume(there / "run")
    assert outcome(there / "run") == outcome(undisturbed)


def test_a_folder_that_somebody_changed_is_not_written_over(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    log = here / "metrics.jsonl"
    log.write_text("one\nhalf a")
    sender = Sender(here)
    unpack(there, sender.parcel())
    assert (there / "metrics.jsonl").read_text() == "one\n"  # a line that is just being written is left for later
    log.write_text("one\nhalf a line\n")
    parcel = sender.parcel()
    (there / "metrics.jsonl").unlink()
    with pytest.raises(InputError, match=r"metrics.jsonl as this command wrote it but it was changed in the meantime"):
        unpack(there, parcel)


def test_a_scratch_folder_is_removed_by_whoever_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.experiment.scratch._place", lambda: tmp_path)
    (tmp_path / "ictrl-ray-dead").mkdir()
    (tmp_path / "ictrl-ray-dead" / ".lock").touch()
    (tmp_path / "ictrl-ray-just-being-made").mkdir()
    with scratch_folder() as mine:
        remove_abandoned()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, "ictrl-ray-just-being-made"])
    assert [path.name for path in tmp_path.iterdir()] == ["ictrl-ray-just-being-made"]


def test_locks_do_not_travel(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with RunFolder(tmp_path / "run").locked():
        assert pack(tmp_path, [tmp_path / "run"]) == Parcel()
