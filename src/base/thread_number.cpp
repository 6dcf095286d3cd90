#include <verge/base/detail/thread_number.hpp>

#include <atomic>

namespace verge::detail {

namespace {

std::atomic<unsigned> numbers_given{0};
constinit thread_local unsigned own_number = 0;  // 0: none yet

}  // namespace

[[gnu::noinline]] unsigned thread_number() noexcept {
    if (own_number == 0) [[unlikely]] {
        // relaxed: only the number itself matters.
        own_number = numbers_given.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    return own_number;
}

}  // namespace verge::detail
