// verge/sync/no_suspend.hpp -- a scope in which the calling fiber must not wait.
//
//     const std::lock_guard hold(some_std_mutex);
//     const verge::no_suspend here;
//     table.update();                   // must not sleep, nor wait for a verge::mutex
//
// A fiber that waits while it holds a std::mutex blocks every worker that locks that mutex, perhaps
// also the one that would have resumed the fiber: the classic deadlock of fiber runtimes.  In debug
// builds a wait inside the scope prints a message and aborts; a lock or an acquire that need not
// wait is allowed.  With NDEBUG the scope does nothing.  Works in plain threads as well.
//
// Guarantees, under the names of the tests that hold them
//   AWaitInsideAborts                  in debug builds.
//   ALockThatNeedNotWaitIsNoWait       and neither are unlock, notify, release.
//   ScopesNest                         the outermost ends it.
//
// Thread safety: an object belongs to the fiber or thread that made it, and ends there.
// Exceptions: none.

#pragma once

#include <verge/sync/detail/waiter.hpp>

namespace verge {

class [[nodiscard]] no_suspend {
public:
#ifdef NDEBUG
    no_suspend() noexcept {}
#else
    no_suspend() noexcept : who_(&detail::sync::current()) {
        who_->forbid_suspension();
    }
    ~no_suspend() {
        VERGE_ASSERT(who_ == &detail::sync::current(),
                     "verge: a no_suspend scope that changed hands");
        who_->allow_suspension();
    }
#endif
    no_suspend(const no_suspend&) = delete;
    no_suspend& operator=(const no_suspend&) = delete;

#ifndef NDEBUG
private:
    detail::sync::waiter* who_;
#endif
};

}  // namespace verge
