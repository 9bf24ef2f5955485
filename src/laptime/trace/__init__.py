"""Kineto traces: bytes -> columns -> links -> steps -> tables. Integer nanoseconds throughout.

reading/      paths and files                                     ->  Trace (columns.py)
range_tree    which range lies in which, by thread and time
links, steps  kernel -> launch -> operator; where steps begin     ->  View (view.py)
tables/       one file a table: overview, idle, operators, kernels, modules, memory, launches, copies ...
ranks         the other files of a job, reduced to their share (rank_workers) and combined
profile       all of it together                                  ->  records.profile.Profile
difference    two profiles, row by row
slim          a smaller trace file for Perfetto
"""
