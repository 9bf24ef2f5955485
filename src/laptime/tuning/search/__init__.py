"""Which change is tried next, and what is kept. Pure: it knows only an abstract `Evaluator`, so it also runs
on a scripted one (`tests/fixtures/scripted_evaluator.py`).

ladder      the whole search: rank, race, gate, keep or drop, diagnose again; go on after a kill
evaluator   the contract with the machine: diagnose, candidates, race, gate
settings    budget, error rates and goal of a search; what earlier sessions have shown
state       what a search knows while it runs, and one attempt: race, gate, keep or not
ranking     which candidate goes first, which is not worth a race, what excludes what; lines of options
race        paired rounds of two recipes (`analysis.paired`) until a word is certain enough; its rung
together    what was rejected alone, raced together; what each kept change is worth beside the others"""
