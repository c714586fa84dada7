"""Every learner is a scikit-learn estimator: for `clone`, `Pipeline`, `cross_val_score` and their like.

`fit(X, y)` begins anew and learns all classes as one task; `partial_fit` is `learn`. The constructor's arguments are
the parameters, kept as they were given. scikit-learn itself is imported only where it asks for something of its own.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any, Self

import torch

from ictrl.errors import InputError
from ictrl.methods.inputs import Images, like
from ictrl.methods.threads import Gate, reads


class Estimator:
    """What scikit-learn asks of a classifier, in terms of what a `Learner` has."""

    labels: list[int]
    _given: dict[str, Any]
    _gate: Gate
    learn: Callable[..., Any]
    class_scores: Callable[..., Any]
    _scored: Callable[..., Any]
    _labelled: Callable[..., Any]
    _check_learned: Callable[..., Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A new learner that knows what it was called with: whatever arguments a method's constructor has."""
        made = super().__new__(cls)
        made._given = inspect.signature(cls.__init__).bind_partial(made, *args, **kwargs).arguments
        made._given.pop("self", None)
        return made

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name, as they were given."""
        arguments = list(inspect.signature(type(self).__init__).parameters.values())[1:]
        return {argument.name: self._given.get(argument.name, argument.default) for argument in arguments}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor: at once if nothing has been learned, otherwise for the next `fit`."""
        known = self.get_params()
        for name in params:
            if name not in known:
                raise InputError(f"Expected one of the parameters {', '.join(known)} but got {name!r}.")
        if params:
            anew = type(self)(**{**known, **params})  # refuses what cannot be
            with self._gate.turn:
                changed = {"_given": anew._given} if self.labels else {**vars(anew), "_gate": self._gate}
                self.__dict__ = {**vars(self), **changed}
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything and learn all classes as one task; `learn` and `partial_fit` go on instead."""
        fresh = type(self)(**self.get_params())
        fresh.learn(X, y)
        with self._gate.turn:  # only now: a task that fails leaves the learner as it was
            self.__dict__ = {**vars(self), **vars(fresh), "_gate": self._gate}
        return self

    def partial_fit(self, images: Any, labels: Any = None, classes: Any = None) -> Self:
        """`learn` under the name that scikit-learn gives it: one task of new classes per call.

        `classes`, all that will ever come, is there for code that names them; nothing has to be known in advance.
        """
        self.learn(images, labels)
        return self

    @reads
    def score(self, images: Any, labels: Any = None) -> float:
        """Share of the images whose label is predicted, from what is kept alone."""
        self._check_learned("score")
        X, expected, _ = self._labelled(images, labels)
        columns = self.class_scores(X).argmax(1).cpu()
        return float((torch.tensor(sorted(self.labels))[columns] == expected).float().mean())

    @reads
    def predict_proba(self, images: Images) -> Images:
        """The softmax of `scores`: (n, classes), rows that sum to 1.

        Of a method that does not calibrate its scores, these say which class is likelier, and not how likely it is.
        """
        return like(self._scored(images, "predict_proba").softmax(1), images)

    @reads
    def decision_function(self, images: Images) -> Images:
        """`scores`; of two classes, as scikit-learn has it, by how much the second is ahead of the first."""
        scores = self._scored(images, "decision_function")
        return like(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores, images)

    _estimator_type = "classifier"  # for scikit-learn before 1.6

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.labels)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        images = InputTags(one_d_array=False, two_d_array=False, three_d_array=True)
        target = TargetTags(required=True)
        return Tags(
            estimator_type="classifier", target_tags=target, classifier_tags=ClassifierTags(), input_tags=images
        )


def not_learned(caller: str) -> InputError:
    """The error of a learner that has learned nothing; where scikit-learn is in use, its `NotFittedError` too."""
    message = f"Expected a learner that has learned but got a new one: call learn before {caller}."
    theirs = sys.modules.get("sklearn.exceptions")
    return (type("NotFittedError", (InputError, theirs.NotFittedError), {}) if theirs else InputError)(message)
