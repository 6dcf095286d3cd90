#include <verge/fiber/detail/parkable.hpp>

namespace verge::fibers::detail {

namespace {

constinit thread_local thread_parkable own_parkable;

wake_reason block_thread(parkable& self, verge::parker& parker, parkable::epoch of,
                         time_point deadline) noexcept {
    // Every claim of another is followed by one unpark(), which must be awaited: it is the last
    // that the claimer does with this thread.
    if (!parker.park(deadline) && self.claim(of, wake_reason::timed_out) == claim_result::lost) {
        static_cast<void>(parker.park(never));
    }
    return self.finish();
}

}  // namespace

parkable& current() noexcept {
    return own_parkable;
}

wake_reason parkable::suspend(epoch of, time_point deadline) {
    return block_thread(*this, static_cast<thread_parkable&>(*this).parker, of, deadline);
}

void parkable::make_ready() noexcept {
    static_cast<thread_parkable&>(*this).parker.unpark();
}

}  // namespace verge::fibers::detail
