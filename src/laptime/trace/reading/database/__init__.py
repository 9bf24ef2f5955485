"""Profiles in SQLite files: exports of Nsight Systems (`nsys export --type sqlite`), and rocprof's `rocpd`.

`tables` opens a file and reads from it; `nsys` and `rocpd` know one schema each; `reading` tells which it is.
"""
