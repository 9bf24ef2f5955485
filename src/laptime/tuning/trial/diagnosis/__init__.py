"""Mode diagnose: where the time of a step goes, and what the loop consists of."""
