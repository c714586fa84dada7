"""Forgetting over HTTP, and what is left of a class elsewhere."""

from typing import Any

from ictrl.experiment.checkpoints import Position
from ictrl.experiment.class_facts import read_facts
from ictrl.experiment.teaching import forget
from ictrl.serve.host import LearnerHost
from ictrl.serve.refusals import RefusedError


def forget_class(host: LearnerHost, name: str, remove: bool) -> dict[str, Any]:
    """Forget a class; with `remove`, kept versions that still know it are deleted too."""

    def work(position: Position) -> list[str]:
        label = host.now.label_of(name)  # now, for the file may have been written anew
        if len(host.now.names) == 1:
            raise RefusedError(
                409, "Expected a class that remains but the only one is to be forgotten: delete the file."
            )
        facts = read_facts(position.notes, [label])[label]
        remains = forget(position, [label])
        if host.place.is_run and (facts.task is not None or facts.since is None):
            remains.append("all that the run's own checkpoints, results, figures and pictures hold of it")
        return remains

    remains = host.change(work, lambda _: [])
    knowing = host.versions.knowing(name)
    if remove:
        for kept in knowing:
            kept.path.unlink(missing_ok=True)
        knowing = host.versions.knowing(name)
    if knowing:
        remains = [
            *remains,
            f"the kept versions {', '.join(str(kept.version) for kept in knowing)}, which still know it",
        ]
    return {"version": host.now.version, "remains": remains, "kept_versions_with_it": len(knowing)}
