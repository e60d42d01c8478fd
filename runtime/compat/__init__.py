"""The folder that `--compat pyflink` adds to the module search path; it has one module, `pyflink`."""
