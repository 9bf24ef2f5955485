"""Models of the standard suite that torchvision does not have: plain torch modules, random weights."""
