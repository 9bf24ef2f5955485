"""One file a runtime: records calls where they run. Loaded by path in a process without laptime."""
