"""Data in files: LETOR, CSV, TSV, parquet, TREC, and tables on disk."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.files.blocks import read_blocks as read_blocks
    from precede.files.blocks import table_of_file as table_of_file
    from precede.files.disk import DiskTable as DiskTable
    from precede.files.disk import dense_block as dense_block
    from precede.files.disk import write_table as write_table
    from precede.files.tables import FORMATS as FORMATS
    from precede.files.tables import Columns as Columns
    from precede.files.tables import Data as Data
    from precede.files.tables import Layout as Layout
    from precede.files.tables import Roles as Roles
    from precede.files.tables import format_of as format_of
    from precede.files.tables import format_of_name as format_of_name
    from precede.files.tables import identifiers as identifiers
    from precede.files.tables import plain_number as plain_number
    from precede.files.tables import read as read
    from precede.files.tables import read_groups as read_groups
    from precede.files.tables import read_numbers as read_numbers
    from precede.files.tables import read_pairs as read_pairs
    from precede.files.tables import read_sizes as read_sizes
    from precede.files.tables import side_file as side_file
    from precede.files.tables import write as write
    from precede.files.tables import write_groups as write_groups
    from precede.files.tables import write_pairs as write_pairs
    from precede.files.tables import write_weights as write_weights
    from precede.files.trec import Judged as Judged
    from precede.files.trec import Run as Run
    from precede.files.trec import joined as joined
    from precede.files.trec import read_qrels as read_qrels
    from precede.files.trec import read_run as read_run
    from precede.files.trec import write_qrels as write_qrels
    from precede.files.trec import write_run as write_run
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "blocks": "read_blocks table_of_file",
            "disk": "DiskTable dense_block write_table",
            "tables": (
                "Columns Data FORMATS Layout Roles format_of format_of_name "
                "identifiers plain_number read read_groups read_numbers read_pairs read_sizes "
                "side_file write write_groups write_pairs write_weights"
            ),
            "trec": "Judged Run joined read_qrels read_run write_qrels write_run",
        },
    )
