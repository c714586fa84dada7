"""What can go wrong, so that a caller can tell it apart, in one line each: what was expected, what came, what to do.

A user's mistake (`UserError`) lies in what was given (`InputError`) or in the settings (`ConfigError`), and changes
nothing. A computation that left the finite numbers is nobody's mistake: `NonFiniteError`.
"""

ONE_LINE = {ord(end): end.encode("unicode_escape").decode() for end in "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"}


LONGEST = 10_000  # letters of a line: names of strangers can be of any length


def lacks_memory(error: BaseException) -> str:
    """Where there was too little memory, if that is what an error says; torch says so in three ways."""
    if type(error).__name__ == "OutOfMemoryError":
        return "the GPU"
    return "this machine" if isinstance(error, MemoryError) or "can't allocate memory" in str(error) else ""


class UserError(Exception):
    """Something to be put right by whoever called. It is said in one line, whatever names it quotes."""

    def __init__(self, message: object = "") -> None:
        line = str(message).translate(ONE_LINE)
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST - 1000]} … {line[-900:]}")


class InputError(UserError, ValueError):
    """Images, labels, a file, a device or an argument that cannot be used."""


class UnreadableError(InputError):
    """A file that the system does not give: it may be whole, so that nothing may take its place."""


class ConfigError(UserError):
    """A setting that is unknown, of another type or out of range."""


class NonFiniteError(ArithmeticError):
    """A named quantity became NaN or infinite, or a matrix lost its positive definiteness."""


class ProcessesError(RuntimeError):
    """Processes that learn together came apart: one of them died, or they no longer agree."""


class RunsFailedError(Exception):
    """Runs of a study that did not come to their end, at least one of them by nobody's mistake."""
