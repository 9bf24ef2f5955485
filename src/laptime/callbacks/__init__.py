"""Callbacks for training loops of other libraries, one file a library, named as the library is.

    from laptime.callbacks.lightning import StepTimes       Trainer(callbacks=[StepTimes()])
    from laptime.callbacks.transformers import StepTimes    Trainer(..., callbacks=[StepTimes()])
    from laptime.callbacks.keras import StepTimes           model.fit(..., callbacks=[StepTimes()])

Each logs the parts of a step and samples per second while the loop runs; those of PyTorch can profile it too.
"""
