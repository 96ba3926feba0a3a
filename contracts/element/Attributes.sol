// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Spec} from "./Specs.sol";

/// @title Attributes
/// @notice Reads attributes, encoded as in docs/protocol.md, section 4, one after the other, and not past their end.
///
///     int  u64be        ints  count u8 ‖ u64be each        dtype  u8
///
/// Each function reads at `from` and returns the offset of the next attribute; `end` comes last.
library Attributes {
    /// @notice The attributes end before the attribute that is read.
    error AttributesEnd(uint256 length, uint256 need);
    /// @notice Bytes follow the last attribute.
    error AttributesFollow(uint256 length, uint256 read);
    /// @notice The attribute that ends at byte `end` is not what the operator allows.
    error AttributeUnfit(uint256 end);

    /// @notice Reads an int.
    function number(bytes calldata data, uint256 from) internal pure returns (uint256 value, uint256 next) {
        unchecked {
            next = from + 8;
            if (next > data.length) revert AttributesEnd(data.length, next);
            value = uint64(bytes8(data[from:next]));
        }
    }

    /// @notice Reads an int that is 0 or 1.
    function flag(bytes calldata data, uint256 from) internal pure returns (bool value, uint256 next) {
        uint256 read;
        (read, next) = number(data, from);
        fit(read < 2, next);
        value = read == 1;
    }

    /// @notice Reads a dtype.
    function code(bytes calldata data, uint256 from) internal pure returns (uint8 value, uint256 next) {
        unchecked {
            next = from + 1;
            if (next > data.length) revert AttributesEnd(data.length, next);
            value = uint8(data[from]);
        }
    }

    /// @notice Reads the length of a list of ints, and checks that all of them are there.
    function list(bytes calldata data, uint256 from) internal pure returns (uint256 length, uint256 next) {
        unchecked {
            (length, next) = code(data, from);
            if (next + 8 * length > data.length) revert AttributesEnd(data.length, next + 8 * length);
        }
    }

    /// @notice Reads two ints.
    function pair(bytes calldata data, uint256 from)
        internal
        pure
        returns (uint256 first, uint256 second, uint256 next)
    {
        uint256 length;
        (length, next) = list(data, from);
        fit(length == 2, next);
        (first, next) = number(data, next);
        (second, next) = number(data, next);
    }

    /// @notice Checks ints that are the dimensions of a tensor.
    function shape(bytes calldata data, uint256 from, Spec dims) internal pure returns (uint256 next) {
        unchecked {
            uint256 length;
            (length, next) = list(data, from);
            fit(length == dims.rank(), next);
            for (uint256 d = 0; d < length; ++d) {
                uint256 size;
                (size, next) = number(data, next);
                fit(size == dims.dim(d), next);
            }
        }
    }

    /// @notice Reads strictly ascending ints below `rank`, as a set: bit d stands for d.
    function dimensions(bytes calldata data, uint256 from, uint256 rank)
        internal
        pure
        returns (uint256 dims, uint256 next)
    {
        unchecked {
            uint256 length;
            (length, next) = list(data, from);
            for (uint256 i = 0; i < length; ++i) {
                uint256 d;
                (d, next) = number(data, next);
                // SAFETY: a rank is at most 8.
                fit(d < rank && dims >> d == 0, next);
                dims |= 1 << d;
            }
        }
    }

    /// @notice Reverts unless everything has been read.
    function end(bytes calldata data, uint256 from) internal pure {
        if (from != data.length) revert AttributesFollow(data.length, from);
    }

    /// @notice Reverts unless `holds`.
    /// @param next End of the attribute that `holds` is about.
    function fit(bool holds, uint256 next) internal pure {
        if (!holds) revert AttributeUnfit(next);
    }
}
