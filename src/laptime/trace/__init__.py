"""Kineto traces: bytes -> columns -> links -> steps -> tables. Integer nanoseconds throughout.

reading/      paths and files                                     ->  Trace (columns.py)
intervals     sets of ranges; which range lies in which
view          kernel -> launch -> operator; where steps begin     ->  View
tables/       one file a table: overview, idle, operators, kernels, modules, memory, launches, copies ...
ranks         the other files of a job, each reduced to its share by a process, and combined
profile       all of it together                                  ->  records.profile.Profile
difference    two profiles, row by row
slim          a smaller trace file for Perfetto"""
