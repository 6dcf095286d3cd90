#define VERGE_FAILING_NEW_ELSEWHERE
#include "support/failing_new.hpp"
#include "unit/fibers/fiber_fixture.hpp"
#include <verge/driver/timer_thread.hpp>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace verge::fibers {

std::vector<pid_t> threads_named(const std::string& prefix) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
        if (text_of(entry.path() / "comm").starts_with(prefix)) {
            found.push_back(std::stoi(entry.path().filename()));
        }
    }
    return found;
}

namespace {

using options = scheduler::options;

TEST(Scheduler, RunsEachFiberOnce) {
    constexpr std::size_t count = few_fibers ? 3000 : 20'000;
    scheduler fibers(workers(4));
    std::vector<std::atomic<int>> runs(2 * count);
    for (std::size_t i = 0; i < count; ++i) {
        fibers
            .spawn([&runs, &fibers, i] {
                ++runs[i];
                fibers.spawn([&runs, i] { ++runs[count + i]; }).detach();
            })
            .detach();
    }
    ASSERT_TRUE(eventually([&] { return fibers.stats().finished == 2 * count; }));
    EXPECT_EQ(fibers.stats().spawned, 2 * count);
    EXPECT_TRUE(std::all_of(runs.begin(), runs.end(), [](const auto& n) { return n == 1; }));
}

TEST(Scheduler, YieldGoesToTheBack) {
    scheduler fibers(workers(1));
    std::string order;
    fibers
        .spawn([&] {
            std::vector<fiber<>> all;
            for (const char name : {'a', 'b', 'c'}) {
                all.push_back(fibers.spawn([&order, name] {
                    for (int i = 0; i < 3; ++i) {
                        order += name;
                        this_fiber::yield();
                    }
                }));
            }
            for (fiber<>& f : all)
                f.join();
        })
        .join();
    EXPECT_EQ(order, "abcabcabc");
}

TEST(Scheduler, OutsideSpawnsGetTheirTurn) {
    scheduler fibers(workers(1));
    std::atomic<bool> over{false};
    std::atomic<std::int64_t> yields{0};
    std::vector<fiber<>> busy;
    for (int i = 0; i < 16; ++i) {
        busy.push_back(fibers.spawn([&] {
            while (!over) {
                ++yields;
                this_fiber::yield();
            }
        }));
    }
    ASSERT_TRUE(eventually([&] { return yields > 1000; }));
    for (int i = 0; i < 100; ++i) {
        std::atomic<std::int64_t> ran_at{0};
        fiber<> f = fibers.spawn([&] { ran_at = yields.load(); });
        const std::int64_t spawned_by = yields;  // it stands in the queue by now
        ASSERT_TRUE(f.wait_for(patience));
        EXPECT_LE(ran_at - spawned_by, 8 * 16);
    }
    over = true;
}

// ---- nobody is stranded -------------------------------------------------------------------------

TEST(Scheduler, NobodyIsStranded) {
    scheduler fibers(workers(2));
    for (int round = 0; round < 100; ++round) {
        std::atomic<int> ran{0};
        std::vector<fiber<>> children;
        fiber<> hog = fibers.spawn([&] {
            for (int i = 0; i < 10; ++i)
                children.push_back(fibers.spawn([&] { ++ran; }));
            EXPECT_TRUE(spin_until([&] { return ran == 10; })) << "they wait in the hog's queue";
        });
        hog.join();
    }
}

TEST(Scheduler, NobodyIsStrandedWhoIsMadeReadyByAHog) {
    scheduler fibers(workers(2));
    const word_type word{0};
    std::atomic<int> ran{0};
    std::vector<fiber<>> all;
    for (int i = 0; i < 10; ++i) {
        all.push_back(fibers.spawn([&] {
            EXPECT_EQ(wait(word, 0), wait_result::notified);
            ++ran;
        }));
    }
    fibers
        .spawn([&] {
            std::size_t woken = 0;
            EXPECT_TRUE(spin_until([&] { return (woken += notify_all(word)) == 10; }));
            EXPECT_TRUE(spin_until([&] { return ran == 10; }));
        })
        .join();
}

// One worker is stuck, the other one busy for ever: it takes the other's work too.
TEST(Scheduler, NobodyIsStrandedWhileOthersYield) {
    scheduler fibers(workers(2));
    std::atomic<bool> over{false};
    std::atomic<int> ran{0};
    tally stuck;
    fiber<> hog = fibers.spawn([&] {
        for (int i = 0; i < 10; ++i)
            fibers.spawn([&] { ++ran; }).detach();
        stuck.add();
        EXPECT_TRUE(spin_until([&] { return over.load(); }));
    });
    std::vector<fiber<>> busy;
    for (int i = 0; i < 4; ++i) {
        busy.push_back(fibers.spawn([&] {
            while (!over)
                this_fiber::yield();
        }));
    }
    EXPECT_TRUE(stuck.reaches(1));
    // Threads differ in the queue that they spawn into.
    for (int i = 0; i < 8; ++i) {
        std::thread([&] { fibers.spawn([&] { ++ran; }).detach(); }).join();
    }
    EXPECT_TRUE(eventually([&] { return ran == 18; })) << ran << " of 18 ran";
    over = true;
}

// A worker in a long task: another one takes what stands in its queue, and counts that.
TEST(Scheduler, StealsFromAWorkerInALongTask) {
    scheduler fibers(workers(2));
    std::atomic<int> ran{0};
    std::set<pid_t> on;  // of the other worker
    pid_t hogs_thread = 0;
    fibers
        .spawn([&] {
            hogs_thread = this_thread();
            for (int i = 0; i < 100; ++i) {
                fibers
                    .spawn([&] {
                        on.insert(this_thread());
                        ++ran;
                    })
                    .detach();
            }
            EXPECT_TRUE(spin_until([&] { return ran == 100; }));
        })
        .join();
    EXPECT_EQ(on.size(), 1U);
    EXPECT_FALSE(on.contains(hogs_thread));
    EXPECT_GE(fibers.stats().stolen, 1U);
    EXPECT_LE(fibers.stats().stolen, 100U) << "many at a time";
}

// The same from a worker that has always something to do: it never searches.
TEST(Scheduler, CountsWhatABusyWorkerSteals) {
    scheduler fibers(workers(2));
    std::atomic<bool> over{false};
    std::atomic<int> ran{0};
    tally there;
    // One on each worker; what each of them yields to is its own.
    const auto yields = [&] {
        there.add();
        EXPECT_TRUE(spin_until([&] { return there.count() == 2; }));
        while (!over)
            this_fiber::yield();
    };
    fiber<> one = fibers.spawn(yields);
    fiber<> two = fibers.spawn(yields);
    ASSERT_TRUE(there.reaches(2));
    const std::uint64_t before = fibers.stats().stolen;
    fiber<> hog = fibers.spawn([&] {
        for (int i = 0; i < 10; ++i)
            fibers.spawn([&] { ++ran; }).detach();
        EXPECT_TRUE(spin_until([&] { return ran == 10; }));
        EXPECT_GT(fibers.stats().stolen, before) << "by the other one, since this one has not";
    });
    hog.join();
    over = true;
}

// All four run at the same time, or none ends: who is started for one looks for others.
TEST(Scheduler, GrowsForEachThatIsStuck) {
    for (int round = 0; round < 50; ++round) {
        scheduler fibers({.min_workers = 1, .max_workers = 4});
        std::atomic<int> running{0};
        std::vector<std::thread> threads;
        std::vector<fiber<>> all(4);
        for (std::size_t i = 0; i < 4; ++i) {
            threads.emplace_back([&, i] {
                all[i] = fibers.spawn([&] {
                    ++running;
                    EXPECT_TRUE(spin_until([&] { return running == 4; }));
                });
            });
        }
        for (std::thread& thread : threads)
            thread.join();
        for (fiber<>& f : all)
            ASSERT_TRUE(f.wait_for(patience));
        EXPECT_EQ(fibers.stats().workers, 4U);
    }
}

TEST(Scheduler, GrowsAndShrinks) {
    scheduler fibers({.min_workers = 1, .max_workers = 4, .idle = 1ms});
    for (int round = 0; round < 20; ++round) {
        std::atomic<int> running{0};
        std::vector<fiber<>> all;
        for (int i = 0; i < 4; ++i) {
            all.push_back(fibers.spawn([&] {
                ++running;
                EXPECT_TRUE(spin_until([&] { return running == 4; }));
            }));
        }
        for (fiber<>& f : all)
            f.join();
        // Those that were let go are joined by the one that stays.
        ASSERT_TRUE(eventually([&] { return fibers.stats().workers == 1; }));
    }
    EXPECT_EQ(fibers.spawn([] { return 1; }).join(), 1);
}

// A worker that ends because it was idle, and a spawn, at the same time.
TEST(Scheduler, LosesNoFiberToAWorkerThatEnds) {
    for (const std::size_t least : {std::size_t{1}, std::size_t{2}}) {
        scheduler fibers({.min_workers = least, .max_workers = least + 1, .idle = 1us});
        constexpr int rounds = has_sanitizer ? 2000 : 10'000;
        const time_point enough = now() + 5s;  // on a machine that is busy
        for (int i = 0; i < rounds && now() < enough; ++i) {
            fiber<> one = fibers.spawn([] {});
            fiber<> two = fibers.spawn([] {});
            ASSERT_TRUE(one.wait_for(patience)) << i;
            ASSERT_TRUE(two.wait_for(patience)) << i;
            // Until about when it ends.
            const time_point until = now() + duration(i % 100 * 500);
            static_cast<void>(spin_until([&] { return now() >= until; }));
        }
    }
}

void expect_that_it_sleeps(unsigned spin) {
    scheduler fibers({.name = "idler", .min_workers = 2, .max_workers = 2, .spin = spin});
    std::vector<fiber<>> all;
    for (int i = 0; i < 100; ++i)
        all.push_back(fibers.spawn([] { this_fiber::sleep_for(10us); }));
    for (fiber<>& f : all)
        f.join();
    ASSERT_TRUE(eventually([&] { return fibers.stats().idle_workers == 2; }));
    const std::vector<pid_t> threads = threads_named("idler/");
    ASSERT_EQ(threads.size(), 2U);
    for (const pid_t tid : threads)
        ASSERT_TRUE(falls_asleep(tid));
    const sleep_watch watch(threads);
    const std::uint64_t parks = fibers.stats().parks;
    // Meanwhile others work and sleep.
    scheduler others(workers(1));
    others
        .spawn([] {
            for (int i = 0; i < 20; ++i)
                this_fiber::sleep_for(1ms);
        })
        .join();
    EXPECT_TRUE(watch.all_slept());
    EXPECT_EQ(fibers.stats().parks, parks);
}

TEST(Scheduler, AnIdleSchedulerSleeps) {
    expect_that_it_sleeps(0);
}

struct spawns_at_end {
    ~spawns_at_end() {
        if (on == nullptr) return;
        for (int i = 0; i < 3; ++i)
            on->spawn([to = count] { ++*to; }).detach();
        static_cast<void>(on->stats());
    }
    scheduler* on = nullptr;
    std::atomic<int>* count = nullptr;
};
thread_local spawns_at_end at_end_of_thread;

// The thread of a worker that is let go ends as any other: what its thread_local variables do at
// their end may be to spawn, and more workers may be needed for that.
TEST(Scheduler, AThreadThatEndsMaySpawn) {
    constexpr int rounds = has_sanitizer ? 50 : 400;
    std::atomic<int> ran{0};
    scheduler fibers({.min_workers = 1, .max_workers = 3, .idle = 1us});
    ASSERT_TRUE(eventually([&] { return fibers.stats().idle_workers == 1; }));
    const pid_t stays = fibers.spawn([] { return this_thread(); }).join();
    std::atomic<int> marked{0};
    for (int round = 0; round < rounds; ++round) {
        std::atomic<int> running{0};
        std::vector<fiber<>> all;
        for (int i = 0; i < 3; ++i) {
            all.push_back(fibers.spawn([&] {
                ++running;
                EXPECT_TRUE(spin_until([&] { return running == 3; }));
                if (at_end_of_thread.on != nullptr || this_thread() == stays) return;
                at_end_of_thread.on = &fibers;
                at_end_of_thread.count = &ran;
                ++marked;
            }));
        }
        for (fiber<>& f : all)
            ASSERT_TRUE(f.wait_for(patience)) << round;
    }
    ASSERT_TRUE(eventually([&] { return fibers.stats().workers == 1; }));
    EXPECT_TRUE(eventually([&] { return ran == 3 * marked; })) << ran << " of 3 x " << marked;
}

TEST(Scheduler, AnIdleSchedulerSleepsAfterItHasSpun) {
    expect_that_it_sleeps(10'000);
}

constexpr unsigned for_ever = std::numeric_limits<unsigned>::max();

// Who looks for work for so long finds it without a sleep, and nobody wakes it.
TEST(Scheduler, ASpinningWorkerFindsWorkAwake) {
    scheduler fibers({.min_workers = 1, .max_workers = 1, .spin = for_ever});
    for (int i = 0; i < 100; ++i)
        fibers.spawn([] { this_fiber::sleep_for(10us); }).join();
    const scheduler::statistics stats = fibers.stats();
    EXPECT_EQ(stats.parks, 0U);
    EXPECT_EQ(stats.wake_signals, 0U);
}

// It looks out for its end meanwhile, and tells who waits for that of the fibers.
TEST(Scheduler, ASpinningWorkerIsNotWaitedFor) {
    for (const std::size_t count : {1U, 2U}) {
        scheduler fibers({.min_workers = count, .max_workers = count, .spin = for_ever});
        door end;
        fibers.spawn([&] { EXPECT_TRUE(end.wait()); }).detach();
        std::thread opens([&] { end.open(); });
        EXPECT_TRUE(fibers.stop(now() + patience).empty());
        opens.join();
    }
}

TEST(Scheduler, YieldingAloneParksNobody) {
    scheduler fibers(workers(1));
    fibers
        .spawn([&] {
            const std::uint64_t parks = fibers.stats().parks;
            for (int i = 0; i < 10'000; ++i)
                this_fiber::yield();
            EXPECT_EQ(fibers.stats().parks, parks);
        })
        .join();
}

#if !VERGE_HAS_SANITIZER  // sanitizers make system calls of their own
// From now on the calling thread may end the program, and any other system call kills it.  Returns
// false if there is no seccomp.
bool allow_no_system_call() {
    // What follows reads the number of the call, and compares.
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Ends the program: with 0, or by SIGSYS.
void yield_without_system_calls(int fibers_that_yield, bool breaks_the_rule) {
    scheduler fibers(workers(1));
    std::vector<fiber<>> others;
    for (int i = 1; i < fibers_that_yield; ++i) {
        others.push_back(fibers.spawn([] {
            for (;;)
                this_fiber::yield();
        }));
    }
    fibers
        .spawn([&] {
            for (int i = 0; i < 1000; ++i)
                this_fiber::yield();  // all have begun
            if (!allow_no_system_call()) ::_exit(1);
            for (int i = 0; i < 10'000; ++i)
                this_fiber::yield();
            if (breaks_the_rule) static_cast<void>(::getppid());
            ::_exit(0);
        })
        .join();
}

TEST(SchedulerDeathTest, YieldingMakesNoSystemCall) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (in_child([] { return allow_no_system_call() ? 0 : 1; }) != 0) GTEST_SKIP() << "no seccomp";
    EXPECT_EXIT(yield_without_system_calls(1, false), testing::ExitedWithCode(0), "");
    EXPECT_EXIT(yield_without_system_calls(100, false), testing::ExitedWithCode(0), "");
    // And it would be seen.
    EXPECT_EXIT(yield_without_system_calls(2, true), testing::KilledBySignal(SIGSYS), "");
}
#endif

// ---- the end ------------------------------------------------------------------------------------

TEST(Scheduler, StopNamesTheStuck) {
    scheduler fibers(workers(2));
    door end;
    tally there;
    fiber<> on_word = fibers.spawn(
        [&] {
            there.add();
            EXPECT_TRUE(end.wait());
        },
        {.name = "on a word"});
    fiber<> joins = fibers.spawn(
        [&] {
            there.add();
            const no_unwind here;  // a stop does not end it
            on_word.wait();
        },
        {.name = "joins"});
    fiber<> busy = fibers.spawn([&] {
        this_fiber::set_name("busy");
        there.add();
        while (!end.is_open())
            this_fiber::yield();
    });
    fiber<> good = fibers.spawn([] { this_fiber::sleep_for(1h); });
    ASSERT_TRUE(there.reaches(3));
    std::map<std::string, fiber_info> stuck;
    ASSERT_TRUE(eventually([&] {
        stuck.clear();
        for (fiber_info& each : fibers.stop(now() + 1ms))
            stuck.emplace(each.name, each);
        return stuck.size() == 3 && stuck["joins"].waits_for == wait_kind::join &&
               stuck["on a word"].waits_for == wait_kind::word;
    }));
    EXPECT_EQ(stuck["on a word"].id, on_word.id());
    EXPECT_EQ(stuck["joins"].id, joins.id());
    EXPECT_EQ(stuck["busy"].id, busy.id());
    EXPECT_EQ(stuck["busy"].waits_for, wait_kind::nothing);
    EXPECT_TRUE(good.done());
    try {
        fibers.spawn([] {}).detach();
        ADD_FAILURE() << "it takes no more";
    } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), std::errc::operation_canceled);
    }
    end.open();
    EXPECT_TRUE(fibers.stop().empty());
    EXPECT_TRUE(fibers.stop(now()).empty());
}

TEST(Scheduler, StopTellsSleepersApart) {
    scheduler fibers(workers(1));
    const word_type word{0};
    fiber<> f = fibers.spawn(
        [&] {
            const no_unwind here;
            while (this_fiber::sleep_for(1h) != sleep_result::stopped) {
            }
            static_cast<void>(wait_uninterrupted(word, 0));
        },
        {.name = "stubborn"});
    std::vector<fiber_info> stuck;
    ASSERT_TRUE(eventually([&] {
        stuck = fibers.stop(now());
        return stuck.size() == 1 && stuck[0].waits_for == wait_kind::word;
    }));
    EXPECT_EQ(stuck[0].name, "stubborn");
    EXPECT_TRUE(eventually([&] { return notify_one(word) == 1; }));
    f.join();
}

TEST(Scheduler, AFiberMayStopItsOwnScheduler) {
    scheduler fibers(workers(1));
    fiber<> other = fibers.spawn([] { this_fiber::sleep_for(1h); });
    fiber<> f = fibers.spawn([&] {
        std::vector<fiber_info> stuck;
        while ((stuck = fibers.stop(now() + 1ms)).size() != 1) {
        }
        EXPECT_EQ(stuck[0].id, this_fiber::id());
    });
    f.join();
    EXPECT_TRUE(other.done());
}

TEST(Scheduler, StopSaysSoIfItHasNoTimerForItsDeadline) {
    timer_thread timers;
    timers.stop();  // takes none from now on
    scheduler fibers({.min_workers = 1, .max_workers = 1, .timers = &timers});
    const auto code = fibers
                          .spawn([&] {
                              try {
                                  static_cast<void>(fibers.stop(now() + 1h));  // waits for itself
                              } catch (const std::system_error& error) {
                                  return error.code();
                              }
                              return std::error_code{};
                          })
                          .join();
    EXPECT_EQ(code, std::errc::resource_unavailable_try_again);
    EXPECT_TRUE(fibers.stop().empty());
}

TEST(Scheduler, DestructionWaitsForAll) {
    std::atomic<int> alive{0};
    std::atomic<int> ran{0};
    for (int round = 0; round < 50; ++round) {
        {
            scheduler fibers({.min_workers = 2, .max_workers = 3, .idle = 10us});
            for (int i = 0; i < 50; ++i) {
                fibers
                    .spawn([&, i, c = counted(alive)] {
                        this_fiber::sleep_for(duration(i * 1000));
                        fibers.spawn([&, d = counted(alive)] { ++ran; }).detach();
                    })
                    .detach();
            }
            fibers.spawn(batched, [&, c = counted(alive)] { ++ran; }).detach();
        }
        ASSERT_EQ(alive, 0);
        ASSERT_EQ(ran, (round + 1) * 51);
    }
}

TEST(Scheduler, DestructionNeedsNobodyElseToFlush) {
    std::atomic<int> ran{0};
    door spawned;
    door destroyed;
    auto fibers = std::make_unique<scheduler>(workers(2));
    std::thread debtor([&] {
        for (int i = 0; i < 10; ++i)
            fibers->spawn(batched, [&] { ++ran; }).detach();
        spawned.open();
        EXPECT_TRUE(destroyed.wait());  // and delivers what it owes, to nobody
    });
    ASSERT_TRUE(spawned.wait());
    fibers.reset();
    EXPECT_EQ(ran, 10);
    destroyed.open();
    debtor.join();
}

TEST(Scheduler, StopWhileThousandsSleepWaitAndSpawn) {
    constexpr int each = few_fibers ? 300 : 2000;
    for (int round = 0; round < 3; ++round) {
        scheduler fibers(workers(2));
        const word_type word{0};
        std::atomic<int> alive{0};
        std::atomic<int> begun{0};
        for (int i = 0; i < each; ++i) {
            fibers
                .spawn([&, c = counted(alive)] {
                    ++begun;
                    this_fiber::sleep_for(1h);
                    ADD_FAILURE() << "a stop unwinds";
                })
                .detach();
            fibers
                .spawn([&, c = counted(alive)] {
                    ++begun;
                    wait(word, 0);
                    ADD_FAILURE() << "a stop unwinds";
                })
                .detach();
        }
        for (int i = 0; i < 4; ++i) {
            fibers
                .spawn([&, c = counted(alive)] {
                    try {
                        for (;;) {
                            fiber<> child = fibers.spawn([&, d = counted(alive)](
                                                             std::stop_token token) {
                                while (!token.stop_requested() &&
                                       this_fiber::sleep_for(10us) == sleep_result::interrupted) {
                                }
                            });
                            if (begun % 2 == 0) child.detach();
                        }
                    } catch (const std::system_error& error) {
                        EXPECT_EQ(error.code(), std::errc::operation_canceled);
                    }
                })
                .detach();
        }
        if (round > 0) {
            ASSERT_TRUE(eventually([&] { return begun > round * each / 2; }));
        }
        EXPECT_TRUE(fibers.stop(now() + patience).empty());
        EXPECT_EQ(alive, 0);
    }
}

// Whoever is spawned while stop() begins is told as well, through its token too.
TEST(Scheduler, StopReachesWhoIsJustSpawned) {
    for (int round = 0; round < (has_sanitizer ? 30 : 200); ++round) {
        scheduler fibers(workers(1));
        std::atomic<int> spawned{0};
        std::thread spawner([&] {
            try {
                for (;; ++spawned) {
                    fibers
                        .spawn([](const std::stop_token& token) {
                            while (!token.stop_requested())
                                this_fiber::yield();
                        })
                        .detach();
                }
            } catch (const std::system_error&) {
            }
        });
        ASSERT_TRUE(spin_until([&] { return spawned > round % 10; }));
        EXPECT_TRUE(fibers.stop(now() + patience).empty());
        spawner.join();
    }
}

// ---- ways to spawn ------------------------------------------------------------------------------

TEST(Scheduler, UrgentRunsTheChildAndQueuesTheParent) {
    scheduler fibers(workers(1));
    std::string order;
    fibers
        .spawn([&] {
            fiber<> first = fibers.spawn([&] { order += '3'; });
            fiber<> child = fibers.spawn(urgent, [&] {
                order += '1';
                this_fiber::yield();
                order += '5';
            });
            order += '4';
            child.join();
            first.join();
            fiber<> native =
                fibers.spawn(urgent, [&] { order += '6'; }, {.stack = stack_kind::native});
            order += '7';
            native.join();
        })
        .join();
    EXPECT_EQ(order, "134567");
    EXPECT_EQ(fibers.spawn(urgent, [] { return 1; }).join(), 1) << "from a plain thread too";
}

TEST(Scheduler, ABatchWaitsForItsFlush) {
    scheduler fibers({.name = "batch", .min_workers = 1, .max_workers = 1});
    ASSERT_TRUE(eventually([&] { return fibers.stats().idle_workers == 1; }));
    const std::vector<pid_t> threads = threads_named("batch/");
    ASSERT_EQ(threads.size(), 1U);
    ASSERT_TRUE(falls_asleep(threads[0]));
    std::atomic<int> ran{0};
    std::vector<fiber<>> all;
    for (int i = 0; i < 1000; ++i)
        all.push_back(fibers.spawn(batched, [&] { ++ran; }));
    EXPECT_EQ(ran, 0) << "the worker sleeps";
    fibers.flush();
    EXPECT_TRUE(eventually([&] { return ran == 1000; }));
}

TEST(Scheduler, AHundredThousandUnflushedDoNotHang) {
    constexpr int count = few_fibers ? 3000 : 100'000;
    scheduler fibers(workers(2));
    std::atomic<int> ran{0};
    for (int i = 0; i < count; ++i)
        fibers.spawn(batched, [&] { ++ran; }).detach();
    fibers
        .spawn([&] {
            for (int i = 0; i < count; ++i)
                fibers.spawn(batched, [&] { ++ran; }).detach();
        })
        .join();
    EXPECT_TRUE(eventually([&] { return ran == 2 * count; }));
}

TEST(Scheduler, OwedSignalsComeWithTheNextSpawn) {
    scheduler fibers(workers(2));
    const auto both = [&] {
        std::atomic<int> ran{0};
        fiber<> one = fibers.spawn(batched, [&] { ++ran; });
        fiber<> two = fibers.spawn(batched, [&] { ++ran; });
        fiber<> three = fibers.spawn([&] { ++ran; });
        EXPECT_TRUE(spin_until([&] { return ran == 3; }));
    };
    for (int i = 0; i < 50; ++i) {
        both();
        fibers.spawn(both).join();
        fibers.spawn(both, {.stack = stack_kind::native}).join();
    }
}

// A second one keeps the worker of the spawner busy: only a signal can help.
TEST(Scheduler, OwedSignalsComeBeforeTheSpawnerBlocks) {
    scheduler fibers(workers(2));
    scheduler others(workers(1));
    const auto join_it = [&] {
        fiber<int> f = fibers.spawn(batched, [] { return 1; });
        EXPECT_EQ(f.join(), 1);
    };
    const auto wait_for_it = [&] {
        tally done;
        fiber<> f = fibers.spawn(batched, [&] { done.add(); });
        EXPECT_TRUE(done.reaches(1));
    };
    const auto sleep = [&] {
        std::atomic<bool> ran{false};
        const fiber<> f = fibers.spawn(batched, [&] { ran = true; });
        while (!ran)
            this_fiber::sleep_for(1us);
    };
    for (int i = 0; i < 20; ++i) {
        for (const auto& way : {std::function<void()>(join_it), std::function<void()>(wait_for_it),
                                std::function<void()>(sleep)}) {
            way();
            std::thread(way).join();
            fibers.spawn(way).join();
            fibers.spawn(way, {.stack = stack_kind::native}).join();
            others.spawn(way).join();  // a fiber of another scheduler
        }
    }
}

// Spawned for a scheduler that sleeps; then another one is signalled.  No wait of ours follows.
TEST(Scheduler, OwedSignalsToOneComeWithTheNextToAnother) {
    scheduler fibers(workers(1));
    scheduler others(workers(1));
    const auto spawn_both = [&] {
        std::atomic<bool> ran{false};
        const fiber<> owed = fibers.spawn(batched, [&] { ran = true; });
        others.spawn([] {}).detach();
        EXPECT_TRUE(spin_until([&] { return ran.load(); }));
    };
    for (int i = 0; i < 20; ++i) {
        std::thread(spawn_both).join();
        others.spawn(spawn_both).join();
        others.spawn(spawn_both, {.stack = stack_kind::native}).join();
    }
}

TEST(Scheduler, OwedSignalsComeAtTheEndOfTheSpawner) {
    std::atomic<int> ran{0};  // outlives the fibers
    scheduler fibers(workers(2));
    for (int i = 0; i < 50; ++i) {
        std::thread([&] { fibers.spawn(batched, [&] { ++ran; }).detach(); }).join();
        ASSERT_TRUE(eventually([&] { return ran == i + 1; }));
    }
    // A native fiber ends, and what its worker does next takes long.
    fibers
        .spawn(
            [&] {
                fibers.spawn(batched, [&] { EXPECT_TRUE(spin_until([&] { return ran == 51; })); })
                    .detach();
                fibers.spawn(batched, [&] { ++ran; }).detach();
            },
            {.stack = stack_kind::native})
        .join();
}

TEST(Scheduler, ThreadsThatSpawnComeAndGo) {
    constexpr int threads = few_fibers ? 50 : 300;
    scheduler fibers(workers(2));
    std::atomic<int> ran{0};
    for (int i = 0; i < threads; ++i) {
        std::vector<std::thread> some;
        for (int t = 0; t < 4; ++t) {
            some.emplace_back([&] {
                fibers.spawn([&] { ++ran; }).detach();
                fibers.spawn(batched, [&] { ++ran; }).detach();
                fibers.spawn(urgent, [&] { ++ran; }).join();
            });
        }
        for (std::thread& thread : some)
            thread.join();
    }
    EXPECT_TRUE(eventually([&] { return ran == threads * 4 * 3; }));
}

TEST(Scheduler, ExecutesForATimerThread) {
    door ran;  // outlives the fibers
    scheduler fibers(workers(1));
    {
        timer_thread timers({.run_on = [&](callback work) { fibers.execute(std::move(work)); }});
        timers.schedule_after(1us, [&] {
            EXPECT_TRUE(this_fiber::id());
            this_fiber::sleep_for(1us);
            ran.open();
        });
        EXPECT_TRUE(ran.wait());
    }
}

TEST(Scheduler, SchedulersNest) {
    scheduler outer(workers(2));
    const int sum = outer
                        .spawn([&] {
                            EXPECT_EQ(scheduler::current(), &outer);
                            scheduler inner(workers(2));
                            int total = 0;
                            for (int i = 0; i < 20; ++i) {
                                total += inner
                                             .spawn([&] {
                                                 EXPECT_EQ(scheduler::current(), &inner);
                                                 // Back to the outer one, and wait for it here.
                                                 return outer
                                                     .spawn([] {
                                                         this_fiber::sleep_for(1us);
                                                         return 1;
                                                     })
                                                     .join();
                                             })
                                             .join();
                                EXPECT_EQ(scheduler::current(), &outer);
                            }
                            return total;
                        })
                        .join();
    EXPECT_EQ(sum, 20);
}

TEST(Scheduler, TheSharedOneServesTheWholeProcess) {
    EXPECT_EQ(spawn([] { return scheduler::current(); }).join(), &scheduler::shared());
    scheduler own(workers(1));
    EXPECT_EQ(own.spawn([] { return spawn([] { return scheduler::current(); }).join(); }).join(),
              &own);
}

// ---- stacks -------------------------------------------------------------------------------------

// How much stack it takes, at least.
[[gnu::noinline]] int dig(std::size_t bytes) {
    volatile char block[1024];
    block[0] = 1;
    block[1023] = static_cast<char>(bytes);
    return bytes <= sizeof block ? block[0] : dig(bytes - sizeof block) + block[0];
}

TEST(Scheduler, StacksAreOfTheKindAskedFor) {
    scheduler fibers({.min_workers = 1,
                      .max_workers = 1,
                      .small_stack = 64 * 1024,
                      .normal_stack = 256 * 1024,
                      .large_stack = 2048 * 1024});
    EXPECT_EQ(fibers.spawn([] { return dig(16 * 1024); }, {.stack = stack_kind::small}).join(), 16);
    EXPECT_EQ(fibers.spawn([] { return dig(100 * 1024); }).join(), 100);
    EXPECT_EQ(fibers.spawn([] { return dig(1000 * 1024); }, {.stack = stack_kind::large}).join(),
              1000);
    const auto on_own_stack = [] {
        pthread_attr_t attributes;
        void* low = nullptr;
        std::size_t size = 0;
        EXPECT_EQ(::pthread_getattr_np(::pthread_self(), &attributes), 0);
        EXPECT_EQ(::pthread_attr_getstack(&attributes, &low, &size), 0);
        ::pthread_attr_destroy(&attributes);
        const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
        return here - reinterpret_cast<std::uintptr_t>(low) < size;
    };
    EXPECT_TRUE(fibers.spawn(on_own_stack, {.stack = stack_kind::native}).join());
    EXPECT_FALSE(fibers.spawn(on_own_stack, {.stack = stack_kind::large}).join());
    fibers.trim();
    EXPECT_EQ(fibers.spawn([] { return dig(100 * 1024); }).join(), 100);
}

TEST(Scheduler, ANativeFiberKeepsItsWorker) {
    scheduler fibers(workers(1));
    door open;
    std::atomic<bool> other_ran{false};
    tally blocked;
    fiber<> native = fibers.spawn(
        [&] {
            const pid_t here = this_thread();
            blocked.add();
            EXPECT_TRUE(open.wait());
            EXPECT_FALSE(other_ran) << "its wait blocks the only worker";
            EXPECT_EQ(this_fiber::sleep_for(1ms), sleep_result::elapsed);
            EXPECT_FALSE(other_ran);
            EXPECT_EQ(this_thread(), here);
            blocked.add();
            EXPECT_EQ(this_fiber::sleep_for(1h), sleep_result::interrupted);
        },
        {.stack = stack_kind::native});
    ASSERT_TRUE(blocked.reaches(1));
    fiber<> other = fibers.spawn([&] { other_ran = true; });
    EXPECT_FALSE(other.wait_for(1ms));
    open.open();
    ASSERT_TRUE(blocked.reaches(2));
    native.interrupt();
    native.join();
    other.join();
}

TEST(Scheduler, NativeFibersAndOthersTakeTurns) {
    scheduler fibers(workers(2));
    std::atomic<int> ran{0};
    std::vector<fiber<>> all;
    for (int i = 0; i < 1000; ++i) {
        all.push_back(fibers.spawn(
            [&] {
                this_fiber::yield();
                ++ran;
            },
            {.stack = i % 3 == 0 ? stack_kind::native : stack_kind::normal}));
    }
    for (fiber<>& f : all)
        f.join();
    EXPECT_EQ(ran, 1000);
}

// ---- refusals -----------------------------------------------------------------------------------

TEST(Scheduler, MaxFibersIsAnErrorToTheCaller) {
    scheduler fibers({.min_workers = 1, .max_workers = 1, .max_fibers = 3});
    door end;
    std::vector<fiber<>> all;
    for (int round = 0; round < 3; ++round) {
        all.push_back(fibers.spawn([&] { EXPECT_TRUE(end.wait()); }));
    }
    std::atomic<int> alive{0};
    for (int i = 0; i < 5; ++i) {
        try {
            fibers.spawn([c = counted(alive)] {}).detach();
            ADD_FAILURE() << "one too many";
        } catch (const std::system_error& error) {
            EXPECT_EQ(error.code(), std::errc::resource_unavailable_try_again);
        }
        EXPECT_EQ(alive, 0);
    }
    EXPECT_EQ(fibers.stats().spawned, 3U);
    end.open();
    for (fiber<>& f : all)
        f.join();
    for (int i = 0; i < 100; ++i)
        fibers.spawn([] {}).join();  // one that has been joined does not count
}

TEST(Scheduler, ARefusedSpawnTakesNoPlaceFromAnother) {
    // One place, and one who may always have it: those who are refused must not be in the way.
    scheduler fibers({.min_workers = 1, .max_workers = 1, .max_fibers = 2});
    std::atomic<bool> over{false};
    std::atomic<int> refused{0};
    std::thread greedy([&] {
        while (!over) {
            fiber<> mine;
            try {
                mine = fibers.spawn([] {});
                fiber<> too_many = fibers.spawn([] {});
                too_many.join();
            } catch (const std::system_error&) {
                ++refused;
            }
            if (mine.joinable()) mine.join();
        }
    });
    fiber<> held;
    while (!held.joinable()) {
        try {
            held = fibers.spawn([] { this_fiber::sleep_for(1h); });
        } catch (const std::system_error&) {
        }
    }
    EXPECT_TRUE(eventually([&] { return refused > 1000; }));
    over = true;
    greedy.join();
}

#if VERGE_CAN_REFUSE_MEMORY
TEST(Scheduler, MemoryRefusedAtASpawnLeavesNothing) {
    scheduler fibers({.min_workers = 1, .max_workers = 1, .max_fibers = 2});
    std::atomic<int> alive{0};
    const auto until_it_works = [&](const auto& spawn_one) {
        bool failed = true;
        for (int nth = 1; failed; ++nth) {
            const std::uint64_t before = fibers.stats().spawned;
            failed = false;
            std::optional<fiber<std::string>> f;
            try {
                const failing_new fails(nth);
                f = spawn_one();
            } catch (const std::bad_alloc&) {
                failed = true;
                EXPECT_EQ(alive, 0);
                EXPECT_EQ(fibers.stats().spawned, before);
            }
            if (f.has_value()) {
                EXPECT_EQ(f->join().size(), 100U);
                EXPECT_LT(nth, 30);
                EXPECT_GT(nth, 1);
            }
        }
    };
    const auto with_token = [&] {
        return fibers.spawn([c = counted(alive), more = std::array<char, 100>{}](
                                const std::stop_token&) { return std::string(more.size(), 'm'); },
                            {.name = std::string(100, 'n')});
    };
    until_it_works(with_token);
    fibers.spawn([&] { until_it_works(with_token); }).join();
    EXPECT_EQ(alive, 0);
}
#endif

TEST(Scheduler, NonsenseIsRefused) {
    EXPECT_THROW(scheduler({.min_workers = 0}), std::invalid_argument);
    EXPECT_THROW(scheduler({.min_workers = 3, .max_workers = 2}), std::invalid_argument);
    EXPECT_THROW(scheduler({.max_workers = 1025}), std::invalid_argument);
    EXPECT_THROW(scheduler({.cpus = {-1}}), std::invalid_argument);
    EXPECT_THROW(scheduler({.normal_stack = 0}), std::invalid_argument);
    scheduler fibers(workers(1));
    callback empty;
    EXPECT_THROW(fibers.execute(std::move(empty)), std::invalid_argument);
}

#if !VERGE_HAS_SANITIZER  // sanitizers need the address space
TEST(Scheduler, SaysSoIfTheSystemRefusesAThread) {
    // No room for 1000 threads' stacks, whatever stacks of threads before the fork are used again.
    EXPECT_EQ(in_child([] {
                  timer_thread timers;
                  rlimit limit{};
                  ::getrlimit(RLIMIT_AS, &limit);
                  std::size_t pages = 0;
                  std::FILE* const file = std::fopen("/proc/self/statm", "r");
                  if (file == nullptr || std::fscanf(file, "%zu", &pages) != 1) return 2;
                  std::fclose(file);
                  limit.rlim_cur = pages * 4096 + std::size_t{256} * 1024 * 1024;
                  ::setrlimit(RLIMIT_AS, &limit);
                  for (int i = 0; i < 3; ++i) {
                      try {
                          const scheduler fibers(
                              {.min_workers = 1000, .max_workers = 1000, .timers = &timers});
                          return 3;
                      } catch (const std::system_error&) {
                      }
                  }
                  return 0;
              }),
              0);
}
#endif

TEST(Scheduler, RunsWhereItIsTold) {
    cpu_set_t all;
    ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    int last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(static_cast<std::size_t>(last), &all))
        --last;
    scheduler fibers({.min_workers = 2, .max_workers = 2, .cpus = {last}});
    for (int i = 0; i < 20; ++i)
        ASSERT_EQ(fibers.spawn([] { return ::sched_getcpu(); }).join(), last);
}

// The last of a cpu set: no machine of ours has it.
constexpr int no_such_cpu = CPU_SETSIZE - 1;

TEST(Scheduler, SaysSoIfItMayNotRunThere) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(no_such_cpu, &only);
    if (::sched_setaffinity(0, sizeof only, &only) == 0) GTEST_SKIP() << "there is such a cpu";
    try {
        const scheduler fibers({.name = "nowhere", .min_workers = 2, .cpus = {no_such_cpu}});
        ADD_FAILURE() << "it runs";
    } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), EINVAL);
        EXPECT_NE(std::string(error.what()).find("sched_setaffinity"), std::string::npos);
    }
    EXPECT_TRUE(eventually([] { return threads_named("nowhere/").empty(); }));
}

// From now on the kernel refuses the calling thread, and those that it starts, to choose cpus.
bool refuse_affinity() {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Scheduler, AWorkerThatMayNotRunThereIsNotMade) {
    cpu_set_t all;
    ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    std::vector<int> cpus;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
        if (CPU_ISSET(static_cast<std::size_t>(i), &all)) cpus.push_back(i);
    }
    scheduler fibers({.min_workers = 1, .max_workers = 2, .cpus = cpus});
    ASSERT_TRUE(eventually([&] { return fibers.stats().idle_workers == 1; }));
    tally there;
    std::atomic<bool> over{false};
    fiber<> hog = fibers.spawn([&] {
        there.add();
        EXPECT_TRUE(spin_until([&] { return over.load(); }));
    });
    ASSERT_TRUE(there.reaches(1));
    std::vector<fiber<>> others;
    bool filtered = false;
    std::thread([&] {
        filtered = refuse_affinity();
        if (!filtered) return;
        for (int i = 0; i < 10; ++i)
            others.push_back(fibers.spawn([] {}));
    }).join();
    if (filtered) {
        EXPECT_EQ(fibers.stats().workers, 1U) << "none that runs where it should not";
        EXPECT_GE(fibers.stats().workers_refused, 1U);
        EXPECT_LE(fibers.stats().workers_refused, 10U);
        // Once it may, it is tried again.
        EXPECT_TRUE(eventually([&] {
            others.push_back(fibers.spawn([] {}));
            return fibers.stats().workers == 2;
        }));
        for (fiber<>& f : others)
            EXPECT_TRUE(f.wait_for(patience));
    }
    over = true;
    hog.join();
    if (!filtered) GTEST_SKIP() << "no seccomp";
}

TEST(Scheduler, CountsWhatItDoes) {
    scheduler fibers(workers(1));
    for (int i = 0; i < 10; ++i)
        fibers.spawn([] { this_fiber::sleep_for(1us); }).join();
    ASSERT_TRUE(eventually([&] { return fibers.stats().finished == 10; }));
    const scheduler::statistics stats = fibers.stats();
    EXPECT_EQ(stats.spawned, 10U);
    EXPECT_GE(stats.switches, 10U);
    EXPECT_EQ(stats.workers, 1U);
    EXPECT_EQ(stats.stacks_refused, 0U);
    EXPECT_GE(stats.stacks, 1U);
    std::set<std::string> names;
    stats.visit(
        [&](const char* name, stat_kind, std::uint64_t, const char*) { names.insert(name); });
    EXPECT_EQ(names.size(), 19U);
}

TEST(Scheduler, TellsWhatItsFibersDo) {
    scheduler fibers(workers(2));
    door end;
    word_type word{0};
    std::vector<fiber<>> all;
    for (int i = 0; i < 3; ++i)
        all.push_back(fibers.spawn([] { this_fiber::sleep_for(1h); }, {.name = "sleeper"}));
    all.push_back(fibers.spawn([&] { static_cast<void>(wait(word, 0)); }, {.name = "waiter"}));
    all.push_back(fibers.spawn(
        [&] {
            while (!end.is_open())
                this_fiber::yield();
        },
        {.name = "yielder"}));
    ASSERT_TRUE(eventually([&] {
        const scheduler::statistics s = fibers.stats();
        return s.sleeping == 3 && s.waiting == 1 && s.runnable == 1 && s.live == 5;
    }));
    std::map<std::string, fiber_info> told;
    for (const fiber_info& each : fibers.living())
        told.emplace(each.name, each);
    ASSERT_EQ(told.size(), 3U);
    EXPECT_EQ(fibers.living().size(), 5U);
    EXPECT_EQ(told["sleeper"].state(), fiber_state::sleeping);
    EXPECT_EQ(told["waiter"].state(), fiber_state::waiting);
    EXPECT_EQ(told["waiter"].waits_for, wait_kind::word);
    EXPECT_EQ(told["waiter"].id, all[3].id());
    EXPECT_EQ(told["yielder"].state(), fiber_state::runnable);
    end.open();
    EXPECT_TRUE(fibers.stop().empty());
    EXPECT_TRUE(fibers.living().empty());
    EXPECT_EQ(fibers.stats().live, 0U);
}

TEST(Scheduler, TellsWhereStacksAre) {
    scheduler fibers(workers(1));
    std::vector<fiber<>> all;
    for (int i = 0; i < 300; ++i)
        all.push_back(fibers.spawn([] { this_fiber::sleep_for(1h); }));
    ASSERT_TRUE(eventually([&] { return fibers.stats().sleeping == 300; }));
    EXPECT_GE(fibers.stats().stacks, 300U);
    EXPECT_TRUE(fibers.stop().empty());
    // The worker keeps a few for itself.
    ASSERT_TRUE(eventually([&] { return fibers.stats().stacks <= 100; }));
    EXPECT_GE(fibers.stats().stacks_pooled, 200U);
}

TEST(Scheduler, TellsHowBusyEachWorkerWas) {
    scheduler fibers({.min_workers = 1, .max_workers = 2});
    EXPECT_EQ(fibers.stats().worker_busy_ns.size(), 2U);
    const std::uint64_t before = fibers.stats().busy_ns;
    fibers
        .spawn([&] {
            while (fibers.stats().busy_ns < before + 2'000'000) {
            }
        })
        .join();
    const scheduler::statistics s = fibers.stats();
    EXPECT_GE(s.busy_ns, before + 2'000'000);
    EXPECT_EQ(s.busy_ns, s.worker_busy_ns[0] + s.worker_busy_ns[1]);
}

TEST(Scheduler, CountsItsWakeUps) {
    scheduler fibers(workers(1));
    ASSERT_TRUE(eventually([&] { return fibers.stats().idle_workers == 1; }));
    const std::uint64_t before = fibers.stats().wake_signals;
    fibers.spawn([] {}).join();
    EXPECT_EQ(fibers.stats().wake_signals, before + 1);
}

}  // namespace
}  // namespace verge::fibers
