"""Which change is tried next, how long, and what is kept. Pure: it sees an abstract Evaluator, and so runs on
scripted ones.

evaluator   what a search asks of the machine
race        paired rounds of two recipes (analysis.paired) -> a word, with error control over looks and
            candidates
ranking     which candidate goes first, which is not worth a race, what excludes what
space       options along one line
session     what a search knows, and one attempt: race, gate, keep or not
bundle      what was rejected alone, raced together
leave_one_out   what each kept change is worth beside the others
replay      what an earlier session has told
ladder      the whole: rank, race, gate, keep or drop, diagnose anew, leave one out
"""
