"""Which change is tried next, how long, and what is kept. Pure: it sees an abstract World, and so runs on
scripted ones.

world     what a search asks of the machine
race      paired rounds of two recipes -> a word, with error control over looks and candidates
ladder    the whole: rank, race, gate, keep or drop, diagnose anew, leave one out
"""
