// The timer thread and the system around it: the thread itself, memory, statistics, the shared one.

#include "unit/driver/timer_thread_fixture.hpp"

#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"
#include <verge/base/detail/annotate.hpp>
#include <verge/base/detail/fork_guard.hpp>
#include <verge/base/detail/slot_registry.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verge {
namespace {

using options = timer_thread::options;

std::string name_of(pid_t tid) {
    std::string name = text_of("/proc/self/task/" + std::to_string(tid) + "/comm");
    if (!name.empty()) name.pop_back();  // the end of the line
    return name;
}

// ---- fork ----

#if !VERGE_HAS_TSAN  // TSan wants no threads in a child of a threaded process
// Forks while other threads do what making a timer thread does: no lock of theirs is held in the
// child.
TEST(TimerThreadSystem, AForkedChildCanMakeItsOwn) {
    std::atomic<bool> over{false};
    std::vector<std::thread> others;
    for (int i = 0; i < 2; ++i) {
        others.emplace_back([&] {
            while (!over) {
                const auto [number, generation] = detail::slot_numbers.take();
                detail::slot_numbers.give_back(number, generation);
                const detail::fork_guard guard;
            }
        });
    }
    for (int round = 0; round < 30; ++round) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(30);  // a child that hangs is killed, and that is seen
            timer_thread timers;
            std::promise<void> fired;
            timers.schedule_after(1us, [&] { fired.set_value(); });
            fired.get_future().wait();
            ::_exit(0);
        }
        ASSERT_GT(child, 0);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0) << "in round " << round;
    }
    over = true;
    for (std::thread& t : others)
        t.join();
}
#endif

// ---- the thread ----

TEST(TimerThreadSystem, HasAName) {
    timer_thread timers;
    EXPECT_EQ(name_of(thread_of(timers)), "verge-timer");
    timer_thread named({.name = "rpc"});
    EXPECT_EQ(name_of(thread_of(named)), "rpc");
    timer_thread long_named({.name = "a name longer than a thread may have"});
    EXPECT_EQ(name_of(thread_of(long_named)), "a name longer t");
    timer_thread nameless({.name = ""});
    EXPECT_EQ(name_of(thread_of(nameless)), "");
    char name[16] = {};
    EXPECT_EQ(::pthread_getname_np(named.native_handle(), name, sizeof name), 0);
    EXPECT_STREQ(name, "rpc");
}

// But those about the thread itself: tests/issues/crash_signals_test.cpp.
TEST(TimerThreadSystem, BlocksTheProgramsSignals) {
    sigset_t before;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
    timer_thread timers;
    sigset_t after;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
    const std::string status =
        text_of("/proc/self/task/" + std::to_string(thread_of(timers)) + "/status");
    const std::size_t line = status.find("SigBlk:");
    ASSERT_NE(line, std::string::npos);
    const std::uint64_t blocked = std::stoull(status.substr(line + 7), nullptr, 16);
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
        if (signal == SIGKILL || signal == SIGSTOP) continue;
        const bool own = signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE ||
                         signal == SIGILL || signal == SIGTRAP || signal == SIGSYS ||
                         signal == SIGABRT || signal == SIGPROF;
        if (signal > 31 && signal < SIGRTMIN) continue;  // the C library's own
        EXPECT_EQ((blocked >> (signal - 1) & 1U) != 0, !own) << signal;
        EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << "here, nothing";
    }
}

TEST(TimerThreadSystem, SetsTheKernelsSlack) {
    const auto slack_of = [](duration slack) {
        timer_thread timers({.kernel_slack = slack});
        std::atomic<int> told{-1};
        timers.schedule_after(0ns, [&] { told = ::prctl(PR_GET_TIMERSLACK); });
        EXPECT_TRUE(eventually([&] { return told >= 0; }));
        return told.load();
    };
    EXPECT_EQ(slack_of(options{}.kernel_slack), 1);
    EXPECT_EQ(slack_of(50us), 50'000);
    EXPECT_EQ(slack_of(0ns), 1);
    EXPECT_EQ(slack_of(-5ms), 1);
    EXPECT_NE(::prctl(PR_GET_TIMERSLACK), 1) << "and of no other thread";
}

// Until when a thread sleeps in a futex, by what the kernel says it asked for; nothing if it does
// not sleep in one, or the kernel does not say.  While it sleeps it makes no other call.
std::optional<time_point> sleeps_until(pid_t tid) {
    const std::string call = text_of("/proc/self/task/" + std::to_string(tid) + "/syscall");
    long number = 0;
    std::uint64_t argument[4] = {};
    std::istringstream words(call);
    if (!(words >> std::dec >> number >> std::hex)) return std::nullopt;
    for (std::uint64_t& each : argument)
        words >> each;
    if (!words || number != SYS_futex) return std::nullopt;
    if (argument[3] == 0) return never;
    // From the thread's stack; if it wakes meanwhile, the answer is as good as an older one.
    timespec at{};
    const iovec to{&at, sizeof at};
    const iovec from{reinterpret_cast<void*>(argument[3]), sizeof at};
    if (::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) != sizeof at) return std::nullopt;
    return time_point(std::chrono::seconds(at.tv_sec) + duration(at.tv_nsec));
}

TEST(TimerThreadSystem, AnIdleThreadMakesNoSystemCall) {
    if (text_of("/proc/self/syscall").empty()) GTEST_SKIP() << "the kernel does not say";
    timer_thread timers;
    const pid_t tid = thread_of(timers);
    EXPECT_TRUE(eventually([&] { return sleeps_until(tid) == never; })) << "nothing is armed";
    timers.schedule_at(never, [] { FAIL(); });
    EXPECT_EQ(sleeps_until(tid), never);
    // One timer: one sleep, until a little before it, since it is far.
    const time_point far = now() + 24h;
    const timer_id id = timers.schedule_at(far, [] { FAIL(); });
    EXPECT_TRUE(eventually([&] {
        const auto until = sleeps_until(tid);
        return until && *until >= far - 23min && *until <= far;
    }));
    // What a cancelled timer leaves behind is one wake-up, then it sleeps for ever again.
    std::atomic<bool> came{false};  // if this thread is that late
    const timer_id near = timers.schedule_after(10ms, [&] { came = true; });
    ASSERT_EQ(timers.cancel(id), cancel_result::cancelled);
    const cancel_result result = timers.cancel_and_wait(near);
    EXPECT_EQ(result, came ? cancel_result::gone : cancel_result::cancelled);
    EXPECT_TRUE(eventually([&] { return sleeps_until(tid) == never; }));
    EXPECT_LE(timers.stats().wakeups, 4U) << "told of `far` and of `near`, and one for each";
}

TEST(TimerThreadSystem, AnIdleThreadDoesNotWake) {
    occurrence later;
    timer_thread timers;
    const pid_t tid = thread_of(timers);
    const timer_id id = timers.schedule_after(1h, [] { FAIL(); });
    timers.schedule_at(never, [] { FAIL(); });
    timers.cancel(timers.schedule_after(1ms, [] {}));
    // At most one wake-up is left by the timer that was cancelled.
    timers.schedule_after(2ms, [&] { later.set(); });
    EXPECT_TRUE(later.wait());
    ASSERT_TRUE(falls_asleep(tid));
    const bool kernel_says = !text_of("/proc/self/syscall").empty();
    EXPECT_TRUE(eventually([&] {  // it sleeps for the hour, and for no timer that is over
        const std::optional<time_point> until = sleeps_until(tid);
        return !kernel_says || (until && *until > now() + 30min);
    }));
    const sleep_watch watch({tid});
    const std::uint64_t wakeups = timers.stats().wakeups;
    for (int i = 0; i < 10'000; ++i) {  // later than what it sleeps for: none of its business
        const timer_id other = timers.schedule_after(2h, [] { FAIL(); });
        timers.reschedule(other, now() + 3h);
        timers.cancel(other);
    }
    on_own_thread([&] { timers.cancel(timers.schedule_after(2h, [] { FAIL(); })); });
    timers.trim();
    EXPECT_EQ(timers.stats().wakeups, wakeups);
    EXPECT_TRUE(watch.all_slept());
    EXPECT_EQ(timers.cancel(id), cancel_result::cancelled);
}

// ---- options ----

TEST(TimerThreadSystem, HasOneToAThousandAndTwentyFourShards) {
    EXPECT_THROW(timer_thread({.shards = 0}), std::invalid_argument);
    EXPECT_THROW(timer_thread({.shards = 1025}), std::invalid_argument);
    for (const std::size_t shards : {1U, 1024U}) {
        timer_thread timers({.shards = shards});
        occurrence fired;
        timers.schedule_after(0ns, [&] { fired.set(); });
        EXPECT_TRUE(fired.wait());
    }
}

TEST(TimerThreadSystem, TheSharedOneIsMadeAsConfigured) {
    EXPECT_TRUE(timer_thread::configure_shared({.name = "unused"}));
    EXPECT_TRUE(timer_thread::configure_shared({.name = "shared", .max_timers = 2}));
    timer_thread* seen[2] = {nullptr, nullptr};
    std::thread first([&] { seen[0] = &timer_thread::shared(); });
    std::thread second([&] { seen[1] = &timer_thread::shared(); });
    first.join();
    second.join();
    timer_thread& timers = timer_thread::shared();
    EXPECT_EQ(seen[0], &timers);
    EXPECT_EQ(seen[1], &timers);
    EXPECT_FALSE(timer_thread::configure_shared({.name = "too late"}));
    EXPECT_EQ(name_of(thread_of(timers)), "shared");
    EXPECT_TRUE(eventually([&] { return timers.stats().pending == 0; }));
    const timer_id one = timers.schedule_after(1h, [] {});
    const timer_id two = timers.schedule_after(1h, [] {});
    EXPECT_FALSE(timers.schedule_after(1h, [] {}));
    timers.cancel(one);
    timers.cancel(two);
}

// ---- what is refused ----

#if !VERGE_HAS_SANITIZER  // a sanitizer needs the address space
TEST(TimerThreadSystem, IsNotMadeIfAThreadIsRefused) {
    enum : int { fine, not_refused, wrong_error, leaked, not_made_later };
    EXPECT_EQ(
        in_child([]() -> int {
            // A stack that no thread before has left behind.
            pthread_attr_t attributes;
            ::pthread_attr_init(&attributes);
            ::pthread_attr_setstacksize(&attributes, std::size_t{256} << 20);
            ::pthread_setattr_default_np(&attributes);
            std::size_t pages = 0;
            static_cast<void>(std::sscanf(text_of("/proc/self/statm").c_str(), "%zu", &pages));
            const rlim_t used = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
            rlimit limit{};
            ::getrlimit(RLIMIT_AS, &limit);
            const rlimit old = limit;
            limit.rlim_cur = used + (rlim_t{64} << 20);
            ::setrlimit(RLIMIT_AS, &limit);
            const auto token = std::make_shared<int>(0);
            try {
                timer_thread timers({.on_exception = [token](std::exception_ptr) {}});
                return not_refused;
            } catch (const std::system_error& error) {
                if (error.code() != std::errc::resource_unavailable_try_again) {
                    return wrong_error;
                }
                if (std::string(error.what()).find("pthread_create") == std::string::npos) {
                    return wrong_error;
                }
            }
            if (token.use_count() != 1) return leaked;
            ::setrlimit(RLIMIT_AS, &old);
            timer_thread timers;
            occurrence fired;
            timers.schedule_after(0ns, [&] { fired.set(); });
            return fired.wait() ? fine : not_made_later;
        }),
        fine);
}
#endif

#if VERGE_CAN_REFUSE_MEMORY
TEST(TimerThreadSystem, IsNotMadeIfMemoryIsRefused) {
    const auto token = std::make_shared<int>(0);
    const options opts{.shards = 2,
                       .reserve = 3000,
                       .run_on = [token](callback) {},
                       .on_exception = [token](std::exception_ptr) {}};
    const long uses = token.use_count();
    int nth = 1;
    for (bool refused = true; refused; ++nth) {
        refused = false;
        failing_new failing(nth);
        try {
            const timer_thread timers(opts);
        } catch (const std::bad_alloc&) {
            refused = true;
        }
        ASSERT_EQ(refused, failing.struck());
        ASSERT_EQ(token.use_count(), uses);
    }
    EXPECT_GT(nth, 5);
}

TEST(TimerThreadSystem, SchedulesNothingIfMemoryIsRefused) {
    using way = timer_id (*)(timer_thread&, const std::array<char, 100>&);
    const way ways[] = {
        [](timer_thread& t, const std::array<char, 100>& bulk) {
            return t.schedule_after(1h, [bulk] { static_cast<void>(bulk); });
        },
        [](timer_thread& t, const std::array<char, 100>& bulk) {
            return t.schedule_at(now() + 1h, [bulk] { static_cast<void>(bulk); });
        },
        [](timer_thread& t, const std::array<char, 100>& bulk) {
            return t.schedule_between(now(), now() + 1h, [bulk] { static_cast<void>(bulk); });
        },
        [](timer_thread& t, const std::array<char, 100>& bulk) {
            return t.schedule_every(1h, [bulk] { static_cast<void>(bulk); });
        },
        [](timer_thread& t, const std::array<char, 100>&) {
            return t.schedule_at(
                now() + 1h, [](void*) {}, nullptr);
        },
    };
    for (const way schedule : ways) {
        int nth = 1;
        for (bool refused = true; refused; ++nth) {
            timer_thread timers({.shards = 1, .max_timers = 1});
            const std::array<char, 100> bulk{};
            timer_id id;
            refused = false;
            {
                failing_new failing(nth);
                try {
                    id = schedule(timers, bulk);
                } catch (const std::bad_alloc&) {
                    refused = true;
                }
                ASSERT_EQ(refused, failing.struck());
            }
            EXPECT_EQ(bool(id), !refused);
            EXPECT_EQ(timers.stats().scheduled, refused ? 0U : 1U);
            EXPECT_EQ(timers.stats().pending, refused ? 0U : 1U);
            EXPECT_EQ(timers.stats().rejected, 0U) << "an empty id is for other reasons";
            EXPECT_EQ(refused, bool(timers.schedule_after(1h, [] {}))) << "the room is free";
        }
        EXPECT_GT(nth, 2);
    }
}
#endif

// ---- statistics ----

TEST(TimerThreadSystem, CountsWhatItDoes) {
    timer_thread timers({.max_timers = 50});
    const std::uint64_t start_wakeups = timers.stats().wakeups;
    EXPECT_EQ(timers.stats().fired, 0U);
    std::vector<timer_id> far;
    for (int i = 0; i < 50; ++i)
        far.push_back(timers.schedule_after(1h, [] { FAIL(); }));
    EXPECT_FALSE(timers.schedule_after(1h, [] { FAIL(); }));
    for (std::size_t i = 0; i < 20; ++i)
        timers.cancel(far[i]);
    timers.reschedule(far[30], now() + 2h);
    std::atomic<int> runs{0};
    for (int i = 0; i < 10; ++i)
        timers.schedule_after(i * 1ms, [&] { ++runs; });
    EXPECT_TRUE(eventually([&] { return runs == 10; }));
    timers.schedule_after(0ns, [&] {
        const time_point start = now();
        while (now() < start + 2ms) {
        }
        ++runs;
    });
    EXPECT_TRUE(eventually([&] { return runs == 11; }));
    const timer_thread::statistics stats = timers.stats();
    EXPECT_EQ(stats.scheduled, 61U);
    EXPECT_EQ(stats.cancelled, 20U);
    EXPECT_EQ(stats.rescheduled, 1U);
    EXPECT_EQ(stats.fired, 11U);
    EXPECT_EQ(stats.dropped, 0U);
    EXPECT_EQ(stats.rejected, 1U);
    EXPECT_EQ(stats.pending, 30U);
    EXPECT_TRUE(same_sum(stats));
    EXPECT_EQ(stats.lateness.count(), 11U);
    EXPECT_GE(stats.wakeups, start_wakeups);
    EXPECT_LE(stats.spurious_wakeups, stats.wakeups);
    // Time is counted when the thread goes to sleep.
    EXPECT_TRUE(eventually([&] { return timers.stats().busy_ns >= 2'000'000; }));
    timers.stop();
    EXPECT_EQ(timers.stats().dropped, 30U);
    EXPECT_EQ(timers.stats().pending, 0U);
    EXPECT_TRUE(same_sum(timers.stats()));
}

TEST(TimerThreadSystem, CountsAWakeUpForNothing) {
    timer_thread timers;
    const pid_t tid = thread_of(timers);
    ASSERT_TRUE(falls_asleep(tid));
    const timer_thread::statistics before = timers.stats();
    timers.cancel(timers.schedule_after(1h, [] { FAIL(); }));  // earlier than never
    EXPECT_TRUE(eventually([&] { return timers.stats().wakeups > before.wakeups; }));
    EXPECT_TRUE(
        eventually([&] { return timers.stats().spurious_wakeups > before.spurious_wakeups; }));
    EXPECT_EQ(timers.stats().fired, before.fired);
}

TEST(TimerThreadSystem, TellsItsStatisticsByName) {
    static_assert(stats_snapshot<timer_thread::statistics>);
    timer_thread timers;
    std::map<std::string, std::uint64_t, std::less<>> told;
    timers.stats().visit(
        [&](std::string_view name, stat_kind, std::uint64_t value, std::string_view help) {
            EXPECT_TRUE(told.emplace(std::string(name), value).second) << name;
            EXPECT_FALSE(help.empty());
        });
    for (const char* const name : {"scheduled", "cancelled", "rescheduled", "fired", "dropped",
                                   "rejected", "pending", "wakeups", "spurious_wakeups", "busy_ns",
                                   "lateness_ns_p50", "lateness_ns_max", "lateness_ns_count"}) {
        EXPECT_TRUE(told.contains(std::string_view(name))) << name;
    }
}

// ---- trim ----

TEST(TimerThreadSystem, TrimGivesMemoryBack) {
    occurrence fired;
    timer_thread timers;
    std::vector<timer_id> ids;
    for (int i = 0; i < 50'000; ++i)
        ids.push_back(timers.schedule_after(1h, [] { FAIL(); }));
    const std::size_t full = resident_bytes();
    for (std::size_t i = 1; i < ids.size(); ++i)
        timers.cancel(ids[i]);
    timers.trim();
    EXPECT_TRUE(has_sanitizer || resident_bytes() < full - (std::size_t{3} << 20));
    EXPECT_GT(timers.remaining(ids[0]).value(), 30min);
    for (std::size_t i = 1; i < ids.size(); i += 99)
        EXPECT_EQ(timers.cancel(ids[i]), cancel_result::gone);
    timers.schedule_after(0ns, [&] {
        timers.trim();
        fired.set();
    });
    EXPECT_TRUE(fired.wait());
    EXPECT_EQ(timers.cancel(ids[0]), cancel_result::cancelled);
}

TEST(TimerThreadSystem, ANegativeSpinIsNone) {
    timer_thread timers({.spin = -1h});
    occurrence fired;
    timers.schedule_after(1ms, [&] { fired.set(); });
    EXPECT_TRUE(fired.wait()) << "not an hour late";
}

// Several, since the moment between a sleep and its spin is no busy time, and may be a long one.
TEST(TimerThreadSystem, ASpinCountsAsBusy) {
    timer_thread timers({.spin = 1h});
    for (int i = 0; i < 100 && timers.stats().busy_ns < 20'000'000; ++i) {
        std::promise<void> fired;
        // From inside, so that it spins from then on, however late it is.
        timers.schedule_after(0ns, [&] { timers.schedule_after(2ms, [&] { fired.set_value(); }); });
        fired.get_future().wait();
    }
    timers.stop();
    EXPECT_GE(timers.stats().busy_ns, 20'000'000U);
}

}  // namespace
}  // namespace verge
