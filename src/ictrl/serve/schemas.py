"""What goes in and comes out of the service, as JSON Schema, each with an example; `openapi` puts them into routes."""

from typing import Any

Schema = dict[str, Any]

WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
YES: Schema = {"type": "boolean"}


def maybe(schema: Schema) -> Schema:
    """That, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def record(**properties: Any) -> Schema:
    """An object with these properties and no other; all of them are there, but those named in `optional`."""
    optional = properties.pop("optional", ())
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


CAN = dict.fromkeys(("draw", "directions", "probabilities", "unknown", "learn", "forget", "compare"), YES)
CLASS = {
    "label": WHOLE,
    "name": TEXT,
    "since": maybe(TEXT),
    "images": maybe(WHOLE),
    "accuracy": maybe(NUMBER),
    "tested": maybe(WHOLE),
    "measured_on": maybe(TEXT),
    "among": maybe(WHOLE),
}
LIKENESS = maybe(record(name=TEXT, reason=TEXT))
COUNTS: Schema = {"type": "object", "additionalProperties": WHOLE}
TAUGHT = record(label=WHOLE, name=TEXT, images=WHOLE, held_out=WHOLE, accuracy=maybe(NUMBER), likeness=LIKENESS)
COMPARED = record(**{"class": TEXT}, label=WHOLE, before=maybe(NUMBER), after=maybe(NUMBER))
DONE = {"version": WHOLE, "seconds": NUMBER, "taught": listed(TAUGHT), "accuracy": listed(COMPARED)}
DONE["accuracy_of"] = TEXT

SCHEMAS: dict[str, Schema] = {
    "Error": record(error=TEXT),
    "Health": record(optional=("trouble",), status=TEXT, classes=WHOLE, version=WHOLE, teaching=YES, trouble=TEXT),
    "Learner": record(
        version=WHOLE,
        method=TEXT,
        recipe=TEXT,
        image_size=WHOLE,
        channels=WHOLE,
        held_out=NUMBER,
        least_images=WHOLE,
        can=record(**CAN),
        classes=listed(record(**CLASS)),
    ),
    "Distance": record(**{"class": TEXT}, label=WHOLE, probability=maybe(NUMBER), distance=NUMBER),
    "Prediction": record(
        file=maybe(TEXT),
        error=maybe(TEXT),
        **{"class": maybe(TEXT)},
        label=maybe(WHOLE),
        probability=maybe(NUMBER),
        unknown=maybe(YES),
        classes=listed(named("Distance")),
        reconstruction=maybe(TEXT),
        seen=maybe(TEXT),
    ),
    "Predictions": record(optional=("error",), version=WHOLE, predictions=listed(named("Prediction")), error=TEXT),
    "Begin": record(classes=COUNTS),
    "Progress": record(epoch=WHOLE, epochs=WHOLE, seconds=NUMBER),
    "Done": record(**DONE),
    "Teaching": record(
        optional=("classes", "epoch", "epochs", "seconds", "last"),
        teaching=YES,
        classes=COUNTS,
        epoch=WHOLE,
        epochs=maybe(WHOLE),
        seconds=NUMBER,
        last=record(optional=(*DONE, "error"), outcome=TEXT, at=TEXT, classes=COUNTS, error=TEXT, **DONE),
    ),
    "Forgotten": record(version=WHOLE, remains=listed(TEXT), kept_versions_with_it=WHOLE),
    "Versions": record(
        version=WHOLE, versions=listed(record(version=WHOLE, at=TEXT, what=TEXT, classes=listed(TEXT), current=YES))
    ),
    "Pictures": record(pictures=listed(TEXT)),
    "Earlier": record(earlier=listed(record(id=TEXT, what=TEXT, at=TEXT))),
    "Directions": record(directions=listed(record(index=WHOLE, sigma=NUMBER))),
    "Affinity": record(classes=listed(TEXT), kind=TEXT, matrix=listed(listed(NUMBER))),
}

PICTURE = "data:image/png;base64,iVBORw0KGgo="
TIME = "2026-01-31T12:00:00Z"
FOUND = {"class": "cat", "label": 0, "probability": 0.93}
NEAR = [{**FOUND, "distance": 0.0726}, {"class": "dog", "label": 1, "probability": 0.07, "distance": 2.6593}]
EXAMPLES: dict[str, Any] = {
    "Error": {"error": "Expected a class that was learned but got 'cow'; learned are cat, dog."},
    "Health": {"status": "ok", "classes": 2, "version": 7, "teaching": False},
    "Learner": {
        **{"version": 7, "method": "wide-ictrl", "recipe": "pictures", "image_size": 32, "channels": 3},
        **{"held_out": 0.2, "least_images": 10, "can": dict.fromkeys(CAN, True)},
        "classes": [
            {**{"label": 0, "name": "cat", "since": TIME, "images": 120, "accuracy": 0.93, "tested": 30},
             "measured_on": "held-out pictures", "among": 2}
        ],
    },
    "Distance": NEAR[0],
    "Predictions": {
        "version": 7,
        "predictions": [
            {**FOUND, "file": "a.png", "error": None, "unknown": False, "classes": NEAR, "reconstruction": None,
             "seen": None}
        ],
    },
    "Begin": {"classes": {"hedgehog": 24}},
    "Progress": {"epoch": 3, "epochs": 100, "seconds": 1.2},
    "Done": {
        **{"version": 8, "seconds": 4.1, "accuracy_of": "share of up to 100 pictures per class …"},
        "taught": [
            {"label": 2, "name": "hedgehog", "images": 19, "held_out": 5, "accuracy": 0.8,
             "likeness": {"name": "cat", "reason": "2 of 5 held-out pictures are taken for it"}}
        ],
        "accuracy": [
            {"class": "cat", "label": 0, "before": 0.93, "after": 0.91},
            {"class": "hedgehog", "label": 2, "before": None, "after": 0.9},
        ],
    },
    "Teaching": {"teaching": True, "classes": {"hedgehog": 24}, "epoch": 3, "epochs": 100, "seconds": 1.2},
    "Forgotten": {"version": 9, "remains": ["what the class has taught the networks"], "kept_versions_with_it": 2},
    "Versions": {
        "version": 8,
        "versions": [
            {"version": 8, "at": TIME, "what": "taught hedgehog", "classes": ["cat", "dog", "hedgehog"],
             "current": True}
        ],
    },
    "Pictures": {"pictures": [PICTURE]},
    "Earlier": {"earlier": [{"id": "task-1", "what": "after task 1", "at": TIME}]},
    "Directions": {"directions": [{"index": 0, "sigma": 0.21}, {"index": 1, "sigma": 0.15}]},
    "Affinity": {"classes": ["cat", "dog"], "kind": "affinity of subspaces", "matrix": [[1.0, 0.2], [0.2, 1.0]]},
}  # fmt: skip
EXAMPLES["Prediction"] = EXAMPLES["Predictions"]["predictions"][0]
