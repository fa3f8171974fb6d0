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


def commands() -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Every command with its parser and the line that `holdfast --help` has of it."""
    parser = cli._parser()
    found = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    lines = {choice.dest: choice.help or "" for choice in found._choices_actions}
    return {name: (parser, lines[name]) for name, parser in found.choices.items()}


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
            if not isinstance(action, argparse._HelpAction) and action.help != argparse.SUPPRESS
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
    lines = ((name, line) for name, (_, line) in commands().items())
    text += "\n" + "".join(item(f"[`{name}`](#holdfast-{name}): {line}") for name, line in lines)
    return text + "".join(entry(name, *found) for name, found in commands().items())
