"""`python -m laptime`: the command line."""

from laptime.apps.cli.main import main

if __name__ == "__main__":
    main()
