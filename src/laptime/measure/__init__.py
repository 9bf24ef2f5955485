"""How a number comes about: loops, engine, labels, schedule, stopping, checks. Knows no framework."""
