"""One session of `laptime tune`, whatever is tuned: a script, a model, the flags of a server.

session     from the first diagnosis to what is handed back, and `verify` of an earlier result
subject     what differs, the contract of `tuning.script`, `tuning.inference` and `tuning.server`; the record
final_gain  the gain, measured in pairs of fresh processes, and what of a budget is left to it
journal     decisions on disk, for --resume, and the session's temporary folder
verify      the options of `laptime verify`, and whether a result still holds"""
