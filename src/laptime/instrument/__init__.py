"""A user's script run unmodified under hooks, its steps found and timed, a few of them traced.

Everything that runs beside the script uses the standard library and, once the script has imported it, torch:
the script's interpreter needs neither laptime's dependencies nor its version of them.

    messages    what to do, handed over in the environment; what was observed, as files
    __main__    `python -m laptime.instrument script.py`: the program that stands in for `python script.py`
    program     a script or module run as Python would run it, some files replaced by others
    importing   something done as soon as torch was imported by somebody else
    hooks       torch's functions wrapped, and given back; ranks that the script itself starts
    steps       where a step ends, signals in, boundaries out; clock of data, forward, backward, optimizer
    step_observer  settle, time, trace, observe primitives, stop
    recorder    torch.profiler over the traced steps; `laptime.trace_handler`; primitives on the CPU
    device      the accelerator and its clock; versions and knobs of the script's torch
    tensorflow  the same for TensorFlow: calls of compiled functions, tf.profiler"""
