"""Which change is tried next, and what is kept. Pure: it knows only an abstract `Evaluator`, so it also runs
on a scripted one (`tests/fixtures/scripted_evaluator.py`).

ladder          the whole search: rank, race, gate, keep or drop, diagnose again, leave one out
evaluator       the contract with the machine: diagnose, candidates, race, gate
rungs           a rung before its race, with its numbers, with its gate
state           what a search knows while it runs, and one attempt: race, gate, keep or not
ranking         which candidate goes first, which is not worth a race, what excludes what
race            paired rounds of two recipes (`analysis.paired`) until a word is certain enough
space           a climb along the options of one optimization
bundle          what was rejected alone, raced together
leave_one_out   what each kept change is worth beside the others
settings        budget, error rates and goal of a search
replay          rungs of a killed session, taken over
"""
