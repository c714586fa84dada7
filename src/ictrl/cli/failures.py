"""What a failure says in one line."""

import errno

import numpy as np

from ictrl.errors import NonFiniteError, ProcessesError, RunsFailedError, UserError, lacks_memory

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def line_of(error: Exception) -> str:
    """An error that ends a command: what was expected, what came, and what to do."""
    if isinstance(error, OSError) and error.strerror:
        before = " What was written before is good." if error.errno in DISK else ""
        return f"Expected to read and write {error.filename or 'files'} but could not: {error.strerror}.{before}"
    if isinstance(error, UserError | NonFiniteError | ProcessesError | RunsFailedError | OSError):
        return str(error)
    if isinstance(error, RecursionError):
        return "Expected settings and files of an ordinary depth but got some that are nested too deeply."
    if where := lacks_memory(error):
        return f"Expected enough memory for this but {where} has too little left: free some, or ask for less."
    if isinstance(error, np.linalg.LinAlgError) or type(error).__name__ == "_LinAlgError":  # torch has it nowhere else
        reason = " ".join(str(error).split()).rstrip(".")
        return f"Expected matrices that can be decomposed but got one that can not ({reason})."
    reason = " ".join([f"{type(error).__name__}:", *str(error).split()])
    return f"Expected the command to succeed but got {reason} (the same command with --debug shows where)"
