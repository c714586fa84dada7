"""A run that learned all classes in one task, to compare with."""

from pathlib import Path

from ictrl.errors import InputError
from ictrl.experiment.results import Results
from ictrl.experiment.run_folder import RunFolder


def joint_accuracy(joint: Path) -> dict[str, float]:
    """Accuracy under each protocol of a run that learned everything in one task."""
    folder = RunFolder.existing(joint)
    if not folder.results.exists():
        raise InputError(f"Expected a finished run for --joint but {joint} has no results.json.")
    results = Results.read(folder.results)
    if not results.complete or len(results.tasks) != 1:
        raise InputError(f"Expected a finished run of one task for --joint but {joint} has {len(results.tasks)}.")
    return {protocol: scores.last for protocol, scores in results.protocols.items()}
