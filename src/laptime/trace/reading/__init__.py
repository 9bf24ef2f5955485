"""From files to columns: which files a path names, how they are cut and decoded, damaged ones too.

trace_files       paths and folders          ->  the trace files of each rank
jobs              files                      ->  those of one job, by what ranks share
reader            one file, any format       ->  Trace (trace/columns.py)
packed            gzip, zip, xz, Zstandard   ->  bytes
stream            bytes                      ->  chunks of whole events
decode            a chunk                    ->  event structs (msgspec)
gather, assemble  event structs              ->  columns, sorted and joined
parallel_decode   stretches of a large file, each decoded by a process of its own
xplane/           TensorFlow's .xplane.pb
database/         SQLite files of Nsight Systems and rocprof
snapshot/         memory snapshots of PyTorch's allocator
torch_trace       logs of torch.compile
rows              the columns that these three fill
"""
