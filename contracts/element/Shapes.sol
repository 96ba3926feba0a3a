// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Spec} from "./Specs.sol";

/// @title Shapes
/// @notice Row-major positions, and the input elements that an output element depends on (docs/opset.md, section 3).
/// @dev INVARIANT: dimensions of a checked tensor, and positions in it, are below 2^40 (`count`); so a product of two
/// of them is below 2^80, and a sum of eight such products does not wrap either.
library Shapes {
    uint256 internal constant MAX_RANK = 8;
    /// @dev Exclusive bound on each dimension and on the product of those that are not 0.
    uint256 internal constant MAX_ELEMENTS = 1 << 40;

    /// @notice A tensor has at most `MAX_RANK` dimensions.
    error RankTooHigh(uint256 rank);
    /// @notice Each dimension, and the product of those that are not 0, is below `MAX_ELEMENTS`.
    error TooManyElements();
    /// @notice The shapes of the case do not fit its operator.
    error ShapesUnfit();

    /// @notice Returns the number of elements; reverts if no tensor may have this shape.
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

    /// @notice Returns the product of the dimensions of a checked tensor from `first` on.
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

    /// @notice Checks that `a` and `b` are the same shape.
    function same(Spec a, Spec b) internal pure {
        fit(a.rank() == b.rank());
        sameBut(a, b, MAX_RANK);
    }

    /// @notice Checks that `a` and `b`, of one rank, differ at most in dimension `dim`.
    function sameBut(Spec a, Spec b, uint256 dim) internal pure {
        unchecked {
            for (uint256 d = 0; d < a.rank(); ++d) {
                fit(a.dim(d) == b.dim(d) || d == dim);
            }
        }
    }

    /// @notice Checks that `joined` is `first` followed by the dimensions of `rest` without its first one.
    function joins(Spec joined, Spec first, Spec rest) internal pure {
        unchecked {
            fit(rest.rank() != 0 && joined.rank() + 1 == first.rank() + rest.rank());
            for (uint256 d = 0; d < joined.rank(); ++d) {
                fit(joined.dim(d) == (d < first.rank() ? first.dim(d) : rest.dim(d - first.rank() + 1)));
            }
        }
    }

    // ------------------------------------------------------------------ broadcasting

    /// @notice Checks that an operand broadcasts to `shape`.
    /// @return places Bit d is set if the operand has dimension d of `shape`, and in full. The operands together give
    /// exactly this shape if each dimension is set for one of them.
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

    /// @notice Returns the position in a broadcast operand for position `element` of the shape.
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

    /// @notice Checks that `result` is the shape without the dimensions `dims`, a set; returns how many elements become
    /// one.
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

    /// @notice Returns the `k`-th, row-major, of the elements that `dims`, a set of dimensions, reduces to `element`.
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
