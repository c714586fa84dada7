"""Learning said in lines: what `learn(verbose=True)` prints."""

import time

from ictrl.training.loop import EpochReport, Progress

LINES, TERMS = 10, 3  # per task, and per line


def narrated(classes: int, images: int, progress: Progress | None = None) -> Progress:
    """A progress callback that prints some ten lines per task, and tells `progress` of every epoch."""
    began = time.perf_counter()
    print(f"learning {classes} new class{'es' * (classes > 1)} from {images} images", flush=True)

    def narrate(report: EpochReport) -> None:
        every = max(1, report.epochs // LINES)
        if report.epoch % every == 0 or report.epoch == report.epochs:
            terms = ", ".join(f"{name} {value:.4g}" for name, value in list(report.terms.items())[:TERMS])
            seconds = time.perf_counter() - began
            print(f"epoch {report.epoch}/{report.epochs}, {seconds:.1f} s: {terms}", flush=True)
        if progress is not None:
            progress(report)

    return narrate
