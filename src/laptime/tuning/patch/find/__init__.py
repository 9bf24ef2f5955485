"""What finds the node of a site: libcst reads a file, and nothing here changes it.

files         which of the user's files may be edited, and what they hold
syntax_tree   what libcst reads in a file, with the place of every node in characters
calls         the call that a site means, and what names stand for in a file
partials      constructors behind a functools.partial
sites         sites of the diagnosis as marks in the source
"""
