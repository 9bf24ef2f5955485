"""Turn files into columns: which files a path names, how they are cut and decoded, damaged ones too.

trace_files       paths and folders          ->  the trace files of one job, by rank
reader            one file, any format       ->  Trace (trace/columns.py)
stream            bytes, packed or not       ->  chunks of whole events
decode            a chunk                    ->  event structs (msgspec)
gather, assemble  event structs              ->  columns, sorted and joined
parallel_decode   stretches of a large file, each decoded by a process of its own
xplane/           TensorFlow's .xplane.pb
nsys, rocpd       SQLite files of Nsight Systems and rocprof (sqlite)
rocprof_json      JSON of rocprof
snapshot          memory snapshots of PyTorch's allocator
torch_trace       logs of torch.compile
assemble.Rows     the columns that these fill"""
