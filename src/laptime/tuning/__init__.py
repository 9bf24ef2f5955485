"""A training script made faster: what can be changed, whether it helps, whether it is the same training.

session/       a session of `laptime tune`, from the diagnosis to the patch: it starts the trials
search/        which change is tried next and what is kept; pure, against an abstract Evaluator
candidates     which changes of the catalogue could help a loop
catalogue/     one file an optimization: propose, apply, edit
optimization   the contract of a file in catalogue/; Change and Recipe
loop_profile   what is known of a script's loop: shares of its step, facts of loader, model, device
trial/         inside the script's own process: hooks that apply recipes, time steps, capture numerics
gates/         is it still the same training? pure functions on captured numerics
patch/         the recipe as an edit of the user's own source, by libcst
recipe_file    the kept changes as a file, for `laptime verify` and `laptime.apply`
final_reserve  how much of a budget a search leaves to what follows it
wire_format    how messages cross into a trial and out of it

`trial/`, `catalogue/`, `optimization`, `loop_profile` and `wire_format` run beside the user's script, in the
user's interpreter: they use the standard library and, inside functions, torch.
"""
