"""cli.md: the arguments of every command, from the parser that reads them.

Not the text of ``--help``, whose lines depend on the terminal and on Python's version.
"""

from __future__ import annotations

import argparse

from holdfast import cli
from reference.markdown import code, head, item, paragraph, section

TOP = """
`holdfast COMMAND --help` says the same in the terminal. A command ends with status 0 when all is
well and with 2 for arguments that cannot be used, unless it says otherwise.
"""


Command = tuple[argparse.ArgumentParser, str]


def commands(parser: argparse.ArgumentParser | None = None, before: str = "") -> dict[str, Command]:
    """Every command, and those of commands, with its parser and the line that --help has of it."""
    found: dict[str, Command] = {}
    for action in (parser or cli._parser())._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, inner in action.choices.items():
            found[before + name] = (inner, lines[name])
            found.update(commands(inner, f"{before}{name} "))
    return found


def name_of(action: argparse.Action) -> str:
    """An argument as it is typed: its names, and what stands for its value."""
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}"
        if action.choices and action.nargs != 0
        else action.dest.upper()
        if action.option_strings
        else action.dest
    )
    value = " ".join(value) if isinstance(value, tuple) else str(value)
    if not action.option_strings:
        return {
            "?": f"[{value}]",
            "*": f"[{value} ...]",
            "+": f"{value} ...",
            "...": f"{value} ...",
        }.get(str(action.nargs or ""), value)
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    many = {"+": " ...", "*": " ...", "?": ""}.get(str(action.nargs or ""), "")
    return f"{names} {value}{many}"


def meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    # Some versions of argparse add this to switches by themselves.
    words = (action.help or "").removesuffix(" (default: %(default)s)")
    text = words % {
        **{key: getattr(action, key, None) for key in ("default", "type", "choices", "metavar")},
        "prog": parser.prog,
    }
    needed = action.option_strings and action.required
    return f"{text} (required)" if needed else text


# Groups that argparse makes by itself; their titles differ from version to version.
UNNAMED = ("positional arguments", "options", "optional arguments")


def arguments(parser: argparse.ArgumentParser) -> str:
    text = ""
    for group in parser._action_groups:
        shown = [
            action
            for action in group._group_actions
            if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
            and action.help != argparse.SUPPRESS
        ]
        if shown and group.title not in UNNAMED:
            text += "\n" + paragraph(f"{str(group.title).capitalize()}:") + "\n"
        text += "".join(item(f"`{name_of(a)}`: {meaning(parser, a)}") for a in shown)
    return text


def entry(name: str, parser: argparse.ArgumentParser, line: str) -> str:
    text = (
        section(f"`holdfast {name}`")
        + paragraph(parser.description or f"{line[0].upper()}{line[1:]}.")
        + "\n"
    )
    text += arguments(parser)
    return text + ("\n" + code(parser.epilog, "text") if parser.epilog else "")


def page(_: str) -> str:
    text = (
        head("Command line", "the parsers of `bindings/holdfast/cli.py` and of its commands") + TOP
    )
    text += "\n" + "".join(
        item(f"[`{name}`](#holdfast-{name.replace(' ', '-')}): {line}")
        for name, (_, line) in commands().items()
    )
    return text + "".join(entry(name, *found) for name, found in commands().items())
