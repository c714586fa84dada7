"""What a run came to, in words: whether learning paid, and what to know before its numbers are believed.

Command line and report say the same, because both take it from here. A verdict stands on numbers of `results.json`,
each named by its place there in braces, so that a page can mark it: `verdict` gives "…{memory.last}…", `filled` the
text with the numbers in it.
"""

import math
import re

from ictrl.config import MethodConfig, StageConfig
from ictrl.experiment.evaluation import REPLAY_WELL
from ictrl.experiment.results import Results
from ictrl.methods.base import LEARNERS
from ictrl.methods.capabilities import DrawsFeatures

EASY = 0.95  # a floor above this leaves little to learn
COARSE = 0.1  # what test images cannot tell apart: from here on it is worth a remark
WORSE = 0.005  # a loss of accuracy by review that is worth a warning
PLACE = re.compile(r"\{([\w.]+)\}")
FLOORS = {"untrained": "untrained networks", "frozen": "networks frozen after the first task"}


def verdict(results: Results) -> str:
    """Whether learning paid, in two sentences: from memory against both floors, then what that was measured by."""
    where = "it ends at" if results.complete else f"after task {results.done} of {len(results.tasks)} it stands at"
    if results.untrained is None:
        name = results.recipe.method.name
        forgot = (
            "" if results.done < 2 else ", having lost {memory.forgetting} of accuracy on each earlier task on average"
        )
        return (
            f"Whether learning paid was not measured: {name} has no floors, neither of untrained networks nor of "
            f"networks frozen after the first task. From memory {where} {{memory.last}}{forgot}; `ictrl compare` puts "
            "it beside methods that have floors."
        )
    seen = results.done
    floors = ["untrained"] if results.frozen is None or seen < 2 or stands_still(results) else list(FLOORS)
    standings = {floor: _standing(results, "memory", floor) for floor in floors}
    level = [_chance(results, "memory", floor) for floor in floors if standings[floor] == "level with"]
    first = f"{_head(standings)}: from memory {where} {{memory.last}}, {_against(standings)}."
    if not results.complete:
        first = f"So far {first[0].lower()}{first[1:]}"
    if stands_still(results) and results.frozen is not None:
        second = (
            "Later tasks add nothing to the frozen floor ({frozen.last}), by design: the encoder learns the first task "
            "and no other, and all later classes are only remembered"
        )
    elif results.frozen is None:
        second = "Whether the later tasks paid is not known: the run was made before the frozen floor was measured"
    elif seen < 2:
        second = (
            "Whether later tasks pay is not known: the frozen floor stops after the first task, and there was no other"
        )
    else:
        again = {floor: _standing(results, "reencoded", floor) for floor in floors}
        level += [_chance(results, "reencoded", floor) for floor in again if again[floor] == "level with"]
        second = (
            "Reencoded, which needs all old images and is how the floors are measured, it "
            f"{'ends' if results.complete else 'stands'} at {{reencoded.last}}, {_against(again, named=False)}"
        )
    if level:
        second += f"; {_tested(results):,} test images do not tell apart what differs by less than {max(level):.3f}"
    return f"{first} {second}."


def stands_still(results: Results) -> bool:
    """Whether the encoder never learns after the first task, so that the frozen floor is what the method reaches.

    Such a method has no protocol in which its encoder would have moved, or no later stage that lasts an epoch.
    """
    method = results.recipe.method
    later = getattr(method, "later", None) or getattr(method, "learning_on", None)
    return results.reencoded is None or later is None or not later.epochs


def filled(text: str, results: Results) -> str:
    """A verdict with its numbers."""

    def number(place: re.Match[str]) -> str:
        scores, part = place[1].split(".")
        return f"{round(getattr(getattr(results, scores), part), 3) + 0.0:.3f}"  # never -0.000

    return PLACE.sub(number, text)


def remarks(results: Results) -> list[str]:
    """What to beware of, by what was measured."""
    found = []
    if results.untrained is not None:
        if _standing(results, "memory", "untrained") == "below":
            found.append(
                "From memory the learner does worse than its networks untrained, reencoded: it has unlearned more than "
                "it has learned. More images per class, another learning rate or other weights of distillation may "
                "help."
            )
        elif min(results.untrained.last, results.memory.last) > EASY:
            found.append(
                "The untrained floor is nearly as high: on such easy data accuracy says little about learning."
            )
    if coarse := of_few_images(results):
        found.append(coarse)
    found += of_warmups(results.recipe.method)
    if results.replay and (faint := of_replay(results.replay[-1])):
        found.append(faint)
    if results.calibration is not None and results.calibration.temperature == 1:
        found.append(
            "Probabilities are not calibrated: fewer than twenty training images of a task could be held out; "
            "--calibration.held-out 0.25 holds more of them out."
        )
    return found


def of_warmups(method: MethodConfig) -> list[str]:
    """What to say of stages that end before their learning rate is what was set."""
    stages = {name: stage for name, stage in vars(method).items() if isinstance(stage, StageConfig)}
    return [
        f"In {name} the learning rate rises for {stage.warmup} epochs (warmup) and there were {stage.epochs}: it never "
        f"came to {stage.learning_rate:g}. A warmup of {stage.epochs // 10} would do."
        for name, stage in stages.items()
        if 0 < stage.epochs <= stage.warmup
    ]


def of_few_images(results: Results) -> str | None:
    """What to say where test images are so few that accuracies which seem to differ may not."""
    if (told := margin(results.memory.last, results.memory.last, _tested(results))) < COARSE:
        return None
    return f"Few test images: {_tested(results):,} do not tell apart accuracies that differ by less than {told:.2f}."


def what_is_recognised(results: Results) -> str:
    """What the share in `replay` is of: features that go through the loop, or images where a method draws no others."""
    kind = LEARNERS.get(results.recipe.method.name)
    if kind is None or issubclass(kind, DrawsFeatures):
        return "of the features drawn from memory are still recognised once decoded and encoded"
    return "of the images drawn of all classes are recognised"


def of_replay(recognised: float) -> str | None:
    """What to say where the decoder has not learned to draw: pictures from memory are noise then."""
    if recognised >= REPLAY_WELL:
        return None
    return (
        f"Only {recognised:.0%} of what memory replays of all classes is recognised: the decoder has not learned to "
        "draw it well, and memory fades. Other epochs or another learning rate may help."
    )


def of_left_out(files: int) -> str | None:
    """What to say where files of a data set could not be read."""
    if not files:
        return None
    return f"{files} {'file could not be read and was' if files == 1 else 'files could not be read and were'} left out"


def of_review(before: float, after: float) -> str | None:
    """What to say where learning classes once more cost accuracy."""
    if after >= before - WORSE:
        return None
    return (
        f"Accuracy from memory fell from {before:.3f} to {after:.3f} by review: learning a class again moves the "
        "encoder under the others. The run's own learner is as it was, and the better one."
    )


def margin(one: float, other: float, images: int) -> float:
    """What two accuracies on so many images must differ by to be told apart: two standard errors, or one image.

    >>> round(margin(0.9, 0.9, 10_000), 4), margin(1.0, 1.0, 100)
    (0.0085, 0.01)
    """
    return max(1 / images, 2 * math.sqrt((one * (1 - one) + other * (1 - other)) / images))


def _tested(results: Results) -> int:
    return sum(results.test_images[: results.done])


def _chance(results: Results, protocol: str, floor: str) -> float:
    return margin(getattr(results, protocol).last, getattr(results, floor).last, _tested(results))


def _standing(results: Results, protocol: str, floor: str) -> str:
    """Where a protocol's accuracy stands to a floor's."""
    ahead = getattr(results, protocol).last - getattr(results, floor).last
    chance = _chance(results, protocol, floor)
    return "above" if ahead > chance else "below" if ahead < -chance else "level with"


def _head(standings: dict[str, str]) -> str:
    """The verdict in a few words."""
    if standings["untrained"] != "above":
        return "Learning shows no gain" if standings["untrained"] == "level with" else "Learning did not pay"
    return {
        None: "The first task paid",
        "above": "Learning paid",
        "level with": "The first task paid, and the later ones show no gain",
        "below": "The first task paid, and learning on after it cost accuracy",
    }[standings.get("frozen")]


def _against(standings: dict[str, str], named: bool = True) -> str:
    """The standings in words, floors by name and number or, where these were said, by a word alone."""
    names = {floor: f"{FLOORS[floor]} ({{{floor}.last}})" if named else floor for floor in standings}
    first, *others = standings.values()
    if not others:
        return f"{first} {names['untrained']}"
    if others == [first]:
        return f"{first} both floors" + (f", {names['untrained']} and {names['frozen']}" if named else "")
    tail = names.values() if named else (f"the {name} floor" for name in names)
    (one, other), joint = tail, "but" if "above" in (first, *others) else "and"
    return f"{first} {one} {joint} {others[0]} {other}"
