"""A training script tuned: the processes, decisions and files between its diagnosis and a verified patch.

request            the options of `laptime tune SCRIPT`; api: `laptime.tune`; apply: `laptime.apply`
subject            a script in a session (`tuning.session`): `tune` and `verify`
trial_evaluator    diagnoses, races and gates by trials, each recipe once: the `Evaluator` of the search
trial_runner       starts trials, times them alone and in pairs; in_memory: trials in this process
sides              pairs of trials in fresh processes: what they cost, their losses
patching           the patch and the recipe file; suggesting: diffs that are shown and not applied
diagnosis_record   a loop profile as a record; earlier_sessions: what was found with scripts of this kind
refusals           why a script cannot be tuned
"""
