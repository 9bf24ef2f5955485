"""Memory snapshots of PyTorch's allocator: `torch.cuda.memory._dump_snapshot("snapshot.pickle")`.

`plain_pickle` reads such a file without making anything but plain containers; `history` makes events of
what the
allocator recorded; `reading` makes the columns of a trace.
"""
