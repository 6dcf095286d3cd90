// Real threads, real time: many fibers on few workers, at random.  A lost wake-up is a hang, which
// a generous limit ends.

#include "support/build.hpp"
#include "unit/fibers/fiber_fixture.hpp"
#include <verge/driver/timer_thread.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

namespace verge::fibers {
namespace {

// ---- interrupt x timer x notify -----------------------------------------------------------------

struct results {
    std::uint64_t notified = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t interrupted = 0;
};

// One waits with a short deadline, again and again; others notify and interrupt it at the same
// time.  Each notification that was counted has ended a wait, and no wait has ended without cause.
void races(stack_kind kind, std::uint64_t rounds) {
    scheduler fibers(workers(2));
    constexpr int pairs = 2;
    struct shared_part {
        word_type word{0};
        std::atomic<bool> over{false};
        std::atomic<std::uint64_t> waits{0};
        results seen;
        std::uint64_t notified = 0;
        std::uint64_t interrupts = 0;
        std::uint64_t early = 0;
    };
    std::vector<std::unique_ptr<shared_part>> parts;
    std::vector<std::thread> threads;
    for (int p = 0; p < pairs; ++p) {
        parts.push_back(std::make_unique<shared_part>());
        threads.emplace_back([&, part = parts.back().get(), p] {
            fiber<> waiter = fibers.spawn(
                [part, rounds, p] {
                    std::mt19937 random(static_cast<unsigned>(p));
                    // Until each has happened, however late the other thread is.
                    const results& seen = part->seen;
                    for (std::uint64_t i = 0;
                         i < rounds || seen.notified == 0 || seen.interrupted == 0; ++i) {
                        const time_point deadline = now() + duration(random() % 3000);
                        switch (wait(part->word, 0, deadline)) {
                            case wait_result::notified:
                                ++part->seen.notified;
                                break;
                            case wait_result::timed_out:
                                ++part->seen.timed_out;
                                if (now() < deadline) ++part->early;
                                break;
                            case wait_result::interrupted:
                                ++part->seen.interrupted;
                                break;
                            default:
                                ADD_FAILURE();
                        }
                        part->waits = i;
                    }
                    part->over = true;
                },
                {.stack = kind});
            std::mt19937 random(static_cast<unsigned>(p + 10));
            while (!part->over) {
                if (random() % 2 == 0) part->notified += notify_one(part->word);
                if (random() % 2 == 0) {
                    waiter.interrupt();
                    ++part->interrupts;
                }
                for (auto n = random() % 200; n > 0; --n)
                    asm volatile("");
            }
            waiter.join();
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    for (const auto& part : parts) {
        EXPECT_EQ(part->seen.notified, part->notified) << "no notification is lost";
        EXPECT_LE(part->seen.interrupted, part->interrupts);
        EXPECT_EQ(part->early, 0U);
        EXPECT_EQ(notify_all(part->word), 0U);
    }
}

TEST(FiberStress, InterruptTimerAndNotifyRace) {
    races(stack_kind::normal, has_sanitizer ? 20'000 : 500'000);
}

TEST(FiberStress, InterruptTimerAndNotifyRaceForNativeFibers) {
    races(stack_kind::native, has_sanitizer ? 10'000 : 100'000);
}

// Sleeps, interrupted: each ends for one of the two reasons, and never early.
TEST(FiberStress, InterruptAndTimerRaceForSleepers) {
    constexpr int count = 100;
    constexpr int rounds = has_sanitizer ? 100 : 2000;
    scheduler fibers(workers(2));
    std::atomic<std::uint64_t> sleeps{0};
    std::atomic<std::uint64_t> elapsed{0};
    std::atomic<std::uint64_t> interrupted{0};
    std::atomic<std::uint64_t> early{0};
    std::vector<fiber<>> all;
    for (unsigned i = 0; i < count; ++i) {
        all.push_back(fibers.spawn([&, i] {
            std::mt19937 random(i);
            // Until some are interrupted, however late the one who does it is.
            for (int n = 0; n < rounds || interrupted == 0; ++n) {
                const time_point deadline = now() + duration(random() % 200'000);
                ++sleeps;
                if (this_fiber::sleep_until(deadline) == sleep_result::elapsed) {
                    ++elapsed;
                    if (now() < deadline) ++early;
                } else {
                    ++interrupted;
                }
            }
        }));
    }
    std::uint64_t interrupts = 0;
    std::mt19937 random(1);
    while (interrupted == 0 || elapsed + interrupted < std::uint64_t{count} * rounds / 10 * 9) {
        all[random() % count].interrupt();
        ++interrupts;
        for (auto n = random() % 1000; n > 0; --n)
            asm volatile("");
    }
    for (fiber<>& f : all)
        f.join();
    EXPECT_GE(sleeps, std::uint64_t{count} * rounds);
    EXPECT_EQ(elapsed + interrupted, sleeps);
    EXPECT_EQ(early, 0U);
    EXPECT_LE(interrupted, interrupts);
}

// ---- notify, requeue and time-outs among many
// -----------------------------------------------------

TEST(FiberStress, TokensMoveAndNoneIsLost) {
    // A semaphore of the bare means: as many tokens at the end as at the beginning.
    constexpr std::uint32_t tokens = 3;
    constexpr int count = 50;
    constexpr int rounds = has_sanitizer ? 100 : 2000;
    scheduler fibers(workers(4));
    word_type available{tokens};
    const word_type elsewhere{0};
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::atomic<bool> over{false};
    const auto acquire = [&](time_point deadline) {
        for (;;) {
            std::uint32_t seen = available;
            while (seen > 0) {
                if (available.compare_exchange_weak(seen, seen - 1)) return true;
            }
            if (wait_uninterrupted(available, 0, deadline) == wait_result::timed_out) return false;
        }
    };
    const auto release = [&] {
        ++available;
        static_cast<void>(notify_one(available));
    };
    const auto work = [&](unsigned seed) {
        std::mt19937 random(seed);
        for (int n = 0; n < rounds; ++n) {
            if (!acquire(random() % 4 == 0 ? now() + duration(random() % 20'000) : never)) continue;
            const int now_inside = ++inside;
            if (now_inside > most) most = now_inside;
            if (random() % 2 == 0) this_fiber::yield();
            --inside;
            release();
        }
    };
    // One moves waiters away, and wakes them there: they look again, or wait again.
    std::thread mover([&] {
        while (!over) {
            static_cast<void>(requeue(available, 0, elsewhere, 0, 5));
            static_cast<void>(notify_all(elsewhere));
            std::this_thread::yield();
        }
        static_cast<void>(notify_all(elsewhere));
    });
    std::vector<fiber<>> all;
    for (unsigned i = 0; i < count; ++i) {
        all.push_back(fibers.spawn(
            [&, i] { work(i); }, {.stack = i % 25 == 0 ? stack_kind::native : stack_kind::normal}));
    }
    std::thread thread([&] { work(99); });
    thread.join();
    for (fiber<>& f : all)
        EXPECT_TRUE(f.wait_for(patience * 4));
    over = true;
    mover.join();
    EXPECT_EQ(available, tokens);
    EXPECT_LE(most, static_cast<int>(tokens));
}

// ---- the whole life of many fibers
// -----------------------------------------------------------------

TEST(FiberStress, SpawnersOfAllKinds) {
    constexpr int rounds = has_sanitizer ? 1000 : 20'000;
    std::atomic<int> alive{0};
    std::atomic<std::uint64_t> ran{0};
    std::atomic<std::uint64_t> spawned{0};
    {
        scheduler fibers({.min_workers = 1, .max_workers = 4, .idle = 20us, .keep_stacks = 16});
        const auto spawn_some = [&](unsigned seed) {
            std::mt19937 random(seed);
            const auto body = [&ran, seed, c = std::make_shared<counted>(alive)] {
                if (seed % 2 == 0) this_fiber::yield();
                ++ran;
            };
            std::vector<fiber<>> kept;
            for (int i = 0; i < rounds; ++i) {
                const stack_kind kind = random() % 64 == 0  ? stack_kind::native
                                        : random() % 4 == 0 ? stack_kind::small
                                                            : stack_kind::normal;
                fiber<> f;
                switch (random() % 3) {
                    case 0:
                        f = fibers.spawn(urgent, body, {.stack = kind});
                        break;
                    case 1:
                        f = fibers.spawn(batched, body, {.stack = kind});
                        break;
                    default:
                        f = fibers.spawn(body, {.stack = kind});
                }
                ++spawned;
                switch (random() % 4) {
                    case 0:
                        f.join();
                        break;
                    case 1:
                        kept.push_back(std::move(f));
                        if (kept.size() > 100) kept.clear();
                        break;
                    default:
                        f.detach();
                }
                if (few_fibers && spawned - ran > 2000) this_fiber::sleep_for(100us);
                if (random() % 1024 == 0) fibers.trim();
                if (random() % 1024 == 0) this_fiber::sleep_for(50us);
            }
        };
        std::vector<fiber<>> inside;
        std::vector<std::thread> outside;
        for (unsigned i = 0; i < 3; ++i) {
            inside.push_back(fibers.spawn([&, i] { spawn_some(i); }));
            outside.emplace_back([&, i] { spawn_some(10 + i); });
        }
        for (std::thread& thread : outside)
            thread.join();
        for (fiber<>& f : inside)
            EXPECT_TRUE(f.wait_for(patience * 4));
    }
    EXPECT_EQ(ran, spawned);
    EXPECT_EQ(alive, 0);
}

void stop_at_any_time(bool ends_with_stop) {
    constexpr int rounds = has_sanitizer ? 30 : 300;
    for (int round = 0; round < rounds; ++round) {
        std::atomic<int> alive{0};
        const at_end none_left([&] { EXPECT_EQ(alive, 0) << "the destructor waits"; });
        scheduler fibers({.min_workers = 1, .max_workers = 3, .idle = 10us});
        const word_type word{0};
        const auto spawn_for_ever = [&] {
            std::mt19937 random(static_cast<unsigned>(round));
            try {
                for (int i = 0; i < 100'000; ++i) {
                    const auto dice = random();
                    auto f =
                        fibers.spawn([&, dice, c = counted(alive)](const std::stop_token& token) {
                            switch (dice % 4) {
                                case 0:
                                    this_fiber::sleep_for(1h);
                                    ADD_FAILURE() << "a stop unwinds";
                                    break;
                                case 1:
                                    wait(word, 0);
                                    ADD_FAILURE() << "a stop unwinds";
                                    break;
                                case 2:
                                    while (!token.stop_requested())
                                        this_fiber::yield();
                                    break;
                                default:
                                    this_fiber::sleep_for(1us);
                            }
                        });
                    if (dice % 64 < 60 || few_fibers) {
                        f.detach();
                    } else {
                        f.request_stop();
                    }
                    if (few_fibers && alive > 2000) this_fiber::sleep_for(1ms);
                }
            } catch (const std::system_error& error) {
                EXPECT_EQ(error.code(), std::errc::operation_canceled);
            }
        };
        fiber<> inside = fibers.spawn(spawn_for_ever);
        std::thread outside(spawn_for_ever);
        ASSERT_TRUE(spin_until([&] { return alive > round % 100 * 10; }));
        EXPECT_TRUE(fibers.stop(now() + patience).empty());
        outside.join();
        if (ends_with_stop) {
            ASSERT_EQ(alive, 0) << "in round " << round;
        }
    }
}

TEST(FiberStress, StopAtAnyTime) {
    stop_at_any_time(false);
}

// A spawn that is under way when stop() begins is refused, or waited for.
TEST(FiberStress, StopWaitsForASpawnUnderWay) {
    stop_at_any_time(true);
}

// A chain of fibers over two schedulers, each waiting for the next.
TEST(FiberStress, TwoSchedulersWaitForEachOther) {
    constexpr int rounds = has_sanitizer ? 500 : 5000;
    scheduler one(workers(2));
    scheduler two({.min_workers = 1, .max_workers = 2, .idle = 10us});
    std::vector<fiber<>> all;
    for (int i = 0; i < 8; ++i) {
        all.push_back((i % 2 == 0 ? one : two).spawn([&] {
            scheduler& other = scheduler::current() == &one ? two : one;
            for (int n = 0; n < rounds; ++n) {
                fiber<int> f = n % 2 == 0 ? other.spawn([n] { return n; })
                                          : other.spawn(batched, [n] { return n; });
                if (f.join() != n) ADD_FAILURE();
            }
        }));
    }
    for (fiber<>& f : all)
        EXPECT_TRUE(f.wait_for(patience * 4));
}

// ---- a million
// ------------------------------------------------------------------------------------

#if !VERGE_HAS_SANITIZER  // sanitizers cannot follow a million stacks
TEST(FiberStress, AMillionSleepAtOnce) {
    constexpr std::uint32_t count = 1'000'000;
    scheduler fibers(workers(2));
    if (fibers.stats().guard != 0) {
        GTEST_SKIP() << "this kernel has no MADV_GUARD_INSTALL: guards cost two mappings a stack";
    }
    // First for an hour, until all are asleep, however long that takes; an interrupt ends that.
    // Then until a time near by, and a timer ends that.
    std::atomic<std::uint32_t> begun{0};
    std::atomic<std::uint32_t> interrupted{0};
    std::atomic<std::uint32_t> elapsed{0};
    std::atomic<std::uint32_t> early{0};
    std::vector<fiber<>> all(count);
    const std::size_t before = resident_bytes();
    const time_point start = now();
    fibers
        .spawn([&] {
            for (std::uint32_t i = 0; i < count; ++i) {
                all[i] = fibers.spawn([&, i] {
                    ++begun;
                    if (this_fiber::sleep_for(1h) == sleep_result::interrupted) ++interrupted;
                    const time_point until = now() + 100ms + duration(i);
                    if (this_fiber::sleep_until(until) == sleep_result::elapsed) ++elapsed;
                    if (now() < until) ++early;
                });
                if (i % 1000 == 0) this_fiber::yield();
            }
        })
        .join();
    ASSERT_TRUE(eventually([&] { return begun == count && fibers.stats().idle_workers == 2; }));
    const time_point all_asleep = now();
    EXPECT_GE(fibers.stats().stacks, count);
    const std::size_t used = resident_bytes() - before;
    EXPECT_LT(used, std::size_t{6} * 1024 * 1024 * 1024);
    for (const fiber<>& each : all)
        each.interrupt();
    for (const fiber<>& each : all)
        ASSERT_TRUE(each.wait_for(patience));
    EXPECT_EQ(interrupted, count);
    EXPECT_EQ(elapsed, count);
    EXPECT_EQ(early, 0U);
    std::printf("  asleep after %lld ms, all over after %lld ms, %zu bytes each\n",
                static_cast<long long>((all_asleep - start) / 1ms),
                static_cast<long long>((now() - start) / 1ms), used / count);
    all.clear();
    EXPECT_TRUE(fibers.stop(now() + patience).empty());
    EXPECT_EQ(fibers.stats().finished, count + 1);
}
#endif

// Fewer, also under sanitizers, and with all means that end a sleep.
TEST(FiberStress, ThousandsSleepAtOnce) {
    // clang's TSan maps memory for each fiber, and the kernel allows a process some 65,000
    // mappings.
    constexpr std::uint32_t count = few_fibers ? 5000 : verge::detail::has_tsan ? 15'000 : 50'000;
    constexpr int rounds = has_sanitizer ? 2 : 4;
    scheduler fibers(workers(2));
    for (int round = 0; round < rounds; ++round) {
        std::atomic<std::uint32_t> woken{0};
        tally begun;
        std::vector<fiber<>> all;
        all.reserve(count);
        for (std::uint32_t i = 0; i < count; ++i) {
            all.push_back(fibers.spawn([&, i] {
                begun.add();
                this_fiber::sleep_for(i % 3 == 0 ? duration(1h) : duration(i * 1000));
                ++woken;
            }));
        }
        ASSERT_TRUE(begun.reaches(count));
        for (std::uint32_t i = 0; i < count; i += 3)
            all[i].interrupt();
        for (const fiber<>& f : all)
            ASSERT_TRUE(f.wait_for(patience));
        EXPECT_EQ(woken, count);
    }
}

}  // namespace
}  // namespace verge::fibers
