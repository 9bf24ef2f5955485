"""Run a user's script unmodified under hooks, and undo them all."""
