"""Tables: people's own data from files of many kinds, and results back into files.

This room knows files and arrays; it knows no model. Readers trust nothing: sizes are compared with
what a file holds before room is made for them, and nothing is ever unpickled.
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
