// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Ball, Entry, Grid} from "contracts/float/Grid.sol";
import {Kulisch, Sum} from "contracts/float/Kulisch.sol";

/// @notice Forge's cheatcode for numbers that are checked like gas.
interface Snapshots {
    function snapshotValue(string calldata group, string calldata name, uint256 value) external;
}

/// @notice The gas of exact sums and decisions as internal calls: gasleft() before and after. Data are hashes.
contract KulischGasTest is Base {
    uint256 private constant TERMS = 1024;
    uint256 private constant CALLS = 400;

    struct Cost {
        uint256 total;
        uint256 calls;
        uint256 worst;
    }

    function _random(uint256 seed, uint256 i) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, i)));
    }

    /// @dev Returns eight values of about 1 in size: random signs and fractions, exponents of 2^-4 to 2^3.
    function _ordinary(uint256 word) private pure returns (uint256) {
        uint256 lanes = type(uint256).max / type(uint32).max;
        return (word & (0x83ffffff * lanes)) + 0x3d800000 * lanes;
    }

    function _record(string memory name, Cost memory cost) private {
        Snapshots(address(vm)).snapshotValue("exact", string.concat(name, ", mean"), cost.total / cost.calls);
        Snapshots(address(vm)).snapshotValue("exact", string.concat(name, ", worst"), cost.worst);
    }

    /// @dev Frees the memory that a call took.
    function _add(Cost memory cost, uint256 gas, uint256 free) private pure {
        _giveBack(free);
        ++cost.calls;
        cost.total += gas;
        if (gas > cost.worst) cost.worst = gas;
    }

    function _giveBack(uint256 free) private pure {
        assembly ("memory-safe") {
            mstore(0x40, free)
        }
    }

    /// @dev Returns the start of free memory. NOTE: 64 KiB of it are paid here, so no call pays for memory.
    function _free() private pure returns (uint256 free) {
        assembly ("memory-safe") {
            free := mload(0x40)
            mstore(add(free, 0x10000), 0)
        }
    }

    // ------------------------------------------------------------------ sums

    /// @dev Kinds: 0 ordinary, 1 any finite bits, 2 zeros, 3 the largest value, 4 subnormals, 5 infinities, 6 as 0 with
    /// an infinity in the first word, 7 as 0 with an infinity in the last word
    function _terms(uint256 kind, uint256 count) private pure returns (bytes memory terms) {
        terms = new bytes(count * 8);
        for (uint256 i = 0; i < count; i += 4) {
            uint256 word = _random(kind, i);
            uint256 lanes = type(uint256).max / type(uint32).max;
            if (kind == 1) word &= 0xbfffffff * lanes;
            else if (kind == 2) word = 0;
            else if (kind == 3) word = 0x7f7fffff * lanes;
            else if (kind == 4) word &= 0x807fffff * lanes;
            else if (kind == 5) word = 0x7f800000 * lanes;
            else word = _ordinary(word);
            if (kind == 6 && i == 0 || kind == 7 && i == count - 4) {
                word = (word & ~uint256(type(uint32).max)) | 0x7f800000;
            }
            assembly ("memory-safe") {
                mstore(add(add(terms, 0x20), shl(3, i)), word)
            }
        }
    }

    function _costOfTerms(bytes memory terms) private view returns (uint256 gas) {
        Sum memory sum;
        Sum memory magnitude;
        gas = gasleft();
        (sum, magnitude) = Kulisch.addTerms(sum, magnitude, terms);
        gas -= gasleft();
    }

    /// @dev In a frame of its own, so that memory starts small.
    function costOfTerms(uint256 kind, uint256 count) external view returns (uint256) {
        return _costOfTerms(_terms(kind, count));
    }

    function test_terms() public {
        string[8] memory names = [
            "ordinary",
            "any finite bits",
            "zeros",
            "the largest value",
            "subnormals",
            "infinities",
            "an infinity first",
            "an infinity last"
        ];
        for (uint256 kind = 0; kind < 8; ++kind) {
            uint256 gas = this.costOfTerms(kind, TERMS);
            Snapshots(address(vm))
                .snapshotValue(
                    "exact", string.concat("sum and magnitude, 100 terms, ", names[kind]), gas * 100 / TERMS
                );
        }
        Snapshots(address(vm)).snapshotValue("exact", "sum and magnitude, one term", this.costOfTerms(0, 1));
    }

    function test_oneProduct() public {
        Cost memory cost;
        Sum memory sum = Kulisch.product(0x3f800001, 0xbf800001);
        for (uint256 i = 0; i < CALLS; ++i) {
            uint256 word = _random(11, i);
            (uint256 a, uint256 b) = (word & 0xbfffffff, word >> 32 & 0xbfffffff);
            uint256 free = _free();
            uint256 gas = gasleft();
            Kulisch.addProduct(sum, a, b);
            _add(cost, gas - gasleft(), free);
        }
        _record("addProduct", cost);
    }

    // ------------------------------------------------------------------ decisions

    function _ball(uint256 i) private pure returns (Ball memory ball) {
        uint256 word = _random(12, i);
        (ball.sum, ball.magnitude) = Kulisch.addTerms(
            ball.sum, ball.magnitude, abi.encodePacked(i % 2 == 0 ? _ordinary(word) : word & ((1 << 254) - 1))
        );
        (ball.numerator, ball.denominator) = Grid.gamma(768, false);
    }

    function test_decide() public {
        Cost[4] memory costs;
        for (uint256 i = 0; i < CALLS; ++i) {
            uint256 start = _free();
            Ball memory ball = _ball(i);
            for (uint256 kind = 0; kind < 4; ++kind) {
                // The written value is next to the nearest one, where the most is compared.
                Entry memory entry = Entry(kind, uint32(Grid.toGrid(ball.sum, 26 + i % 7, 1) + 64));
                uint256 free = _free();
                uint256 gas = gasleft();
                Grid.decide(ball, entry, 26 + i % 7);
                _add(costs[kind], gas - gasleft(), free);
            }
            _giveBack(start);
        }
        _record("decide, down", costs[0]);
        _record("decide, no entry", costs[1]);
        _record("decide, up", costs[2]);
        _record("decide, written", costs[3]);
    }

    function test_decideBracket() public {
        Cost[4] memory costs;
        for (uint256 i = 0; i < CALLS; ++i) {
            uint256 start = _free();
            int256 lo = int256(_random(13, i) >> (130 + i % 8)) * (i % 2 == 0 ? -1 : int256(1));
            int256 exponent = int256(i % 100) - 240;
            for (uint256 kind = 0; kind < 4; ++kind) {
                Entry memory none = Entry(Grid.NEAREST, 0);
                uint256 nearest = Grid.decideBracket(lo, lo + 1, exponent, none, 26 + i % 7);
                Entry memory entry = Entry(kind, uint32(nearest + 64));
                uint256 free = _free();
                uint256 gas = gasleft();
                Grid.decideBracket(lo, lo + 1, exponent, entry, 26 + i % 7);
                _add(costs[kind], gas - gasleft(), free);
            }
            _giveBack(start);
        }
        _record("decideBracket, down", costs[0]);
        _record("decideBracket, no entry", costs[1]);
        _record("decideBracket, up", costs[2]);
        _record("decideBracket, written", costs[3]);
    }

    function test_roundBits64() public {
        Cost memory cost;
        for (uint256 i = 0; i < CALLS; ++i) {
            // From 2^-160 to 2^160, every other one from 2^-1022 to 2^1023.
            uint256 bits = _random(14, i) >> 192;
            if (i % 2 == 0) bits = (bits & ((1 << 63) | ((1 << 52) - 1))) | (863 + bits % 320) << 52;
            uint256 free = _free();
            uint256 gas = gasleft();
            Grid.roundBits64(bits, 26 + i % 7);
            _add(cost, gas - gasleft(), free);
        }
        _record("roundBits64", cost);
    }

    function test_gamma() public {
        Cost[2] memory costs;
        for (uint256 i = 0; i < CALLS; ++i) {
            uint256 n = _random(15, i) >> (225 + i % 31);
            uint256 free = _free();
            uint256 gas = gasleft();
            Grid.gamma(n, false);
            _add(costs[0], gas - gasleft(), free);
            gas = gasleft();
            Grid.gamma(n, true);
            _add(costs[1], gas - gasleft(), free);
        }
        _record("gamma, proven", costs[0]);
        _record("gamma, probable", costs[1]);
    }
}
