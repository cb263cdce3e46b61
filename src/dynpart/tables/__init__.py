"""Tables: read users' data from files of many formats, and write results to files.

This package knows files and arrays, no model. Readers compare declared sizes with the file before
they allocate memory, and never unpickle.
"""

from dynpart.tables._columns import advice, place
from dynpart.tables._read import read_table
from dynpart.tables._table import Table, TableError, compact, is_binary
from dynpart.tables._write import check_output, write_table

__all__ = [
    "Table",
    "TableError",
    "advice",
    "check_output",
    "compact",
    "is_binary",
    "place",
    "read_table",
    "write_table",
]
