"""The `eval.py:accuracy` of the pages: how sure each output is; more is better."""


def accuracy(outputs):
    return [float(output.softmax(1).max(1).values.mean()) for output in outputs]
