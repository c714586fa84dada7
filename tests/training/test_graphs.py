"""A step that is recorded does what a plain one does; elsewhere it is simply called."""

import pytest
import torch

from ictrl.training import graphs
from ictrl.training.graphs import Captured, side_stream, unrecorded

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_on_a_cpu_every_call_is_a_plain_one() -> None:
    given: list[int] = []
    with (
        side_stream(CPU),
        Captured(lambda x: given.append(int(x)), torch.Generator(), CPU) as captured,
    ):
        for number in range(5):
            captured(torch.tensor(number))
    assert given == [0, 1, 2, 3, 4]
    assert captured.graph is None


def test_recording_can_be_left_off_for_a_while() -> None:
    """On a GPU the second call is recorded, but not within `unrecorded`."""
    plain = []
    plain.append(Captured(print, torch.Generator(), GPU).plain_calls)
    with unrecorded():
        with unrecorded():
            plain.append(Captured(print, torch.Generator(), GPU).plain_calls)
        plain.append(Captured(print, torch.Generator(), GPU).plain_calls)
    plain.append(Captured(print, torch.Generator(), GPU).plain_calls)
    assert plain == [1, -1, -1, 1]  # −1: for ever


def test_a_graph_is_let_go_when_its_task_ends_even_by_an_error() -> None:
    """Otherwise its memory stays taken, task after task, until nothing can be recorded any more."""

    class Graph:
        resets = 0

        def reset(self) -> None:
            self.resets += 1

    graph, captured = Graph(), Captured(print, torch.Generator(), CPU)
    captured.graph = graph  # type: ignore[assignment]
    with pytest.raises(KeyError), captured:
        raise KeyError
    assert graph.resets == 1
    assert captured.graph is None


def test_a_batch_of_another_shape_is_played_as_it_is() -> None:
    """A graph has room for one shape."""

    class Graph:
        replays = 0

        def replay(self) -> None:
            self.replays += 1

    graph, given = Graph(), []
    captured = Captured(lambda x: given.append(len(x)), torch.Generator(), CPU)
    captured.graph, captured.inputs = graph, [torch.zeros(3)]  # type: ignore[assignment]
    captured(torch.ones(3))
    captured(torch.ones(2))
    assert (graph.replays, given) == (1, [2])
    assert captured.inputs[0].tolist() == [1, 1, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="records a step; needs a GPU")
def test_a_recorded_step_reads_new_input_and_new_random_numbers() -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    total, noise = torch.zeros((), device=GPU), torch.zeros((), device=GPU)

    def step(x: torch.Tensor) -> None:
        total.add_(x.sum())
        noise.copy_(torch.rand((), device=GPU, generator=generator))

    drawn = []
    with side_stream(GPU), Captured(step, generator, GPU) as captured:
        for number in range(4):
            captured(torch.full((2,), float(number), device=GPU))
            drawn.append(float(noise))
        assert captured.graph is not None
    assert float(total) == 2 * (0 + 1 + 2 + 3)
    again = torch.Generator("cuda").manual_seed(0)
    assert drawn == [float(torch.rand((), device=GPU, generator=again)) for _ in range(4)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="records a step; needs a GPU")
def test_what_cannot_be_recorded_goes_on_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[float] = []
    with (
        side_stream(GPU),
        Captured(lambda x: seen.append(float(x)), torch.Generator("cuda"), GPU) as captured,
    ):
        for number in range(4):
            captured(torch.tensor(float(number), device=GPU))
    assert seen == [0, 1, 2, 3]
    assert "could not be recorded as a CUDA graph and is played as it is" in caplog.text


def test_graphs_that_draw_from_a_generator_whose_state_is_replaced_are_given_up() -> None:
    """They would go on with the state of before, and draw what others have drawn."""

    class Generator:
        state = "waits for ever"

        def graphsafe_set_state(self, state: str) -> None:
            self.state = state

    class Graph:
        resets = 0

        def reset(self) -> None:
            self.resets += 1

    generator, graph = Generator(), Graph()
    recorded, failed = (Captured(print, generator, GPU) for _ in range(2))  # type: ignore[arg-type]
    recorded.graph = graph  # type: ignore[assignment]
    graphs._recorded[generator] = graphs.WeakSet([recorded])  # type: ignore[index]
    failed._replace_state("before")  # type: ignore[arg-type]
    assert (generator.state, graph.resets) == ("before", 1)
    assert (recorded.graph, recorded.plain_calls) == (None, -1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="records a step; needs a GPU")
def test_a_recording_that_fails_leaves_another_graph_its_random_numbers() -> None:
    def drawn(fails: bool) -> list[float]:
        generator, values = torch.Generator("cuda").manual_seed(0), []
        found = [torch.zeros((), device=GPU) for _ in range(2)]

        def draw(x: torch.Tensor) -> None:
            found[0].copy_(torch.rand((), device=GPU, generator=generator))

        def draw_or_fail(x: torch.Tensor) -> None:
            found[1].copy_(torch.rand((), device=GPU, generator=generator))
            if fails and torch.cuda.is_current_stream_capturing():
                raise torch.OutOfMemoryError("as asked for")

        with side_stream(GPU), Captured(draw, generator, GPU) as one, Captured(draw_or_fail, generator, GPU) as other:
            for number in range(6):
                one(torch.full((), number, device=GPU))
                if number > 1:  # when the first is recorded
                    other(torch.full((), number, device=GPU))
                values += [float(value) for value in found]
        return [*values, float(torch.rand((), device=GPU, generator=generator))]

    with unrecorded():
        plain = drawn(fails=False)
    assert drawn(fails=True) == plain
    assert drawn(fails=False) == plain
    assert len(set(plain)) > 10
