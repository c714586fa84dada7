"""The command line: parsing and printing only.

`main` reads a command, runs it and turns what goes wrong into one line and an exit code.
"""

import io
import os
import re
import sys
import time
from _thread import interrupt_main, start_new_thread
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import ictrl
from ictrl import startup
from ictrl.cli import run
from ictrl.cli.failures import line_of
from ictrl.cli.parsing import Command, parse
from ictrl.cli.terminal import log_told, tell
from ictrl.errors import InputError, UserError
from ictrl.parallel.joining import ToldElsewhere, begun

FAILURE, USER_MISTAKE, INTERRUPTED = 1, 2, 130
LINGER = 10.0  # seconds that other processes wait for the first one to fail too: torchrun ends them when it has


def command() -> NoReturn:
    """The program."""
    code = main()
    if begun() is not None:
        # A thread of gloo lets go of a tensor some time after its sum is there. If it is the last to hold it, it asks
        # for the interpreter; one that is being taken apart ends the thread, and C++ then ends the process, aloud.
        startup.leave_at_once(code)
    sys.exit(code)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 1 for a failure, 2 for a user's mistake, 130 after Ctrl-C."""
    try:
        try:
            return _heard(sys.argv[1:] if arguments is None else arguments)
        finally:
            startup.ended()
    except KeyboardInterrupt:  # one more, while the first was being answered
        startup.ended()
        return INTERRUPTED


def _heard(arguments: list[str]) -> int:
    """One command, with every Ctrl-C heard, in a destructor too."""
    hook = sys.unraisablehook
    try:
        sys.unraisablehook = partial(_unraisable, hook)
        return _main(arguments)
    finally:
        sys.unraisablehook = hook


def _unraisable(hook: Callable[[Any], object], what: Any) -> None:
    """Ctrl-C in a destructor, which can raise nothing and prints a traceback: once more, as soon as it is over."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        start_new_thread(interrupt_main, ())  # from here it would come in here
    else:
        hook(what)


def _main(arguments: list[str]) -> int:
    debug, speaks = "--debug" in arguments, (together := begun()) is None or together.rank == 0
    try:
        startup.finished()
        if isinstance(sys.stdout, io.TextIOWrapper):  # × and Δ do not stop at a terminal that cannot show them
            sys.stdout.reconfigure(errors="backslashreplace")
        arguments = [at_home(argument) for argument in arguments if argument != "--debug"]
        if arguments == ["--version"]:
            print(f"ictrl {ictrl.__version__}")
            return 0
        with log_told():
            command = _parsed(arguments, speaks)
            if together is not None and not isinstance(command, run.RunCommand | run.ResumeCommand):
                raise InputError(
                    "Expected one process for this command, since only `run` and `resume` can be shared, but torchrun "
                    f"began {together.size}: leave torchrun out, or unset WORLD_SIZE."
                )
            command.execute()
        return 0
    except ToldElsewhere as told:
        return told.code
    except KeyboardInterrupt as stopped:
        tell(str(stopped) or "Stopped.")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except Exception as error:
        if debug:
            raise
        if speaks or not isinstance(error, UserError):
            tell(f"error: {line_of(error)}")
        else:  # the first process makes the same mistake, and says so
            time.sleep(LINGER)
        return USER_MISTAKE if isinstance(error, UserError) else FAILURE


def at_home(argument: str) -> str:
    """`~` is one's home, also where the shell has left it as it is: behind an option and its equals sign, or quoted.

    >>> at_home("--out=~/runs") == f"--out={Path.home()}/runs", at_home("a~/b")
    (True, 'a~/b')
    """
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    return f"{option}{equals}{Path(value).expanduser()}" if re.match("~(/|$)", value) else argument


def _parsed(arguments: list[str], speaks: bool) -> Command:
    """The command that was typed; of several processes only the first one says what is wrong with it."""
    if speaks:
        return parse(arguments)
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            return parse(arguments)
    except SystemExit:
        time.sleep(LINGER)
        raise
