"""Where work runs: in fresh processes on this machine, or in this one.

process         a program in a group of its own: started, waited for, ended with all that it has started
worker_process  a worker, asked and answered over a pipe; worker: the program that it runs
script          a user's script under laptime's hooks; hooked_script: its environment and interpreter
trial           the same for `tune`: one process a trial
fresh_call      one call of a function of laptime in a fresh process
target_loop     the script behind `laptime profile TARGET`
interpreter     another Python for workers
git_worktree    the user's repository as it was at another revision
"""
