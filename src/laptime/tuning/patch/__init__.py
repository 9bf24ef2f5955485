"""A recipe as an edit of the user's own source: libcst, so that comments and formatting stay.

sources     the files of a script, edited one change after another: begin here
editor      what `edit` of an optimization may ask for, and how it is done
files       a file of the user's, and its tree; text: edited text, with marks that stay where they were put
diff        unified diffs, one hunk a kept change, `git apply`-able; whether one applies

What finds the node of a site, and changes nothing:
sites       sites of the diagnosis as marks in the source; calls: the call that a site means

What edits a node that was found, as text at offsets, in its indentation and newlines:
arguments   of a call: found, added, replaced, removed; statements: put behind, before and around others
top_level   imports, definitions and statements of the whole process
models, batches   statements for models and optimizers; what a training loop does with its batches
forward     the forward part of a step, from the first call of a model to the backward pass"""
