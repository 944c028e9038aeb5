"""The commands of the studies, as ``lossdial --help`` lists them; a module is imported when its command is run."""

from typing import Final

from lossdial.cli.commands import Command

__all__ = ["COMMANDS"]

COMMANDS: Final = {
    name: Command(name, f"lossdial_studies.commands.{module}", summary)
    for name, module, summary in (
        ("demo", "demo", "Train one model, tune it for four aims, and run the searches that it saves beside it."),
        ("data", "data", "List the data sets that are known by name, or fetch one."),
        ("reproduce", "reproducing", "Run a part of the paper's study and print our numbers beside the paper's."),
        ("scoreboard", "scoring", "Play one training against every rival on tables and images, and say who wins."),
        ("results", "results", "Print the rows of a store, one per run and λ, the best first; or save them."),
        ("table", "paper", "Draw a table of the paper from a store, our figures beside the paper's."),
        ("figure", "paper", "Draw a figure of the paper from a store, as PNG and PDF."),
        ("draw", "paper", "Draw every table and figure of the stores in a folder."),
    )
}
