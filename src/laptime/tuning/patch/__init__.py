"""A recipe as an edit of the user's own source: libcst, so that comments and formatting stay.

editor    what `edit` of an optimization may ask for (the contract)
source    the files of a script, edited one change after another
files     which of the user's files may be edited, and what they hold
tree      what libcst reads in a file; text: what is edited in it, with marks that stay
places    sites of the diagnosis as marks; calls, signatures: the call there, and its arguments
edits     implements the contract, out of
    statements, imports     put behind, before and around others; names, and lines of the whole process
    models, batches         statements for models and optimizers; what a loop does with its batches
    forward, flow           the forward part of a step; which calls lead to it
diff      unified diffs, one hunk a kept change, `git apply`-able
verify    is it applicable, does the patched script do what the recipe did
"""
