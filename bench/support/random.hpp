// bench/support/random.hpp -- one cheap random sequence, the same for every peer.
//
// splitmix64: below 2 ns a number; the state is a counter in a register, so nothing waits for the
// last number, and the caches of the measured are left alone.
//
// In a register only if it is a local variable of the measured loop: a member is written back with
// every number, since the compiler cannot know that a queue's stores leave it alone.  On AMD that
// alone doubled the cost of arming a timer, or did not, by the addresses that chance gave.

#pragma once

#include <cstdint>

namespace bench {

class random_sequence {
public:
    std::uint64_t operator()() noexcept {
        std::uint64_t bits = state_ += 0x9e3779b97f4a7c15;
        bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
        bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
        return bits ^ (bits >> 31);
    }

private:
    std::uint64_t state_ = 0;
};

/// Maps a 32-bit number to [0, range) without a division.
[[nodiscard]] constexpr std::uint64_t scale_to(std::uint64_t bits32, std::uint64_t range) noexcept {
    return (bits32 * range) >> 32;
}

/// Two independent 32-bit numbers out of one.
[[nodiscard]] constexpr std::uint64_t high_half(std::uint64_t bits) noexcept {
    return bits >> 32;
}
[[nodiscard]] constexpr std::uint64_t low_half(std::uint64_t bits) noexcept {
    return bits & 0xffff'ffff;
}

/// Order-sensitive: the same values in another order give another hash.
class running_hash {
public:
    void add(std::uint64_t value) noexcept { hash_ = (hash_ ^ value) * 0x100000001b3; }
    [[nodiscard]] std::uint64_t value() const noexcept { return hash_; }

private:
    std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace bench
