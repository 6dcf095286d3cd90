// verge/fibers/parallel_for.hpp -- calls a function for each index of a range, on all workers.
//
//     verge::fibers::parallel_for(0, rows, [&](std::size_t row) { scale(matrix[row]); });
//
// The range is divided into chunks of at least `grain` indices, each run by a fiber; the caller
// runs the first one itself and waits for the others.  For chunks of at least some microseconds.
//
// Guarantees, under the names of the tests that hold them
//   VisitsEachIndexOnce
//   RethrowsOneException      when all chunks have ended; a chunk that throws skips its rest.
//   DropsTheOtherExceptions
//
// Not for a body that depends on other indices of the range: the order of chunks is unspecified.
//
// Thread safety: the body is called on several threads at once.
// Exceptions: what the body throws, and what spawn() throws: then no chunk is left running.

#pragma once

#include <verge/fibers/scheduler.hpp>
#include <verge/sync/forced_unwind.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <vector>

namespace verge::fibers {

/// Calls body(i) for each i in [begin, end), and returns when all calls have returned.  On the
/// scheduler of the calling fiber; on scheduler::shared() if a plain thread calls it.  At most 4
/// chunks per worker, of at least `grain` indices.
template <std::invocable<std::size_t> Body>
void parallel_for(std::size_t begin, std::size_t end, Body&& body, std::size_t grain = 1) {
    if (begin >= end) return;
    scheduler* const own = scheduler::current();
    scheduler& on = own != nullptr ? *own : scheduler::shared();
    // A few chunks per worker, so that the last one to finish is not far behind the others.
    const std::size_t count = end - begin;
    const std::size_t pieces = std::max<std::size_t>(4 * on.max_workers(), 1);
    const std::size_t size = std::max({grain, (count + pieces - 1) / pieces, std::size_t{1}});
    const auto run = [&body](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; ++i)
            body(i);
    };
    std::exception_ptr first;  // later ones are dropped: they usually have the same cause
    const auto attempt = [&first](auto&& part) {
        try {
            part();
        } catch (const forced_unwind&) {
            throw;  // ends the others too: their handles stop and join them
        } catch (...) {
            if (first == nullptr) first = std::current_exception();
        }
    };
    std::vector<fiber<>> others;
    others.reserve(count / size + 1);
    attempt([&] {
        for (std::size_t from = begin + std::min(size, count); from < end;) {
            const std::size_t to = end - from > size ? from + size : end;
            others.push_back(on.spawn(batched, [&run, from, to] { run(from, to); }));
            from = to;
        }
    });
    on.flush();
    if (first == nullptr) attempt([&] { run(begin, begin + std::min(size, count)); });
    for (fiber<>& each : others)
        attempt([&] { each.join(); });
    if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace verge::fibers
