"""A recipe as an edit of the user's own source: libcst, so that comments and formatting stay.

sources   the files of a script, edited one change after another: begin here
editor    what `edit` of an optimization may ask for, and how it is done
find/     what finds the node: from sites of the diagnosis to calls, loops and statements
edit/     what edits it: arguments, statements, the top level of a file, the forward part of a step
text      edited text, with marks that stay on what they were put on
diff      unified diffs, one hunk a kept change, `git apply`-able
verify    does a diff apply, and what does it make of the files
"""
