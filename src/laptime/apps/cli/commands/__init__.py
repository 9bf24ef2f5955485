"""One file, one command: its name is the word on the command line, its first line what --help says of it.

A file has `command`, a click command. What the command returns is the exit code; None is 0."""
