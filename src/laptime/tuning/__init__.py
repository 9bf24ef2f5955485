"""A training script made faster: what can be changed, whether it helps, whether it is still the same
training.

    optimization   the contract of a file in catalogue/; Change and Recipe
    catalogue/     one file an optimization: propose, apply, edit
    loop_profile   what is known of a script's loop: shares of its step, facts of loader, model, device
    trial/         inside the script's own process: hooks that apply recipes, time steps, diagnose, witness
    search/        which change is tried next and what is kept; pure, against an abstract Evaluator
    gates/         is it still the same training? pure functions on what trials have witnessed
    patch/         the recipe as an edit of the user's own source, by libcst

`trial/`, `catalogue/`, `optimization` and `loop_profile` run beside the user's script, in the user's
interpreter: they use the
standard library and, inside functions, torch. The others run in laptime's own process.
"""
