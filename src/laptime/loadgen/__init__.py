"""Load on an endpoint or a program: when requests are due, who sends them, what is known of each answer.

arrivals     when requests are due: constant, poisson, gamma, or as in a file; seeded
messages     what crosses the pipe between laptime and a sender
connection   one HTTP/1.1 connection; pool: as many as requests are under way
endpoint     an address, and what is sent to it; streams: answers of language models, token by token
driver       requests sent as they are due, or one after another by so many users
program      the same for a program of this machine, called one at a time
"""
