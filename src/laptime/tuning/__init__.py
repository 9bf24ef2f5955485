"""A training script made faster: what can be changed, whether it helps, whether it is the same training.

session/       one session of `laptime tune`, over a subject; script/, inference/, server/: the subjects
search/        which change is tried next and what is kept; pure, against an abstract Evaluator
candidates     which changes of the catalogue could help a loop
catalogue/     one file an optimization: propose, apply, edit
optimization   the contract of a file in catalogue/; Change and Recipe
loop_profile   what is known of a script's loop: shares of its step, facts of loader, model, device
trial/         inside the script's own process: hooks that apply recipes, time steps, capture numerics
gates/         is it still the same training? pure functions on captured numerics
patch/         the recipe as an edit of the user's own source, by libcst
recipe_file    the kept changes as a file, for `laptime verify` and `laptime.apply`
wire_format    how messages cross into a trial and out of it

`trial/`, `catalogue/`, `optimization`, `loop_profile` and `wire_format` run beside the user's script, in the
user's interpreter: they use the standard library and, inside functions, torch."""
