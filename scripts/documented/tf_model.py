"""The `tf_model.py:build` of the pages: a small model of Keras; its inputs are known from itself."""

import keras


def build():
    return keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(8)])
