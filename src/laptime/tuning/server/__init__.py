"""A server's flags chosen for one load: it is started anew for every trial; a command line is handed back.

request       what is asked for; template: the command with its choices in braces
live_server   a server started, waited for and ended; visit: that, and the load on it, block by block
figure        what a block says of the goal and of the promise; outputs: does it answer the same?
evaluator     the `Evaluator` of the search, which is that of scripts and models
confirmation  the gain measured afresh; session: from the command to the command line handed back
"""
