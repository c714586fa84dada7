"""The command line: parsing and printing only.

`main` reads a command, runs it and turns what goes wrong into one line and an exit code.
"""

import sys
from typing import Annotated

import tyro

import ictrl
from ictrl.cli import run
from ictrl.config import load_recipe
from ictrl.errors import NonFiniteError, UserError

FAILURE, USER_MISTAKE, INTERRUPTED = 1, 2, 130

DESCRIPTION = """Learn image classes one task after another, without keeping an old image. Begin with `ictrl run`.

Also: --version, and --debug with any command for the traceback of an error.
"""

Command = run.RunCommand | run.ResumeCommand | run.EvaluateCommand | run.RecipesCommand


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 1 for a failure, 2 for a user's mistake, 130 after Ctrl-C."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if arguments == ["--version"]:
        print(f"ictrl {ictrl.__version__}")
        return 0
    try:
        parse(arguments).execute()
        return 0
    except KeyboardInterrupt as stopped:
        print(str(stopped) or "Stopped.", file=sys.stderr)
        return INTERRUPTED
    except (UserError, NonFiniteError, OSError) as error:
        if debug:
            raise
        print(f"error: {_line(error)}", file=sys.stderr)
        return USER_MISTAKE if isinstance(error, UserError) else FAILURE


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"Expected to write {error.filename or 'a file'} but: {error.strerror}. What was written before is good."
    return str(error)


def parse(arguments: list[str]) -> Command:
    """The command that was typed. A recipe's values are the defaults that options override, so it is read first."""
    typed = arguments[1] if arguments[:1] == ["run"] and len(arguments) > 1 else "-"
    name = run.DEFAULT_RECIPE if typed.startswith("-") else typed
    command = _parse_with(name, arguments)
    if isinstance(command, run.RunCommand) and command.recipe != name:  # the recipe was typed after an option
        command = _parse_with(command.recipe, arguments)
    return command


def _parse_with(name: str, arguments: list[str]) -> Command:
    default = run.RunCommand(name, settings=load_recipe(name))
    commands = (
        Annotated[run.RunCommand, tyro.conf.subcommand("run", default=default, description=run.RUN_HELP)]
        | Annotated[run.ResumeCommand, tyro.conf.subcommand("resume", description=run.RESUME_HELP)]
        | Annotated[run.EvaluateCommand, tyro.conf.subcommand("evaluate", description=run.EVALUATE_HELP)]
        | Annotated[run.RecipesCommand, tyro.conf.subcommand("recipes", description=run.RECIPES_HELP)]
    )
    command: Command = tyro.cli(commands, prog="ictrl", description=DESCRIPTION, args=arguments)
    return command
