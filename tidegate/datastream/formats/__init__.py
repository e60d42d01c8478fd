"""Formats of records and files, under PyFlink's module names."""
