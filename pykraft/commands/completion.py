"""``completion``: what a shell needs to complete pykraft's commands and options with the Tab key.

::

    eval "$(pykraft completion bash)"        in ~/.bashrc
    eval "$(pykraft completion zsh)"         in ~/.zshrc
    pykraft completion fish | source         in ~/.config/fish/config.fish

The words are those that the commands themselves declare. Where none of them fits, a shell completes the names of files,
as it does by itself. This is ours: Kafka's scripts have none.

A shell runs this each time it starts, so no command may import a library of the course or of Spark before it runs.
"""

import argparse
from collections.abc import Iterator
from importlib import import_module

from pykraft.commands.common import say
from pykraft.commands.verbs import COMMANDS, module_of
from pykraft.extras import ExtraNotInstalledError

_BASH = """\
_pykraft() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _pykraft pykraft"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="whose words these are")


def run(options: argparse.Namespace) -> int:
    """Print the shell's lines."""
    words = {command: sorted(_words(command)) for command in COMMANDS}
    if options.shell == "fish":
        for line in _fish(COMMANDS, words):
            say(line)
    else:
        cases = "\n".join(f'        {command}) words="{" ".join(found)}" ;;' for command, found in words.items())
        say((_ZSH if options.shell == "zsh" else "") + _BASH.format(commands=" ".join(words), cases=cases))
    return 0


def _words(command: str) -> set[str]:
    """The long options of a command, and its verbs with theirs. None if the command belongs to an extra that is not
    installed."""
    parser = argparse.ArgumentParser()
    try:
        import_module(module_of(command)).add_arguments(parser)
    except ExtraNotInstalledError:
        return set()
    return set(_declared(parser))


def _declared(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from (option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for name, verb in action.choices.items():
                yield name
                yield from _declared(verb)


def _fish(commands: dict[str, str], words: dict[str, list[str]]) -> Iterator[str]:
    quoted = {command: meaning.replace("'", r"\'") for command, meaning in commands.items()}
    for command, meaning in quoted.items():
        yield f"complete -c pykraft -n __fish_use_subcommand -a {command} -d '{meaning}'"
    for command, found in words.items():
        seen = f"'__fish_seen_subcommand_from {command}'"
        for word in found:
            said = f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-a {word}"
            yield f"complete -c pykraft -n {seen} {said}"
