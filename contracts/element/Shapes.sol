// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Spec} from "./Specs.sol";

/// @title Shapes
/// @notice Row-major positions, and which input element an output element depends on (docs/opset.md, section 3).
/// @dev INVARIANT: dimensions of a checked tensor, and positions in it, are below 2^40 (`count`); so a product of two of them
/// is below 2^80, and a sum of eight such products does not wrap either.
library Shapes {
    uint256 internal constant MAX_RANK = 8;
    /// @dev Exclusive, for each dimension and for the product of those that are not 0.
    uint256 internal constant MAX_ELEMENTS = 1 << 40;

    /// @notice A tensor has at most `MAX_RANK` dimensions.
    error RankTooHigh(uint256 rank);
    /// @notice Each dimension, and the product of those that are not 0, is below `MAX_ELEMENTS`.
    error TooManyElements();
    /// @notice The shapes of the case are not those of one operator.
    error ShapesUnfit();

    /// @notice Number of elements. Refuses what no tensor may be.
    function count(Spec dims) internal pure returns (uint256 elements) {
        unchecked {
            if (dims.rank() > MAX_RANK) revert RankTooHigh(dims.rank());
            elements = 1;
            bool empty = false;
            for (uint256 d = 0; d < dims.rank(); ++d) {
                uint256 size = dims.dim(d);
                if (size == 0) empty = true;
                // SAFETY: below 2^40 times 2^64, so nothing overflows before it is refused.
                else elements *= size;
                if (elements >= MAX_ELEMENTS) revert TooManyElements();
            }
            if (empty) return 0;
        }
    }

    /// @notice Number of elements of all dimensions from `first` on, of a checked tensor.
    function countFrom(Spec dims, uint256 first) internal pure returns (uint256 elements) {
        unchecked {
            elements = 1;
            for (uint256 d = first; d < dims.rank(); ++d) {
                elements *= dims.dim(d);
            }
        }
    }

    function fit(bool holds) internal pure {
        if (!holds) revert ShapesUnfit();
    }

    /// @notice `a` and `b` are the same shape.
    function same(Spec a, Spec b) internal pure {
        fit(a.rank() == b.rank());
        sameBut(a, b, MAX_RANK);
    }

    /// @notice `a` and `b`, of one rank, differ in dimension `dim` at most.
    function sameBut(Spec a, Spec b, uint256 dim) internal pure {
        unchecked {
            for (uint256 d = 0; d < a.rank(); ++d) {
                fit(a.dim(d) == b.dim(d) || d == dim);
            }
        }
    }

    /// @notice `joined` is `first` followed by the dimensions of `rest` but its first one.
    function joins(Spec joined, Spec first, Spec rest) internal pure {
        unchecked {
            fit(rest.rank() != 0 && joined.rank() + 1 == first.rank() + rest.rank());
            for (uint256 d = 0; d < joined.rank(); ++d) {
                fit(joined.dim(d) == (d < first.rank() ? first.dim(d) : rest.dim(d - first.rank() + 1)));
            }
        }
    }

    // ------------------------------------------------------------------ broadcasting

    /// @notice An operand broadcasts to `shape`.
    /// @return places Bit d is set if the operand has dimension d of `shape`, and in full. The operands together give exactly
    /// this shape if each of its dimensions is set for one of them.
    function spreads(Spec operand, Spec shape) internal pure returns (uint256 places) {
        unchecked {
            fit(operand.rank() <= shape.rank());
            uint256 missing = shape.rank() - operand.rank();
            for (uint256 d = 0; d < operand.rank(); ++d) {
                if (operand.dim(d) == shape.dim(missing + d)) places |= 1 << (missing + d);
                else fit(operand.dim(d) == 1);
            }
        }
    }

    /// @notice The position in an operand that is broadcast to a shape, of which `element` is one.
    function broadcast(uint256 element, Spec shape, Spec operand) internal pure returns (uint256 found) {
        unchecked {
            uint256 missing = shape.rank() - operand.rank();
            uint256 scale = 1;
            for (uint256 d = operand.rank(); d != 0; --d) {
                uint256 size = shape.dim(missing + d - 1);
                if (operand.dim(d - 1) != 1) {
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
    function reduces(Spec shape, uint256 dims, bool keep, Spec result) internal pure returns (uint256 items) {
        unchecked {
            items = 1;
            uint256 next = 0;
            for (uint256 d = 0; d < shape.rank(); ++d) {
                bool goes = (dims >> d) & 1 != 0;
                if (goes) items *= shape.dim(d);
                if (goes && !keep) continue;
                fit(next < result.rank() && result.dim(next) == (goes ? 1 : shape.dim(d)));
                ++next;
            }
            fit(next == result.rank());
        }
    }

    /// @notice The `k`-th, row-major, of the elements that the dimensions in the set `dims` reduce to `element`.
    function reduced(uint256 element, uint256 k, Spec shape, uint256 dims)
        internal
        pure
        returns (uint256 found)
    {
        unchecked {
            uint256 scale = 1;
            for (uint256 d = shape.rank(); d != 0; --d) {
                uint256 size = shape.dim(d - 1);
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
