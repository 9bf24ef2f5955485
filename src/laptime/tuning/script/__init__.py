"""A training script tuned: the processes, decisions and files between its diagnosis and a verified patch.

request           the options of `laptime tune SCRIPT`, and why a script cannot be tuned
subject           a script in a session (`tuning.session`): `tune` and `verify`
trial_evaluator   diagnoses, races and gates by trials, each recipe once: the `Evaluator` of the search
trial_runner      starts trials, times them alone and in pairs; trial_process: one of them, started and ended
final_set         after the search: pairs of fresh processes, the patch, what is only suggested
in_process        `laptime.tune` of objects of this process, and `laptime.apply`
records           diagnoses and rungs as records, of this session and of earlier ones"""
