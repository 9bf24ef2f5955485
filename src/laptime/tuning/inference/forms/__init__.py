"""How a draft is written into a folder: one file a form, with `write(draft, folder)` and `HANDED_BACK`.

`HANDED_BACK` names the file of `handed_back/` that becomes its `tuned.py`, `NEEDS` the packages it imports.
`ON_CUDA`: the same of folders for a CUDA device, of forms that have one.
"""
