// bench/sleepers/sleepers.hpp -- the one script of `sleepers` that every fiber library plays.
//
// A fiber starts n others, which sleep; each has its own deadline, in a stretch of time that begins
// after the last has gone to sleep.  bytes_per_fiber is how much resident memory has grown while
// all sleep: stacks and all that the library has for them; the page tables do not count.  The
// checksum verifies that each woke up once.  The libraries run with as many workers as they take by
// themselves.

#pragma once

#include "framework/workload.hpp"
#include "sleepers/sleep_record.hpp"
#include "support/clock.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace bench {

template <class Fibers>
void sleep_all(Fibers& fibers, sleep_record& record) {
    for (std::size_t i = 0; i < record.size(); ++i) {
        const auto sleep_and_note = [&record, i] {
            record.goes_to_sleep();
            if (Fibers::sleep_until(record.deadline(i))) record.woke_up(i);
        };
        fibers.spawn(sleep_and_note).detach();
        if (i % 1024 == 0) Fibers::yield();
    }
}

template <class Fibers>
[[nodiscard]] outcome run_sleepers(const job& asked) {
    const std::size_t n = asked.params.integer("n");
    // Time for all to go to sleep in; slow libraries get more on the next try.
    std::int64_t lead = 100'000'000 + static_cast<std::int64_t>(n) * 6000;
    for (int tries = 0; tries < 3; ++tries, lead *= 2) {
        sleep_record record(n, now_ns() + lead, asked.seconds);  // outlives the fibers
        Fibers::run(
            0, [&](Fibers& fibers) { sleep_all(fibers, record); }, [&] { record.observe(); });
        if (record.counts()) return record.result();
    }
    throw std::runtime_error("the fibers take longer to go to sleep than any lead we give them");
}

}  // namespace bench
