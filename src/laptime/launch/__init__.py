"""Where work runs: a fresh process on this machine, or this very process."""
