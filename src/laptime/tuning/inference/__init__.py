"""A model made faster to run, its outputs proved the same, handed back as a folder that runs without laptime.

An arm of the search is such a folder: what is raced, gated and confirmed is what the user gets.

    request      what is asked for
    survey       the model looked at in a process of its own: facts, inputs, what it makes of them
    catalogue/   one file a change; implementation: its contract
    reference    the model as it is, ready to be called: torch_reference, file_reference
    draft        a model that changes are applied to; building: a recipe becomes a folder
    forms/       how a draft is written: torch.export, an AOTInductor package, ONNX Runtime, OpenVINO
    handed_back/ the `tuned.py` of each form, copied as it is: it imports no laptime
    arm          a folder loaded in a process of its own; arm_process: the program that runs there
    limits       an SLO and a memory that have to be kept; points: all that was measured, the Pareto front
    setups       instances, threads, batch sizes: which is best; fleet: several arms at once; deployment: both
    sameness     does a folder compute the same? evaluator: the `Evaluator` of the search
    recording/   what bounds a call before and after: some calls under the runtime's own profiler
    session      from the survey to the folder; confirmation: the gain measured afresh; model_record: all
    verify       does an earlier folder still hold?
"""
