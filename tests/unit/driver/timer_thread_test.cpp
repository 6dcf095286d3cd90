// The timer thread: what its header promises, and each way to schedule and to cancel.
// Executors, the end, and the system around it: timer_thread_{executor,stop,system}_test.cpp.

#include "unit/driver/timer_thread_fixture.hpp"

#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>

#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

std::atomic<time_t> date_step{0};  // by how many seconds somebody has set the date

}  // namespace

// The date, as this program sees it.  Everything that asks for it comes here.
extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
    const long result = ::syscall(SYS_clock_gettime, clock, out);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) out->tv_sec += date_step;
    return static_cast<int>(result);
}
extern "C" int gettimeofday(timeval* out, void*) noexcept {
    timespec at{};
    clock_gettime(CLOCK_REALTIME, &at);
    out->tv_sec = at.tv_sec;
    out->tv_usec = at.tv_nsec / 1000;
    return 0;
}
extern "C" time_t time(time_t* out) noexcept {
    timespec at{};
    clock_gettime(CLOCK_REALTIME, &at);
    if (out != nullptr) *out = at.tv_sec;
    return at.tv_sec;
}

namespace verge {
namespace {

using options = timer_thread::options;

// ---- the guarantees of the header ----

void expect_never_early(const options& opts) {
    constexpr int count = 400;
    timer_thread timers(opts);
    std::mt19937_64 random(1);
    std::atomic<int> fired{0};
    std::atomic<int> early{0};
    const auto check = [&](time_point deadline) {
        return [&, deadline] {
            if (now() < deadline) ++early;
            ++fired;
        };
    };
    for (int i = 0; i < count; ++i) {
        const duration delay(random() % 5'000'000);
        const time_point start = now();
        timers.schedule_at(start + delay, check(start + delay));
        timers.schedule_after(delay, check(start + delay));
        timers.schedule_between(start + delay, start + 2 * delay, check(start + delay));
        const timer_id moved = timers.schedule_after(1h, check(start + delay));
        timers.reschedule(moved, start + delay);
    }
    EXPECT_TRUE(eventually([&] { return fired == 4 * count; }));
    std::atomic<int> runs{0};
    const time_point start = now();
    const timer_id id = timers.schedule_every(
        100us,
        [&] {
            if (now() < start + ++runs * 100us) ++early;
        },
        missed_ticks::burst);
    EXPECT_TRUE(eventually([&] { return runs > 100; }));
    timers.cancel_and_wait(id);
    EXPECT_EQ(early, 0);
}

TEST(TimerThread, NeverFiresEarly) {
    expect_never_early({});
    expect_never_early({.shards = 1});
    expect_never_early({.kernel_slack = 50us});
}

TEST(TimerThread, NeverFiresEarlyWhileItSpins) {
    expect_never_early({.spin = 30us});
    expect_never_early({.spin = 10ms});  // longer than any wait
    expect_never_early({.spin = -1ns});
}

TEST(TimerThread, NeverFiresEarlyElsewhere) {
    thread_pool pool(2);
    expect_never_early({.run_on = pool.run_on()});
}

// The same with more threads and a million operations: tests/stress/timer_thread_stress.cpp.
TEST(TimerThread, ExactlyOneEnd) {
    struct record {
        std::atomic<int> runs{0};
        std::atomic<int> cancels{0};
        std::atomic<int> alive{0};
    };
    constexpr std::size_t count = 5000;
    std::vector<record> records(count);
    timer_thread timers;
    std::mt19937_64 random(1);
    std::vector<timer_id> ids;
    for (std::size_t i = 0; i < count; ++i) {
        record& r = records[i];
        ids.push_back(timers.schedule_after(duration(random() % 2'000'000),
                                            [&r, c = counted(r.alive)] { ++r.runs; }));
        const std::size_t other = random() % ids.size();
        if (random() % 2 == 0) {
            timers.reschedule(ids[other], now() + duration(random() % 2'000'000));
        } else if (timers.cancel(ids[other]) == cancel_result::cancelled) {
            ++records[other].cancels;
        }
    }
    timers.stop();
    std::uint64_t dropped = 0;
    for (const record& r : records) {
        ASSERT_EQ(r.alive, 0);
        ASSERT_LE(r.runs + r.cancels, 1);
        if (r.runs + r.cancels == 0) ++dropped;
    }
    EXPECT_EQ(timers.stats().dropped, dropped);
    EXPECT_TRUE(same_sum(timers.stats()));
}

TEST(TimerThread, KeepsDeadlineOrder) {
    constexpr int threads = 4;
    constexpr int each = 300;
    gate busy;
    timer_thread timers;
    timers.schedule_at(time_point{}, busy.wait_here());
    ASSERT_TRUE(busy.entered());  // so nothing is collected before all are scheduled
    const time_point start = now();
    std::mt19937_64 random(1);
    std::vector<std::pair<time_point, int>> fired;
    std::atomic<std::size_t> count{0};
    for (int thread = 0; thread < threads; ++thread) {
        on_own_thread([&] {
            for (int i = 0; i < each; ++i) {
                const time_point deadline = start + duration(random() % 100 * 10'000);
                timers.schedule_at(deadline, [&, deadline, name = thread * each + i] {
                    fired.emplace_back(deadline, name);
                    ++count;
                });
            }
        });
    }
    busy.open();
    ASSERT_TRUE(eventually([&] { return count == threads * each; }));
    timers.stop();
    std::array<std::pair<time_point, int>, threads> last{};
    for (std::size_t i = 0; i < fired.size(); ++i) {
        const auto& [deadline, name] = fired[i];
        ASSERT_GE(deadline, fired[i == 0 ? 0 : i - 1].first);
        auto& before = last[static_cast<std::size_t>(name / each)];
        ASSERT_TRUE(before.first != deadline || before.second < name) << "equal, and of one thread";
        before = {deadline, name};
    }
}

TEST(TimerThread, FreesCallbackOnCancel) {
    timer_thread timers;
    const auto token = std::make_shared<int>(0);
    std::vector<timer_id> ids;
    ids.push_back(timers.schedule_after(1h, [token] {}));
    ids.push_back(timers.schedule_at(never, [token] {}));
    ids.push_back(timers.schedule_every(1h, [token] {}));
    ids.push_back(timers.schedule_between(now() + 1h, now() + 2h, [token] {}));
    ids.push_back(timers.schedule_after(
        1h, [token, bulk = std::array<char, 500>{}] { static_cast<void>(bulk); }));
    long left = token.use_count();
    EXPECT_EQ(left, 6);
    for (const timer_id id : ids) {
        EXPECT_EQ(timers.cancel(id), cancel_result::cancelled);
        EXPECT_EQ(token.use_count(), --left);
        EXPECT_EQ(timers.cancel(id), cancel_result::gone);
    }
    const timer_id waited = timers.schedule_after(1h, [token] {});
    EXPECT_EQ(timers.cancel_and_wait(waited), cancel_result::cancelled);
    EXPECT_EQ(token.use_count(), 1);
}

TEST(TimerThread, FreesCallbackWhenItHasRun) {
    timer_thread timers;
    std::atomic<int> alive{0};
    for (int i = 0; i < 100; ++i)
        timers.schedule_after(0ns, [c = counted(alive)] {});
    EXPECT_TRUE(eventually([&] { return alive == 0; }));
    const timer_id id = timers.schedule_after(0ns, [c = counted(alive)] {});
    EXPECT_TRUE(eventually([&] { return timers.cancel(id) == cancel_result::gone; }));
    EXPECT_EQ(alive, 0) << "gone means destroyed";
}

TEST(TimerThread, GoneMeansVisible) {
    timer_thread timers;
    for (int round = 1; round <= 2000; ++round) {
        int written = 0;  // not atomic: `gone` orders it, and TSan says so
        const timer_id id = timers.schedule_after(0ns, [&written, round] { written = round; });
        while (timers.remaining(id)) {
        }
        cancel_result result = cancel_result::running;
        while (result == cancel_result::running)
            result = round % 2 == 0 ? timers.cancel(id) : timers.cancel_and_wait(id);
        ASSERT_EQ(result, cancel_result::gone);
        ASSERT_EQ(written, round);
        if (round % 100 == 0) timers.trim();  // also if the memory of the timer is gone
    }
}

TEST(TimerThread, EarlierDeadlineShortensTheSleep) {
    for (const duration spin : {duration(0), duration(20us)}) {
        timer_thread timers({.spin = spin});
        const pid_t tid = thread_of(timers);
        const timer_id far = timers.schedule_after(1h, [] { FAIL(); });
        // Each of these wakes a thread that sleeps for an hour.
        const std::vector<std::function<void(callback)>> ways = {
            [&](callback fn) { timers.schedule_after(1ms, std::move(fn)); },
            [&](callback fn) { timers.schedule_after(0ns, std::move(fn)); },
            [&](callback fn) { timers.schedule_at(time_point{}, std::move(fn)); },
            [&](callback fn) { on_own_thread([&] { timers.schedule_after(1ms, std::move(fn)); }); },
            [&](callback fn) { timers.schedule_between(now() + 1ms, now() + 2ms, std::move(fn)); },
            [&](callback fn) {
                timers.reschedule(timers.schedule_after(1h, std::move(fn)), now() + 1ms);
            },
        };
        for (const auto& way : ways) {
            ASSERT_TRUE(falls_asleep(tid));
            occurrence fired;
            way([&] { fired.set(); });
            ASSERT_TRUE(fired.wait());
        }
        ASSERT_TRUE(falls_asleep(tid));
        std::atomic<int> runs{0};
        const timer_id id = timers.schedule_every(1ms, [&] { ++runs; });
        EXPECT_TRUE(eventually([&] { return runs >= 3; }));
        EXPECT_NE(timers.cancel_and_wait(id), cancel_result::running);
        EXPECT_EQ(timers.cancel(far), cancel_result::cancelled);
    }
}

TEST(TimerThread, MemoryFollowsLiveTimers) {
    constexpr int calls = detail::has_tsan ? 100'000 : 500'000;
    constexpr std::size_t window = 1000;
    timer_thread timers;
    chunk_counter chunks;
    std::vector<timer_id> pending(window);
    const auto call = [&](int i) {
        timer_id& id = pending[static_cast<std::size_t>(i) % window];
        timers.cancel(id);
        id = timers.schedule_after(1h, [i] { ADD_FAILURE() << i; });
        chunks.add(id);
    };
    for (int i = 0; i < 5000; ++i)
        call(i);
    const std::size_t before = resident_bytes();
    for (int i = 5000; i < calls; ++i)
        call(i);
    EXPECT_LE(chunks.count(), 2U);
    EXPECT_TRUE(has_sanitizer || resident_bytes() < before + (std::size_t{1} << 20));
    EXPECT_EQ(timers.stats().pending, window);
}

TEST(TimerThread, NoCallbackAfterDtor) {
    std::atomic<bool> over{false};
    std::atomic<int> late{0};
    thread_pool pool(2);
    for (int round = 0; round < 200; ++round) {
        over = false;
        occurrence some_ran;
        {
            timer_thread timers({.run_on = round % 2 == 0 ? nullptr : pool.run_on()});
            for (int i = 0; i < 50; ++i) {
                timers.schedule_after(i * 10us, [&] {
                    if (over) ++late;
                    some_ran.set();
                });
            }
            timers.schedule_every(10us, [&] {
                if (over) ++late;
            });
            ASSERT_TRUE(some_ran.wait());
        }
        over = true;
    }
    EXPECT_EQ(late, 0);
}

TEST(TimerThread, TheDateIsNotTrusted) {
    timer_thread timers;
    std::atomic<int> early{0};
    std::atomic<int> fired{0};
    int scheduled = 0;
    const timer_id far = timers.schedule_after(1h, [] { ADD_FAILURE() << "the date is believed"; });
    const timer_id near = timers.schedule_after(20ms, [&] { ++fired; });
    const auto before = std::chrono::system_clock::now();
    for (const time_t step : {time_t{86'400}, time_t{-86'400}, time_t{40L * 365 * 86'400},
                              time_t{-40L * 365 * 86'400}, time_t{0}}) {
        const auto schedule = [&] {
            const time_point deadline = now() + 5ms;
            const auto check = [&, deadline] {
                if (now() < deadline) ++early;
                ++fired;
            };
            timers.schedule_at(deadline, check);
            timers.schedule_after(5ms, check);
            scheduled += 2;
        };
        schedule();
        date_step = step;  // while it sleeps for them
        schedule();
        EXPECT_TRUE(eventually([&] { return fired >= scheduled; }));
        EXPECT_TRUE(step <= 0 || std::chrono::system_clock::now() > before + 23h) << "it was set";
    }
    EXPECT_TRUE(eventually([&] { return fired == scheduled + 1; }));
    EXPECT_EQ(early, 0);
    EXPECT_EQ(timers.cancel(near), cancel_result::gone);
    EXPECT_GT(timers.remaining(far).value(), 30min);
    EXPECT_EQ(timers.cancel(far), cancel_result::cancelled);
}

TEST(TimerThread, AForkedChildGetsEmptyIds) {
    manual_executor executor;
    auto timers = std::make_unique<timer_thread>();
    auto elsewhere = std::make_unique<timer_thread>(options{.run_on = executor.run_on()});
    std::atomic<int> runs{0};
    const timer_id id = timers->schedule_after(1h, [&] { ++runs; });
    scoped_timer scoped(*timers, timers->schedule_after(1h, [&] { ++runs; }));
    elsewhere->schedule_after(0ns, [&] { ++runs; });
    elsewhere->schedule_after(0ns, [&] { ++runs; });
    ASSERT_TRUE(executor.gets(2));
    EXPECT_EQ(in_child([&]() -> int {
                  if (timers->schedule_after(0ns, [] {})) return 1;
                  if (timers->schedule_at(now(), [] {})) return 2;
                  if (timers->schedule_at(
                          now(), [](void*) {}, nullptr))
                      return 3;
                  if (timers->schedule_between(now(), now() + 1s, [] {})) return 4;
                  if (timers->schedule_every(1s, [] {})) return 5;
                  if (timers->cancel(id) != cancel_result::gone) return 6;
                  if (timers->cancel_and_wait(id) != cancel_result::gone) return 7;
                  if (timers->reschedule(id, now()) != reschedule_result::gone) return 8;
                  if (timers->remaining(id)) return 9;
                  if (timers->stats().scheduled != 0 || timers->stats().pending != 0) return 10;
                  if (timers->on_timer_thread()) return 11;
                  timers->trim();
                  timers->stop();
                  scoped.cancel();
                  if (executor.size() != 2) return 12;
                  executor.take()();  // what the parent's executor holds is the parent's
                  if (runs != 0) return 13;
                  executor.clear();
                  elsewhere.reset();
                  timers.reset();
                  // TSan allows no new thread in a child.
                  if (detail::has_tsan) return 0;
                  timer_thread own;
                  occurrence fired;
                  if (!own.schedule_after(1ms, [&] { fired.set(); })) return 14;
                  if (!fired.wait()) return 15;
                  // A grandchild is not this child, and not its parent.
                  if (in_child([&]() -> int {
                          if (own.schedule_after(0ns, [] {})) return 1;
                          timer_thread third;
                          occurrence again;
                          if (!third.schedule_after(1ms, [&] { again.set(); })) return 2;
                          return again.wait() ? 0 : 3;
                      }) != 0) {
                      return 16;
                  }
                  own.stop();
                  return runs == 0 ? 0 : 17;
              }),
              0);
    // And the parent has not noticed.
    EXPECT_EQ(timers->reschedule(id, now()), reschedule_result::pending);
    executor.run_all();
    EXPECT_TRUE(eventually([&] { return runs == 3; }));
    EXPECT_EQ(scoped.cancel(), cancel_result::cancelled);
}

#if !VERGE_HAS_SANITIZER  // a sanitizer of the child looks for the threads of the parent
// The child of a callback that forks is the timer thread's: when the callback returns there, that
// is its end.
void fork_in_a_callback(bool elsewhere) {
    int ends[2] = {};
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t here = ::getpid();
    std::atomic<pid_t> child{0};
    std::atomic<int> runs{0};
    timer_thread timers(elsewhere ? options{.run_on = [](callback work) { work(); }} : options{});
    const auto say = [&] {
        const char who = ::getpid() == here ? 'p' : 'c';
        EXPECT_EQ(::write(ends[1], &who, 1), 1);
        ++runs;
    };
    const time_point at = now() + 1ms;
    timers.schedule_at(at, [&] {
        const pid_t forked = ::fork();
        if (forked != 0) child = forked;
        ++runs;
    });
    timers.schedule_at(at, say);
    timers.schedule_at(at + 1ms, say);
    timers.schedule_every(1ms, [&] { say(); });
    EXPECT_TRUE(eventually([&] { return runs >= 6; }));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    timers.stop();
    ::close(ends[1]);
    char said[64];
    for (ssize_t n = 0; (n = ::read(ends[0], said, sizeof said)) > 0;)
        EXPECT_EQ(std::count(said, said + n, 'c'), 0);
    ::close(ends[0]);
}

TEST(TimerThread, ACallbackThatForksEndsItsChild) {
    fork_in_a_callback(false);
    fork_in_a_callback(true);
}
#endif

// ---- scheduling ----

TEST(TimerThread, APastDeadlineRunsAtOnce) {
    timer_thread timers;
    std::atomic<int> runs{0};
    for (const time_point past : {now(), now() - 1h, time_point{}, at(-1ns), time_point::min()}) {
        EXPECT_TRUE(timers.schedule_at(past, [&] { ++runs; }));
        EXPECT_TRUE(timers.schedule_between(past, past, [&] { ++runs; }));
        EXPECT_TRUE(timers.schedule_between(past, time_point::min(), [&] { ++runs; }));
    }
    for (const duration delay : {duration(0), duration(-1), duration(-1h), duration::min()}) {
        EXPECT_TRUE(timers.schedule_after(delay, [&] { ++runs; }));
    }
    EXPECT_TRUE(eventually([&] { return runs == 19; }));
}

TEST(TimerThread, NeverNeverRuns) {
    occurrence fired;
    occurrence moved;
    timer_thread timers;
    std::vector<timer_id> ids;
    ids.push_back(timers.schedule_at(never, [] { FAIL(); }));
    ids.push_back(timers.schedule_after(duration::max(), [] { FAIL(); }));
    ids.push_back(timers.schedule_between(never, never, [] { FAIL(); }));
    ids.push_back(timers.schedule_every(duration::max(), [] { FAIL(); }));
    ids.push_back(timers.schedule_after(std::chrono::hours::max(), [] { FAIL(); }));
    ids.push_back(timers.schedule_every(std::chrono::hours::max(), [] { FAIL(); }));
    timers.schedule_after(1ms, [&] { fired.set(); });
    EXPECT_TRUE(fired.wait());
    for (const timer_id id : ids) {
        EXPECT_EQ(timers.remaining(id), duration::max());
        EXPECT_EQ(timers.cancel(id), cancel_result::cancelled);
    }
    const timer_id id = timers.schedule_at(never, [&] { moved.set(); });
    EXPECT_EQ(timers.reschedule(id, now()), reschedule_result::pending);
    EXPECT_TRUE(moved.wait());
}

TEST(TimerThread, ANegativePeriodIsTheLeastOne) {
    std::atomic<int> runs{0};
    timer_thread timers;
    timers.schedule_every(std::chrono::hours::min(), [&] { ++runs; });
    EXPECT_TRUE(eventually([&] { return runs > 2; }));
}

TEST(TimerThread, CallsAFunctionOfC) {
    timer_thread timers;
    std::atomic<int> value{0};
    EXPECT_TRUE(timers.schedule_at(
        now(), [](void* arg) { *static_cast<std::atomic<int>*>(arg) = 7; }, &value));
    EXPECT_TRUE(eventually([&] { return value == 7; }));
    const timer_id id = timers.schedule_at(
        now() + 1h, [](void*) { FAIL(); }, nullptr);
    EXPECT_EQ(timers.cancel(id), cancel_result::cancelled);
}

TEST(TimerThread, TakesAnyMoveOnlyCallable) {
    timer_thread timers;
    std::atomic<int> sum{0};
    timers.schedule_after(0ns, [&, one = std::make_unique<int>(1)] { sum += *one; });
    const std::function<int()> copied = [&] { return sum += 10; };
    timers.schedule_after(0ns, copied);
    timers.schedule_after(0ns, [&, bulk = std::array<int, 100>{100}] { sum += bulk[0]; });
    EXPECT_TRUE(eventually([&] { return sum == 111; }));
}

#if VERGE_CAN_REFUSE_MEMORY
TEST(TimerThread, FortyEightBytesNeedNoAllocation) {
    timer_thread timers({.shards = 1, .reserve = 100});
    std::atomic<int> runs{0};
    {
        failing_new first(1);
        const std::array<std::byte, 40> bulk{};
        for (int i = 0; i < 100; ++i) {
            ASSERT_TRUE(timers.schedule_after(1h, [&runs, bulk] {
                static_cast<void>(bulk);
                ++runs;
            }));
        }
        EXPECT_FALSE(first.struck());
    }
}
#endif

TEST(TimerThread, RefusesAnEmptyFunction) {
    timer_thread timers;
    void (*const nothing)() = nullptr;
    EXPECT_THROW(timers.schedule_at(now(), callback()), std::invalid_argument);
    EXPECT_THROW(timers.schedule_at(now(), std::function<void()>()), std::invalid_argument);
    EXPECT_THROW(timers.schedule_at(now(), nullptr, nullptr), std::invalid_argument);
    EXPECT_THROW(timers.schedule_after(1ns, nothing), std::invalid_argument);
    EXPECT_THROW(timers.schedule_between(now(), now(), nothing), std::invalid_argument);
    EXPECT_THROW(timers.schedule_every(1ns, nothing), std::invalid_argument);
    EXPECT_EQ(timers.stats().scheduled, 0U);
    EXPECT_EQ(timers.stats().rejected, 0U);
}

TEST(TimerThread, RefusesMoreThanMaxTimers) {
    occurrence fired;
    timer_thread timers({.max_timers = 2});
    const timer_id first = timers.schedule_after(1h, [] {});
    EXPECT_TRUE(timers.schedule_after(1h, [] {}));
    EXPECT_FALSE(timers.schedule_after(1h, [] {}));
    EXPECT_FALSE(timers.schedule_every(1h, [] {}));
    EXPECT_EQ(timers.stats().rejected, 2U);
    timers.cancel(first);
    EXPECT_TRUE(timers.schedule_after(0ns, [&] { fired.set(); }));
    EXPECT_TRUE(fired.wait());
    EXPECT_TRUE(eventually([&] { return bool(timers.schedule_after(1h, [] {})); }));
}

TEST(TimerThread, TimersWithSlackShareAWakeUp) {
    timer_thread timers;
    // Around a time so round that there is no other in any of the ranges.
    constexpr std::int64_t round = std::int64_t{1} << 33;  // 8.6 s
    const time_point start =
        at(duration(((now() + 1h).time_since_epoch().count() / round + 1) * round)) - 5s;
    std::vector<duration> remaining;
    for (int i = 0; i < 20; ++i) {
        const timer_id id =
            timers.schedule_between(start + i * 1ms, start + 10s + i * 1ms, [] { FAIL(); });
        remaining.push_back(timers.remaining(id).value());
        EXPECT_GE(now() + remaining.back(), start + i * 1ms);
    }
    // They are due at one time, so what remains differs by no more than the asking took.
    EXPECT_TRUE(std::is_sorted(remaining.rbegin(), remaining.rend()));
}

TEST(TimerThread, CallbacksMaySchedule) {
    constexpr int length = detail::has_tsan ? 20'000 : 200'000;
    timer_thread timers;
    std::atomic<int> left{length};
    struct link {
        timer_thread& timers;
        std::atomic<int>& left;
        void operator()() const {
            if (--left > 0) timers.schedule_after(0ns, link{timers, left});
        }
    };
    timers.schedule_after(0ns, link{timers, left});
    EXPECT_TRUE(eventually([&] { return left == 0; }));
    EXPECT_TRUE(eventually([&] { return timers.stats().pending == 0; }));
    EXPECT_EQ(timers.stats().fired, static_cast<std::uint64_t>(length));
}

TEST(TimerThread, DestructorsMayScheduleAndCancel) {
    timer_thread timers;
    std::atomic<int> runs{0};
    const auto act = [&] {
        const timer_id id = timers.schedule_after(1h, [] { FAIL(); });
        EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::cancelled);
        timers.schedule_after(0ns, [&] { ++runs; });
    };
    timers.cancel(timers.schedule_after(1h, [end = at_end(act)] { FAIL(); }));
    timers.schedule_after(0ns, [end = at_end(act)] {});
    timers.cancel(timers.schedule_every(1h, [end = at_end(act)] { FAIL(); }));
    EXPECT_TRUE(eventually([&] { return runs == 3; }));
}

// ---- cancel, reschedule, remaining ----

// It has no move constructor: each move is a copy, and the end of the old one, which is user code.
struct acts_when_destroyed {
    std::function<void()>* act;
    acts_when_destroyed(std::function<void()>& f) : act(&f) {}
    acts_when_destroyed(const acts_when_destroyed& other) noexcept : act(other.act) { (*act)(); }
    ~acts_when_destroyed() { (*act)(); }
};

TEST(TimerThread, MovesOfCapturesMayScheduleAndCancel) {
    for (const std::size_t shards : {1U, 16U}) {
        std::atomic<int> acts{0};
        std::function<void()> act = [] {};
        std::optional<timer_thread> timers(std::in_place, options{.shards = shards});
        timer_id other = timers->schedule_after(1h, [] { FAIL(); });
        act = [&] {
            ++acts;
            EXPECT_TRUE(other ? timers->cancel(other) != cancel_result::running : true);
            other = timers->schedule_after(1h, [] { FAIL(); });
        };
        const auto made = [&] { return [c = acts_when_destroyed(act)] {}; };
        // Armed in each way, cancelled, and moved.
        const timer_id ids[] = {timers->schedule_after(1h, made()),
                                timers->schedule_at(now() + 1h, made()),
                                timers->schedule_between(now() + 1h, now() + 2h, made()),
                                timers->schedule_every(1h, made())};
        for (const timer_id id : ids) {
            EXPECT_EQ(timers->reschedule(id, now() + 3h), reschedule_result::pending);
            const int before = acts;
            EXPECT_EQ(timers->cancel(id), cancel_result::cancelled);
            EXPECT_EQ(acts, before + 1) << "destroyed where it stood";
            EXPECT_EQ(timers->cancel(id), cancel_result::gone);
        }
        // Dropped by stop, and refused after it.
        EXPECT_TRUE(timers->schedule_after(1h, made()));
        const timer_thread::statistics stats = timers->stats();
        EXPECT_EQ(stats.pending, 2U) << "that one, and `other`";
        timers->stop();
        EXPECT_TRUE(same_sum(timers->stats()));
        const int before = acts;
        EXPECT_FALSE(timers->schedule_after(1h, made())) << "refused, and destroyed";
        EXPECT_GT(acts, before);
        act = [] {};
    }
}

TEST(TimerThread, CancelSaysWhatItFound) {
    gate busy;
    timer_thread timers;
    EXPECT_EQ(timers.cancel({}), cancel_result::gone);
    EXPECT_EQ(timers.cancel_and_wait({}), cancel_result::gone);
    const timer_id id = timers.schedule_after(0ns, busy.wait_here());
    ASSERT_TRUE(busy.entered());
    EXPECT_EQ(timers.cancel(id), cancel_result::running);
    EXPECT_EQ(timers.reschedule(id, now()), reschedule_result::running);
    EXPECT_EQ(timers.remaining(id), std::nullopt);
    // One that is due, and waits for its turn.
    const timer_id next = timers.schedule_after(0ns, [] { FAIL(); });
    EXPECT_TRUE(eventually([&] { return timers.remaining(next) == 0ns; }));
    EXPECT_EQ(timers.cancel(next), cancel_result::cancelled);
    busy.open();
    EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::gone);
    EXPECT_EQ(timers.reschedule(id, now()), reschedule_result::gone);
    EXPECT_EQ(timers.remaining(id), std::nullopt);
    timer_thread other;
    const timer_id foreign = other.schedule_after(1h, [] {});
    EXPECT_EQ(timers.cancel(foreign), cancel_result::gone);
    EXPECT_EQ(other.cancel(foreign), cancel_result::cancelled);
}

TEST(TimerThread, CancelAndWaitWaitsForTheEnd) {
    gate busy;
    timer_thread timers;
    int written = 0;
    const timer_id id = timers.schedule_after(0ns, [&, wait = busy.wait_here()]() mutable {
        wait();
        written = 1;
    });
    ASSERT_TRUE(busy.entered());
    std::vector<std::thread> waiters;
    std::atomic<int> returned{0};
    std::atomic<pid_t> last{0};
    for (int i = 0; i < 3; ++i) {
        waiters.emplace_back([&] {
            last = ::gettid();
            EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::gone);
            EXPECT_EQ(written, 1);
            ++returned;
        });
    }
    ASSERT_TRUE(eventually([&] { return last != 0; }));
    EXPECT_TRUE(falls_asleep(last));
    EXPECT_EQ(returned, 0);
    busy.open();
    for (std::thread& waiter : waiters)
        waiter.join();
    EXPECT_EQ(returned, 3);
}

TEST(TimerThread, CancelAndWaitInsideItsOwnCallbackSaysRunning) {
    occurrence done;
    timer_thread timers;
    std::atomic<bool> scheduled{false};
    timer_id id;
    id = timers.schedule_after(0ns, [&] {
        EXPECT_TRUE(eventually([&] { return scheduled.load(); }));
        EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::running);
        EXPECT_EQ(timers.cancel(id), cancel_result::running);
        EXPECT_EQ(timers.reschedule(id, now()), reschedule_result::running);
        EXPECT_TRUE(timers.on_timer_thread());
        done.set();
    });
    scheduled = true;
    EXPECT_TRUE(done.wait());
    EXPECT_FALSE(timers.on_timer_thread());
}

// An object that owns the timer which keeps it alive: the callback's end is the object's end.
TEST(TimerThread, ACallbackMayOwnItsOwnScopedTimer) {
    timer_thread timers;
    thread_pool pool(1);
    timer_thread elsewhere({.run_on = pool.run_on()});
    for (timer_thread* const owner : {&timers, &elsewhere}) {
        struct connection {
            std::atomic<bool> ready{false};
            scoped_timer idle;
        };
        occurrence destroyed;
        auto object = std::make_shared<connection>();
        // `end` is destroyed last.
        object->idle = scoped_timer(
            *owner, owner->schedule_after(0ns, [end = at_end([&] { destroyed.set(); }), object] {
                EXPECT_TRUE(eventually([&] { return object->ready.load(); }));
            }));
        object->ready = true;
        object.reset();
        EXPECT_TRUE(destroyed.wait()) << "a deadlock";
    }
}

TEST(TimerThread, ReschedulesAndKeepsTheId) {
    gate early;
    gate busy;
    occurrence after;
    timer_thread timers;
    std::atomic<int> runs{0};
    timers.schedule_at(time_point{}, early.wait_here());
    ASSERT_TRUE(early.entered());  // so none of them runs before it is moved
    const timer_id id = timers.schedule_after(1ms, [&] { ++runs; });
    const timer_id alive = timers.schedule_after(1ms, [] { FAIL() << "it was kept alive"; });
    for (int i = 0; i < 1000; ++i) {  // slides on, ahead of time
        EXPECT_EQ(timers.reschedule(alive, now() + 1h + i * 1ms), reschedule_result::pending);
    }
    EXPECT_GT(timers.remaining(alive).value(), 30min);
    early.open();
    EXPECT_TRUE(eventually([&] { return runs == 1; }));
    EXPECT_EQ(timers.reschedule(id, now() + 1h), reschedule_result::gone);
    EXPECT_EQ(timers.cancel(alive), cancel_result::cancelled);
    EXPECT_EQ(timers.reschedule(alive, now()), reschedule_result::gone);
    EXPECT_EQ(timers.stats().rescheduled, 1000U);
    // One that is collected already, and moved before it began.
    timers.schedule_at(time_point{}, busy.wait_here());
    ASSERT_TRUE(busy.entered());
    const timer_id due = timers.schedule_at(time_point{}, [&] { ++runs; });
    EXPECT_EQ(timers.reschedule(due, now() + 1h), reschedule_result::pending);
    busy.open();
    timers.schedule_after(1ms, [&] { after.set(); });
    EXPECT_TRUE(after.wait());
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(timers.reschedule(due, now()), reschedule_result::pending);
    EXPECT_TRUE(eventually([&] { return runs == 2; }));
}

TEST(TimerThread, TellsWhatRemains) {
    timer_thread timers;
    const time_point before = now();
    const timer_id id = timers.schedule_at(before + 1h, [] {});
    const duration left = timers.remaining(id).value();
    EXPECT_LE(left, 1h);
    EXPECT_GE(left, 1h - (now() - before));
    const timer_id after = timers.schedule_after(1h, [] {});
    const duration left_after = timers.remaining(after).value();
    EXPECT_GE(left_after, 1h - (now() - before));
    EXPECT_LE(left_after, 1h + 10us) << "the fast clock is at most so fast";
    EXPECT_EQ(timers.remaining({}), std::nullopt);
}

// ---- periodic timers ----

TEST(TimerThread, RunsEveryPeriodUntilItIsCancelled) {
    timer_thread timers;
    std::atomic<int> runs{0};
    std::atomic<int> alive{0};
    const timer_id id = timers.schedule_every(1ms, [&, c = counted(alive)] { ++runs; });
    EXPECT_TRUE(eventually([&] { return runs >= 5; }));
    EXPECT_NE(timers.cancel_and_wait(id), cancel_result::running);
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(timers.stats().pending, 0U);
    EXPECT_EQ(timers.stats().scheduled, 1U);
    EXPECT_GE(timers.stats().fired, 5U);
    for (const duration period : {duration(0), duration(-1h), duration::min(), duration(1)}) {
        runs = 0;
        const timer_id busy = timers.schedule_every(period, [&] { ++runs; });
        EXPECT_TRUE(eventually([&] { return runs >= 100; }))
            << "a period below 1 ns counts as 1 ns";
        EXPECT_NE(timers.cancel_and_wait(busy), cancel_result::running);
    }
}

// What a periodic timer does whose first run takes five and a half periods: when it ended, and when
// the next four began, all since before the timer was scheduled.
struct stall {
    duration ended;
    std::array<duration, 4> next;
};

constexpr duration period = 4ms;

stall stalled(timer_thread& timers, missed_ticks policy) {
    stall result{};
    std::size_t run = 0;
    occurrence done;
    std::atomic<bool> scheduled{false};
    time_point after{};
    const time_point before = now();
    const timer_id id = timers.schedule_every(
        period,
        [&] {
            const time_point began = now();
            if (run == 0) {
                while (!scheduled || now() < after + period + period * 11 / 2) {
                }
                result.ended = now() - before;
            } else if (run <= result.next.size()) {
                result.next[run - 1] = began - before;
                if (run == result.next.size()) done.set();
            }
            ++run;
        },
        policy);
    after = now();
    scheduled = true;
    EXPECT_TRUE(done.wait());
    timers.cancel_and_wait(id);
    return result;
}

TEST(TimerThread, BurstMakesUpForWhatItMissed) {
    timer_thread timers;
    // Runs 2 to 5 are due at once.  A busy machine may hide that, but not for ever.
    EXPECT_TRUE(eventually([&] {
        const stall s = stalled(timers, missed_ticks::burst);
        for (std::size_t i = 0; i < s.next.size(); ++i)
            EXPECT_GE(s.next[i], period * static_cast<int>(i + 2)) << "but never early";
        return s.next[3] < s.ended + period;
    }));
}

TEST(TimerThread, DelayStartsANewPhase) {
    timer_thread timers;
    for (int attempt = 0; attempt < 3; ++attempt) {
        const stall s = stalled(timers, missed_ticks::delay);
        for (std::size_t i = 0; i < s.next.size(); ++i)
            EXPECT_GE(s.next[i], s.ended + period * static_cast<int>(i + 1));
    }
}

TEST(TimerThread, SkipKeepsThePhase) {
    timer_thread timers;
    EXPECT_TRUE(eventually([&] {
        const stall s = stalled(timers, missed_ticks::skip);
        for (std::size_t i = 0; i < s.next.size(); ++i)
            EXPECT_GE(s.next[i], period * static_cast<int>(i + 7)) << "the first tick not missed";
        return s.next[0] < s.ended + period;  // less than a period later: it is the old phase
    }));
}

TEST(TimerThread, ARescheduleMovesThePhase) {
    timer_thread timers;
    for (const missed_ticks policy :
         {missed_ticks::burst, missed_ticks::delay, missed_ticks::skip}) {
        gate busy;  // so that it does not run before it is moved
        timers.schedule_at(time_point{}, busy.wait_here());
        ASSERT_TRUE(busy.entered());
        std::atomic<int> runs{0};
        std::array<time_point, 4> times{};
        const timer_id id = timers.schedule_every(
            2ms,
            [&] {
                const auto run = static_cast<std::size_t>(runs.load());
                if (run < times.size()) times[run] = now();
                ++runs;
            },
            policy);
        ASSERT_EQ(timers.reschedule(id, now() + 1h), reschedule_result::pending);
        const time_point start = now() + 5ms;
        ASSERT_EQ(timers.reschedule(id, start), reschedule_result::pending);
        busy.open();
        EXPECT_TRUE(eventually([&] { return runs >= 4; }));
        timers.cancel_and_wait(id);
        for (std::size_t i = 0; i < times.size(); ++i)
            EXPECT_GE(times[i], start + 2ms * static_cast<int>(i));
    }
}

TEST(TimerThread, APeriodicTimerCancelledWhileItRunsDoesNotRunAgain) {
    gate busy;
    timer_thread timers;
    std::atomic<int> alive{0};
    // From inside.
    std::atomic<std::uint64_t> inside{0};
    std::atomic<int> runs{0};
    inside = timers
                 .schedule_every(
                     100us,
                     [&, c = counted(alive)] {
                         if (++runs < 3) return;
                         EXPECT_TRUE(eventually([&] { return inside != 0; }));
                         EXPECT_EQ(timers.cancel(timer_id(inside)), cancel_result::running);
                     },
                     missed_ticks::burst)
                 .value();
    EXPECT_TRUE(eventually([&] { return alive == 0; }));
    EXPECT_EQ(runs, 3);
    // The callback's destruction is a part of its run, so that may not have ended yet.
    EXPECT_EQ(timers.cancel_and_wait(timer_id(inside)), cancel_result::gone);
    // From outside.
    runs = 0;
    const timer_id id =
        timers.schedule_every(100us, [&, c = counted(alive), wait = busy.wait_here()]() mutable {
            ++runs;
            wait();
        });
    ASSERT_TRUE(busy.entered());
    EXPECT_EQ(timers.cancel(id), cancel_result::running);
    EXPECT_EQ(timers.cancel(id), cancel_result::running);
    busy.open();
    EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::gone);
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(alive, 0);
    const timer_thread::statistics stats = timers.stats();
    EXPECT_EQ(stats.fired, 4U);
    EXPECT_EQ(stats.cancelled, 0U);
    EXPECT_EQ(stats.pending, 0U);
}

// ---- scoped_timer ----

TEST(ScopedTimer, CancelsAtTheEndOfItsScope) {
    timer_thread timers;
    std::atomic<int> alive{0};
    {
        const scoped_timer timer(timers,
                                 timers.schedule_after(1h, [c = counted(alive)] { FAIL(); }));
        EXPECT_TRUE(timer.id());
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(timers.stats().cancelled, 1U);
    const scoped_timer none;
    EXPECT_FALSE(none.id());
}

TEST(ScopedTimer, IsMoved) {
    timer_thread timers;
    std::atomic<int> alive{0};
    scoped_timer first(timers, timers.schedule_after(1h, [c = counted(alive)] { FAIL(); }));
    const timer_id id = first.id();
    scoped_timer second(std::move(first));
    EXPECT_EQ(second.id(), id);
    EXPECT_EQ(first.cancel(), cancel_result::gone);
    EXPECT_EQ(alive, 1);
    scoped_timer third(timers, timers.schedule_after(1h, [c = counted(alive)] { FAIL(); }));
    EXPECT_EQ(alive, 2);
    third = std::move(second);
    EXPECT_EQ(alive, 1) << "what it held is cancelled";
    EXPECT_EQ(third.id(), id);
    scoped_timer& same = third;
    third = std::move(same);
    EXPECT_EQ(alive, 1) << "to itself: nothing";
    EXPECT_EQ(third.cancel(), cancel_result::cancelled);
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(third.cancel(), cancel_result::gone);
}

TEST(ScopedTimer, LetsItsTimerGo) {
    timer_thread timers;
    timer_id id;
    {
        scoped_timer timer(timers, timers.schedule_after(1h, [] {}));
        id = timer.release();
        EXPECT_FALSE(timer.id());
    }
    EXPECT_EQ(timers.cancel(id), cancel_result::cancelled);
}

TEST(ScopedTimer, WaitsForACallbackThatIsRunning) {
    gate busy;
    timer_thread timers;
    int written = 0;
    std::thread opener;
    {
        const scoped_timer timer(timers,
                                 timers.schedule_after(0ns, [&, wait = busy.wait_here()]() mutable {
                                     wait();
                                     written = 1;
                                 }));
        ASSERT_TRUE(busy.entered());
        opener = std::thread([&] { busy.open(); });
    }
    EXPECT_EQ(written, 1);
    opener.join();
}

}  // namespace
}  // namespace verge
