"""A user's script in a process of its own, with a recipe applied, observed step by step.

    plan, mode   what to do, handed over in the environment; JSON
    __main__     `python -m laptime.tuning.trial script.py`: the program that stands in for `python script.py`
    stage        the process made ready for a trial, and given back
    applied      changes that are on without a trial: `laptime.apply`
    loop         what optimizations attach to: loaders, optimizers, models, batches, the forward region
    points       the script's loop as a trial sees it; the one that all others meet in
    wrapping     torch's functions stood in between of, and given back; on top of `instrument.hooks`
    constructors, calls, starting, libraries    what the script makes: remembered, and made otherwise
    board, attached    which changes are on, and what each has attached to the loop
    batches      what a loader gave: kept, given again, moved, cut, doubled
    region       the forward part of a step
    conductor    race: blocks of steps under alternating arms, timed
    timing, compiling, limits, seeds    one block; torch.compile at work; memory; seeds shifted
    differential diagnose: the step with parts left out, in the order of schedule, by the clock of meter
    diagnosis    what was seen, as fields of `loop_profile.LoopProfile`; fetching: the loader alone
    lint         diagnose: synchronising calls with file and line
    sites, watched    where in the user's files things are done
    facts        what the loop consists of: names for `loop_profile.LoopProfile.facts`
    witness      gate: loss, gradients, parameters, buffers, optimizer state, samples of a few steps
    _captured, _altered, _tensors, _likeness, _samples    its parts: what is fed, kept and compared
    scratch, overlay    the script's writes go to a folder of their own
    keeping      what a training in this process is, kept and given back: no trial of a Problem is remembered
    result       what was found, as files: JSON lines while it runs, one document at the end

Standard library and, inside functions, torch.
"""
