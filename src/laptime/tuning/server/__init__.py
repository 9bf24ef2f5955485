"""A server's flags chosen for one load: it is started anew for every trial; a command line is handed back.

request     what is asked for: the command with its choices in braces, the load
visit       a server started, waited for, loaded block by block and ended
outputs     does it answer the same? what a block says of the goal and of the promise
evaluator   the `Evaluator` of the search, which is that of scripts and models
subject     the flags in a session (`tuning.session`): `tune_server` and `verify_server`"""
