"""Writes the worker's C++ from the declarations: one module per part of the files it makes."""
