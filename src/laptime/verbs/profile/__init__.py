"""`profile`: where the time of a script's steps goes, the script itself unmodified.

request      what can be asked
run          the script runs (`launch.script`), its traces are analysed, and all of it becomes a run
reconcile    traced steps beside untraced ones
failures     why a script failed, or had no step
block        `with laptime.profile():`, in this process
"""
