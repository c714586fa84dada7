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
from functools import partial, reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from typing import Annotated, Any, NoReturn

import tyro

import ictrl
from ictrl import startup
from ictrl.cli import (
    classes,
    compare,
    data,
    draw,
    export,
    fidelity,
    forget,
    gallery,
    methods,
    migrate,
    predict,
    recipes,
    report,
    review,
    run,
    sample,
    search,
    serve,
    study,
    teach,
)
from ictrl.cli.failures import line_of
from ictrl.cli.terminal import log_told, tell
from ictrl.cli.unknown_options import check_method, check_names, check_stream_alone
from ictrl.errors import InputError, UserError
from ictrl.parallel.joining import ToldElsewhere, begun
from ictrl.recipes.reader import load_recipe, recipe_names

FAILURE, USER_MISTAKE, INTERRUPTED = 1, 2, 130
LINGER = 10.0  # seconds that other processes wait for the first one to fail too: torchrun ends them when it has

DESCRIPTION = """Learn image classes one task after another, without keeping an old image. Begin with `ictrl run`.

Also: --help after any command, --version, and --debug with any command for the traceback of an error.
"""

RunCommands = (
    run.RunCommand[Any] | run.ResumeCommand | run.EvaluateCommand | recipes.RecipesCommand | methods.MethodsCommand
)
UseCommands = predict.PredictCommand | export.ExportCommand | report.ReportCommand | migrate.MigrateCommand
DataCommands = data.DataListCommand | data.DataDownloadCommand | data.DataShowCommand
LongCommands = (
    review.ReviewCommand | compare.CompareCommand | study.StudyCommand | search.SearchCommand | fidelity.FidelityCommand
)
DrawCommands = draw.DrawCommands | gallery.GalleryCommand
TeachCommands = teach.TeachCommand | classes.ClassesCommand | forget.ForgetCommand | serve.ServeCommand
Command = RunCommands | LongCommands | TeachCommands | UseCommands | DrawCommands | DataCommands


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


def parse(arguments: list[str]) -> Command:
    """The command that was typed. A recipe's values are the defaults that options override, so it is read first."""
    check_names(arguments)
    run_name, show_name = _recipe_of(arguments), _word_after(["data", "show"], arguments)
    command = _parse_with(run_name, show_name, arguments)
    if isinstance(command, run.RunCommand) and command.recipe != run_name:  # behind options, and not known
        command = _parse_with(command.recipe, show_name, arguments)
    if isinstance(command, data.DataShowCommand) and command.what != show_name:
        command = _parse_with(run_name, command.what, arguments)
    return command


def _recipe_of(arguments: list[str]) -> str:
    """What `ictrl run` is to run: the word after it, or a recipe that is named behind some options."""
    first = _word_after(["run"], arguments)
    if arguments[:1] != ["run"] or first in arguments[1:2]:
        return first
    known = recipe_names()
    for before, word in pairwise(arguments[1:]):
        if (word in known or word.endswith(".toml")) and before not in run.TAKES_A_NAME:
            return word
    return first


def _word_after(words: list[str], arguments: list[str]) -> str:
    """What follows these words; the default recipe if it is an option or nothing."""
    typed = arguments[len(words)] if arguments[: len(words)] == words and len(arguments) > len(words) else "-"
    return run.DEFAULT_RECIPE if typed.startswith("-") else typed


def _parse_with(run_name: str, show_name: str, arguments: list[str]) -> Command:
    recipe = load_recipe(run_name)
    if arguments[:1] == ["run"]:
        check_method(arguments, run_name, recipe.method)
    if arguments[:1] == ["compare"]:
        check_stream_alone(arguments)
    generic: Any = run.RunCommand
    run_command = generic[type(recipe.method)]  # its options are those of the method
    download_help = data.download_help() if "download" in arguments else data.DOWNLOAD_HELP

    def subcommand(name: str, kind: Any, text: str, **default: Any) -> Any:
        """All of its help for a command that was typed; in a list of commands its first line."""
        shown = text if name in arguments else text.splitlines()[0]
        annotated: Any = Annotated
        return annotated[kind, tyro.conf.subcommand(name, description=shown, **default)]

    data_commands = [
        subcommand("list", data.DataListCommand, data.LIST_HELP),
        subcommand("download", data.DataDownloadCommand, download_help),
        subcommand("show", data.DataShowCommand, data.SHOW_HELP, default=data.show_default(show_name)),
    ]
    commands = [
        subcommand("run", run_command, run.RUN_HELP, default=run.RunCommand.of(run_name, recipe)),
        subcommand("resume", run.ResumeCommand, run.RESUME_HELP),
        subcommand("evaluate", run.EvaluateCommand, run.EVALUATE_HELP),
        subcommand("review", review.ReviewCommand, review.REVIEW_HELP),
        subcommand(
            "compare", compare.CompareCommand, compare.COMPARE_HELP, default=compare.CompareCommand.of(arguments)
        ),
        subcommand("study", study.StudyCommand, study.STUDY_HELP),
        subcommand("search", search.SearchCommand, search.SEARCH_HELP),
        subcommand("predict", predict.PredictCommand, predict.PREDICT_HELP),
        subcommand("teach", teach.TeachCommand, teach.TEACH_HELP),
        subcommand("classes", classes.ClassesCommand, classes.CLASSES_HELP),
        subcommand("forget", forget.ForgetCommand, forget.FORGET_HELP),
        subcommand("serve", serve.ServeCommand, serve.SERVE_HELP),
        subcommand("sample", sample.SampleCommand, sample.SAMPLE_HELP),
        subcommand("walk", draw.WalkCommand, draw.WALK_HELP),
        subcommand("reconstruct", draw.ReconstructCommand, draw.RECONSTRUCT_HELP),
        subcommand("nearest", draw.NearestCommand, draw.NEAREST_HELP),
        subcommand("interpolate", draw.InterpolateCommand, draw.INTERPOLATE_HELP),
        subcommand("gallery", gallery.GalleryCommand, gallery.GALLERY_HELP),
        subcommand("fidelity", fidelity.FidelityCommand, fidelity.FIDELITY_HELP),
        subcommand("export", export.ExportCommand, export.EXPORT_HELP),
        subcommand("report", report.ReportCommand, report.REPORT_HELP),
        subcommand("data", reduce(or_, data_commands), data.DATA_HELP),
        subcommand("recipes", recipes.RecipesCommand, recipes.RECIPES_HELP),
        subcommand("methods", methods.MethodsCommand, methods.METHODS_HELP),
        subcommand("migrate", migrate.MigrateCommand, migrate.MIGRATE_HELP),
    ]
    command: Command = tyro.cli(reduce(or_, commands), prog="ictrl", description=DESCRIPTION, args=arguments)
    return command
