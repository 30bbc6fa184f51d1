"""Functions of random numbers, which are functions of an element's index and a seed."""
