"""Load on an endpoint or a program: when requests are due, who sends them, what is known of each answer.

arrivals     when requests are due: constant, poisson, gamma, or as in a file; seeded
messages     what crosses the pipe between laptime and a sender
driver       requests sent as they are due, or one after another by so many users; calls of a program
connection   HTTP/1.1: one connection, and a pool of as many as requests are under way
endpoint     what is sent to an address, and the row that is made of each answer, whole or token by token
language_model, server_metrics   prompts of so many tokens; what the server counts itself
loopback     a sender alone, tested on a server of its own process
promise, checks   does a level keep what was promised; is the level true"""
