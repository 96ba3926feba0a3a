// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../commit/Modes.sol";
import {IOpset} from "./IOpset.sol";
import {IRule} from "./IRule.sol";

/// @title Opset1
/// @notice Version 1 of the operator set (docs/opset.md): the family of each operator, and a rule for each family and
/// arithmetic. All of it is fixed when the contract is deployed.
///
///     family           operators
///     0 Elementwise    1-8 11 20-31    arithmetic, comparisons, logic, where, casts
///     1 Exponentials   9 12 13         exp erf tanh
///     2 Logarithms     10 16 17        log log1p pow
///     3 Trigonometry   14 15           sin cos
///     4 Reductions     40-42           sum amax argmax
///     5 Contractions   50-54           mm bmm conv2d conv2d_input_grad conv2d_weight_grad
///     6 Pooling        55              max_pool2d
///     7 Rows           60 61           take scatter_add
///     8 Layout         70-74           reshape permute expand slice cat
///     9 Sources        80-82           full arange philox
contract Opset1 is IOpset {
    uint32 public constant version = 1;
    uint256 public constant FAMILIES = 10;

    // Sets of operators: bit `op` stands for operator `op`.
    uint256 private constant ELEMENTWISE = 0x1FE | (1 << 11) | (0xFFF << 20);
    uint256 private constant EXPONENTIALS = (1 << 9) | (1 << 12) | (1 << 13);
    uint256 private constant LOGARITHMS = (1 << 10) | (1 << 16) | (1 << 17);
    uint256 private constant TRIGONOMETRY = (1 << 14) | (1 << 15);
    uint256 private constant REDUCTIONS = 0x7 << 40;
    uint256 private constant CONTRACTIONS = 0x1F << 50;
    uint256 private constant POOLING = 1 << 55;
    uint256 private constant ROWS = 0x3 << 60;
    uint256 private constant LAYOUT = 0x1F << 70;
    uint256 private constant SOURCES = 0x7 << 80;

    IRule[FAMILIES] private _repopsF32;
    IRule[FAMILIES] private _exact;
    IRule[FAMILIES] private _rounded;
    IRule[FAMILIES] private _tc16;

    /// @param repopsF32 The rules of repops-f32, in the order of the families. Zero where there is none.
    /// @param exact The rules of exact.
    /// @param rounded The rules of rounded-f64, for all its parameters.
    /// @param tc16 The rules of tc16.
    constructor(
        IRule[FAMILIES] memory repopsF32,
        IRule[FAMILIES] memory exact,
        IRule[FAMILIES] memory rounded,
        IRule[FAMILIES] memory tc16
    ) {
        (_repopsF32, _exact, _rounded, _tc16) = (repopsF32, exact, rounded, tc16);
    }

    /// @inheritdoc IOpset
    function rule(uint16 op, uint8 mode) external view returns (IRule found) {
        uint256 family = _family(op);
        if (family < FAMILIES) {
            if (mode == Modes.REPOPS_F32) found = _repopsF32[family];
            if (mode == Modes.EXACT) found = _exact[family];
            if (Modes.rounded(mode)) found = _rounded[family];
            if (mode == Modes.TC16) found = _tc16[family];
        }
        if (address(found) == address(0)) revert NoRule(op, mode);
    }

    /// @dev Returns an operator's family; `FAMILIES` if the opset has no such operator.
    function _family(uint16 op) private pure returns (uint256) {
        if (_among(op, ELEMENTWISE)) return 0;
        if (_among(op, EXPONENTIALS)) return 1;
        if (_among(op, LOGARITHMS)) return 2;
        if (_among(op, TRIGONOMETRY)) return 3;
        if (_among(op, REDUCTIONS)) return 4;
        if (_among(op, CONTRACTIONS)) return 5;
        if (_among(op, POOLING)) return 6;
        if (_among(op, ROWS)) return 7;
        if (_among(op, LAYOUT)) return 8;
        if (_among(op, SOURCES)) return 9;
        return FAMILIES;
    }

    function _among(uint16 op, uint256 operators) private pure returns (bool) {
        return (operators >> op) & 1 != 0;
    }
}
