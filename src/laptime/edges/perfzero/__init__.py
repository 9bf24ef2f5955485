"""PerfZero's benchmark classes, run as they are, and its JSON written for those who read it.

flags       what can be asked; which of PerfZero's flags are ignored or refused, and why
methods     `pkg.mod.Class.method`, `Class:method`, `Class.filter:REGEX`
repos       git repositories that the benchmarks lie in
downloads   data files that they need
child       the process that runs one method; standard library only
process     that process from outside: started, watched, sampled, ended
report      what `report_benchmark` leaves, decoded without TensorFlow
verdict     what a method came to: bounds, intervals over trials
disturbance what a method lost to others
trust       whether its numbers can be trusted
schema      the machine in PerfZero's words, strict JSON
summary     perfzero_summary.json
record      a method as a case of a run
remote      folders behind any URL, through fsspec
uploads     where summaries and outputs are sent
prepare     flags checked, data and repositories fetched, methods found
run         all of it, one method after the other
"""
