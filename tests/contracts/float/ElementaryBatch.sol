// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Elementary} from "contracts/float/Elementary.sol";

/// @notice Many calls of one function at a time. Cases have 8 bytes each: a, b, big-endian. Results are 32-byte words.
contract ElementaryBatch {
    error NoSuchFunction(bytes32 name);

    function value(uint256 operator, uint256 a, uint256 b) external pure returns (uint256) {
        return Elementary.value(operator, a, b);
    }

    function bracket(uint256 operator, uint256 a, uint256 b)
        external
        pure
        returns (uint256 low, uint256 high, int256 exponent, uint256 sign)
    {
        return Elementary.bracket(operator, a, b);
    }

    function values(bytes32 name, bytes calldata cases) external pure returns (bytes memory) {
        uint256 operator = operatorOf(name);
        uint256[] memory results = new uint256[](cases.length / 8);
        for (uint256 i = 0; i < results.length; ++i) {
            (uint256 a, uint256 b) = _operands(cases, i);
            results[i] = Elementary.value(operator, a, b);
        }
        return abi.encodePacked(results);
    }

    /// @return Four words for each case: low, high, exponent and sign.
    function brackets(bytes32 name, bytes calldata cases) external pure returns (bytes memory) {
        uint256 operator = operatorOf(name);
        uint256[] memory results = new uint256[](cases.length / 2);
        for (uint256 i = 0; i < cases.length / 8; ++i) {
            (uint256 a, uint256 b) = _operands(cases, i);
            (uint256 low, uint256 high, int256 exponent, uint256 sign) = Elementary.bracket(operator, a, b);
            (results[4 * i], results[4 * i + 1]) = (low, high);
            (results[4 * i + 2], results[4 * i + 3]) = (uint256(exponent), sign);
        }
        return abi.encodePacked(results);
    }

    /// @return The gas of each value inside a contract, including the choice of the function.
    function gas(bytes32 name, bytes calldata cases) external view returns (bytes memory) {
        uint256 operator = operatorOf(name);
        uint256[] memory results = new uint256[](cases.length / 8);
        for (uint256 i = 0; i < results.length; ++i) {
            (uint256 a, uint256 b) = _operands(cases, i);
            uint256 before = gasleft();
            // SAFETY: the value is used, so that no compiler removes the call.
            uint256 v = Elementary.value(operator, a, b);
            uint256 spent = before - gasleft();
            results[i] = v >> 32 == 0 ? spent : 0;
        }
        return abi.encodePacked(results);
    }

    function operatorOf(bytes32 name) public pure returns (uint256) {
        if (name == "exp") return Elementary.EXP;
        if (name == "log") return Elementary.LOG;
        if (name == "rsqrt") return Elementary.RSQRT;
        if (name == "erf") return Elementary.ERF;
        if (name == "tanh") return Elementary.TANH;
        if (name == "sin") return Elementary.SIN;
        if (name == "cos") return Elementary.COS;
        if (name == "log1p") return Elementary.LOG1P;
        if (name == "pow") return Elementary.POW;
        revert NoSuchFunction(name);
    }

    function _operands(bytes calldata cases, uint256 i) private pure returns (uint256 a, uint256 b) {
        a = uint32(bytes4(cases[8 * i:8 * i + 4]));
        b = uint32(bytes4(cases[8 * i + 4:8 * i + 8]));
    }
}
