"""Print shell code that completes laptime's words, targets, runs and optimizations.

The shell then asks `laptime` itself (click's protocol, `_LAPTIME_COMPLETE`): it completes what exists."""

import click
from click.shell_completion import get_completion_class

from laptime.apps.cli.options import voice_options
from laptime.apps.cli.output import result

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@voice_options
def command(shell: str) -> None:
    """Print shell code that completes laptime's words, targets, runs and optimizations.

    \b
    laptime completion bash >> ~/.bashrc
    laptime completion zsh >> ~/.zshrc                                    # after compinit
    laptime completion fish > ~/.config/fish/completions/laptime.fish
    """
    made_by = get_completion_class(shell)
    assert made_by is not None, "click knows these three"
    root = click.get_current_context().find_root().command
    result(made_by(root, {}, "laptime", "_LAPTIME_COMPLETE").source())
