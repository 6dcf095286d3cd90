// src/fibers/census.cpp -- how a census waits: as a fiber or a thread, on a word.

#include <verge/fibers/detail/census.hpp>
#include <verge/sync/wait.hpp>

namespace verge::fibers::detail {

void census_platform::wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                           time_point deadline) {
    static_cast<void>(wait_uninterrupted(word, value, deadline));
}

void census_platform::notify_all(const std::atomic<std::uint32_t>& word) noexcept {
    verge::notify_all(word);
}

}  // namespace verge::fibers::detail
