"""Data in files: LETOR, CSV, TSV, parquet, TREC, and tables on disk."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.files.blocks import read_blocks, table_of_file
    from precede.files.disk import DiskTable, dense_block, write_table
    from precede.files.tables import (
        FORMATS,
        Columns,
        Data,
        Layout,
        Roles,
        format_of,
        format_of_name,
        from_frame,
        identifiers,
        plain_number,
        read,
        read_groups,
        read_numbers,
        read_pairs,
        read_sizes,
        side_file,
        write,
        write_groups,
        write_pairs,
        write_weights,
    )
    from precede.files.trec import Judged, Run, joined, read_qrels, read_run, write_qrels, write_run

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "Columns": "tables",
        "Data": "tables",
        "DiskTable": "disk",
        "FORMATS": "tables",
        "Judged": "trec",
        "Layout": "tables",
        "Roles": "tables",
        "Run": "trec",
        "dense_block": "disk",
        "format_of": "tables",
        "format_of_name": "tables",
        "from_frame": "tables",
        "identifiers": "tables",
        "joined": "trec",
        "plain_number": "tables",
        "read": "tables",
        "read_blocks": "blocks",
        "read_groups": "tables",
        "read_numbers": "tables",
        "read_pairs": "tables",
        "read_qrels": "trec",
        "read_run": "trec",
        "read_sizes": "tables",
        "side_file": "tables",
        "table_of_file": "blocks",
        "write": "tables",
        "write_groups": "tables",
        "write_pairs": "tables",
        "write_qrels": "trec",
        "write_run": "trec",
        "write_table": "disk",
        "write_weights": "tables",
    },
)
