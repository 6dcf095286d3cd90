// bench/post/post.hpp -- the one script of `post` that every loop plays.
//
// From `outside`, a thread posts functions to a loop that runs in another, as fast as it can; the
// time runs from the first post until the last function has run.  From `inside`, each function
// posts the next.  The checksum is how many have run.

#pragma once

#include "framework/workload.hpp"
#include "support/clock.hpp"

#include <cstdint>
#include <future>
#include <thread>

namespace bench {

/// A `Loop` has post(f), run() until stop(), and stop().
template <class Loop>
class post_chain {
public:
    post_chain(Loop& loop, std::uint64_t count) : loop_(loop), left_(count) {}
    void step() {
        if (--left_ == 0) {
            loop_.stop();
        } else {
            loop_.post([this] { step(); });
        }
    }

private:
    Loop& loop_;
    std::uint64_t left_;
};

template <class Loop>
[[nodiscard]] outcome run_post(const job& asked) {
    const auto count = static_cast<std::uint64_t>(asked.seconds * 1e6);
    Loop loop;
    std::uint64_t ran = 0;  // by the loop's thread
    double ns = 0;
    if (asked.params.word("from") == "inside") {
        post_chain<Loop> chain(loop, count);
        loop.post([&] { chain.step(); });
        const stopwatch watch;
        loop.run();
        ns = watch.ns();
        ran = count;
    } else {
        std::promise<void> started;
        std::thread thread([&] {
            loop.post([&] { started.set_value(); });
            loop.run();
        });
        started.get_future().wait();
        const stopwatch watch;
        for (std::uint64_t i = 0; i < count; ++i) {
            loop.post([&loop, &ran, count] {
                if (++ran == count) loop.stop();
            });
        }
        thread.join();
        ns = watch.ns();
    }
    return {{{"ns_per_op", ns / static_cast<double>(count)}}, ran};
}

}  // namespace bench
