"""The words after `laptime suite`: one file, one command, as in `commands`."""
