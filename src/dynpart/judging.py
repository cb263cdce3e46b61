"""Judging: tables to numbers and back, by the known, detected or declared kinds of columns."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_sparse, is_tensor, like, to_numpy
from dynpart.coding import Coded, coded
from dynpart.containers import built
from dynpart.engines import Engine
from dynpart.families import (
    ColumnMoments,
    Family,
    column_moments,
    family_class,
    make_family,
)
from dynpart.kinds import Survey
from dynpart.levels import Encoder, encoded
from dynpart.opening import weighted_tables
from dynpart.schema import KINDS, Schema
from dynpart.sources import is_dask_array, readable_again
from dynpart.sparse import WHOLE_VALUES, SparseBlocks, as_csr
from dynpart.validation import (
    DTYPES,
    check_exact,
    check_finite,
    checked_array,
    checked_tensor,
    checked_weights,
    without_masks,
)


class JudgesTables:
    """Methods of a model that convert users' tables to numbers, and numbers back."""

    family: str
    amplitude: str | None
    columns: Any
    connectivity: Any
    unknown: str
    variance_floor: Any
    n_features_in_: int
    _found_schema: Schema | None = None
    """Schema of the columns of the training table; None for arrays."""
    _takes_numbers: bool = False
    """Whether tables hold numbers already, with indices for levels."""

    if TYPE_CHECKING:  # attributes of the model

        @property
        def schema_(self) -> Schema:
            """Kinds, names and levels of the variables."""

        _known_names: NDArray | None
        _ready: Callable[[], int]
        _engine: Callable[[Any], Engine]
        _names: Callable[[], NDArray | None]
        _validated: Callable[..., Any]

    def judge(self, X: Any) -> Schema:
        """Detect the kinds of the columns of a table, without learning.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A table; nothing is learnt from it.

        Returns
        -------
        Schema
            Kinds, names and levels of the columns, as :meth:`fit` would treat them.

        Examples
        --------
        >>> from dynpart import DynamicPartitionModel
        >>> rows = [["cat", 4, 5.1], ["dog", 4, 20.5], ["bird", 2, 0.1]]
        >>> DynamicPartitionModel(columns={1: "count"}).judge(rows).kinds
        ('categorical', 'count', 'real')
        """
        check_exact(X)
        table = coded(X)
        if table is None:
            rows = checked_array(without_masks(to_numpy(X)), ensure_all_finite=False)
            table = Coded.of_numbers(rows)
        schema = self._judge([table])
        if schema is not None:
            return schema
        family = self._family_of_array(column_moments(table.values))
        return Schema(family.kinds_of_columns(table.shape[1]))

    def on_numbers(self) -> Self:
        """The same model for tables of numbers: levels and columns by their indices.

        Figures and commands use it.

        Returns
        -------
        DynamicPartitionModel
            A copy that shares the experts; its methods take and return arrays.
        """
        twin = copy(self)
        twin._known_names = twin.__dict__.pop("feature_names_in_", self._known_names)
        twin._takes_numbers = True
        return twin

    def plainly(self, X: Any) -> tuple[Self, Any]:
        """The model and a table as numbers, whatever the table holds; arrays stay as they are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Rows with the columns of the training data.

        Returns
        -------
        model : DynamicPartitionModel
            The model of :meth:`on_numbers`.
        X : ndarray of shape (n_rows, n_features)
            Levels by their indices, NaN for missing values.
        """
        if self._found_schema is None or self._takes_numbers:
            return self, X
        return self.on_numbers(), self._numbers(X)

    def _numbers(self, X: Any) -> NDArray:
        """The table as a NumPy array of numbers, NaN for missing values."""
        self._ready()
        table = to_numpy(self._checked_table(X, self._engine(X), reset=False))
        return table if table.dtype.kind == "f" else table.astype(np.float64)

    def _checked_table(
        self, X: Any, engine: Engine, *, reset: bool, sample_weight: Any = None
    ) -> Any:
        """The rows as input of the engine: tensors for the torch engine, else NumPy arrays.

        Rows of weight 0 may hold unknown levels, or values that their columns do not allow.
        """

        def gone(n_rows: int) -> NDArray[np.bool_] | None:
            return None if sample_weight is None else checked_weights(sample_weight, n_rows) == 0

        if is_tensor(X):
            X = checked_tensor(X)
            if engine.name == "torch":
                self._validated(np.zeros((1, X.shape[1])), reset=reset)
                return self._tensor_as_numbers(X, reset=reset, gone=gone(len(X)))
            X = to_numpy(X)
        if is_sparse(X):
            matrix = self._checked_sparse(X, reset=reset)
            dense = Coded.of_numbers(matrix.toarray())
            return self._as_numbers(dense, reset=reset, gone=gone(len(dense)))
        check_exact(X)
        table = coded(X)
        if table is None:
            rows = self._validated(
                without_masks(X), dtype=DTYPES, order="C", reset=reset, ensure_all_finite=False
            )
            table = Coded.of_numbers(rows)
        else:
            self._check_columns(X, table, reset=reset)
        check_finite(table.values, columns=self._names())
        return self._as_numbers(table, reset=reset, gone=gone(len(table)))

    def _checked_sparse(self, X: Any, *, reset: bool) -> Any:
        """A sparse matrix in CSR format."""
        matrix = as_csr(X, self._names())
        self._validated(
            matrix, accept_sparse=True, dtype=None, reset=reset, ensure_all_finite=False
        )
        return matrix

    def _given_back(self, table: Any, *, means: bool = False) -> Any:
        """Rows of numbers as the type of table of the training data."""
        if self._found_schema is None or self._takes_numbers:
            return table
        if is_tensor(table):
            return like(built(to_numpy(table), self.schema_, means=means), table)
        return built(table, self.schema_, means=means)

    def _check_columns(self, X: Any, table: Coded, *, reset: bool) -> None:
        """Store (`reset`) or check the number and names of columns."""
        if not len(table):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        if hasattr(X, "columns"):
            self._validated(X, reset=reset, skip_check_array=True)
            return
        if table.names is None:
            self._validated(np.zeros((1, table.shape[1])), reset=reset)
            return
        known = self._names()
        if reset:
            self.n_features_in_ = table.shape[1]
            self.feature_names_in_ = np.asarray(table.names, dtype=object)
        elif known is not None and tuple(known) != table.names:
            missing = [name for name in known if name not in table.names]
            words = f"column {missing[0]!r} is missing" if missing else "their order differs"
            raise ValueError(f"X must have the columns that the model has learnt from: {words}")
        elif table.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {table.shape[1]} features, but the model expects {self.n_features_in_}"
            )

    def _as_numbers(
        self, table: Coded, *, reset: bool, gone: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """The table as numbers, with indices for levels; `reset` detects the kinds first.

        Rows that are `gone` may hold anything: neither kinds nor levels depend on them.
        """
        if gone is not None and self._has_own_kinds(table):
            table = table.without(gone)
        if reset:
            self._found_schema, self._takes_numbers = self._judge([table]), False
        schema = self._found_schema if reset else self.schema_
        if schema is None or self._takes_numbers:
            return table.values
        return encoded(table, schema, unknown=self.unknown)

    def _has_own_kinds(self, table: Coded) -> bool:
        """Whether kinds are detected column by column, as in all tables but arrays of numbers."""
        return _is_told(table) or self._column_settings() is not None

    def _tensor_as_numbers(
        self, X: Any, *, reset: bool, gone: NDArray[np.bool_] | None = None
    ) -> Any:
        """The same for a tensor, which stays on its device."""
        if self._column_settings() is None and (reset or self._found_schema is None):
            self._found_schema = None
            return X
        return like(self._as_numbers(Coded.of_numbers(to_numpy(X)), reset=reset, gone=gone), X)

    def _survey_blocks(self, X: Any, sample_weight: Any = None) -> Schema | None:
        """The schema of a source, from one pass over its blocks."""
        if is_dask_array(X) and self._column_settings() is None:
            return None  # arrays of numbers without settings
        if not is_dask_array(X) and not isinstance(X, str) and hasattr(X, "__iter__"):
            readable_again(X)

        def tables() -> Any:
            for block, gone in weighted_tables(X, sample_weight):
                table = coded(block)
                if table is None and self._column_settings() is None:
                    return  # arrays of numbers without settings
                if table is None:
                    table = Coded.of_numbers(np.asarray(to_numpy(block)))
                yield table.without(gone)

        return self._judge(tables(), "block {} of X")

    def _judge_sparse(self, matrix: Any) -> Schema | None:
        """The schema of a large sparse matrix, without a dense copy."""
        if self._column_settings() is None:
            return None
        schema = self._judge(map(Coded.of_numbers, SparseBlocks(matrix)))
        if schema is not None and schema.levels is not None:
            raise ValueError(
                f"a sparse matrix of more than {WHOLE_VALUES:,} values, zeros included, does not "
                "support categorical columns: use a data frame, or one column per level"
            )
        return schema

    def _encoder(self) -> Encoder | None:
        """The encoder of blocks; None for blocks of numbers."""
        return None if self._found_schema is None else Encoder(self._found_schema, self.unknown)

    def _column_settings(self) -> Any:
        """The user's settings for the columns; None if there are none."""
        if self.family == "auto":
            return self.columns
        kind = family_class(self.family).kind
        if self.columns is not None:
            raise ValueError(
                f"columns={self.columns!r:.80} and family={self.family!r} both set the kinds of "
                "columns: use family='auto'"
            )
        return kind if kind == "categorical" else None

    def _judge(self, tables: Any, name: str = "X") -> Schema | None:
        """The schema; None for arrays of numbers, whose family follows from their moments."""
        settings = self._column_settings()
        family_kind = "" if self.family == "auto" else family_class(self.family).kind
        in_columns = False
        survey: Survey | None = None
        for index, table in enumerate(tables):
            in_columns |= _is_told(table)
            if not self._has_own_kinds(table):
                return None
            if survey is None:
                survey = Survey(
                    family_kind if settings is None and family_kind in KINDS else settings
                )
            survey.look(table, name.format(index))
        if survey is None:
            return None
        schema = survey.schema(codes=in_columns)
        if family_kind and family_kind not in KINDS:
            kinds = (family_kind,) * len(schema)
            schema = replace(schema, kinds=kinds, levels=None, ranges=None)
        return schema

    def _make_family(self, moments: ColumnMoments) -> Family:
        """The family for rows with these moments and the detected kinds of columns."""
        schema = self._found_schema
        if schema is None:
            return self._family_of_array(moments)
        return make_family(
            "auto" if set(schema.kinds) <= set(KINDS) else self.family,
            moments,
            variance_floor=self.variance_floor,
            kinds=schema.kinds,
            n_levels=schema.n_levels,
            own_scale=True,
        )

    def _family_of_array(self, moments: ColumnMoments) -> Family:
        """The family for an array of numbers without declared kinds.

        Columns are 0/1 or have their own scale, as in a table, unless they are pixels.
        """
        floor = self.variance_floor
        if self.family != "auto" or self._are_pixels(moments) or moments.zero_one is None:
            return make_family(self.family, moments, variance_floor=floor)
        kinds = ["binary" if flag else "real" for flag in to_numpy(moments.zero_one)]
        return make_family("auto", moments, variance_floor=floor, kinds=kinds, own_scale=True)

    def _are_pixels(self, moments: ColumnMoments) -> bool:
        """Whether the columns of an array share one scale."""
        asked = self.connectivity is not None or self.amplitude is not None
        pictures = getattr(self, "image_shape_", None) is not None
        return asked or pictures or moments.are_pixels


def _is_told(table: Coded) -> bool:
    """Whether a table has columns with names or types of their own."""
    return table.names is not None or table.container is not None or any(table.words)
