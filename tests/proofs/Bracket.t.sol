// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Assume} from "./Clocks.t.sol";

/// @title BracketProof
/// @notice The steps in numbers of the bound of docs/economics.md, section 3. `f(h) = floor(log2 h) + 1` and `f(0) =
/// 0`, so `f(h) <= k` means `h < 2^k`. Of `h + 1` living groups at least `floor((h + 1) / 2)` spokesmen lose in a
/// round, and `u` spares take the places of some of them.
contract BracketProof {
    Assume private constant vm = Assume(address(uint160(uint256(keccak256("hevm cheat code")))));

    /// @dev A round lowers `f` by one, and raises it by one for each spare that it uses: for fewer than 2^200 groups.
    function check_aRoundLowersTheLogarithm(uint256 h, uint256 k, uint256 u) external pure {
        vm.assume(k >= 1 && k <= 200 && u <= 50 && h < 1 << k);
        uint256 next = h - (h + 1) / 2 + u;
        assert(next < 1 << (k - 1 + u));
    }

    /// @dev With one group left a round only uses spares.
    function check_oneGroupHasNoRoundOfItsOwn(uint256 u) external pure {
        vm.assume(u <= 200);
        assert(u < 1 << u);
    }

    /// @dev All payments for `r` further claims of roots, at `S 2^i` for the `i`-th, and for the first claim that is
    /// lost with them: the next claim costs at most twice their sum.
    function check_theNextClaimCostsTwiceWhatThoseBeforeDid(uint256 stake, uint256 r) external pure {
        vm.assume(stake <= 2 ** 80 && r < 16);
        uint256 paid = (stake << (r + 1)) - 2 * stake;
        assert(stake << (r + 1) <= 2 * (paid + stake));
    }

    /// @dev With the largest stake, 15 further claims and the first one fit the word in which a group stores their sum.
    function check_whatAGroupRisksFits(uint256 stake) external pure {
        vm.assume(stake <= 2 ** 80);
        assert((stake << 16) - 2 * stake + stake <= type(uint96).max);
    }
}
