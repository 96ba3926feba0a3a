// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @title Shapes
/// @notice Row-major positions, and which input element an output element depends on (docs/opset.md, section 3).
/// @dev INVARIANT: dimensions of a checked tensor, and positions in it, are below 2^40 (`count`); so a product of two of them
/// is below 2^80, and a sum of eight such products does not wrap either.
library Shapes {
    uint256 internal constant MAX_RANK = 8;
    /// @dev Exclusive, for each dimension and for the number of elements.
    uint256 internal constant MAX_ELEMENTS = 1 << 40;

    /// @notice A tensor has at most `MAX_RANK` dimensions.
    error RankTooHigh(uint256 rank);
    /// @notice Each dimension, and the number of elements, is below `MAX_ELEMENTS`.
    error TooManyElements();
    /// @notice The shapes of the case are not those of one operator.
    error ShapesUnfit();

    /// @notice Number of elements. Refuses what no tensor may be.
    function count(uint64[] calldata dims) internal pure returns (uint256 elements) {
        unchecked {
            if (dims.length > MAX_RANK) revert RankTooHigh(dims.length);
            elements = 1;
            bool empty = false;
            for (uint256 d = 0; d < dims.length; ++d) {
                uint256 size = dims[d];
                if (size >= MAX_ELEMENTS) revert TooManyElements();
                if (size == 0) empty = true;
                // SAFETY: below 2^80, and no more is multiplied once it is too much.
                else if (elements < MAX_ELEMENTS) elements *= size;
            }
            if (empty) return 0;
            if (elements >= MAX_ELEMENTS) revert TooManyElements();
        }
    }

    /// @notice Number of elements of all dimensions from `first` on, of a checked tensor that has any element.
    function countFrom(uint64[] calldata dims, uint256 first) internal pure returns (uint256 elements) {
        unchecked {
            elements = 1;
            for (uint256 d = first; d < dims.length; ++d) {
                elements *= dims[d];
            }
        }
    }

    function fit(bool holds) internal pure {
        if (!holds) revert ShapesUnfit();
    }

    /// @notice `a` and `b` are the same shape.
    function same(uint64[] calldata a, uint64[] calldata b) internal pure {
        fit(a.length == b.length);
        sameBut(a, b, MAX_RANK);
    }

    /// @notice `a` and `b`, of one rank, differ in dimension `dim` at most.
    function sameBut(uint64[] calldata a, uint64[] calldata b, uint256 dim) internal pure {
        unchecked {
            for (uint256 d = 0; d < a.length; ++d) {
                fit(a[d] == b[d] || d == dim);
            }
        }
    }

    /// @notice `joined` is `first` followed by the dimensions of `rest` but its first one.
    function joins(uint64[] calldata joined, uint64[] calldata first, uint64[] calldata rest) internal pure {
        unchecked {
            fit(rest.length != 0 && joined.length + 1 == first.length + rest.length);
            for (uint256 d = 0; d < joined.length; ++d) {
                fit(joined[d] == (d < first.length ? first[d] : rest[d - first.length + 1]));
            }
        }
    }

    // ------------------------------------------------------------------ broadcasting

    /// @notice An operand broadcasts to `shape`.
    /// @return places Bit d is set if the operand has dimension d of `shape`, and in full. The operands together give exactly
    /// this shape if each of its dimensions is set for one of them.
    function spreads(uint64[] calldata operand, uint64[] calldata shape)
        internal
        pure
        returns (uint256 places)
    {
        unchecked {
            fit(operand.length <= shape.length);
            uint256 missing = shape.length - operand.length;
            for (uint256 d = 0; d < operand.length; ++d) {
                if (operand[d] == shape[missing + d]) places |= 1 << (missing + d);
                else fit(operand[d] == 1);
            }
        }
    }

    /// @notice The position in an operand that is broadcast to a shape, of which `element` is one.
    function broadcast(uint256 element, uint64[] calldata shape, uint64[] calldata operand)
        internal
        pure
        returns (uint256 found)
    {
        unchecked {
            uint256 missing = shape.length - operand.length;
            uint256 scale = 1;
            for (uint256 d = operand.length; d != 0; --d) {
                uint256 size = shape[missing + d - 1];
                if (operand[d - 1] != 1) {
                    found += element % size * scale;
                    scale *= size;
                }
                element /= size;
            }
        }
    }

    // ------------------------------------------------------------------ reducing

    /// @notice How many elements the dimensions in the set `dims` reduce to one, and that `result` is what remains of the shape.
    /// @param keep Whether a reduced dimension remains, as 1.
    function reduces(uint64[] calldata shape, uint256 dims, bool keep, uint64[] calldata result)
        internal
        pure
        returns (uint256 items)
    {
        unchecked {
            items = 1;
            uint256 next = 0;
            for (uint256 d = 0; d < shape.length; ++d) {
                bool goes = (dims >> d) & 1 != 0;
                // SAFETY: a product that wraps is one of a tensor without elements, where some dimension is 0. The output has an
                // element, so that is a reduced dimension, and the whole product is 0 whatever wrapped before.
                if (goes) items *= shape[d];
                if (goes && !keep) continue;
                fit(next < result.length && result[next] == (goes ? 1 : shape[d]));
                ++next;
            }
            fit(next == result.length);
        }
    }

    /// @notice The `k`-th, row-major, of the elements that the dimensions in the set `dims` reduce to `element`.
    function reduced(uint256 element, uint256 k, uint64[] calldata shape, uint256 dims)
        internal
        pure
        returns (uint256 found)
    {
        unchecked {
            uint256 scale = 1;
            for (uint256 d = shape.length; d != 0; --d) {
                uint256 size = shape[d - 1];
                if ((dims >> (d - 1)) & 1 != 0) {
                    found += k % size * scale;
                    k /= size;
                } else {
                    found += element % size * scale;
                    element /= size;
                }
                scale *= size;
            }
        }
    }
}
