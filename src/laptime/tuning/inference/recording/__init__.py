"""The bounds of a call: some calls of a folder recorded by its runtime's own profiler, beside the ceilings.

process      the program that records, in a process of its own; readers: what it recorded, as rows
recordings   the model as it is and the final folder, inside the budget; what the cores can at most"""
