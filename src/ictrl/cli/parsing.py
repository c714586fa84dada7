"""Every command by its name, and which of them was typed."""

from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Annotated, Any

import tyro

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
from ictrl.cli.unknown_options import check_method, check_names, check_stream_alone
from ictrl.recipes.reader import load_recipe, recipe_names

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
