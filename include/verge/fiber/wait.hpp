// verge/fiber/wait.hpp -- the old place of verge/sync/wait.hpp; goes with the next version.

#pragma once

#include <verge/sync/wait.hpp>

namespace verge::fibers {

using wait_result [[deprecated("use verge::wait_result")]] = verge::wait_result;

[[deprecated("use verge::wait")]] inline verge::wait_result wait(
    const std::atomic<std::uint32_t>& word, std::uint32_t expected, time_point deadline = never) {
    return verge::wait(word, expected, deadline);
}
[[deprecated("use verge::wait_uninterrupted")]] inline verge::wait_result wait_uninterrupted(
    const std::atomic<std::uint32_t>& word, std::uint32_t expected, time_point deadline = never) {
    return verge::wait_uninterrupted(word, expected, deadline);
}
[[deprecated("use verge::notify_one")]] inline std::size_t notify_one(
    const std::atomic<std::uint32_t>& word) noexcept {
    return verge::notify_one(word);
}
[[deprecated("use verge::notify_n")]] inline std::size_t notify_n(
    const std::atomic<std::uint32_t>& word, std::size_t n) noexcept {
    return verge::notify_n(word, n);
}
[[deprecated("use verge::notify_all")]] inline std::size_t notify_all(
    const std::atomic<std::uint32_t>& word) noexcept {
    return verge::notify_all(word);
}
[[deprecated("use verge::requeue")]] inline std::size_t requeue(
    const std::atomic<std::uint32_t>& from, std::uint32_t expected,
    const std::atomic<std::uint32_t>& to, std::size_t wake, std::size_t move) noexcept {
    return verge::requeue(from, expected, to, wake, move);
}

}  // namespace verge::fibers
