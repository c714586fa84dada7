"""What is kept, against the images that it replaces."""

from ictrl.report.bars import level_bars
from ictrl.report.drawing import Figure
from ictrl.report.reading import RunRecord


def kept_bytes(run: RunRecord) -> Figure:
    kept, replaced = run.results["memory_bytes"], run.results["image_bytes"]
    return Figure(
        "memory",
        "Memory against the images it replaces",
        f"{kept / replaced:.1%} of the images' bytes. The moments of a class take no more space however many images "
        f"it has. The two networks, of {run.results['parameters']:,} parameters, come on top and do not grow.",
        level_bars(
            [
                ("moments kept", kept, size(kept), "memory"),
                ("training images, not kept", replaced, size(replaced), "floor"),
            ],
            alt=f"Two bars: {size(kept)} of moments are kept instead of {size(replaced)} of images.",
        ),
    )


def size(count: int) -> str:
    """Bytes for people.

    >>> size(320160), size(153600000)
    ('320 kB', '153.6 MB')
    """
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"
