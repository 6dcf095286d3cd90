// src/fibers/fiber_life.cpp -- how a join waits for a fiber's end: as a fiber or a thread, on a
// word.

#include <verge/fibers/detail/fiber_life.hpp>
#include <verge/sync/wait.hpp>

namespace verge::fibers::detail {

bool life_platform::wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                         time_point deadline) {
    return wait_joining(word, value, deadline) != wait_result::timed_out;
}

void life_platform::notify_all(const std::atomic<std::uint32_t>& word) noexcept {
    verge::notify_all(word);
}

}  // namespace verge::fibers::detail
