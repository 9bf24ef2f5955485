"""A tuning session: the processes, decisions and files between `laptime tune train.py` and a verified patch.

tune             the session from the diagnosis to the patch
api              `laptime.tune`; apply: `laptime.apply`; verify: `laptime verify`
trial_runner     runs recipes in the user's script, one process a trial; in_memory: in this process
gating           the trials of a gate
after_search     what follows the search; final_ab: the gain measured afresh, baseline against final
patching         the patch and the recipe file; step_parts: a profile of both sides
tuning_record    the record of a session; journal: its decided rungs on disk, for --resume
time_accounting  what the session spends its time on
refusals         why a script cannot be tuned
work_folder      the session's temporary folder
"""
