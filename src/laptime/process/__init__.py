"""Programs that laptime starts, and what is said between them.

channel   framed messages over two descriptors, the same at either end
program   a program in a group of its own: started, waited for, ended with all that it has started
peer      whoever is at the other end: asked with a time limit, one or many, and how it ended"""
