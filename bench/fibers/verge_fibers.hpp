// bench/fibers/verge_fibers.hpp -- Verge's scheduler, with the interface of the fiber workloads.
//
// A fiber library in that form has
//   run(workers, inside, outside)  runs inside(library) in a fiber on that many workers, and at the
//                                  same time outside() on the calling thread; returns after both.
//                                  Workers 0: what the library does by itself.
//   spawn(f)                       from a fiber; returns a `fiber` with join() and detach()
//   yield(), sleep_until(ns)       of the calling fiber; false if the sleep was cut short

#pragma once

#include "support/clock.hpp"
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace bench {

/// Exactly that many workers; with 0 the defaults.
[[nodiscard]] inline verge::fibers::scheduler::options verge_workers(std::size_t workers) {
    verge::fibers::scheduler::options chosen;
    if (workers != 0) chosen.min_workers = chosen.max_workers = workers;
    return chosen;
}

class verge_fibers {
public:
    using fiber = verge::fibers::fiber<>;

    template <class Inside, class Outside>
    static void run(std::size_t workers, Inside inside, Outside outside) {
        verge_fibers library(workers);
        fiber first = library.spawn([&] { inside(library); });
        outside();
        first.join();
    }

    template <class F>
    fiber spawn(F f) {
        return scheduler_.spawn(std::move(f));
    }

    static void yield() { verge::this_fiber::yield(); }

    static bool sleep_until(std::int64_t ns) {
        return verge::this_fiber::sleep_until(as_time_point(ns)) ==
               verge::fibers::sleep_result::elapsed;
    }

    verge_fibers(const verge_fibers&) = delete;
    verge_fibers& operator=(const verge_fibers&) = delete;

private:
    explicit verge_fibers(std::size_t workers) : scheduler_(verge_workers(workers)) {}
    ~verge_fibers() { scheduler_.stop(); }  // ends fibers that sleep without a deadline

    verge::fibers::scheduler scheduler_;
};

}  // namespace bench
