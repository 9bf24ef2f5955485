"""A recipe as an edit of the user's own source: libcst, so that comments and formatting stay.

editor    what `edit` of an optimization may ask for (the contract)
source    the files of a script, parsed once, edited one change after another
diff      unified diffs, one hunk a kept change, `git apply`-able
verify    is it applicable, does the patched script do what the recipe did
"""
