"""Where laptime meets other tools: their classes, files and loops, and the places they keep numbers in.

    perfzero/           PerfZero's benchmark classes, run as they are (`laptime suite perfzero`)
    pytorch_benchmark/  what `laptime.compat.pytorch_benchmark` measures
    callbacks           what the callbacks of `laptime.callbacks` share: a clock in somebody else's loop
    imports/            results of other tools as runs, one file a format
    formats/            a run as a file of another tool, one file a format
    exports/            numbers for tools that keep them, one file a tool

No room below imports this one. What users import stands where the docs say, in `laptime.compat`,
`laptime.callbacks` and `laptime.exports`: these are doors, and what is behind them is here."""
