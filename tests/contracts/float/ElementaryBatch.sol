// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Elementary} from "contracts/float/Elementary.sol";

/// @notice Many calls of one function at once. Cases are 8 bytes each: a and b, big-endian.
contract ElementaryBatch is Elementary {
    function values(uint256 operator, bytes calldata cases) external pure returns (uint256[] memory results) {
        results = new uint256[](cases.length / 8);
        for (uint256 i = 0; i < results.length; ++i) {
            (uint256 a, uint256 b) = _operands(cases, i);
            results[i] = _value(operator, a, b);
        }
    }

    /// @return results Four for each case: low, high, exponent and sign.
    function brackets(uint256 operator, bytes calldata cases)
        external
        pure
        returns (uint256[] memory results)
    {
        results = new uint256[](cases.length / 2);
        for (uint256 i = 0; i < cases.length / 8; ++i) {
            (uint256 a, uint256 b) = _operands(cases, i);
            (uint256 low, uint256 high, int256 exponent, uint256 sign) = _bracket(operator, a, b);
            (results[4 * i], results[4 * i + 1]) = (low, high);
            (results[4 * i + 2], results[4 * i + 3]) = (uint256(exponent), sign);
        }
    }

    /// @return results What each call costs inside a contract, the choice of the function included.
    function gas(uint256 operator, bytes calldata cases) external view returns (uint256[] memory results) {
        results = new uint256[](cases.length / 8);
        for (uint256 i = 0; i < results.length; ++i) {
            (uint256 a, uint256 b) = _operands(cases, i);
            uint256 before = gasleft();
            // SAFETY: the value is used, so that no compiler leaves the call out.
            uint256 v = _value(operator, a, b);
            uint256 spent = before - gasleft();
            results[i] = v >> 32 == 0 ? spent : 0;
        }
    }

    function _operands(bytes calldata cases, uint256 i) private pure returns (uint256 a, uint256 b) {
        a = uint32(bytes4(cases[8 * i:8 * i + 4]));
        b = uint32(bytes4(cases[8 * i + 4:8 * i + 8]));
    }
}
