#include "support/build.hpp"
#include <verge/base/detail/annotate.hpp>
#include <verge/fibers/detail/execution.hpp>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unwind.h>
#ifdef VERGE_HAS_BOOST_CONTEXT
#include <boost/context/detail/fcontext.hpp>
#endif

namespace verge::fibers::detail {
namespace {

constexpr std::size_t stack_bytes = std::size_t{256} * 1024;

// As a worker has it: not inlined, so that no address of the thread is kept across a switch.
[[gnu::noinline]] thread_state& here() {
    static thread_local thread_state state;
    __asm__ volatile("" ::: "memory");
    return state;
}
[[gnu::noinline]] int current_errno() {
    __asm__ volatile("" ::: "memory");
    return errno;
}
[[gnu::noinline]] void set_errno(int value) {
    errno = value;
    __asm__ volatile("" ::: "memory");
}

// A fiber that belongs to whoever calls resume().
class coroutine {
public:
    explicit coroutine(std::function<void(coroutine&)> body)
        : memory_(new std::byte[stack_bytes]),
          valgrind_(verge::detail::register_stack(memory_.get(), memory_.get() + stack_bytes)) {
        restart(std::move(body));
    }
    ~coroutine() { verge::detail::deregister_stack(valgrind_); }
    coroutine(const coroutine&) = delete;
    coroutine& operator=(const coroutine&) = delete;

    void restart(std::function<void(coroutine&)> body, std::size_t colour = 0) {
        body_ = std::move(body);
        done_ = false;
        self_.prepare(memory_.get(), memory_.get() + stack_bytes - colour, &coroutine::run, this);
    }

    // Runs it on the calling thread until it suspends or ends.
    void resume() {
        execution caller;
        caller_ = &caller;
        caller.switch_to(self_, here());
    }
    void suspend() { self_.switch_to(*caller_, here()); }
    [[nodiscard]] bool done() const { return done_; }
    [[nodiscard]] bool holds(const void* address) const {
        const auto a = reinterpret_cast<std::uintptr_t>(address);
        const auto low = reinterpret_cast<std::uintptr_t>(memory_.get());
        return a >= low && a < low + stack_bytes;
    }

private:
    static void run(void* argument) noexcept {
        auto* const c = static_cast<coroutine*>(argument);
        c->body_(*c);
        c->done_ = true;
        c->self_.finish(*c->caller_, here());
    }

    std::unique_ptr<std::byte[]> memory_;
    unsigned valgrind_;
    std::function<void(coroutine&)> body_;
    execution self_;
    execution* caller_ = nullptr;
    bool done_ = false;
};

void on_another_thread(const std::function<void()>& f) {
    std::thread(f).join();
}

#if !VERGE_HAS_SANITIZER
TEST(Execution, IsThreeWordsWithoutSanitizers) {
    EXPECT_EQ(sizeof(execution), 3 * sizeof(void*));
}
#endif

TEST(Execution, GoesThereAndBack) {
    std::vector<int> seen;
    coroutine c([&](coroutine& self) {
        for (int i = 0; i < 3; ++i) {
            seen.push_back(i * 2 + 1);
            self.suspend();
        }
    });
    for (int i = 0; i < 3; ++i) {
        seen.push_back(i * 2);
        c.resume();
    }
    EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3, 4, 5}));
    EXPECT_FALSE(c.done());
    c.resume();
    EXPECT_TRUE(c.done());
}

TEST(Execution, RunsOnTheStackItWasGiven) {
    bool inside = false;
    coroutine c([&](coroutine& self) {
        volatile int local = 1;
        // Under ASan a local may be on a fake stack: the frame itself is not.
        inside = self.holds(__builtin_frame_address(0)) && local == 1;
    });
    c.resume();
    EXPECT_TRUE(inside);
    EXPECT_FALSE(c.holds(__builtin_frame_address(0)));
}

TEST(Execution, SwitchesFromFiberToFiberWithoutAThreadBetween) {
    struct ring {
        std::array<execution, 3> fibers;
        execution thread;
        int rounds = 0;
        std::string trace;
    } r;
    struct place {
        ring* r;
        std::size_t index;
    };
    std::array<place, 3> places{{{&r, 0}, {&r, 1}, {&r, 2}}};
    std::vector<std::unique_ptr<std::byte[]>> memory;
    std::vector<unsigned> numbers;
    for (std::size_t i = 0; i < 3; ++i) {
        memory.emplace_back(new std::byte[stack_bytes]);
        std::byte* const low = memory.back().get();
        numbers.push_back(verge::detail::register_stack(low, low + stack_bytes));
        const auto entry = [](void* argument) noexcept {
            auto& [of, index] = *static_cast<place*>(argument);
            while (of->rounds < 6) {
                ++of->rounds;
                of->trace += static_cast<char>('a' + index);
                of->fibers[index].switch_to(of->fibers[(index + 1) % 3], here());
            }
            of->fibers[index].finish(of->thread, here());
        };
        r.fibers[i].prepare(low, low + stack_bytes, entry, &places[i]);
    }
    r.thread.switch_to(r.fibers[0], here());
    EXPECT_EQ(r.trace, "abcabc");
    for (const unsigned n : numbers)
        verge::detail::deregister_stack(n);
}

TEST(Execution, NestsDeeply) {
    constexpr int depth = 200;
    int reached = 0;
    std::function<void(coroutine&)> body = [&](coroutine&) {
        if (++reached == depth) return;
        coroutine inner(body);
        inner.resume();
        EXPECT_TRUE(inner.done());
    };
    coroutine outer(body);
    outer.resume();
    EXPECT_EQ(reached, depth);
}

TEST(Execution, IsPreparedAgainAfterItFinished) {
    int runs = 0;
    coroutine c([&](coroutine&) { ++runs; });
    c.resume();
    for (std::size_t i = 1; i < 100; ++i) {
        c.restart(
            [&](coroutine& self) {
                self.suspend();
                ++runs;
            },
            i);
        c.resume();
        EXPECT_FALSE(c.done());
        c.resume();
        EXPECT_TRUE(c.done());
    }
    EXPECT_EQ(runs, 100);
}

TEST(Execution, MayBeDestroyedBeforeItRuns) {
    coroutine never_run([](coroutine&) { FAIL(); });
    coroutine suspended([](coroutine& self) { self.suspend(); });
    suspended.resume();
    EXPECT_FALSE(suspended.done());
}

[[gnu::noinline]] std::uint64_t recurse(unsigned depth) {
    std::array<volatile std::uint64_t, 8> ballast{};
    ballast[depth % 8] = depth;
    return depth == 0 ? 0 : ballast[depth % 8] + recurse(depth - 1);
}

TEST(Execution, RecursesDeeply) {
    std::uint64_t sum = 0;
    coroutine c([&](coroutine& self) {
        sum = recurse(500);
        self.suspend();
        sum += recurse(500);
    });
    c.resume();
    c.resume();
    EXPECT_EQ(sum, 500U * 501U);
}

// ---- alignment and registers --------------------------------------------------------------------

TEST(Execution, StartsOnAnAlignedStack) {
    for (std::size_t odd = 0; odd < 64; odd += 8) {
        std::uintptr_t misaligned = 1;
        double root = 0;
        coroutine c([](coroutine&) {});
        c.restart(
            [&](coroutine&) {
                // An aligned store (movaps) that would trap, and its address.
                struct alignas(16) wide {
                    float f[4];
                };
                volatile wide w{};
                w.f[0] = 16;
                misaligned = reinterpret_cast<std::uintptr_t>(&w) % 16;
                root = std::sqrt(w.f[0]);
#ifdef __x86_64__
                __asm__ volatile("movaps %%xmm0, %0" : "=m"(const_cast<wide&>(w)));
#endif
            },
            odd);
        c.resume();
        EXPECT_EQ(misaligned, 0U);
        EXPECT_EQ(root, 4.0);
    }
}

// A frame that is given by the ABI and not chosen by the compiler: rsp at an entry is 8 past 16.
std::uintptr_t entry_frame;
void note_frame(void* argument) noexcept {
    entry_frame = reinterpret_cast<std::uintptr_t>(__builtin_dwarf_cfa());
    auto* const e = static_cast<std::pair<execution, execution>*>(argument);
    e->second.finish(e->first, here());
}
TEST(Execution, EntersItsFunctionAsTheAbiHasIt) {
    const auto memory = std::make_unique<std::byte[]>(stack_bytes);
    const unsigned number = verge::detail::register_stack(memory.get(), memory.get() + stack_bytes);
    std::pair<execution, execution> e;
    e.second.prepare(memory.get(), memory.get() + stack_bytes - 24, &note_frame, &e);
    e.first.switch_to(e.second, here());
    EXPECT_EQ(entry_frame % 16, 0U);
    verge::detail::deregister_stack(number);
}

// A random program that keeps a dozen values alive across every switch, whoever switches.
template <class Switch>
[[gnu::noinline]] std::uint64_t random_program(std::uint64_t seed, int rounds, Switch&& leave) {
    std::uint64_t a = seed, b = seed * 3, c = seed ^ 0x5555, d = ~seed, e = seed + 77,
                  f = seed << 7;
    std::uint64_t g = seed >> 3, h = seed * seed;
    double x = static_cast<double>(seed % 1000) + 0.5, y = 1.25, z = 3.5;
    for (int i = 0; i < rounds; ++i) {
        a = a * 6364136223846793005U + 1442695040888963407U;
        b ^= a >> 17;
        c += b * 3;
        d = (d << 5 | d >> 59) ^ c;
        e -= d;
        f ^= e + static_cast<std::uint64_t>(i);
        g += f ^ h;
        h = h * 31 + g;
        x = x * 0.75 + y;
        y = y * 0.5 + z / (x + 2);
        z = z + static_cast<double>(a % 7) * 0.125;
        if (a % 3 != 0) leave();
    }
    std::uint64_t bits = 0;
    const double sum = x + y + z;
    std::memcpy(&bits, &sum, sizeof bits);
    return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ bits;
}

std::vector<std::uint64_t> by_executions(const std::vector<std::uint64_t>& seeds) {
    std::vector<std::uint64_t> results(seeds.size());
    std::vector<std::unique_ptr<coroutine>> fibers;
    for (std::size_t i = 0; i < seeds.size(); ++i) {
        fibers.push_back(std::make_unique<coroutine>([&, i](coroutine& self) {
            results[i] = random_program(seeds[i], 500, [&] { self.suspend(); });
        }));
    }
    for (bool live = true; live;) {
        live = false;
        for (auto& f : fibers) {
            if (f->done()) continue;
            f->resume();
            live = true;
        }
    }
    return results;
}

TEST(Execution, KeepsRegistersAsAProgramThatDoesNotSwitch) {
    std::mt19937_64 random(20260101);
    std::vector<std::uint64_t> seeds(16);
    for (auto& s : seeds)
        s = random();
    const auto results = by_executions(seeds);
    for (std::size_t i = 0; i < seeds.size(); ++i)
        EXPECT_EQ(results[i], random_program(seeds[i], 500, [] {}));
}

#ifdef __aarch64__
// Puts values into all floating-point registers that a function must preserve, calls f(argument),
// and takes from them what is there then.  The operands stand in general ones that it preserves.
[[gnu::noinline]] void through_registers(std::array<double, 8>& values, void (*f)(void*),
                                         void* argument) {
    __asm__ volatile(
        "ldp d8, d9, [%0]\n\t"
        "ldp d10, d11, [%0, #16]\n\t"
        "ldp d12, d13, [%0, #32]\n\t"
        "ldp d14, d15, [%0, #48]\n\t"
        "mov x0, %2\n\t"
        "blr %1\n\t"
        "stp d8, d9, [%0]\n\t"
        "stp d10, d11, [%0, #16]\n\t"
        "stp d12, d13, [%0, #32]\n\t"
        "stp d14, d15, [%0, #48]"
        :
        : "r"(values.data()), "r"(f), "r"(argument)
        : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
          "x14", "x15", "x16", "x17", "x18", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
          "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20",
          "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc",
          "memory");
}

TEST(Execution, KeepsTheFloatingPointRegistersThatAFunctionMust) {
    constexpr std::array<double, 8> mine{1, 2, 3, 4, 5, 6, 7, 8};
    constexpr std::array<double, 8> its{-1, -2, -3, -4, -5, -6, -7, -8};
    auto found_by_it = its;
    auto found_by_me = mine;
    coroutine fiber([&](coroutine& self) {
        through_registers(
            found_by_it, [](void* c) { static_cast<coroutine*>(c)->suspend(); }, &self);
    });
    for (int i = 0; i < 2; ++i) {
        through_registers(
            found_by_me, [](void* c) { static_cast<coroutine*>(c)->resume(); }, &fiber);
        EXPECT_EQ(found_by_me, mine);
    }
    EXPECT_TRUE(fiber.done());
    EXPECT_EQ(found_by_it, its);
}
#endif

// The sanitizers are not told of Boost's switches.
#if defined(VERGE_HAS_BOOST_CONTEXT) && !VERGE_HAS_SANITIZER
namespace fcontext = boost::context::detail;

struct boost_fiber {
    std::uint64_t seed = 0;
    std::uint64_t result = 0;
    bool done = false;
    fcontext::fcontext_t caller = nullptr;
};

[[noreturn]] void boost_entry(fcontext::transfer_t t) {
    auto* const f = static_cast<boost_fiber*>(t.data);
    f->caller = t.fctx;
    f->result = random_program(
        f->seed, 500, [&] { f->caller = fcontext::jump_fcontext(f->caller, nullptr).fctx; });
    f->done = true;
    fcontext::jump_fcontext(f->caller, nullptr);
    std::abort();
}

TEST(Execution, KeepsRegistersAsBoostContextDoes) {
    std::mt19937_64 random(7);
    std::vector<std::uint64_t> seeds(16);
    for (auto& s : seeds)
        s = random();
    const auto ours = by_executions(seeds);
    for (std::size_t i = 0; i < seeds.size(); ++i) {
        const auto memory = std::make_unique<std::byte[]>(stack_bytes);
        const unsigned number =
            verge::detail::register_stack(memory.get(), memory.get() + stack_bytes);
        boost_fiber f{.seed = seeds[i]};
        fcontext::transfer_t t{
            fcontext::make_fcontext(memory.get() + stack_bytes, stack_bytes, &boost_entry),
            nullptr};
        while (!f.done)
            t = fcontext::jump_fcontext(t.fctx, &f);
        EXPECT_EQ(ours[i], f.result) << i;
        verge::detail::deregister_stack(number);
    }
}
#endif

// ---- errno and exceptions -----------------------------------------------------------------------

TEST(Execution, KeepsItsErrno) {
    std::vector<int> seen;
    coroutine c([&](coroutine& self) {
        seen.push_back(current_errno());
        set_errno(EAGAIN);
        self.suspend();
        seen.push_back(current_errno());
        set_errno(EPIPE);
        self.suspend();
        seen.push_back(current_errno());
    });
    set_errno(ENOENT);
    c.resume();
    EXPECT_EQ(current_errno(), ENOENT);
    on_another_thread([&] {
        set_errno(EDOM);
        c.resume();
        EXPECT_EQ(current_errno(), EDOM);
    });
    EXPECT_EQ(current_errno(), ENOENT);
    c.resume();
    EXPECT_EQ(seen, (std::vector<int>{0, EAGAIN, EPIPE}));
    EXPECT_EQ(current_errno(), ENOENT);
}

TEST(Execution, ThrowsAndCatchesInside) {
    std::string caught;
    coroutine c([&](coroutine& self) {
        for (int i = 0; i < 3; ++i) {
            try {
                throw std::runtime_error(std::to_string(i));
            } catch (const std::runtime_error& e) {
                caught += e.what();
            }
            self.suspend();
        }
    });
    for (int i = 0; i < 4; ++i)
        c.resume();
    EXPECT_EQ(caught, "012");
    EXPECT_TRUE(c.done());
}

TEST(Execution, RethrowsOnAnotherThread) {
    std::string caught;
    coroutine c([&](coroutine& self) {
        try {
            try {
                throw std::runtime_error("mine");
            } catch (...) {
                self.suspend();  // in a catch block
                throw;           // on another thread
            }
        } catch (const std::runtime_error& e) {
            caught = e.what();
        }
        EXPECT_EQ(std::current_exception(), nullptr);
    });
    try {
        throw std::logic_error("the thread's");
    } catch (...) {
        c.resume();
        EXPECT_NE(std::current_exception(), nullptr);
        on_another_thread([&] {
            EXPECT_EQ(std::current_exception(), nullptr);
            c.resume();
            EXPECT_EQ(std::current_exception(), nullptr);
        });
        try {
            throw;
        } catch (const std::logic_error& e) {
            EXPECT_STREQ(e.what(), "the thread's");
        }
    }
    EXPECT_EQ(caught, "mine");
    EXPECT_TRUE(c.done());
}

TEST(Execution, InterleavedCatchBlocksDoNotMeet) {
    std::vector<std::string> caught;
    const auto body = [&](const std::string& name) {
        return [&caught, name](coroutine& self) {
            for (int i = 0; i < 3; ++i) {
                try {
                    throw std::runtime_error(name + std::to_string(i));
                } catch (...) {
                    self.suspend();
                    try {
                        throw;
                    } catch (const std::runtime_error& e) {
                        caught.emplace_back(e.what());
                    }
                }
            }
        };
    };
    coroutine a(body("a"));
    coroutine b(body("b"));
    while (!a.done() || !b.done()) {
        if (!a.done()) a.resume();
        if (!b.done()) on_another_thread([&] { b.resume(); });
    }
    EXPECT_EQ(caught, (std::vector<std::string>{"a0", "b0", "a1", "b1", "a2", "b2"}));
}

TEST(Execution, CountsItsOwnUncaughtExceptions) {
    struct switches_when_unwound {
        coroutine& self;
        std::vector<int>& seen;
        ~switches_when_unwound() {
            seen.push_back(std::uncaught_exceptions());
            self.suspend();
            seen.push_back(std::uncaught_exceptions());
        }
    };
    std::vector<int> seen;
    coroutine c([&](coroutine& self) {
        try {
            const switches_when_unwound guard{self, seen};
            throw 1;
        } catch (int) {
            seen.push_back(std::uncaught_exceptions());
        }
    });
    c.resume();
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    on_another_thread([&] {
        c.resume();
        EXPECT_EQ(std::uncaught_exceptions(), 0);
    });
    EXPECT_TRUE(c.done());
    EXPECT_EQ(seen, (std::vector<int>{1, 1, 0}));
}

TEST(Execution, MovesBetweenThreadsOften) {
    std::uint64_t count = 0;
    coroutine c([&](coroutine& self) {
        for (int i = 0; i < 100; ++i) {
            set_errno(i);
            ++count;
            self.suspend();
            if (current_errno() != i) ADD_FAILURE() << i;
        }
    });
    while (!c.done())
        on_another_thread([&] {
            for (int i = 0; i < 7 && !c.done(); ++i)
                c.resume();
        });
    EXPECT_EQ(count, 100U);
}

// ---- sanitizers see inside ---------------------------------------------------------------------

#if VERGE_HAS_ASAN
TEST(ExecutionDeathTest, AsanFindsAnOverflowOnAFibersStack) {
    const auto run = [] {
        coroutine c([](coroutine& self) {
            std::array<char, 16> small{};
            char* volatile at = small.data();
            self.suspend();
            at[16] = 1;
        });
        c.resume();
        c.resume();
    };
    EXPECT_DEATH(run(), "stack-buffer-overflow");
}
#endif

// More in sequence than TSan has room for at once.
TEST(Execution, GivesItsToolsContextBackWhenItIsOver) {
    coroutine c([](coroutine&) {});
    c.resume();
    for (int i = 0; i < 10'000; ++i) {
        c.restart([](coroutine& self) { self.suspend(); });
        c.resume();
        c.resume();
    }
    EXPECT_TRUE(c.done());
}

// ---- the end of a stack -------------------------------------------------------------------------

TEST(Execution, AnUnwinderStopsAtTheEntry) {
    struct walk {
        int frames = 0;
        _Unwind_Reason_Code end = _URC_NO_REASON;
    } w;
    coroutine c([&](coroutine&) {
        w.end = _Unwind_Backtrace(
            [](_Unwind_Context*, void* to) {
                return ++static_cast<walk*>(to)->frames > 1000 ? _URC_NORMAL_STOP : _URC_NO_REASON;
            },
            &w);
    });
    c.resume();
    EXPECT_EQ(w.end, _URC_END_OF_STACK);
    EXPECT_GT(w.frames, 2);
    EXPECT_LT(w.frames, 50);
}

TEST(ExecutionDeathTest, AnEntryThatReturnsAborts) {
    const auto run = [] {
        const auto memory = std::make_unique<std::byte[]>(stack_bytes);
        execution thread;
        execution fiber;
        fiber.prepare(
            memory.get(), memory.get() + stack_bytes, [](void*) noexcept {}, nullptr);
        thread.switch_to(fiber, here());
    };
    EXPECT_EXIT(run(), testing::KilledBySignal(SIGABRT), "a fiber's entry returned");
}

TEST(ExecutionDeathTest, AnExceptionThatLeavesTheEntryTerminates) {
    // Made in the child: TSan takes a fork with two contexts for one with two threads.
    const auto run = [] {
        coroutine c([](coroutine&) { throw std::runtime_error("nobody catches this"); });
        c.resume();
    };
    EXPECT_EXIT(run(), testing::KilledBySignal(SIGABRT), "nobody catches this");
}

}  // namespace
}  // namespace verge::fibers::detail
