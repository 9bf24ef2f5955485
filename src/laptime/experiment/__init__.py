"""Two sides compared, in turns and in pairs of fresh processes, until the answer is sure or time is up."""
