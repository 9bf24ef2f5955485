"""A user's script in a process of its own, with a recipe applied, observed step by step. Standard library
and, inside functions, torch.

    messages          what crosses into a trial and out of it
    __main__          `python -m laptime.tuning.trial script.py`: stands in for `python script.py`
    process           the script's process made ready for a trial, and given back
    loop              what an optimization can attach to: its `apply` is given a `Loop`
    hooks/            torch's functions wrapped; everything that the loop does goes through `LoopHooks` to the
                      callbacks of the changes that are on, and to the trial's mode
    TrialMode         there: what a trial does with the loop
      race_runner     race: blocks of steps under alternating arms
      diagnosis/      diagnose: steps with parts left out, facts, synchronising calls -> LoopProfile
      numerics/       gate: values of a few steps captured and compared -> NumericsComparison
    batches           tensors in a batch; a cached batch; source_sites: places in the user's source
    write_sandbox     the script's writes go to a folder of their own: overlay has its paths
    watched           the process, from inside: its memory, processes that train in its place
    state_snapshot    seeds shifted; a training in this process, restored: no trial of a Problem is remembered
"""
