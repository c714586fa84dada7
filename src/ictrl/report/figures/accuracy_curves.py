"""Accuracy after each task, under every protocol that was measured, with the floors."""

from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import Curve, line_chart
from ictrl.report.record import RunRecord
from ictrl.report.words import TITLES, axis_begin, axis_note

MEANING = {
    "memory": "memory: nothing but what the learner kept.",
    "reencoded": "reencoded: the paper's protocol, which needs all old images.",
    "untrained": "The floors are reencoded: the networks untrained, and never trained again after the first task.",
}


@figure(section="accuracy", order=10)
def accuracy(run: RunRecord) -> Figure:
    """Accuracy over all classes seen so far."""
    seen = {name: scores.seen for name, scores in run.results.scores.items()}
    lowest = axis_begin(min(value for values in seen.values() for value in values))
    learned = run.classes_learned
    told = "; ".join(f"{TITLES[name]} from {values[0]:.3f} to {values[-1]:.3f}" for name, values in seen.items())
    return Figure(
        "Accuracy over all classes seen so far",
        " ".join(words for name, words in MEANING.items() if name in seen) + axis_note(lowest),
        alt=f"Line chart of the accuracy after each of {run.done} tasks: {told}.",
        drawing=line_chart(
            [
                Curve(TITLES[name], list(zip(learned, values)), name, dash=list(TITLES).index(name))
                for name, values in seen.items()
            ],
            x_label="classes learned",
            y_label="accuracy",
            y_range=(lowest, 1.0),
            x_names={count: str(count) for count in learned},
        ),
    )
