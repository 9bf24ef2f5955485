"""A tuning session: the processes, decisions and files between `laptime tune train.py` and a verified patch.

request            the options of `laptime tune`; api: `laptime.tune`; apply: `laptime.apply`
tune               the session from the diagnosis to the patch
trial_evaluator    diagnoses, races and gates by trials, each recipe once: the `Evaluator` of the search
trial_runner       starts trials, times them alone and in pairs; in_memory: trials in this process
after_search       what follows the search, in order
final_ab           the gain, measured afresh: baseline against final in new processes
patching           the patch and the recipe file
verify             `laptime verify`: does an earlier result still hold?
tuning_record      the record of a session, filled step by step; diagnosis_record: of a loop profile
journal            decided rungs on disk, for --resume
refusals           why a script cannot be tuned
work_folder        the session's temporary folder
"""
