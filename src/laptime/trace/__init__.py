"""Kineto traces: bytes -> columns -> links -> steps -> tables. Integer nanoseconds throughout.

reader      one file, any format, damaged ones too  ->  Trace (columns.py)
files       what a user names: files, folders       ->  the files of each rank
nest        which range lies in which, by thread and time
links       kernel -> launch -> operator
steps ...   one file a view: overview, idle, operators, kernels, modules, memory, launches, copies, timeline
profile     all of it together                      ->  records.profile.Profile
"""
