"""The only folder that `--compat pyflink` puts on the module search path: its one module is called `pyflink`."""
