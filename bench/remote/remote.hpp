// bench/remote/remote.hpp -- the one script of `remote` that every fiber library plays.
//
// One thread that is no worker submits 1e6 tasks a second of the run, each to be run in a fiber,
// and then polls until all have run.  A task only counts itself, and never waits.  The checksum is
// over which tasks ran.

#pragma once

#include "framework/workload.hpp"
#include "remote/task_account.hpp"
#include "support/clock.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>

namespace bench {

struct remote_task {
    task_account* account = nullptr;
    std::uint64_t index = 0;
    void operator()() const noexcept { account->note(index); }
};

/// Throws if they have not all run after a minute of polling.
inline void wait_until_ran(const task_account& account, std::uint64_t tasks) {
    constexpr int most_looks = 600'000;
    for (int looks = 0; account.ran() < tasks; ++looks) {
        if (looks == most_looks) {
            throw std::runtime_error("only " + std::to_string(account.ran()) + " of " +
                                     std::to_string(tasks) + " tasks ran");
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

/// `Remote` is made for a number of workers, and has submit(task) and submitted(), which comes
/// after the last one.
template <class Remote>
[[nodiscard]] outcome run_remote(const job& asked) {
    const auto tasks = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(asked.seconds * 1e6));
    task_account account;
    Remote remote(asked.params.integer("workers"));
    const stopwatch watch;
    for (std::uint64_t i = 0; i < tasks; ++i) {
        remote.submit(remote_task{&account, i});
    }
    remote.submitted();
    wait_until_ran(account, tasks);
    const double wall_ns = watch.ns();
    return {{{"ops_per_s", static_cast<double>(tasks) / wall_ns * 1e9}}, account.checksum()};
}

}  // namespace bench
