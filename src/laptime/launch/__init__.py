"""Where work runs: in fresh processes on this machine (`laptime.process`), or in this one.

worker          measures one variant; instances: several at once, on CPUs of their own
sender          sends requests, from processes of their own
script          a user's script under laptime's hooks; target_loop: the script behind `laptime profile TARGET`
fresh_call      one call of a function of laptime in a fresh process
interpreter     another Python for workers
git_worktree    the user's repository as it was at another revision"""
