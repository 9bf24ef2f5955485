"""Models of the standard suite that no package has without more packages: plain torch modules, random weights."""
