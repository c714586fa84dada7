"""Pickled dictionaries of numbers, texts and uint8 arrays, from files that may come from a stranger."""

from pathlib import Path
from typing import Any

from ictrl.data.pickle_machine import Machine
from ictrl.errors import ConfigError, InputError
from ictrl.limits import UNPACKED_BYTES, read_regular


def read_pickle(path: Path) -> dict[Any, Any]:
    """The dictionary in a pickled file; strings that Python 2 wrote are returned as bytes."""
    try:
        program = read_regular(path, UNPACKED_BYTES)
    except (OSError, InputError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"Expected a pickled file but could not read {path}: {reason}.") from None
    try:
        content = Machine(program).run()
    except (MemoryError, ConfigError):
        raise
    except Exception as error:  # a damaged pickle can fail in any way its instructions can
        raise InputError(
            f"Expected a pickled dictionary of arrays in {path} ({len(program)} bytes) but got: "
            f"{str(error) or type(error).__name__}. Download it again."
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"Expected a pickled dictionary in {path} but got {type(content).__name__}.")
    return content
