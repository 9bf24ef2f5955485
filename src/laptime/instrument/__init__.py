"""A user's script run unmodified under hooks, its steps found and timed, a few of them traced.

Everything that runs beside the script uses the standard library and, once the script has imported it, torch:
the script's interpreter needs neither laptime's dependencies nor its version of them.

    settings    what to do, handed over in the environment
    __main__    `python -m laptime.instrument script.py`: the program that stands in for `python script.py`
    program     a script or module run as Python would run it
    sources     other text in place of the user's files, under their names
    importing   something done as soon as torch was imported by somebody else
    hooks       torch's functions wrapped, and given back
    phases      clock of data, forward, backward, optimizer
    steps       where a step ends: signals in, boundaries out; knows no torch
    step_observer  settle, time, trace, observe primitives, stop
    recorder    torch.profiler over the traced steps; `laptime.trace_handler`
    device      waiting for the accelerator, and its own clock
    onednn      primitives of one step on the CPU
    facts       versions, devices and knobs of the script's torch
    tensorflow  the same for TensorFlow: calls of compiled functions, tf.profiler
    spawned     ranks that the script itself starts
    result      what was observed, as files
"""
