"""PerfZero's benchmark classes, run as they are, and its JSON written for those who read it.

schema      PerfZero's words: names of files and metrics, their units, the machine, strict JSON
flags       what can be asked, and which methods; which of PerfZero's flags are ignored or refused, and why
fetching    repositories, data files and folders behind any URL
prepare     flags checked, data and repositories fetched, methods found
child       the process that runs one method; standard library only
process     that process from outside: started, watched, sampled, ended
report      what `report_benchmark` leaves, decoded without TensorFlow
verdict     what a method came to: bounds, intervals over trials, whether its numbers can be trusted
summary     what is written of it: perfzero_summary.json, and a case of a run
run         all of it, one method after the other; then summaries are sent"""
