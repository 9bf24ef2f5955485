"""TensorFlow's profiler files (`HOST.xplane.pb`) as columns; everything behind them is shared with Kineto.

space    XSpace -> planes, lines, events
host     what an event on a CPU thread is, where a step begins and ends; GPU planes -> kernels, copies
reading  one file -> columns.Trace

Neither TensorFlow nor protobuf is needed. Field numbers: tsl/profiler/protobuf/xplane.proto; names of events
and stats: tsl/profiler/utils/xplane_schema.cc (TensorFlow 2.21)."""
