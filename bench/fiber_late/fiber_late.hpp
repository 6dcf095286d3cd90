// bench/fiber_late/fiber_late.hpp -- the one script of `fiber-late` that every fiber library plays.
//
// As `late`, but each deadline has a fiber that sleeps until then, and records when it resumes.
// The libraries run with as many workers as they take by themselves.

#pragma once

#include "framework/workload.hpp"
#include "late/lateness.hpp"

#include <cstddef>

namespace bench {

template <class Fibers>
[[nodiscard]] outcome run_fiber_late(const job& asked) {
    const busy_thread load(asked.params.integer("load") != 0);
    lateness noted(asked.seconds);  // outlives the fibers, which write into it
    noted.begin();
    const auto inside = [&](Fibers& fibers) {
        for (std::size_t i = 0; i < noted.size(); ++i) {
            const auto sleep_and_note = [due = noted.deadline(i), note = noted.on_fire(i)] {
                if (Fibers::sleep_until(due)) note();
            };
            fibers.spawn(sleep_and_note).detach();
        }
    };
    Fibers::run(0, inside, [&] { noted.wait_for_all(); });
    return noted.result();
}

}  // namespace bench
