// How many timers a service holds, and what that costs: limits, memory, and millions of timers.

#define VERGE_FAILING_NEW_ELSEWHERE  // in failing_new_test.cpp
#include "support/failing_new.hpp"
#include "unit/driver/timer_service_fixture.hpp"
#include <verge/base/detail/kernel.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <limits>
#include <random>
#include <stdexcept>

#include <linux/membarrier.h>
#include <sys/resource.h>

namespace verge {
namespace {

[[maybe_unused]] constexpr std::size_t chunk_slots = 1024;
constexpr std::size_t megabyte = std::size_t{1} << 20;

// ---- limits ----

TEST_F(TimerService, HasOneToAThousandAndTwentyFourShards) {
    EXPECT_THROW(make({.shards = 0}), std::invalid_argument);
    EXPECT_THROW(make({.shards = 1025}), std::invalid_argument);
    EXPECT_THROW(make({.shards = std::numeric_limits<std::size_t>::max()}), std::invalid_argument);
    for (const std::size_t shards : {1U, 2U, 3U, 1000U, 1024U}) {
        make({.shards = shards});
        timers_->arm(at(2ns), note(2));
        on_own_thread([&] { timers_->arm(at(1ns), note(1)); });
        EXPECT_EQ(run(2ns), (names{1, 2}));
    }
}

TEST_F(TimerService, RefusesMoreThanMaxTimersOverAllShards) {
    make({.shards = 4, .max_timers = 10});
    std::vector<timer_id> ids;
    std::atomic<int> alive{0};
    int refused = 0;
    for (int thread = 0; thread < 5; ++thread) {
        on_own_thread([&] {
            for (int i = 0; i < 3; ++i) {
                const timer_id id = timers_->arm(at(1h), [c = counted(alive)] {});
                if (id) {
                    ids.push_back(id);
                } else {
                    ++refused;
                }
            }
        });
    }
    EXPECT_EQ(ids.size(), 10U);
    EXPECT_EQ(refused, 5);
    EXPECT_EQ(alive, 10) << "what is refused is destroyed";
    EXPECT_FALSE(timers_->arm_between(at(1h), at(2h), callback([] {})));
    EXPECT_EQ(timers_->stats().rejected, 6U);
    EXPECT_EQ(timers_->stats().scheduled, 10U);

    // Each end makes room for exactly one.
    const auto has_room_for_one = [&](duration deadline) {
        const timer_id id = timers_->arm(at(deadline), [] {});
        return id && !timers_->arm(at(deadline), [] {});
    };
    EXPECT_EQ(timers_->cancel(ids[0]), cancel_result::cancelled);
    EXPECT_TRUE(has_room_for_one(10ns));
    EXPECT_EQ(timers_->run_due(at(10ns)), 1U);
    EXPECT_TRUE(has_room_for_one(20ns));
    EXPECT_TRUE(timers_->drop(collect(20ns).at(0)));
    EXPECT_TRUE(has_room_for_one(30ns));
    const auto timer = timers_->begin(collect(30ns).at(0));
    tick armed_as = 0;
    timers_->again(timer, at(40ns), armed_as);
    EXPECT_FALSE(timers_->arm(at(1h), note(1))) << "a timer that comes again keeps its room";
    const auto anew = timers_->begin(collect(40ns).at(0));
    timers_->cancel(ids[1]);
    EXPECT_TRUE(has_room_for_one(50ns));
    timers_->end(anew);
    EXPECT_TRUE(has_room_for_one(60ns));
    EXPECT_EQ(timers_->rearm(ids[2], at(1ns)), reschedule_result::pending) << "moving needs none";
    timers_->close();
    EXPECT_EQ(alive, 0);
}

TEST_F(TimerService, MaxTimersHoldsWhileManyArm) {
    constexpr std::size_t limit = 1000;
    make({.shards = 4, .max_timers = limit});
    std::atomic<int> accepted{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (std::size_t i = 0; i < limit; ++i) {
                if (timers_->arm(at(1h), [] {})) ++accepted;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(accepted, static_cast<int>(limit));
    EXPECT_EQ(timers_->stats().pending, limit);
    EXPECT_EQ(timers_->stats().rejected, 3 * limit);
}

TEST_F(TimerService, OfNoTimersRefusesAll) {
    make({.max_timers = 0});
    EXPECT_FALSE(timers_->arm(at(1ns), note(1)));
    EXPECT_EQ(run(1h), names{});
}

#if VERGE_CAN_REFUSE_MEMORY
TEST_F(TimerService, ReservedTimersNeedNoAllocation) {
    make({.shards = 1, .reserve = 3000});
    {
        failing_new first(1);
        for (int i = 0; i < 3000; ++i)
            ASSERT_TRUE(timers_->arm(at(1h), [] {}));
        EXPECT_FALSE(first.struck());
    }
    make({.shards = 3, .reserve = 3 * chunk_slots + 1});  // rounded up for each
    for (int thread = 0; thread < 3; ++thread) {
        on_own_thread([&] {
            failing_new first(1);
            for (std::size_t i = 0; i <= chunk_slots; ++i)
                ASSERT_TRUE(timers_->arm(at(1h), [] {}));
            EXPECT_FALSE(first.struck());
        });
    }
}
#endif

TEST_F(TimerService, RefusesToReserveMoreThanThereIs) {
    EXPECT_THROW(make({.shards = 16, .reserve = std::numeric_limits<std::size_t>::max()}),
                 std::bad_alloc);
    EXPECT_THROW(make({.shards = 16, .reserve = std::size_t{1} << 40}), std::bad_alloc);
}

TEST_F(TimerService, TrimKeepsWhatIsPendingAndGivesTheRestBack) {
    make({.shards = 2});
    std::vector<timer_id> ids;
    for (int i = 0; i < 50'000; ++i)
        ids.push_back(timers_->arm(at(1h), note(i)));
    timers_->arm(at(1ns), note(-1));
    const auto due = collect(1ns);
    timers_->arm(at(2ns), note(-2));
    const auto running = timers_->begin(collect(2ns).at(0));
    const std::size_t full = resident_bytes();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i != 4321) timers_->cancel(ids[i]);
    }
    timers_->trim();
    EXPECT_TRUE(has_sanitizer || resident_bytes() < full - 3 * megabyte);
    EXPECT_EQ(timers_->deadline_of(ids[4321]), at(1h));
    EXPECT_TRUE(fire(due.at(0)));
    timers_->end(running);
    for (std::size_t i = 0; i < ids.size(); i += 100)
        EXPECT_TRUE(names_nothing(ids[i]));
    EXPECT_EQ(ran(), names{-1});
    EXPECT_EQ(run(1h), names{4321});
    timers_->trim();
    timers_->arm(at(2h), note(5));
    EXPECT_EQ(run(2h), names{5});
}

// What another thread does to a timer between the steps of a cancel_and_wait().
struct interrupted_platform : service_platform {
    static inline std::function<void()> interruption;
    struct running_scope : detail::driver::running_scope {
        using detail::driver::running_scope::running_scope;
        static bool inside_timer(timer_id id) {
            if (interruption) std::exchange(interruption, nullptr)();
            return detail::driver::running_scope::inside_timer(id);
        }
    };
};

TEST(TimerServiceSteps, ATimerMayEndAndItsMemoryBeTrimmedUnderACancelAndWait) {
    bell nobody;
    basic_timer_service<callback, interrupted_platform> timers(nobody, {.shards = 1});
    const timer_id id = timers.arm(at(1ns), [] {});
    due_timer due;
    ASSERT_EQ(timers.collect(at(1ns), &due, 1), 1U);
    const auto timer = timers.begin(due);
    interrupted_platform::interruption = [&] {
        timers.end(timer);
        timers.trim();
    };
    EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::gone);
    EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::gone);
}

struct counting_kernel : detail::kernel {
    std::atomic<int> registrations{0};
    std::atomic<int> fences{0};
    int membarrier(int command) noexcept override {
        ++(command == MEMBARRIER_CMD_PRIVATE_EXPEDITED ? fences : registrations);
        return kernel::membarrier(command);
    }
};

// How many fences it takes another thread to use the shard of a thread that armed many timers.
int fences_of(shard_locks kind) {
    counting_kernel counting;
    const detail::replaced_kernel scope(counting);
    bell nobody;
    timer_service timers(nobody, {.shards = 1, .locks = kind});
    for (int i = 0; i < 1000; ++i)
        timers.arm(at(1s), [] {});
    on_own_thread([&] { EXPECT_EQ(timers.run_due(at(1s)), 1000U); });
    return counting.fences;
}

TEST(TimerServiceLocks, InterruptOtherThreadsOnlyIfBiased) {
    const int biased = fences_of(shard_locks::biased);
    EXPECT_EQ(fences_of(shard_locks::plain), 0);
    if (!detail::bias_platform::has_heavy_fence()) GTEST_SKIP() << "the kernel has no membarrier";
    EXPECT_GE(biased, 1);
}

// In a process of its own: the registration is for the whole process.
TEST(TimerServiceLocksDeathTest, AreRegisteredByTheFirstServiceThatIsBiased) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto in_order = [] {
        counting_kernel counting;
        const detail::replaced_kernel scope(counting);
        bell nobody;
        const bool before_main = detail::bias_platform::has_heavy_fence();
        const timer_service plain(nobody, {.locks = shard_locks::plain});
        const int by_plain = counting.registrations;
        const timer_service first(nobody);
        const int by_first = counting.registrations;
        const timer_service second(nobody);
        const int by_second = counting.registrations;
        std::fprintf(stderr, "%d %d %d %d", before_main, by_plain, by_first, by_second);
        std::exit(0);
    };
    EXPECT_EXIT(in_order(), testing::ExitedWithCode(0), "0 0 1 1");
}

// A lock that counts how often it was disabled.
struct watched_lock : detail::biased_lock {
    static inline int disabled = 0;
    void disable() noexcept {
        ++disabled;
        detail::biased_lock::disable();
    }
};
struct watched_lock_platform : service_platform {
    using lock = watched_lock;
};

TEST(TimerServiceLocks, AreLeftOutIfNobodyMeets) {
    bell nobody;
    using service = basic_timer_service<callback, watched_lock_platform>;
    const service locked(nobody, {.shards = 3});
    EXPECT_EQ(watched_lock::disabled, 0);
    service timers(nobody, {.shards = 3, .locks = shard_locks::none});
    EXPECT_EQ(watched_lock::disabled, 3);
    int ran = 0;
    timers.arm(at(1ns), [&] { ++ran; });
    timer_id theirs;
    on_own_thread([&] { theirs = timers.arm(at(2ns), [&] { ++ran; }); });
    EXPECT_EQ(timers.cancel(theirs), cancel_result::cancelled);
    EXPECT_EQ(timers.run_due(at(2ns)), 1U);
    EXPECT_EQ(ran, 1);
}

// ---- memory that is refused ----

#if VERGE_CAN_REFUSE_MEMORY
TEST_F(TimerService, ArmsNothingIfMemoryIsRefused) {
    for (int nth = 1;; ++nth) {
        make({.shards = 1, .max_timers = chunk_slots + 1});
        for (std::size_t i = 0; i < chunk_slots; ++i)
            timers_->arm(at(1h), [] {});
        const auto token = std::make_shared<int>(0);
        bool refused = false;
        callback payload = [token] {};
        {
            failing_new failing(nth);
            try {
                timers_->arm(at(1ns), std::move(payload));
            } catch (const std::bad_alloc&) {
                refused = true;
            }
            EXPECT_EQ(refused, failing.struck());
        }
        EXPECT_EQ(timers_->stats().pending, chunk_slots + (refused ? 0 : 1));
        EXPECT_EQ(timers_->stats().scheduled, chunk_slots + (refused ? 0 : 1));
        if (!refused) {
            EXPECT_GT(nth, 1) << "a new chunk takes at least one allocation";
            break;
        }
        payload.reset();
        EXPECT_EQ(token.use_count(), 1);
        EXPECT_EQ(timers_->prepare_wait(), at(1h)) << "nobody was told of it";
        EXPECT_TRUE(timers_->arm(at(1ns), note(1))) << "its room is free, and its time may come";
        EXPECT_EQ(run(1ns), names{1});
    }
}

TEST_F(TimerService, IsNotMadeIfMemoryIsRefused) {
    int nth = 1;
    for (bool refused = true; refused; ++nth) {
        refused = false;
        failing_new failing(nth);
        try {
            const timer_service timers(bell_, {.shards = 3, .reserve = 5000});
        } catch (const std::bad_alloc&) {
            refused = true;
        }
        EXPECT_EQ(refused, failing.struck());
    }
    EXPECT_GT(nth, 5);
}
#endif

#if !VERGE_HAS_SANITIZER  // a sanitizer needs the address space
TEST_F(TimerService, ArmsNothingIfTheSystemRefusesPages) {
    make({.shards = 1});
    timers_->arm(at(1h), note(1));
    timer_service small(bell_, {.shards = 1, .max_timers = 1});
    enum : int { fine, limit_failed, not_refused, armed, no_room, lost };
    EXPECT_EQ(in_child([&]() -> int {
                  const rlimit limit{0, 0};  // whatever is mapped stays: nothing can be added
                  if (::setrlimit(RLIMIT_AS, &limit) != 0) return limit_failed;
                  for (std::size_t i = 1; i < chunk_slots; ++i)
                      timers_->arm(at(1h), [] {});
                  try {
                      timers_->arm(at(1ns), [] {});
                      return not_refused;
                  } catch (const std::bad_alloc&) {
                  }
                  if (timers_->stats().pending != chunk_slots) return armed;
                  try {
                      small.arm(at(1ns), [] {});
                      return not_refused;
                  } catch (const std::bad_alloc&) {
                  }
                  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
                  if (::setrlimit(RLIMIT_AS, &none) != 0) return fine;  // not privileged
                  if (!small.arm(at(1ns), [] {})) return no_room;
                  if (!timers_->arm(at(1ns), [] {})) return lost;
                  return timers_->run_due(at(1ns)) == 1 ? fine : lost;
              }),
              fine);
}
#endif

// ---- millions ----

// A day of calls with time-outs of an hour, each answered within a second.
TEST_F(TimerService, ADayOfCancelledTimersLeavesMemoryWhereItWas) {
    make({.shards = 4});
    constexpr int seconds = 24 * 3600;
    constexpr int a_second = detail::has_tsan ? 2 : 20;
    chunk_counter chunks;
    std::deque<timer_id> calls;
    const auto one_second = [&](int second) {
        for (int i = 0; i < a_second; ++i) {
            calls.push_back(timers_->arm(at(1h + second * 1s + i * 1ms), [] { FAIL(); }));
            chunks.add(calls.back());
        }
        while (calls.size() > a_second) {
            ASSERT_EQ(timers_->cancel(calls.front()), cancel_result::cancelled);
            calls.pop_front();
        }
        ASSERT_EQ(timers_->run_due(at(second * 1s)), 0U);
    };
    for (int second = 0; second < 60; ++second)
        one_second(second);
    const std::size_t before = resident_bytes();
    for (int second = 60; second < seconds; ++second)
        one_second(second);
    EXPECT_EQ(timers_->stats().pending, static_cast<std::uint64_t>(a_second));
    EXPECT_LE(chunks.count(), 1U) << "the same slots served all day";
    EXPECT_TRUE(has_sanitizer || resident_bytes() < before + megabyte);
}

TEST_F(TimerService, AMillionTimersOfOneMillisecondFireInOrder) {
    constexpr std::size_t count = detail::has_tsan ? 200'000 : 1'000'000;
    for (const bool spread : {false, true}) {
        make({.shards = 2});
        std::mt19937_64 random(1);
        std::vector<std::int64_t> deadlines(count);
        std::vector<std::uint32_t> fired;
        fired.reserve(count);
        for (std::size_t half = 0; half < 2; ++half) {
            on_own_thread([&] {
                for (std::size_t i = half; i < count; i += 2) {
                    deadlines[i] = 1'000'000'000 +
                                   (spread ? static_cast<std::int64_t>(random() % 1'000'000) : 0);
                    timers_->arm(at(duration(deadlines[i])),
                                 [&fired, i] { fired.push_back(static_cast<std::uint32_t>(i)); });
                }
            });
        }
        EXPECT_EQ(timers_->stats().pending, count);
        EXPECT_EQ(timers_->run_due(at(999'999'999ns)), 0U);
        EXPECT_EQ(timers_->run_due(at(1001ms)), count);
        ASSERT_EQ(fired.size(), count);
        std::uint32_t last[2] = {0, 0};
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t name = fired[i];
            ASSERT_LE(deadlines[fired[i == 0 ? 0 : i - 1]], deadlines[name]);
            std::uint32_t& before = last[name % 2];  // of the thread that armed it
            ASSERT_TRUE(deadlines[before] != deadlines[name] || before <= name);
            before = name;
        }
    }
}

TEST_F(TimerService, AChainOfAMillion) {
    constexpr int length = detail::has_tsan ? 100'000 : 1'000'000;
    make({.shards = 2});
    struct link {
        timer_service& timers;
        int& left;
        duration step;
        time_point deadline;
        void operator()() const {
            if (--left > 0) timers.arm(deadline + step, link{timers, left, step, deadline + step});
        }
    };
    static_assert(callback::fits<link>);
    chunk_counter chunks;
    int left = length;
    timers_->arm(at(1ns), link{*timers_, left, 1ns, at(1ns)});
    EXPECT_EQ(timers_->run_due(at(1h)), static_cast<std::size_t>(length)) << "in one jump";
    EXPECT_EQ(left, 0);
    left = length;
    timers_->arm(at(0ns), link{*timers_, left, 0ns, at(0ns)});
    for (int run = 0; run < length; ++run)
        ASSERT_EQ(timers_->run_due(at(1h), 1), 1U) << "one by one, with no time between";
    EXPECT_EQ(left, 0);
    EXPECT_EQ(timers_->stats().pending, 0U);
    chunks.add(timers_->arm(at(1h), note(1)));
    chunks.add(timers_->arm(at(1h), note(1)));
    EXPECT_EQ(chunks.count(), 1U);
}

}  // namespace
}  // namespace verge
