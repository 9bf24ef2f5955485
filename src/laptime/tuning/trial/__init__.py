"""A user's script in a process of its own, with a recipe applied, observed step by step.

    plan         what to do, handed over in the environment; JSON
    __main__     `python -m laptime.tuning.trial script.py`: the program that stands in for `python script.py`
    loop         what optimizations attach to: loaders, optimizers, models, batches, the forward region
    points       torch's functions wrapped for `loop`, and given back
    conductor    race: blocks of steps under alternating arms, timed
    differential diagnose: the step with parts left out
    lint         diagnose: synchronising calls with file and line
    sites        where in the user's files things are done
    facts        what the loop consists of: names for `situation.Situation.facts`
    witness      gate: loss, gradients, parameters, buffers, optimizer state, samples of a few steps
    scratch      the script's writes go to a folder of their own
    result       what was found, as files: JSON lines while it runs, one document at the end

Standard library and, inside functions, torch.
"""
