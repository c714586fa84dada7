"""The loop over epochs, with a step that has nothing to do with the game: a line through points."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from ictrl.config import StageConfig
from ictrl.errors import NonFiniteError
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import EpochReport, Progress, Resume, Tally, TaskHooks, check_finite, run_epochs
from ictrl.training.players import adam
from ictrl.training.profiler import Profiler
from ictrl.training.state import TrainingState

STAGE = StageConfig(epochs=4, batch=5, learning_rate=1e-2, ema=0.0)


class Line:
    """One weight that learns the mean of noisy pixels, and all that the loop asks for."""

    def __init__(self, seed: int = 0, stage: StageConfig = STAGE) -> None:
        self.network = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.network.weight)
        generator = torch.Generator().manual_seed(seed)
        self.optimiser = adam(self.network, 1.0, (0.5, 0.999))  # a rate that the stage is to replace
        self.state = TrainingState({"line": self.network}, {"line": self.optimiser}, generator)
        self.source = ImageSource(torch.arange(20, dtype=torch.uint8).view(20, 1, 1, 1), torch.device("cpu"))
        self.stage = stage
        self.rows: list[list[int]] = []
        self.rates: list[float] = []
        self.reports: list[EpochReport] = []

    def step(self, rows: Tensor) -> Mapping[str, Tensor]:
        self.rows.append(rows.tolist())
        self.rates.append(self.optimiser.param_groups[0]["lr"])
        x = self.source.pixels(rows).float().flatten(1)
        noise = torch.rand(x.shape, generator=self.state.generator)
        loss = (self.network(x) - 2 * x - noise).square().mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return {"loss": loss, "largest": rows.max().float()}

    def learn(
        self, progress: Progress | None = None, resume: Resume | None = None, profiler: Profiler | None = None
    ) -> "Line":
        assert self.stage.batch != "rule"
        batches = Batches(len(self.source), self.stage.batch, self.state.generator, torch.device("cpu"))
        hooks = TaskHooks(progress or self.reports.append, resume, profiler)
        run_epochs(self.step, self.source, batches, self.stage, self.state, hooks)
        return self

    @property
    def weight(self) -> float:
        return self.network.weight.item()


def test_every_epoch_is_a_pass_in_another_order() -> None:
    line = Line().learn()
    passes = [[row for rows in line.rows[i : i + 4] for row in rows] for i in range(0, 16, 4)]
    assert len(line.rows) == 16
    assert all(sorted(rows) == list(range(20)) for rows in passes)
    assert len({tuple(rows) for rows in passes}) == 4


def test_learning_is_a_function_of_the_seed() -> None:
    one, same, other = (Line(seed).learn() for seed in (0, 0, 1))
    assert one.weight == same.weight != other.weight
    assert one.reports == same.reports != other.reports


def test_an_epoch_is_reported_with_the_means_of_its_steps() -> None:
    line = Line().learn()
    assert [(report.epoch, report.epochs) for report in line.reports] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for number, report in enumerate(line.reports):
        largest = [max(rows) for rows in line.rows[4 * number : 4 * number + 4]]
        assert report.terms["largest"] == pytest.approx(sum(largest) / 4)
        assert report.state is line.state
    assert line.reports[-1].terms["loss"] < line.reports[0].terms["loss"]


def test_nobody_has_to_watch() -> None:
    line = Line()
    batches = Batches(20, 5, line.state.generator, torch.device("cpu"))
    run_epochs(line.step, line.source, batches, line.stage, line.state, TaskHooks())
    assert line.weight == Line().learn().weight


def test_the_rate_of_each_epoch_is_that_of_the_schedule() -> None:
    line = Line(stage=replace(STAGE, schedule="cosine", warmup=1)).learn()
    expected = [0.01 * share for share in (0.5, 0.8536, 0.5, 0.1464)]
    assert line.rates == pytest.approx([rate for rate in expected for _ in range(4)], rel=1e-3)
    line.learn()  # the next task begins as this one did, whatever rate it ended with
    assert line.rates[16] == pytest.approx(0.005)


# EMA


def test_the_average_reaches_back_so_many_epochs_and_remains() -> None:
    plain, line = Line(), Line(stage=replace(STAGE, ema=2.0))
    weights = [0.0]
    step = plain.step

    def noted(rows: Tensor) -> Mapping[str, Tensor]:
        values = step(rows)
        weights.append(plain.weight)
        return values

    plain.step = noted  # type: ignore[method-assign]
    plain.learn()
    line.learn()
    mean, share = 0.0, 1 - math.exp(-1 / (2.0 * 4))
    for weight in weights[1:]:
        mean += share * (weight - mean)
    assert line.weight == pytest.approx(mean, rel=1e-5)
    assert line.state.ema is None
    assert line.reports == plain.reports  # the steps are the same


# Going on where a task was stopped


@pytest.mark.parametrize("ema", [0.0, 2.0])
@pytest.mark.parametrize("stopped", [1, 3])
def test_a_stopped_task_goes_on_as_if_it_had_not_been(ema: float, stopped: int) -> None:
    stage = replace(STAGE, ema=ema)
    whole, first, second = Line(stage=stage), Line(stage=stage), Line(stage=stage)
    written: dict[str, Tensor] = {}

    def save(report: EpochReport) -> None:
        if report.epoch == stopped:
            written.update({name: tensor.clone() for name, tensor in report.state.tensors().items()})
            raise KeyboardInterrupt

    whole.learn()
    with pytest.raises(KeyboardInterrupt):
        first.learn(save)
    second.learn(resume=Resume(stopped, lambda state: state.load(written)))
    assert second.weight == whole.weight
    assert second.reports == whole.reports[stopped:]


# Several stages in one task


def test_epochs_of_stages_that_follow_each_other_are_counted_through() -> None:
    line, heard = Line(), list[EpochReport]()
    hooks = TaskHooks(heard.append)
    for stage in hooks.in_turn(4, 4, 2)[:2]:
        assert stage is not None
        line.learn(stage.progress)
    assert [(report.epoch, report.epochs) for report in heard] == [(epoch, 10) for epoch in range(1, 9)]
    assert all(stage is not None and stage.progress is None for stage in TaskHooks().in_turn(4, 2))


@pytest.mark.parametrize(
    ("stopped", "expected"),
    [(1, [1, 0, 0]), (4, [4, 0, 0]), (5, [None, 1, 0]), (7, [None, 3, 0]), (8, [None, None, 1])],
)
def test_a_stopped_task_goes_on_in_the_stage_that_it_was_stopped_in(stopped: int, expected: list[int | None]) -> None:
    """Also where a stage had just had its last epoch: what follows its epochs is done again."""
    profiler = Profiler(torch.device("cpu"))
    stages = TaskHooks(resume=Resume(stopped, lambda state: None), profiler=profiler).in_turn(4, 3, 2)
    found = [stage and (stage.resume.epoch if stage.resume else 0) for stage in stages]
    assert found == expected
    assert all(stage is None or stage.profiler is profiler for stage in stages)


# Numbers


def test_a_tally_begins_anew_after_each_epoch() -> None:
    tally = Tally()
    for value in (1.0, 3.0):
        tally.add({"a": torch.tensor(value), "b": torch.tensor(-value, requires_grad=True)})
    assert tally.means(2) == {"a": 2.0, "b": -2.0}
    tally.add({"a": torch.tensor(5.0), "b": torch.tensor(1.0)})
    assert tally.means(1) == {"a": 5.0, "b": 1.0}


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_none_stops_the_task_by_name(value: float) -> None:
    with pytest.raises(NonFiniteError, match=rf"but b became {value} in epoch 7: lower learning_rate"):
        check_finite({"a": 1.0, "b": value}, epoch=7)
    check_finite({"a": 1.0, "b": -1e30}, epoch=7)
    line = Line()
    line.step = lambda rows: {"loss": torch.tensor(value)}  # type: ignore[method-assign, assignment]
    with pytest.raises(NonFiniteError, match="loss became .* in epoch 1"):
        line.learn()
    assert line.reports == []


def test_the_profiler_is_read_after_every_epoch() -> None:
    class Watching(Profiler):
        read_after: tuple[int, ...] = ()

        def read(self, steps: int) -> None:
            self.read_after += (steps,)

    watching = Watching(torch.device("cpu"))
    Line().learn(profiler=watching)
    assert watching.read_after == (4, 4, 4, 4)
