// verge/fibers/parallel_for.hpp -- the same for many indices, on all workers.
//
//     verge::fibers::parallel_for(0, rows, [&](std::size_t row) { scale(matrix[row]); });
//
// The range is cut into pieces of at least `grain` indices, each a fiber; the caller does the first
// one itself and waits for the others.  For work that is worth it: some microseconds a piece.
//
// Guarantees, under the names of the tests that hold them
//   VisitsEachIndexOnce
//   RethrowsOneException      when all pieces have ended; a piece that throws leaves its rest out.
//   DropsTheOtherExceptions
//
// Exceptions: what the body throws, and what spawn() throws: then no piece is left running.

#pragma once

#include <verge/fibers/scheduler.hpp>
#include <verge/sync/forced_unwind.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <vector>

namespace verge::fibers {

template <std::invocable<std::size_t> Body>
void parallel_for(std::size_t begin, std::size_t end, Body&& body, std::size_t grain = 1) {
    if (begin >= end) return;
    scheduler* const own = scheduler::current();
    scheduler& on = own != nullptr ? *own : scheduler::shared();
    // A few pieces a worker, so that none waits long for the last.
    const std::size_t count = end - begin;
    const std::size_t pieces = std::max<std::size_t>(4 * on.max_workers(), 1);
    const std::size_t size = std::max({grain, (count + pieces - 1) / pieces, std::size_t{1}});
    const auto run = [&body](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < to; ++i)
            body(i);
    };
    std::exception_ptr first;  // what is thrown later is dropped: all have the same cause, mostly
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
