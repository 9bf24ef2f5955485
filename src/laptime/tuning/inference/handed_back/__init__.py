"""The `tuned.py` of each form. They run where laptime is not installed; settings come from recipe.json."""
