"""A model made faster to run, its outputs proved the same, handed back as a folder that runs without laptime.

An arm of the search is such a folder: what is raced, gated and confirmed is what the user gets.

    request      what is asked for; samples: functions of the user's
    survey       the model looked at in a process of its own: facts, inputs, what it makes of them
    changes      what a change and a form are, which are candidates, and where their packages live
    runtimes/    one file a runtime: its changes, and the forms in which a model is written for it
    draft        a model that changes are applied to; building: a recipe becomes a folder
    handed_back/ the `tuned.py` of each form, copied as it is: it imports no laptime
    folders      the folder of each recipe; `Arm`, one in a process of its own; arm_process runs there
    folder_file  what is handed back
    sides        what is raced: an arm, or a fleet of them
    setups       an SLO and a memory that have to be kept; instances, threads, batch sizes
    sameness     does a folder compute the same? evaluator: the `Evaluator` of the search
    recording/   what bounds a call before and after: some calls under the runtime's own profiler
    subject      the model as the subject of a session (`tuning.session`)
    final_set    which of all that was measured it hands back
"""
