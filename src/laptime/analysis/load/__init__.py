"""What requests under load tell: the steady part, whether the queue grows, latencies with intervals.

Requests are not independent: one that waits makes those behind it wait, too. Whatever has an interval here
has it from batch means in order of arrival (Law & Carson, A Sequential Procedure for Determining the Length
of a Steady-State Simulation, Operations Research 27, 1979).
"""
